package actors

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/actors/internal/record"
	"github.com/troupe-run/troupe/actors/internal/session"
	"github.com/troupe-run/troupe/actors/internal/stream"
	"github.com/troupe-run/troupe/actors/internal/subscription"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/mcp"
)

// ErrNoStream reports that the client has no standalone stream: the message was not sent.
var ErrNoStream = errors.New("the client listens to no stream")

// Peer is the client of a session, or of a stateless request. Any goroutine may use it,
// also after the call that gave it.
type Peer struct {
	sessions *sessions
	svc      *Service
	key      SessionKey
	name     string // id of the session as its client has it; "" is that of key
	who      identity
	last     atomic.Pointer[sessionActor] // the session's latest known actor; nil for a stateless request

	owner atomic.Value // Input.Principal of a session's newest request
}

// Session is the id of the session as its client has it; "" if it has none.
func (p *Peer) Session() string { return cmp.Or(p.name, p.key.ID) }

// identity is what a client said of itself: in its session's record, or in the `_meta` of a
// stateless request.
type identity interface {
	clientRecord() session.Record
	clientRevision() mcp.Revision
	// currentSession is the actor of the client's session, which may have left memory. ErrNoStream
	// reports that the client has no session.
	currentSession() (*sessionActor, error)
}

var _ identity = ofSession{}

// currentActor is the session's actor, which may have left memory and come back since the peer was
// made.
func (p *Peer) currentActor() (*sessionActor, error) {
	s, err := p.who.currentSession()
	switch {
	case err != nil:
		return nil, err
	case !s.Stopped():
		return s, nil
	}
	if s, err = s.home.currentActor(); err != nil {
		return nil, clientSession{p}.endedError(err)
	}
	p.last.Store(s)
	return s, nil
}

// Handler is the handler of the session's service.
func (p *Peer) Handler() Handler { return p.svc.Handler }

// Key names the session.
func (p *Peer) Key() SessionKey { return p.key }

// Revision is the negotiated revision. It never reads the store.
func (p *Peer) Revision() mcp.Revision {
	return p.who.clientRevision()
}

// Client is the raw clientInfo, as far as it is kept ([Settled]).
func (p *Peer) Client() []byte { return p.who.clientRecord().Client }

// Capabilities are the client's raw capabilities, as far as they are kept ([Settled]).
func (p *Peer) Capabilities() []byte {
	if m, ok := p.who.(*requestMeta); ok { // each call asks, and need not read the rest
		return codec.Field(*m.now.Load(), mcp.MetaClientCapabilities)
	}
	return p.who.clientRecord().Capabilities
}

// Level is the log level that the client has set, "" if none.
func (p *Peer) Level() string { return p.who.clientRecord().Level }

// SetLevel stores the client's log level.
func (p *Peer) SetLevel(ctx context.Context, level string) error {
	return clientSession{p}.changeRecord(ctx, func(r *session.Record) bool {
		changed := r.Level != level
		r.Level = level
		return changed
	})
}

// Subscribed lists the resources whose updates the client wants. It is a copy.
func (p *Peer) Subscribed() []string { return slices.Clone(p.who.clientRecord().Subscribed) }

// maxSubscribed bounds the URIs that a session subscribes to, in bytes of JSON together:
// they are all in its record.
var maxSubscribed = limits.SubscribedURIs.Value()

// ErrTooManySubscriptions reports that a session subscribes to as many resources as
// Limits.Subscriptions allows, or that its URIs are too long together for its record. The
// new subscription was not stored.
var ErrTooManySubscriptions = errors.New("actors: too many subscriptions")

// Subscribe stores that the client wants updates of a resource. It fails with
// ErrTooManySubscriptions at the limit.
func (p *Peer) Subscribe(ctx context.Context, uri string) error {
	var full *limits.Row
	err := clientSession{p}.changeRecord(ctx, func(r *session.Record) bool {
		full = nil
		changed := r.Subscribe(uri)
		switch {
		case !changed:
		case quota.ExceedsLimit(int64(len(r.Subscribed)), p.svc.Limits.Subscriptions):
			full = limits.SubscriptionsPerSession.Row
		case bytesOf(r.Subscribed) > maxSubscribed:
			full = limits.SubscribedURIs.Row
		}
		return changed && full == nil
	})
	if err == nil && full != nil {
		p.sessions.refusals.Refused(full)
		return ErrTooManySubscriptions
	}
	if err == nil {
		p.sessions.subs.Follow(subscriber{p.last.Load()}, uri) // another change of the record may have stored the subscription without this step yet
	}
	return err
}

// bytesOf is an upper bound of the bytes of the strings as JSON.
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

// Unsubscribe stores that the client no longer wants updates of a resource.
func (p *Peer) Unsubscribe(ctx context.Context, uri string) error {
	return clientSession{p}.changeRecord(ctx, func(r *session.Record) bool { return r.Unsubscribe(uri) })
}

// Notify sends a notification on the session's standalone stream and waits until it is
// stored. It fails with ErrNoStream if the client has never opened one. A stream without a
// connection keeps the message until its client resumes.
func (p *Peer) Notify(ctx context.Context, method string, params []byte) error {
	entry := stream.Entry{Kind: stream.Message, Data: codec.AppendNotification(nil, method, params)}
	return clientSession{p}.sendMessage(ctx, entry)
}

// Push sends a notification on the session's standalone stream. It never waits. If this
// node does not write the stream, the notification is lost.
func (p *Peer) Push(method string, params []byte) {
	if s, err := p.who.currentSession(); err == nil {
		s.home.pushNotification(codec.AppendNotification(nil, method, params))
	}
}

// PushUpdate is Push of an update of a resource. For a bound session it waits until the
// client has read enough.
func (p *Peer) PushUpdate(uri string) {
	if s, err := p.who.currentSession(); err == nil {
		s.home.pushUpdate(subscription.EncodeUpdate(uri))
	}
}

// Announced is the digest of the catalogues that was last announced to the client.
func (p *Peer) Announced() string {
	rec := p.who.clientRecord()
	if t := p.last.Load().announced.Load(); t != nil && t.stream == rec.Standalone {
		return t.digest
	}
	return rec.Announced
}

// Announce sends notifications without params on the session's standalone stream, if this
// node writes that, and notes digest as the announced state of the catalogues. It never
// waits.
func (p *Peer) Announce(methods []string, digest string) {
	s := p.last.Load()
	id := s.view.Load().rec.Standalone
	for _, m := range methods {
		if !s.home.pushNotification(codec.AppendNotification(nil, m, nil)) {
			return // the session's next stream announces the difference
		}
	}
	before := s.announced.Load()
	now := &announcement{stream: id, digest: digest}
	if now.since = s.view.Load().rec.Announced; before != nil && before.stream == id {
		now.since = before.since
	}
	if s.view.Load().rec.Standalone == id && s.announced.CompareAndSwap(before, now) && id != "" { // a bound session has no record to confirm it in
		time.AfterFunc(3*s.svc.Limits.KeepAlive, func() { clientSession{p}.confirmAnnounced(s, now) })
	}
}

// Owner is the last non-nil Input.Principal of a request of the session on this node; nil
// if there was none.
func (p *Peer) Owner() any { return p.owner.Load() }

// ViaOf is how the client of a session is connected.
func ViaOf(p *Peer) Via {
	if s := p.last.Load(); s != nil {
		return Via{HTTP: s.via}
	}
	return Via{}
}

// noteOwner notes the principal of a request of the session.
func (p *Peer) noteOwner(in *Input) {
	if in.Principal != nil {
		p.owner.Store(in.Principal)
	}
}

type ownerKey struct{}

// Owner is Peer.Owner of the session for which Handler.Initialize runs.
func Owner(ctx context.Context) any { return ctx.Value(ownerKey{}) }

func withOwner(ctx context.Context, owner any) context.Context {
	if owner == nil {
		return ctx
	}
	return context.WithValue(ctx, ownerKey{}, owner)
}

// ErrSessionFull reports that a session keeps as many values, or as many bytes, as it may.
// The new value was not stored.
var ErrSessionFull = errors.New("the session keeps as many values as it may")

// Value is the value that was stored under a key last, on any node, nil if there is none. The
// caller must not change it. Where other nodes share the store that costs a question to it. An
// error is the store's, or says that the session has ended.
func (p *Peer) Value(ctx context.Context, key string) ([]byte, error) {
	s, err := p.currentActor()
	if err != nil {
		return nil, err
	}
	v, err := sessionView{s}.newestView()
	if err != nil {
		return nil, clientSession{p}.endedError(err)
	}
	if s.ended.Load() {
		return nil, s.svc.endedError()
	}
	return v.rec.Values[key], nil
}

// UpdateValue stores with the session's record, under a key, what edit makes of the value there;
// nil is none. It is called again where the record was changed meanwhile, or it has refused or
// changed nothing by what this node knew. Values are JSON; edit must not change the one it gets,
// and that which it returns belongs to the node. An error of edit is returned, and nothing is
// stored then. When UpdateValue returns nil, the value survives a crash, except in a bound session,
// and whoever asks finds it, on any node.
func (p *Peer) UpdateValue(ctx context.Context, key string, edit func(old []byte) ([]byte, error)) error {
	room := session.Room{Values: limits.Values.Value(), Bytes: limits.ValueBytes.Value()}
	var full, failed error
	err := clientSession{p}.changeRecord(ctx, func(r *session.Record) (changed bool) {
		var value []byte
		full = nil
		if value, failed = edit(r.Values[key]); failed == nil {
			changed, full = r.SetValue(key, value, room)
		}
		return changed
	})
	switch {
	case err != nil: // what edit said of an older record counts for nothing
		return err
	case failed != nil:
		return failed
	case full != nil:
		return ErrSessionFull
	}
	return nil
}

// Ask puts a question to the client on the session's standalone stream and waits for the answer.
// Errors are those of Call.Ask, ErrNoStream, ErrUnmounted or that of a session that has ended.
func (p *Peer) Ask(ctx context.Context, q Question) (Answer, error) {
	if q.Keep == nil {
		return clientSession{p}.askClient(ctx, q)
	}
	s, err := p.currentActor()
	if err != nil {
		return Answer{}, err
	}
	return s.sharedAnswer().askShared(ctx, p.sessions.base, q.Keep, func() (Answer, error) { return clientSession{p}.askClient(ctx, q) })
}

// Missed is Call.Missed for messages that belong to no call.
func (p *Peer) Missed() int64 {
	s, err := p.who.currentSession()
	if err != nil {
		return 0
	}
	return s.logged.Load().takeMissed()
}

// AdmitLog decides whether to send a log message that belongs to no call. If it drops one,
// it calls later once there is room again.
func (p *Peer) AdmitLog(later func()) bool {
	s, err := p.who.currentSession()
	if err != nil {
		return true // the send itself fails: there is no stream
	}
	l := logLimiterIn(&s.logged, p.svc.Limits.LogRate)
	wait := l.admitMessage(p.sessions.refusals)
	if wait > 0 && l.reporting.CompareAndSwap(false, true) {
		time.AfterFunc(wait, func() {
			l.reporting.Store(false)
			later()
		})
	}
	return wait == 0
}

// Forget drops the kept answer, on all nodes: the next question with Keep is sent to the client.
func (p *Peer) Forget() {
	s, err := p.who.currentSession()
	if err != nil {
		return
	}
	s.forgetAnswer()
	if s.shared {
		p.sessions.fleet.broadcastForget(p.sessions.base, p.key)
	}
}

// ofSession is the identity of a session's client.
type ofSession struct{ *Peer }

func (p ofSession) currentSession() (*sessionActor, error) { return p.last.Load(), nil }
func (p ofSession) clientRevision() mcp.Revision           { return p.last.Load().settledRevision() }

// clientRecord is the session's record as this node knows it, read again if the session has left
// memory. If that fails it is the last known record.
func (p ofSession) clientRecord() session.Record {
	s, err := p.currentActor()
	if err != nil {
		s = p.last.Load()
	}
	return s.view.Load().rec
}

// clientSession is a peer that has a session.
type clientSession struct{ *Peer }

// endedError replaces ErrNotFound of a record by the reason why the session has ended.
func (p clientSession) endedError(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		err = fmt.Errorf("%w: %w", p.svc.endedError(), err)
	}
	return err
}

// changeRecord rewrites the session's record.
func (p clientSession) changeRecord(ctx context.Context, edit func(*session.Record) bool) error {
	s, err := p.currentActor()
	if err != nil {
		return err
	}
	return p.endedError(s.home.changeRecord(ctx, edit))
}

// sendMessage sends a message outside of a call: see home.deliverMessage.
func (p clientSession) sendMessage(ctx context.Context, e stream.Entry) error {
	s, err := p.currentActor()
	if err != nil {
		return err
	}
	return s.home.deliverMessage(ctx, e)
}

func (p clientSession) askClient(ctx context.Context, q Question) (Answer, error) {
	if _, err := p.who.currentSession(); err != nil {
		return Answer{}, err
	}
	d := p.sessions
	x, err := d.pending.openQuestion(p.last.Load(), nil, &q)
	if err != nil {
		return Answer{}, err
	}
	defer d.pending.closeQuestion(x)
	entry := stream.Entry{Kind: stream.Request, Meta: record.QuestionMeta(record.Question{ID: x.id, Key: q.Key}), Data: codec.AppendRequest(nil, []byte(x.id), q.Method, q.Params)}
	if err := p.sendMessage(ctx, entry); err != nil {
		return Answer{}, err
	}
	timer := time.NewTimer(p.svc.Limits.MaxAsk)
	defer timer.Stop()
	select {
	case a := <-x.ch:
		return a, nil
	case <-p.svc.life.done:
		return Answer{}, ErrUnmounted
	case <-p.last.Load().inputEnded:
		return Answer{}, p.svc.endedError()
	case <-timer.C:
		p.withdrawQuestion(x, "timed out")
		d.refusals.Refused(limits.MaxAsk.Row)
		return Answer{}, ErrNoAnswer
	case <-ctx.Done():
		p.withdrawQuestion(x, withdrawalReason(ctx))
		return Answer{}, context.Cause(ctx)
	}
}

// withdrawQuestion tells the client, if it listens here, that x needs no answer.
func (p clientSession) withdrawQuestion(x *pendingRequest, why string) {
	if p.sessions.pending.closeQuestion(x) {
		p.Push("notifications/cancelled", cancelParams(x, why))
	}
}

// confirmAnnounced stores the announced state in the record, if the client still listens.
func (p clientSession) confirmAnnounced(s *sessionActor, t *announcement) {
	d := p.sessions
	st, ok := d.streams.Get(StreamKey{s.key, t.stream})
	if !ok || !st.connected.Load() || s.announced.Load() != t || s.view.Load().rec.Standalone != t.stream {
		return
	}
	ctx, cancel := context.WithTimeout(d.base, s.svc.Limits.StoreWait)
	defer cancel()
	err := p.changeRecord(ctx, func(r *session.Record) bool {
		changed := r.Announced != t.digest
		r.Announced = t.digest
		return changed
	})
	// After a failure the next stream announces the state again, which is legal.
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		d.log.Debug("catalogue digest not stored", "error", err)
	}
}

// Anchoring is what a message of a session is to the node where the session is anchored.
type Anchoring uint8

// The kinds of messages.
const (
	Unanchored   Anchoring = iota // any node serves it
	AnchorTold                    // it goes to where the session is anchored, if it is
	AnchorNeeded                  // it anchors the session, if it is not
)

// Handler is a mounted server as the actors see it. The actors decide who runs it and where
// its response goes; the Handler decides what the response is. Its methods may be called
// from any goroutine.
type Handler interface {
	// Initialize settles a session: it returns the revision to speak, and the result.
	Initialize(ctx context.Context, params []byte) (Settled, []byte, *mcp.Error)
	// Serve appends the result of c to dst. It runs on the goroutine that read
	// the request; ctx ends when the client cancels or the node gives up.
	Serve(ctx context.Context, c *Call, dst []byte) ([]byte, *mcp.Error)
	// Observe is told of a message that is no call, before anything is done about it: initialize, a
	// notification, a ping that needs no handler, or the beginning of a listener. p is its session, nil if
	// there is none yet. end, which may be nil, is called when it is done, with the revision that is spoken
	// and the error of the response.
	Observe(p *Peer, from Origin, m *codec.Message) (end func(mcp.Revision, *mcp.Error))
	// Notified gets a client's notification; params are valid only until it returns.
	Notified(p *Peer, method string, params []byte)
	// Safe reports whether a call may be run again after its node was lost.
	Safe(method, name []byte) bool
	// Listening decides which part of a listener's filter is honoured (2026-07-28). c
	// cannot send.
	Listening(ctx context.Context, c *Call) (Listening, *mcp.Error)
	// MayAsk reports whether a call may ask its client for input.
	MayAsk(method, name []byte) bool
	// Opened is called when a client has begun to listen to its standalone stream; gap
	// means that the client may have missed notifications before.
	Opened(p *Peer, gap bool)
}

// Settled is what initialize settles for a session.
type Settled struct {
	Revision     string
	Client       []byte // what is kept of clientInfo, raw
	Capabilities []byte // what is kept of them, raw
	Announced    string // digest of the catalogues as the client will see them
}

// Service is one mounted server as the actors see it. Make it with NewService; its fields
// must not change after the first request.
type Service struct {
	Terms
	Handler Handler
	// Began, if not nil, is called when initialize has begun a session, before the client
	// has its response. Ended, if not nil, is called once on a goroutine of its own when a
	// session that has begun is gone for good, as far as this node learns of it, and not
	// before Began has returned.
	Began func(ctx context.Context, p *Peer)
	Ended func(p *Peer, how Ending)
	// Over, if not nil, is called on one node when a session has ended by its client, by an operator, or
	// with its connection, with how it came and how long it lasted. Nobody sees when a session expires.
	Over func(p *Peer, via Via, lasted time.Duration)
	// Hears reports whether a session may learn of an update of a resource; it is asked for
	// each update. Other actors call it in their turns, several at once: it must be quick
	// and not panic. If nil, the session learns of all resources that it has subscribed to,
	// and of those below.
	Hears func(p *Peer, uri string) bool
	// Anchoring, if not nil, says of a message of a session whether it is about what one node alone has of the session: see package anchor.
	// It is asked for each message, and must be quick.
	Anchoring func(m *codec.Message) Anchoring
	// Anchored, if not nil, is called on a goroutine of its own when a session is anchored here because the node where it was is gone, or has
	// begun anew, with what it had of the session by the names of AnchorHere. It returns what of that this node has now, and what it does
	// not know of, with which it is called again, now and then; after a crash perhaps with all. Left is called, perhaps more than once, when a session was
	// anchored here and has moved to another node, or has ended at one.
	Anchored func(ctx context.Context, p *Peer, had []string) (here, unknown []string)
	Left     func(key SessionKey, moved bool)
}

// serviceOf is the service that has the terms t.
func serviceOf(t *Terms) *Service { return t.service.(*Service) }

// NewService returns a service that may be served until Node.Unmount. Zero limits take
// their defaults.
func NewService(id string, h Handler, l Limits) *Service {
	s := &Service{Terms: Terms{ID: id, Limits: l.Defaults(), life: lifetime{done: make(chan struct{})}}, Handler: h}
	s.service = s
	return s
}

// runsAgain reports whether a call may run again for a client that comes back for it.
func (svc *Service) runsAgain(method, name []byte) bool {
	return svc.Handler.Safe(method, name) || svc.Resumes != nil && svc.Resumes(method, name)
}

// mayRerun reports whether another process can run a call again. size is that of the message,
// or batch, that it came in and that is stored for that.
func (svc *Service) mayRerun(m *codec.Message, size int) bool {
	return svc.runsAgain(m.Method, m.Name) && svc.storesMessage(m, size)
}

// observed is Handler.Observe. The function that it returns is never nil.
func (svc *Service) observed(p *Peer, in *Input, m *codec.Message) func(mcp.Revision, *mcp.Error) {
	end := svc.Handler.Observe(p, in.origin(), m)
	if end == nil {
		end = func(mcp.Revision, *mcp.Error) {}
	}
	return end
}

// Listening is the part of a listener's filter that the server honours.
type Listening struct {
	Tools, Prompts, Resources bool     // changes of the lists
	URIs                      []string // resources whose updates the listener gets, which owns the slice
	Accepted                  []byte   // the acknowledged filter, raw
	// Changed reports whether a list has changed for this listener since the last call;
	// method is that of the list's notification. It is called in the listener's turn. If
	// nil, every change counts.
	Changed func(method string) bool
	// Hears reports whether the listener may learn of an update of a resource; it is asked
	// for each update. Other actors call it in their turns, several at once: it must be
	// quick and not panic. If nil, the listener learns of URIs and of resources below them.
	Hears func(uri string) bool
	// Uncovered returns why nothing of the filter is for the client any more, one of TokenRevoked
	// and TokenInsufficient, and "" if something is. It is called in the listener's turn, like
	// Hears, when that may have changed. If nil, there is always something.
	Uncovered func() (reason string)
	// Others begins to send what else the client asked for, with send, which does not wait, until
	// ctx ends. If nil, there is nothing else. again is called when some of it was lost on the way.
	Others func(ctx context.Context, send func(method string, params []byte)) (again func())
}

// answerPing answers a ping that needs no handler. p is its session, nil if there is none.
func answerPing(svc *Service, p *Peer, in *Input, to answerer, m *codec.Message) {
	observed := svc.observed(p, in, m)
	to.Answer(200, codec.AppendResult(nil, m.ID, []byte("{}")))
	r := mcp.Revision(0)
	if p != nil {
		r = p.Revision()
	}
	observed(r, nil)
}

// refusedBy reports whether the end of the node refuses a request. stored is the size of the
// message if another process would need it to run the request again.
func (svc *Service) refusedBy(d *draining, principal any, m *codec.Message, stored int) bool {
	return d.over.Load() || d.sparing.Load() && (d.alone || !svc.mayRerun(m, stored)) && (svc.Known == nil || svc.Known(principal, m.Method, m.Name))
}

// Ending is how a session ended.
type Ending uint8

// The ways in which sessions end.
const (
	Deleted      Ending = iota // by its client
	Expired                    // by its own clock
	Disconnected               // with its connection: a bound session
)

// AnchorHere anchors the session at this node for a call that runs here, as one that was taken over does, and notes what of the service the session
// has here from now on. ErrElsewhere: it is anchored at another node, which may live.
func AnchorHere(ctx context.Context, p *Peer, what string) error {
	s, err := p.currentActor()
	switch {
	case errors.Is(err, ErrNoStream):
		return nil // a call that belongs to no session any more
	case err != nil || p.sessions.fleet.mail == nil || !s.shared:
		return err
	}
	return clientSession{p}.endedError(s.sessions.anchors.anchorHere(ctx, s, what))
}

// Send is Peer.Push, but the stream may be written by another node. Messages arrive in the order in which they are sent. It never waits; what is too much
// is lost, as is what that node does not take.
func Send(p *Peer, method string, params []byte) {
	if s, err := p.who.currentSession(); err == nil {
		s.sendAnywhere(codec.AppendNotification(nil, method, params), s.home.pushNotification)
	}
}

// SendUpdate is Peer.PushUpdate as Send is Peer.Push.
func SendUpdate(p *Peer, uri string) {
	if s, err := p.who.currentSession(); err == nil {
		s.sendAnywhere(subscription.EncodeUpdate(uri), func(data []byte) bool {
			s.home.pushUpdate(data)
			return true
		})
	}
}
