package upstream

import (
	"context"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/mcp"
)

// Open opens a link and agrees with the backend on a revision. ctx bounds both; it should have a
// deadline, as a backend may never answer. After an error, a *[Failure], the link is closed. With
// [ReasonRestart] the same backend is to be opened once more, over a new link, and with the Failure's
// Era as Known and, if that is EraModern, as Want. [Start] does that.
func Open(ctx context.Context, link Link, o Options) (*Conn, error) {
	c := newConn(link, o)
	if err := c.openLink(ctx); err != nil {
		return nil, err
	}
	p := opening{c}
	s, f := p.shakeHands(ctx)
	if f == nil {
		f = p.settle(ctx, s)
	}
	if f != nil {
		c.shut(context.WithoutCancel(ctx), f, false)
		return nil, f
	}
	return c, nil
}

// An opening is a Conn during its handshake.
type opening struct{ c *Conn }

// shakeHands carries out the moves of a handshake.
func (p opening) shakeHands(ctx context.Context) (*Settled, *Failure) {
	c := p.c
	h := handshake{known: c.o.Known, pinned: c.o.Pinned, want: c.o.Want, oneEra: c.link.HasOneEra()}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(context.Canceled)
	next := make(chan func() move, 8) // a probe, initialize twice, and the silence of each
	for m := h.begin(); ; m = (<-next)() {
		if m.hurry {
			stop := c.clock.AfterFunc(ProbeSilence, func() { next <- h.initializeSilent })
			defer stop()
		}
		switch {
		case m.settled != nil:
			return m.settled, nil
		case m.failed != nil:
			return nil, m.failed
		case m.probe:
			stop := c.clock.AfterFunc(ProbeSilence, func() { next <- h.probeSilent })
			go func() {
				r, f := p.sendHandshakeRequest(ctx, mcp.MethodServerDiscover, mcp.Latest)
				stop()
				if f != nil {
					next <- func() move { return h.probeFailed(f) }
					return
				}
				next <- func() move { return h.probeAnswered(r) }
			}()
		case m.initialize != 0:
			go func() {
				r, f := p.sendHandshakeRequest(ctx, mcp.MethodInitialize, m.initialize)
				if f != nil {
					next <- func() move { return h.initializeFailed(f) }
					return
				}
				next <- func() move { return h.initializeAnswered(r) }
			}()
		}
	}
}

// sendHandshakeRequest sends a request of the handshake.
func (p opening) sendHandshakeRequest(ctx context.Context, method string, r mcp.Revision) (Response, *Failure) {
	c, q, spoken := p.c, Request{Method: method}, r
	if method == mcp.MethodInitialize {
		q.Params, spoken = c.o.initializeParams(r), 0
	}
	c.calling.Lock()
	one, f := c.calls.begin(q)
	if f == nil && method == mcp.MethodServerDiscover {
		c.calls.probe = one.id
	}
	c.calling.Unlock()
	if f != nil {
		return Response{}, f
	}
	response, f := c.awaitAnswer(ctx, one, c.link.Send(ctx, c.encodeCall(one, spoken)), false)
	if f != nil && f.Why == ReasonCancelled {
		return Response{}, &Failure{Why: ReasonSilent, Outcome: NotRun, Text: "the backend did not answer the handshake in time", Err: f.Err}
	}
	return response, f
}

func (o *Options) initializeParams(r mcp.Revision) []byte {
	capabilities, info := o.Capabilities, o.ClientInfo
	if capabilities == nil {
		capabilities = []byte("{}")
	}
	if info == nil {
		info = []byte(`{"name":"","version":""}`)
	}
	params := codec.AppendString([]byte(`{"protocolVersion":`), r.String())
	params = append(append(params, `,"capabilities":`...), capabilities...)
	params = append(append(params, `,"clientInfo":`...), info...)
	return append(params, '}')
}

// settle ends the handshake.
func (p opening) settle(ctx context.Context, s *Settled) *Failure {
	c := p.c
	c.settled = *s
	c.calling.Lock()
	c.calls.probe = 0
	c.calls.modern, c.calls.ready = s.Revision.Stateless(), true
	c.calling.Unlock()
	if s.Revision.Stateless() {
		return nil
	}
	if err := c.Notify(ctx, mcp.NotifyInitialized, nil); err != nil {
		return failureOf(ctx, err)
	}
	if l, ok := c.link.(listener); ok && c.o.Standalone {
		p.awaitStream(ctx, l.listen(s.Revision))
	}
	return nil
}

// awaitStream waits for the standalone stream, for a while: a request may have the backend ask something there at once.
func (p opening) awaitStream(ctx context.Context, begun <-chan struct{}) {
	silent := make(chan struct{})
	stop := p.c.clock.AfterFunc(StandaloneSilence, func() { close(silent) })
	defer stop()
	select {
	case <-begun:
	case <-silent:
	case <-ctx.Done():
	}
}
