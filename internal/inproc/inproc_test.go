package inproc

import (
	"net"
	"testing"
)

func TestDial(t *testing.T) {
	t.Parallel()
	a, b := net.Pipe()
	defer b.Close()
	stop := Serve("one.test", func() (net.Conn, error) { return a, nil })
	if !Has("one.test") || Has("two.test") {
		t.Error("hosts are not told apart")
	}
	if c, err := (Dialer{}).Dial("tcp", "one.test:4222"); c != a || err != nil {
		t.Errorf("got %v, %v", c, err)
	}
	if _, err := (Dialer{}).Dial("tcp", "one.test"); err == nil {
		t.Error("an address without a port is taken")
	}
	stop()
	if _, err := (Dialer{}).Dial("tcp", "one.test:4222"); err == nil || Has("one.test") {
		t.Error("a server that ended is found")
	}
}
