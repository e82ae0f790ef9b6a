package program

import (
	"context"
	"errors"
	"net"
	"os"
	"syscall"
)

// Listen opens a socket that outlives the processes that serve it. They are given connections whose
// request has come, as systemd does with DeferAcceptSec.
func Listen(addr string) (*os.File, error) {
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		failed := c.Control(func(fd uintptr) {
			err = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_DEFER_ACCEPT, 60)
		})
		return errors.Join(err, failed)
	}}
	ln, err := config.Listen(context.Background(), "tcp", addr)
	if err != nil {
		return nil, err
	}
	defer ln.Close()
	return ln.(*net.TCPListener).File()
}
