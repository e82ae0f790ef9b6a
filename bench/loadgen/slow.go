package loadgen

import (
	"context"
	"fmt"
	"time"
)

const (
	// sipEvery is how often a slow reader reads, and sip how many bytes at a time.
	sipEvery = 100 * time.Millisecond
	sip      = 64
	// muchCounting is how far the tool counts for it.
	muchCounting = 1_000_000
)

// runSlow measures the others beside a client that hardly reads a long event stream.
func runSlow(ctx context.Context, o *Options, l *ledger) error {
	own := *o
	own.Tool, own.Arguments = "", "" // They are those of the others.
	return runBeside(ctx, o, l, &slowReader{o: &own, c: newClient(&own)})
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
	s.c.closeConnections() // The next connection is a narrow one.
	return (&scenario{tool: "count", needs: countNeeds}).checkTool(ctx, s.c)
}

// disturb calls the tool again when the server has ended its stream. The others wait for the first
// one.
func (s *slowReader) disturb(ctx context.Context, ready func()) error {
	s.c.reports = true
	for ctx.Err() == nil {
		stream, err := openCall(ctx, s.c, s.c.newID(), "count", fmt.Sprintf(`{"to":%d}`, muchCounting))
		switch {
		case err != nil && s.streams == 0:
			return fmt.Errorf("the slow reader got no event stream: %w", err)
		case err != nil:
			waitUntil(ctx, time.Now().Add(sipEvery))
			continue
		}
		s.streams++
		ready()
		for buf := make([]byte, sip); err == nil && ctx.Err() == nil; waitUntil(ctx, time.Now().Add(sipEvery)) {
			var n int
			n, err = stream.events.Read(buf)
			s.bytes += int64(n)
		}
		stream.close()
	}
	return nil
}

func (s *slowReader) addResult(b *Beside) { b.Streams, b.Bytes = s.streams, s.bytes }

func (s *slowReader) end(ctx context.Context) { crowd{s.c}.endSessions(ctx); s.c.closeConnections() }
