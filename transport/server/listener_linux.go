package server

import (
	"net"
	"os"
	"syscall"
)

// lastCallers stops a TCP listener. It returns the connections that the kernel had made for it and nobody had accepted:
// closing the listener would reset them, and lose requests that their clients have sent.
func lastCallers(ln net.Listener) []net.Conn {
	tcp, ok := ln.(*net.TCPListener)
	if !ok {
		return nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil
	}
	var fds []int
	_ = raw.Control(func(fd uintptr) {
		for {
			c, _, err := syscall.Accept4(int(fd), syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC)
			if err == syscall.EINTR || err == syscall.ECONNABORTED {
				continue
			}
			if err != nil {
				break
			}
			fds = append(fds, c)
		}
		// Right after the last accept, so that hardly any connection comes in between.
		_ = syscall.Shutdown(int(fd), syscall.SHUT_RD)
	})
	var all []net.Conn
	for _, fd := range fds {
		f := os.NewFile(uintptr(fd), "")
		if c, err := net.FileConn(f); err == nil {
			all = append(all, c)
		}
		_ = f.Close()
	}
	return all
}
