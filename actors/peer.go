package actors

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/kernel"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/internal/session"
	"github.com/troupe-run/troupe/internal/stream"
	"github.com/troupe-run/troupe/mcp"
)

// ErrNoStream reports that the client has no standalone stream: what was to be
// sent was not.
var ErrNoStream = errors.New("the client listens to no stream")

// Peer is the client's side of a session. It may be used from any goroutine,
// and after the call that gave it.
type Peer struct {
	node *Node
	svc  *Service
	key  SessionKey
	who  identity
	last atomic.Pointer[sessionActor] // as it was last known; nil of a stateless request

	owner atomic.Value // Input.Principal of a session's newest request
}

// identity is what a client has said of itself: in its session's record, or in the `_meta`
// of a stateless request.
type identity interface {
	record() session.Record
	revision() mcp.Revision
	// session is the actor of its session, which may have left memory. ErrNoStream
	// reports that it has none.
	session() (*sessionActor, error)
}

var _ identity = ofSession{}

// ofSession is the identity of a session's client.
type ofSession struct{ *Peer }

func (p ofSession) session() (*sessionActor, error) { return p.last.Load(), nil }
func (p ofSession) revision() mcp.Revision          { return p.last.Load().revision() }

// record is the session's record as it is known here; what cannot be read again is as it
// was.
func (p ofSession) record() session.Record {
	s, err := p.actor(p.node.base)
	if err != nil {
		s = p.last.Load()
	}
	return s.view.Load().rec
}

// actor is the session's actor, which may have left memory and come back since
// the peer was made.
func (p *Peer) actor(ctx context.Context) (*sessionActor, error) {
	s, err := p.who.session()
	switch {
	case err != nil:
		return nil, err
	case !s.Stopped():
		return s, nil
	case s.link != nil:
		return nil, p.svc.ended()
	case p.node.drain.closing.Load():
		return nil, ErrClosing
	}
	ctx, cancel := context.WithTimeout(ctx, p.svc.Limits.StoreWait)
	defer cancel()
	s, err = p.node.sessions.load(ctx, p.svc, p.key)
	if err != nil {
		return nil, p.ended(err)
	}
	p.last.Store(s)
	return s, nil
}

// ended says of a record that is not there why: the session has ended.
func (p *Peer) ended(err error) error {
	if errors.Is(err, ErrNotFound) {
		err = fmt.Errorf("%w: %w", p.svc.ended(), err)
	}
	return err
}

// change rewrites the session's record.
func (p *Peer) change(ctx context.Context, edit func(*session.Record) bool) error {
	s, err := p.actor(ctx)
	if err != nil {
		return err
	}
	return p.ended(s.change(ctx, edit))
}

// Handler is that of the session's service.
func (p *Peer) Handler() Handler { return p.svc.Handler }

// Key names the session.
func (p *Peer) Key() SessionKey { return p.key }

// Revision is the negotiated revision. It reads nothing.
func (p *Peer) Revision() mcp.Revision {
	return p.who.revision()
}

// Client is the clientInfo as it was sent.
func (p *Peer) Client() []byte { return p.who.record().Client }

// Capabilities are the client's, as they were sent.
func (p *Peer) Capabilities() []byte { return p.who.record().Capabilities }

// Level is the log level that the client has set, "" if none.
func (p *Peer) Level() string { return p.who.record().Level }

// SetLevel stores the client's log level.
func (p *Peer) SetLevel(ctx context.Context, level string) error {
	return p.change(ctx, func(r *session.Record) bool {
		changed := r.Level != level
		r.Level = level
		return changed
	})
}

// Subscribed are the resources whose updates the client wants.
func (p *Peer) Subscribed() []string { return slices.Clone(p.who.record().Subscribed) }

// maxSubscribed bounds the URIs that a session subscribes to, in bytes together as
// JSON: they are all in its record.
var maxSubscribed = limits.SubscribedURIs.Value()

// ErrTooManySubscriptions reports a session that subscribes to as many resources as
// Limits.Subscriptions lets it, or whose URIs have become too long for the record: the
// one more was not stored.
var ErrTooManySubscriptions = errors.New("actors: too many subscriptions")

// Subscribe stores that the client wants updates of a resource, or fails with
// ErrTooManySubscriptions.
func (p *Peer) Subscribe(ctx context.Context, uri string) error {
	full := false
	err := p.change(ctx, func(r *session.Record) bool {
		changed := r.Subscribe(uri)
		full = changed && (quota.Over(int64(len(r.Subscribed)), p.svc.Limits.Subscriptions) || bytesOf(r.Subscribed) > maxSubscribed)
		return changed && !full
	})
	if full {
		p.node.refusals.count(SubscriptionsOfSession)
		return ErrTooManySubscriptions
	}
	if err == nil {
		p.node.subs.follow(p.last.Load(), uri) // which another's change of the record may not have done yet
	}
	return err
}

// bytesOf is at least what the strings have as JSON.
func bytesOf(all []string) (n int) {
	for _, s := range all {
		n += len(s)
		for i := range len(s) {
			if c := s[i]; c < ' ' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' || c == 0xe2 {
				n += 5
			}
		}
	}
	return n
}

// Unsubscribe stores that the client wants no more updates of a resource.
func (p *Peer) Unsubscribe(ctx context.Context, uri string) error {
	return p.change(ctx, func(r *session.Record) bool { return r.Unsubscribe(uri) })
}

// Notify sends a notification on the session's standalone stream. It fails with
// ErrNoStream when the client has never opened one; a stream whose connection is
// away keeps the message for its return.
func (p *Peer) Notify(ctx context.Context, method string, params []byte) error {
	entry := stream.Entry{Kind: stream.Message, Data: codec.AppendNotification(nil, method, params)}
	return p.send(ctx, entry)
}

// send pushes an entry to the standalone stream and waits until it is stored. When
// another stream takes that one's place meanwhile the entry goes to the other.
func (p *Peer) send(ctx context.Context, e stream.Entry) error {
	for {
		s, err := p.actor(ctx)
		if err != nil {
			return err
		}
		if s.link != nil {
			return s.link.tell(ctx, e)
		}
		id := s.view.Load().rec.Standalone
		if id == "" {
			return ErrNoStream
		}
		err = p.sendOn(ctx, s, id, e)
		if err == nil || ctx.Err() != nil || !errors.Is(err, kernel.ErrStopped) && s.view.Load().rec.Standalone == id {
			return err
		}
	}
}

// sendOn pushes an entry to the stream id and waits until it is stored. After an
// error nobody gets it, unless the error is that of ctx.
func (p *Peer) sendOn(ctx context.Context, s *sessionActor, id string, e stream.Entry) error {
	st, err := p.node.streams.writerOf(ctx, s.svc, s, id)
	if err != nil {
		return err
	}
	stored := make(chan error, 1)
	e.Acked = func(err error) { stored <- err }
	if err := st.Post(&pushEntries{entries: []stream.Entry{e}, told: true}); err != nil {
		return err
	}
	select {
	case err := <-stored:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Sessions calls f for every session of the service that is on this node.
func (n *Node) Sessions(svc *Service, f func(*Peer)) {
	n.sessions.Each(func(s *sessionActor) {
		if s.svc == svc {
			f(s.peer)
		}
	})
}
