package upstream

import (
	"context"
	"errors"
	"io"
	"sync"
)

// A Process is what [Lines] needs of a process that speaks over its standard streams, or of anything
// else that carries lines. It takes lines before they are handed over: no call waits for the word that
// its line was written.
type Process interface {
	// Put takes a line, given without its end, and returns its number, which is not 0. After an error
	// nothing of the line was or will be written. Put may be called from several goroutines.
	Put(ctx context.Context, line []byte) (number uint64, err error)
	// Unsent reports whether it is certain that no byte of a line was written, nor will be. It is called
	// when the connection is over, and may have nothing more written.
	Unsent(number uint64) bool
	// Receive returns the next line without its end, and hands its bytes over. It is called from one
	// goroutine, and the line before has been dealt with when it is called again. After an error,
	// [io.EOF] at the end, it is not called again; Close ends it.
	Receive() ([]byte, error)
	// Close ends both directions. What becomes of the process is its owner's to say.
	Close() error
}

// ErrLongLine is what a Process returns from Receive for a line of more than MostMessage bytes.
var ErrLongLine = errors.New("a line is too long")

// Lines is the link to a process: a message is a line, in both directions, and nothing says which
// request a notification or a question is about.
type Lines struct {
	p       Process
	running sync.WaitGroup
}

var (
	_ Link   = (*Lines)(nil)
	_ marker = (*Lines)(nil)
)

// NewLines returns the link to a process.
func NewLines(p Process) *Lines { return &Lines{p: p} }

// Open begins to read.
func (l *Lines) Open(_ context.Context, in Inbox) error {
	l.running.Add(1)
	go func() {
		defer l.running.Done()
		for {
			line, err := l.p.Receive()
			switch {
			case err == nil:
				in.Receive(line, 0)
				continue
			case errors.Is(err, ErrLongLine):
				in.Ended(&Failure{Why: ReasonTooLarge, Text: "the backend wrote a line that is too long"})
			case errors.Is(err, io.EOF):
				in.Ended(&Failure{Why: ReasonEnded, Text: "the backend has ended"})
			default:
				in.Ended(&Failure{Why: ReasonEnded, Text: "the backend cannot be read any more", Err: err})
			}
			return
		}
	}()
	return nil
}

// Send writes a line.
func (l *Lines) Send(ctx context.Context, m Outgoing) error {
	number, err := l.p.Put(ctx, onOneLine(m.Body))
	if err != nil {
		return &Failure{Why: ReasonEnded, Outcome: NotRun, Text: "the backend cannot be written to", Err: err}
	}
	if m.Mark != nil {
		m.Mark.Store(number)
	}
	return nil
}

func (l *Lines) unsent(mark uint64) bool { return mark != 0 && l.p.Unsent(mark) }

// Close closes the process's streams.
func (l *Lines) Close(context.Context, bool) {
	_ = l.p.Close()
	l.running.Wait()
}

// HasOneEra is true.
func (l *Lines) HasOneEra() bool { return true }

// ClosesStream is false: there is one stream for all.
func (l *Lines) ClosesStream() bool { return false }
