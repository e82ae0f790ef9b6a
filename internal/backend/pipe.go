package backend

import (
	"context"
	"errors"
	"io"

	"github.com/troupe-run/troupe/internal/keeper"
	"github.com/troupe-run/troupe/internal/upstream"
)

// pipe is a process of a keeper as a link has it.
type pipe struct {
	p     *keeper.Process
	life  context.Context
	end   context.CancelFunc
	dealt uint64 // the last line that was received, and dealt with when the next one is asked for
}

var _ upstream.Process = (*pipe)(nil)

// newPipe returns the lines of a process, of which those up to dealt are dealt with.
func newPipe(p *keeper.Process, dealt uint64) *pipe {
	life, end := context.WithCancel(context.Background())
	return &pipe{p: p, life: life, end: end, dealt: dealt}
}

func (l *pipe) Put(ctx context.Context, line []byte) (uint64, error) { return l.p.Send(ctx, line) }

func (l *pipe) Unsent(number uint64) bool { return l.p.Fate(number) == keeper.Unsent }

func (l *pipe) Receive() ([]byte, error) {
	if l.dealt > 0 {
		l.p.Ack(l.dealt)
	}
	line, err := l.p.Receive(l.life)
	switch {
	case errors.Is(err, keeper.ErrExited):
		return nil, io.EOF
	case err != nil:
		return nil, err
	}
	l.dealt = line.Number
	return line.Text, nil
}

func (l *pipe) Close() error {
	l.end()
	return nil
}
