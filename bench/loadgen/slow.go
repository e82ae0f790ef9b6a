package loadgen

import (
	"context"
	"fmt"
	"sync"
	"time"
)

const (
	// sipEvery is how often a slow reader reads, and sip how many bytes at a time.
	sipEvery = 100 * time.Millisecond
	sip      = 64
	// muchCounting is how far the tool counts for it.
	muchCounting = 1_000_000
)

// runSlow has clients echo twice, alone and beside a client that hardly reads a long event stream.
// The report is that of the second time, with the errors of both.
func runSlow(ctx context.Context, o *Options, l *ledger) error {
	quiet := newLedger(o)
	r := newLoop(o, &echoing, quiet)
	defer r.clients.closeConnections()
	if err := r.beginClients(ctx); err != nil {
		return err
	}
	defer r.clients.endSessions(ctx)
	own := *o
	own.Tool, own.Arguments = "", "" // They are those of the others.
	s := &slowReader{c: newClient(&own)}
	defer s.c.closeConnections()
	if err := s.prepare(ctx); err != nil {
		return err
	}
	defer crowd{s.c}.endSessions(ctx)
	o.printProgress("alone")
	if err := r.runOnce(ctx); err != nil {
		return err
	}
	o.printProgress("disturbed")
	r.resetFor(l)
	reading, stop := context.WithCancel(ctx)
	defer stop()
	var group sync.WaitGroup
	var problem error
	began := make(chan struct{})
	ready := sync.OnceFunc(func() { close(began) })
	group.Go(func() {
		defer ready()
		problem = s.readSlowly(reading, ready)
	})
	<-began
	err := r.runOnce(ctx)
	stop()
	if group.Wait(); err == nil {
		err = problem
	}
	if err != nil {
		return err
	}
	alone, p := quiet.report, l.report
	for kind, n := range alone.Errors {
		if p.Errors[kind] += n; p.Examples[kind] == "" {
			p.Examples[kind] = alone.Examples[kind]
		}
	}
	p.Beside = p.BesideOf(alone)
	p.Beside.Streams, p.Beside.Bytes = s.streams, s.bytes
	return nil
}

// slowReader is a client that calls a tool with much to tell, and hardly reads.
type slowReader struct {
	c              *client
	streams, bytes int64
}

func (s *slowReader) prepare(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.c.o.Timeout)
	defer cancel()
	if err := s.c.initialize(ctx); err != nil {
		return err
	}
	s.c.narrow = true
	s.c.closeConnections() // The next connection is a narrow one.
	return (&scenario{tool: "count", needs: countNeeds}).checkTool(ctx, s.c)
}

// readSlowly calls the tool until ctx ends, again when the server has ended its stream. It calls
// ready when the first stream has begun.
func (s *slowReader) readSlowly(ctx context.Context, ready func()) error {
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
