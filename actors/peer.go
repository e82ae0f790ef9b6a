package actors

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/kernel"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/internal/session"
	"github.com/troupe-run/troupe/internal/stream"
	"github.com/troupe-run/troupe/internal/subscription"
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
	case s.bound != nil:
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
		p.node.subs.Follow(p.last.Load(), uri) // which another's change of the record may not have done yet
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
		if s.bound != nil {
			return s.bound.tell(ctx, e)
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
	if err := st.Post(&pushEntries{entries: []stream.Entry{e}, ofSession: true}); err != nil {
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

// push sends data on a session's standalone stream if that is written here. It
// reports whether the stream has it: for its connection, or else for a resume. A new
// stream in its place does not have it.
func (d *sessions) push(k SessionKey, data []byte) (sent bool) {
	s, ok := d.Get(k)
	if !ok {
		return false
	}
	if s.bound != nil {
		return s.pushBound(data)
	}
	st, ok := d.node.streams.Get(StreamKey{k, s.view.Load().rec.Standalone})
	if !ok || st.queued.Load() > int64(s.svc.Limits.Queue) ||
		st.Post(&pushEntries{entries: []stream.Entry{{Kind: stream.Message, Data: data}}, ofSession: true}) != nil {
		s.missed.Store(true) // its next stream, or resume, makes good what it missed
		return false
	}
	return true
}

// Push sends a notification on the session's standalone stream, if that is written
// here: else it is lost. It never waits.
func (p *Peer) Push(method string, params []byte) {
	p.node.sessions.push(p.key, codec.AppendNotification(nil, method, params))
}

// PushUpdate is Push of an update of a resource. To a session that lives on a connection
// it waits until the client has read enough.
func (p *Peer) PushUpdate(uri string) {
	if l := p.last.Load().bound; l != nil {
		_ = l.tell(p.node.base, stream.Entry{Kind: stream.Message, Data: subscription.Update(uri)})
		return
	}
	p.node.sessions.push(p.key, subscription.Update(uri))
}

// pushBound sends an invalidation, if the session has begun and its client reads. What it misses is made good later.
func (s *sessionActor) pushBound(data []byte) (heard bool) {
	switch {
	case !s.bound.ready.Load():
		return false // it is told when it has begun
	case s.bound.full():
		s.missed.Store(true)
		if s.bound.resyncing.CompareAndSwap(false, true) {
			go s.resync()
		}
		return false
	}
	s.bound.send(data)
	return true
}

// resync waits until the client has read, and tells it what it missed, as fast as it reads.
func (s *sessionActor) resync() {
	for again := true; again; again = s.missed.Load() && s.bound.resyncing.CompareAndSwap(false, true) {
		for s.missed.Load() {
			if s.bound.conn.Room(s.node.base) != nil {
				return
			}
			s.missed.Store(false)
			s.svc.Handler.Opened(s.peer, true)
		}
		s.bound.resyncing.Store(false)
	}
}

// announcement is which state of the catalogues a session was told on its standalone stream.
// The record takes it over when the connection has outlived that by so long that one
// broken by then would have been noticed, which takes up to two comments: until then
// the next stream tells it again.
type announcement struct {
	stream string
	digest string
	since  string // what the session had been told when the stream began
}

// Announced is the digest of the catalogues that the client was last told.
func (p *Peer) Announced() string {
	rec := p.who.record()
	if t := p.last.Load().announced.Load(); t != nil && t.stream == rec.Standalone {
		return t.digest
	}
	return rec.Announced
}

// listens notes that the stream id takes the place of another one. What was told on
// one whose connection seemed to be there is told again: its client has given it up.
func (s *sessionActor) listens(id, old string, live bool) {
	base := s.view.Load().rec.Announced
	if t := s.announced.Load(); live && t != nil && t.stream == old {
		base = t.since
	}
	s.announced.Store(&announcement{stream: id, digest: base, since: base})
}

// Announce sends notifications without params on the session's standalone stream, if
// that is written here, and notes that they told the state of the catalogues with that
// digest. It never waits.
func (p *Peer) Announce(methods []string, digest string) {
	s := p.last.Load()
	id := s.view.Load().rec.Standalone
	for _, m := range methods {
		if !p.node.sessions.push(p.key, codec.AppendNotification(nil, m, nil)) {
			return // its next stream begins with what differs
		}
	}
	if s.bound != nil {
		_ = s.changeBound(func(r *session.Record) bool { r.Announced = digest; return true })
		return
	}
	before := s.announced.Load()
	now := &announcement{stream: id, digest: digest}
	if now.since = s.view.Load().rec.Announced; before != nil && before.stream == id {
		now.since = before.since
	}
	if s.view.Load().rec.Standalone == id && s.announced.CompareAndSwap(before, now) {
		time.AfterFunc(3*s.svc.Limits.KeepAlive, func() { p.confirm(s, now) })
	}
}

// confirm stores what a session was told, if its client still listens.
func (p *Peer) confirm(s *sessionActor, t *announcement) {
	n := p.node
	st, ok := n.streams.Get(StreamKey{s.key, t.stream})
	if !ok || !st.heard.Load() || s.announced.Load() != t || s.view.Load().rec.Standalone != t.stream {
		return
	}
	ctx, cancel := context.WithTimeout(n.base, s.svc.Limits.StoreWait)
	defer cancel()
	err := p.change(ctx, func(r *session.Record) bool {
		changed := r.Announced != t.digest
		r.Announced = t.digest
		return changed
	})
	// When this fails the session is told again, which is legal.
	if err != nil && !errors.Is(err, ErrNotFound) {
		n.log.Debug("catalogue digest not stored", "error", err)
	}
}

// Owner is what Input.Principal was in the newest request of the session that this node
// has had with one; nil if there was none.
func (p *Peer) Owner() any { return p.owner.Load() }

// madeBy notes who makes a request of the session.
func (p *Peer) madeBy(in *Input) {
	if in.Principal != nil {
		p.owner.Store(in.Principal)
	}
}

type ownerKey struct{}

// Owner is Peer.Owner of the session that a Handler's Initialize is about.
func Owner(ctx context.Context) any { return ctx.Value(ownerKey{}) }

func withOwner(ctx context.Context, owner any) context.Context {
	if owner == nil {
		return ctx
	}
	return context.WithValue(ctx, ownerKey{}, owner)
}

// ErrSessionFull reports that a session keeps as many values as it may, or as large ones:
// the new one was not stored.
var ErrSessionFull = errors.New("the session keeps as many values as it may")

// Value is what SetValue has stored under a key, nil if there is nothing. It must not be
// changed. An error is that of the store, or says that the session has ended.
func (p *Peer) Value(ctx context.Context, key string) ([]byte, error) {
	s, err := p.actor(ctx)
	if err != nil {
		return nil, err
	}
	if s.ended.Load() {
		return nil, s.svc.ended()
	}
	return s.view.Load().rec.Values[key], nil
}

// SetValue stores a value, which is JSON and the node's from now on, with the session's
// record; nil removes it. When it returns nil the value survives a crash, unless the session
// lives on a connection.
func (p *Peer) SetValue(ctx context.Context, key string, value []byte) error {
	room := session.Room{Values: limits.Values.Value(), Bytes: limits.ValueBytes.Value()}
	var full error
	err := p.change(ctx, func(r *session.Record) (changed bool) {
		changed, full = r.SetValue(key, value, room)
		return changed
	})
	if full != nil {
		return ErrSessionFull
	}
	return err
}
