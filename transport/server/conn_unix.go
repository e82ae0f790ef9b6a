//go:build unix

package server

import (
	"net"
	"syscall"
)

// lastLook reads what has come on c. It does not wait.
func lastLook(c net.Conn, p []byte) (n int) {
	s, ok := c.(syscall.Conn)
	if !ok {
		return 0
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Read(func(fd uintptr) bool {
		for {
			var err error
			if n, err = syscall.Read(int(fd), p); err != syscall.EINTR {
				return true
			}
		}
	})
	return max(n, 0)
}
