//go:build !linux || race

package rawio

import (
	"io"
	"net"
)

// Of returns c. The race detector sees what goes through a socket only in calls of Go's own.
func Of(c net.Conn) io.ReadWriter { return c }
