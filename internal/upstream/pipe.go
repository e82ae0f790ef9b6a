package upstream

import (
	"bufio"
	"context"
	"errors"
	"io"
	"slices"
	"sync"
)

// A Pipe is a [Process] to a server in this process, or in a test: it feeds the server, and reads what that says. Make one with [NewPipe].
type Pipe struct {
	*Feed
	rd    *bufio.Reader
	close func() error
}

var _ Process = (*Pipe)(nil)

// NewPipe returns a Pipe that puts lines into a Feed, and reads lines from r, at most MostMessage bytes each. A Read from r that blocks must return after
// close.
func NewPipe(r io.Reader, to *Feed, close func() error) *Pipe {
	return &Pipe{Feed: to, rd: bufio.NewReaderSize(r, 64<<10), close: close}
}

// Receive reads a line. One that the stream ends within is returned, too.
func (p *Pipe) Receive() ([]byte, error) {
	var line []byte
	for {
		part, err := p.rd.ReadSlice('\n')
		if len(line)+len(part) > MostMessage+2 {
			return nil, ErrLongLine
		}
		if cap(line)-len(line) < len(part) { // a long line is copied a few times, and not once for each part
			line = slices.Grow(line, max(len(part), len(line)))
		}
		line = append(line, part...)
		switch {
		case err == nil:
			line = line[:len(line)-1]
			if n := len(line); n > 0 && line[n-1] == '\r' {
				line = line[:n-1]
			}
			return line, nil
		case errors.Is(err, bufio.ErrBufferFull):
		case len(line) > 0 && errors.Is(err, io.EOF):
			return line, nil
		default:
			return nil, err
		}
	}
}

// Close ends both directions. Closing twice is fine.
func (p *Pipe) Close() error { return errors.Join(p.Feed.Close(), p.close()) }

// mostFed is how many bytes wait in a Feed for its reader, but for a line that is longer than that.
const mostFed = 64 << 10

// keptFed is how much room an empty Feed keeps.
const keptFed = 4 << 10

// A Feed carries lines from many goroutines to one that reads them as a stream. Nobody who has put a line waits until it is read; whoever finds no room waits
// for a turn, in the order in which they came. Make one with [NewFeed].
type Feed struct {
	turn       chan struct{} // of one: has who puts a line
	more, room chan struct{} // of one: something has come, something was read
	ended      chan struct{} // closed with over

	mu     sync.Mutex // guards the rest
	waits  []byte     // from at on
	at     int
	before uint64 // how many bytes were put before waits
	over   bool
}

// NewFeed returns an empty Feed.
func NewFeed() *Feed {
	return &Feed{turn: make(chan struct{}, 1), more: make(chan struct{}, 1), room: make(chan struct{}, 1), ended: make(chan struct{})}
}

// Put has a line read, given without its end, and returns its number. It waits while too much is there that nobody has read. After an error, io.ErrClosedPipe
// or the cause of the end of ctx, no byte of the line will be read.
func (f *Feed) Put(ctx context.Context, line []byte) (number uint64, err error) {
	select {
	case f.turn <- struct{}{}:
		defer func() { <-f.turn }()
	case <-f.ended:
		return 0, io.ErrClosedPipe
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	for {
		f.mu.Lock()
		switch n := len(f.waits) - f.at; {
		case f.over:
			f.mu.Unlock()
			return 0, io.ErrClosedPipe
		case n == 0 || n+len(line) < mostFed:
			if f.at > 0 && len(f.waits)+len(line) >= cap(f.waits) { // or what was read would stay for as long as there is always something
				f.before += uint64(f.at)
				f.waits, f.at = f.waits[:copy(f.waits, f.waits[f.at:])], 0
			}
			number = f.before + uint64(len(f.waits)) + 1
			f.waits = append(append(f.waits, line...), '\n')
			f.mu.Unlock()
			signal(f.more)
			return number, nil
		}
		f.mu.Unlock()
		select {
		case <-f.room:
		case <-f.ended:
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

// Read reads what waits. The error is io.EOF at the end.
func (f *Feed) Read(p []byte) (n int, err error) {
	for {
		f.mu.Lock()
		if n = copy(p, f.waits[f.at:]); n > 0 || len(p) == 0 {
			if f.at += n; f.at == len(f.waits) {
				f.before += uint64(f.at)
				f.waits, f.at = f.waits[:0], 0
				if cap(f.waits) > keptFed {
					f.waits = nil
				}
			}
			f.mu.Unlock()
			signal(f.room)
			return n, nil
		}
		over := f.over
		f.mu.Unlock()
		if over {
			return 0, io.EOF
		}
		select {
		case <-f.more:
		case <-f.ended:
		}
	}
}

// Unsent reports whether no byte of a line was read, or will be: it ends the Feed.
func (f *Feed) Unsent(number uint64) bool {
	_ = f.Close()
	f.mu.Lock()
	defer f.mu.Unlock()
	return number > f.before+uint64(f.at)
}

// Close ends the Feed: nothing more is put, and what waits is never read, as it is of calls that nobody waits for any more. The error is nil, and closing twice
// is fine.
func (f *Feed) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.over {
		f.over = true
		close(f.ended)
		f.waits = f.waits[:f.at]
	}
	return nil
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
