package loadgen

import (
	"context"
	"fmt"
	"time"

	wire "github.com/troupe-run/troupe/bench/client"
)

const (
	// sipEvery is how often a slow reader reads, and sip how many bytes at a time.
	sipEvery = 100 * time.Millisecond
	sip      = 64
	// muchCounting is how far the tool counts for it.
	muchCounting = 1_000_000
)

// slow measures the others beside a client that hardly reads a long event stream.
func slow(ctx context.Context, o *Options, l *ledger) error {
	own := *o
	own.Tool, own.Arguments = "", "" // They are those of the others.
	return beside(ctx, o, l, &slowReader{o: &own, c: newClient(&own)})
}

// slowReader is a client that calls a tool with much to tell, and hardly reads.
type slowReader struct {
	o *Options
	c *client

	streams, bytes int64
}

func (s *slowReader) prepare(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	if err := s.c.initialize(ctx); err != nil {
		return err
	}
	s.c.narrow = true
	s.c.close() // The next connection is a narrow one.
	return scenarios["resume"].check(ctx, s.c)
}

// disturb calls the tool again when the server has ended its stream. The others wait for the first one.
func (s *slowReader) disturb(ctx context.Context, ready func()) error {
	s.c.reports = true
	for ctx.Err() == nil {
		id := s.c.newID()
		body := s.c.request(id, "tools/call", fmt.Sprintf(`"name":"count","arguments":{"to":%d}`, muchCounting))
		stream, err := s.c.open(ctx, s.c.posting(body, "tools/call"))
		switch {
		case err != nil && s.streams == 0:
			return fmt.Errorf("the slow reader got no event stream: %w", err)
		case err != nil:
			wait(ctx, time.Now().Add(sipEvery))
			continue
		}
		s.streams++
		ready()
		for buf := make([]byte, sip); err == nil && ctx.Err() == nil; wait(ctx, time.Now().Add(sipEvery)) {
			var n int
			n, err = stream.events.Read(buf)
			s.bytes += int64(n)
		}
		stream.close()
	}
	return nil
}

func (s *slowReader) tell(b *Beside) { b.Streams, b.Bytes = s.streams, s.bytes }

func (s *slowReader) end(ctx context.Context) { crowd{s.c}.end(ctx); s.c.close() }

// posting sends a call of a tool, whose name its body has.
func (c *client) posting(body, method string) func(context.Context) (*wire.Answer, error) {
	return func(ctx context.Context) (*wire.Answer, error) { return c.post(ctx, body, method, c.toolOr("count")) }
}
