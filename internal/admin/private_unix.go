//go:build unix

package admin

import "syscall"

// makeSocketPrivate has a socket be its user's alone from the beginning, where the system takes the mode of the file from that of the socket. Listen
// sets it anyway.
func makeSocketPrivate(_, _ string, c syscall.RawConn) error {
	return c.Control(func(fd uintptr) { _ = syscall.Fchmod(int(fd), 0o600) })
}
