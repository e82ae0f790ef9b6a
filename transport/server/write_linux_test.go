package server

import (
	"net"
	"net/http"
	"syscall"
	"testing"

	"github.com/troupe-run/troupe/internal/limits"
)

// TestBuffersOfConnections looks at what the system keeps for a connection that was accepted: twice what was set, and no more as it goes on.
func TestBuffersOfConnections(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := NewListener(ln, &http.Server{})
	defer d.Close()
	near, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	far, err := d.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	raw, err := far.(*Conn).Conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	for name, option := range map[string]int{"read": syscall.SO_RCVBUF, "write": syscall.SO_SNDBUF} {
		size, fault := 0, error(nil)
		if err := raw.Control(func(fd uintptr) { size, fault = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, option) }); err != nil || fault != nil {
			t.Fatal(err, fault)
		}
		if want := 2 * limits.SocketBuffer.Value(); size != want {
			t.Errorf("to %s: %d bytes, want %d", name, size, want)
		}
	}
}
