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

// readNow reads what has come, as often as a signal stops it.
func readNow(fd uintptr, p []byte) (n int, err error) {
	for {
		if n, err = rawio.ReadPipe(fd, p); !errors.Is(err, syscall.EINTR) {
			return n, err
		}
	}
}

// pieces are buffers for what processes write. A process that writes nothing has none.
var pieces = sync.Pool{New: func() any { return new([64 << 10]byte) }}

// readPiece waits for something in a pipe, and gives it to take.
func readPiece(raw syscall.RawConn, take func([]byte)) error {
	var buffer *[64 << 10]byte
	n, failure := 0, error(nil)
	err := raw.Read(func(fd uintptr) bool {
		buffer = pieces.Get().(*[64 << 10]byte)
		n, failure = readNow(fd, buffer[:])
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

// errEnded says that all ends of a pipe that could write are closed.
var errEnded = errors.New("keeper: end of the pipe")

// emptyPipe gives what is in a pipe to take, without waiting for more.
func emptyPipe(raw syscall.RawConn, take func([]byte)) {
	const most = 1 << 20 // the most that a pipe of an ordinary user holds
	_ = raw.Control(func(fd uintptr) {
		buffer := pieces.Get().(*[64 << 10]byte)
		defer pieces.Put(buffer)
		for got := 0; got < most; {
			n, err := readNow(fd, buffer[:])
			if err != nil || n <= 0 {
				return
			}
			take(buffer[:n])
			got += n
		}
	})
}
