package actors

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/session"
	"github.com/troupe-run/troupe/internal/stream"
)

// ErrNoStream reports that the client has no standalone stream: what was to be
// sent was not.
var ErrNoStream = errors.New("the client listens to no stream")

// Peer is the client's side of a session. It may be used from any goroutine,
// and after the call that gave it.
type Peer struct{ s *sessionActor }

// Key names the session.
func (p *Peer) Key() SessionKey { return p.s.key }

// Revision is the negotiated revision.
func (p *Peer) Revision() string { return p.s.view.Load().rec.Revision }

// Client is the clientInfo as it was sent.
func (p *Peer) Client() []byte { return p.s.view.Load().rec.Client }

// Capabilities are the client's, as they were sent.
func (p *Peer) Capabilities() []byte { return p.s.view.Load().rec.Capabilities }

// Level is the log level that the client has set, "" if none.
func (p *Peer) Level() string { return p.s.view.Load().rec.Level }

// Told is the catalogue digest that the client was last told.
func (p *Peer) Told() string { return p.s.view.Load().rec.Told }

// SetLevel stores the client's log level.
func (p *Peer) SetLevel(ctx context.Context, level string) error {
	return p.s.node.change(ctx, p.s, func(r *session.Record) bool {
		changed := r.Level != level
		r.Level = level
		return changed
	})
}

// SetTold stores the catalogue digest that the client has been told.
func (p *Peer) SetTold(ctx context.Context, digest string) error {
	return p.s.node.change(ctx, p.s, func(r *session.Record) bool {
		changed := r.Told != digest
		r.Told = digest
		return changed
	})
}

// Subscribed are the resources whose updates the client wants.
func (p *Peer) Subscribed() []string { return slices.Clone(p.s.view.Load().rec.Subscribed) }

// Subscribe stores that the client wants updates of a resource. ErrOverloaded
// reports that it wants those of limit others already: not done.
func (p *Peer) Subscribe(ctx context.Context, uri string, limit int) error {
	full := false
	err := p.s.node.change(ctx, p.s, func(r *session.Record) bool {
		changed := r.Subscribe(uri)
		full = changed && len(r.Subscribed) > limit
		return changed && !full
	})
	if full {
		return ErrOverloaded
	}
	if err == nil {
		p.s.node.subs.add(p.s.node, p.s.key, uri)
	}
	return err
}

// Unsubscribe stores that the client wants no more updates of a resource.
func (p *Peer) Unsubscribe(ctx context.Context, uri string) error {
	err := p.s.node.change(ctx, p.s, func(r *session.Record) bool { return r.Unsubscribe(uri) })
	if err == nil {
		p.s.node.subs.remove(p.s.key, uri)
	}
	return err
}

// Notify sends a notification on the session's standalone stream. It fails with
// ErrNoStream when the client has never opened one; a stream whose connection is
// away keeps the message for its return.
func (p *Peer) Notify(ctx context.Context, method string, params []byte) error {
	entry := stream.Entry{Kind: stream.Message, Data: codec.AppendNotification(nil, method, params)}
	return p.send(ctx, entry)
}

// send pushes an entry to the standalone stream and waits until it is stored.
func (p *Peer) send(ctx context.Context, e stream.Entry) error {
	n, s := p.s.node, p.s
	stored := make(chan error, 1)
	e.Acked = func(err error) { stored <- err }
	for {
		id := s.view.Load().rec.Standalone
		if id == "" {
			return ErrNoStream
		}
		st, err := n.writerOf(ctx, s.svc, s, id)
		if err != nil {
			return err
		}
		if err := st.post(&pushEntries{entries: []stream.Entry{e}}); !errors.Is(err, ErrStopped) {
			if err != nil {
				return err
			}
			break
		}
	}
	select {
	case err := <-stored:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Ask puts a question to the client on the session's standalone stream.
func (p *Peer) Ask(ctx context.Context, q Question) (Answer, error) {
	n := p.s.node
	x, err := n.ask(p.s.key, "", p.s.svc.Limits.Parked)
	if err != nil {
		return Answer{}, err
	}
	defer n.questions.take(x)
	entry := stream.Entry{Kind: stream.Request, Meta: []byte(x.id + "\x00" + q.Key), Data: codec.AppendRequest(nil, []byte(x.id), q.Method, q.Params)}
	if err := p.send(ctx, entry); err != nil {
		return Answer{}, err
	}
	timer := time.NewTimer(p.s.svc.Limits.MaxAsk)
	defer timer.Stop()
	select {
	case a := <-x.ch:
		return a, nil
	case <-timer.C:
		p.withdraw(x, "timed out")
		return Answer{}, ErrNoAnswer
	case <-ctx.Done():
		p.withdraw(x, "no longer needed")
		return Answer{}, context.Cause(ctx)
	}
}

// withdraw tells the client, if it listens here, that x needs no answer.
func (p *Peer) withdraw(x *question, why string) {
	if p.s.node.questions.take(x) {
		p.Push("notifications/cancelled", withdrawal(x, why))
	}
}
