//go:build unix

package keeper

import (
	"errors"
	"sync"
	"syscall"

	"github.com/troupe-run/troupe/internal/rawio"
)

// writeNow writes what the system takes at once, and returns how much that is. An error is for who waits for the rest: it gets the same one again.
func writeNow(fd uintptr, text []byte) int {
	n, _ := rawio.WritePipe(fd, text)
	return max(n, 0)
}

// pieces are buffers for what processes write. A process that writes nothing has none.
var pieces = sync.Pool{New: func() any { return new([64 << 10]byte) }}

// readPiece waits for something in a pipe, and gives it to take.
func readPiece(raw syscall.RawConn, take func([]byte)) error {
	var buffer *[64 << 10]byte
	n, failure := 0, error(nil)
	err := raw.Read(func(fd uintptr) bool {
		buffer = pieces.Get().(*[64 << 10]byte)
		for {
			if n, failure = rawio.ReadPipe(fd, buffer[:]); !errors.Is(failure, syscall.EINTR) {
				break
			}
		}
		if errors.Is(failure, syscall.EAGAIN) {
			pieces.Put(buffer)
			buffer = nil
			return false
		}
		return true
	})
	if buffer != nil {
		defer pieces.Put(buffer)
	}
	switch {
	case err != nil:
		return err
	case failure != nil:
		return failure
	case n <= 0:
		return errEnded
	}
	take(buffer[:n])
	return nil
}
