package actors

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"errors"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/faults"
	"github.com/troupe-run/troupe/internal/kernel"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/subscription"
	"github.com/troupe-run/troupe/mcp"
)

// Config is what a node needs.
type Config struct {
	Name   string // of the node, [a-z0-9-]
	Boot   string // nonce of this start, [a-z0-9]
	Store  Store
	Limits NodeLimits
	Keys   Keys         // seal what clients carry
	Log    *slog.Logger // nil discards
}

// Node serves sessions on one process. Make one with NewNode; its methods are
// safe for concurrent use.
type Node struct {
	k     *kernel.Kernel
	heart heart
	log   *slog.Logger
	name  string
	boot  string
	store Store
	clock clock

	base    context.Context // of every handler
	stopAll context.CancelCauseFunc

	sessions       sessions
	streams        streams
	pending        pendingRequests
	attachments    attachments
	bound          boundSessions
	statelessCalls statelessCalls
	listeners      listeners
	talking        liveStreams
	mrtr           parkedCalls
	accounts       accounts
	refusals       refusals
	calls          calls
	subs           *subscription.Table
	drain          draining

	lostPings atomic.Int64
	appends   atomic.Int64
	resumes   atomic.Int64
	listened  atomic.Uint64 // standalone streams that were begun
	takeover  atomic.Int64
	timer     *time.Timer
}

// The kinds of actors of a node.
const (
	KindNode kernel.Kind = iota
	KindSession
	KindRequest
	KindStream
	KindSubscription
)

// kinds are their names in metrics and logs.
var kinds = []string{KindNode: "node", KindSession: "session", KindRequest: "request", KindStream: "stream", KindSubscription: "subscription"}

// ErrClosing is the cause that ends handlers when the node stops.
var ErrClosing = errors.New("the node is shutting down")

// NewNode starts a node. Close ends it.
func NewNode(c Config) *Node {
	if c.Log == nil {
		c.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	n := &Node{k: kernel.New(kernel.Config{Log: c.Log, Node: c.Name + "." + c.Boot, Kinds: kinds}), log: c.Log, name: c.Name, boot: c.Boot, store: c.Store, clock: newClock(c.Store.Now)}
	n.sessions = sessions{kernel.NewDirectory[SessionKey, *sessionActor](), n, make(chan struct{}, maxLookups(c.Limits.Defaults().Calls))}
	n.streams = streams{kernel.NewDirectory[StreamKey, *streamActor](), n}
	n.base, n.stopAll = context.WithCancelCause(context.Background())
	n.attachments.all = make(map[*attachment]struct{})
	n.bound.all = make(map[*sessionActor]struct{})
	n.talking.all = make(map[*liveStream]struct{})
	n.listeners = listeners{kernel.NewDirectory[SessionKey, *listenActor](), n}
	n.mrtr = parkedCalls{Directory: kernel.NewDirectory[string, *requestActor](), keys: c.Keys}
	n.pending.node, n.drain.node, n.calls.node, n.bound.node, n.mrtr.node = n, n, n, n, n
	n.pending.open = make(map[string]*pendingRequest)
	n.subs = subscription.NewTable(n.k, KindSubscription)
	n.accounts = newAccounts(n, c.Limits)
	n.heart.node = n
	n.k.Start(&n.heart.Actor, KindNode, "heart", &n.heart)
	n.timer = time.AfterFunc(time.Hour, func() { _ = n.heart.Post(tick{}) })
	n.timer.Reset(time.Second) // only now, since the tick uses the field
	return n
}

// Kernel is the node's actor system.
func (n *Node) Kernel() *kernel.Kernel { return n.k }

// Stats are counts of what a node does, for metrics.
type Stats struct {
	InFlight, Streams, Sessions, Connections, Questions, Accounts int
	Appends, Resumes, Takeovers, Overflowed, LostPings            int64
}

// Stats returns the node's counts.
func (n *Node) Stats() Stats {
	return Stats{InFlight: int(n.accounts.InFlight()), Streams: n.streams.Len(), Sessions: n.sessions.Len(), Connections: n.attachments.len() + n.bound.len() + n.talking.len(),
		Questions: n.pending.len(), Accounts: n.accounts.Len(), Appends: n.appends.Load(), Resumes: n.resumes.Load(),
		Takeovers: n.takeover.Load(), Overflowed: n.accounts.Overflowed(), LostPings: n.lostPings.Load()}
}

var idEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// newID returns an id of a session or stream: 16 random bytes.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	return idEncoding.EncodeToString(b[:])
}

// Post takes one POST. It returns when the handler has and the request's bytes
// are no longer needed; the response may still be an open stream then.
func (n *Node) Post(svc *Service, in *Input, principal any, m *codec.Message, body []byte) {
	if in.Stateless {
		n.stateless(svc, in, principal, m, body)
		return
	}
	switch m.Kind {
	case codec.Request:
		if n.drain.refuses(svc, m) || n.store.Suspended() && !n.regained(svc.Limits.StoreWait) {
			if in.Session != "" && string(m.Method) != mcp.MethodInitialize {
				n.refusals.refuseInSession(in.Conn, errUnavailable, m.ID)
			} else {
				n.refusals.unavailable(in.Conn, m.ID)
			}
			return
		}
		switch {
		case string(m.Method) == mcp.MethodInitialize:
			n.sessions.initialize(svc, in, m)
			return
		case string(m.Method) == mcp.MethodPing && in.Session == "": // legal before initialize
			in.Conn.Answer(200, codec.AppendResult(nil, m.ID, []byte("{}")))
			return
		}
		n.request(svc, in, principal, m, body)
	case codec.Notification:
		if s := n.sessions.of(svc, in, nil); s != nil {
			s.notified(m, time.Now().Add(svc.Limits.StoreWait))
			in.Conn.Accepted()
		}
	case codec.Result, codec.ErrorResponse:
		n.pending.answer(svc, in, m)
	default:
		n.sessions.batch(svc, in, principal, m, body)
	}
}

// regained waits for a lease that is not certain; it reports whether it is again.
func (n *Node) regained(wait time.Duration) bool {
	for end := time.Now().Add(wait); n.store.Suspended(); {
		if time.Now().After(end) || n.drain.over.Load() {
			return false
		}
		time.Sleep(20 * time.Millisecond)
	}
	return true
}

// initialize begins a session, or answers why it does not.
func (d *sessions) initialize(svc *Service, in *Input, m *codec.Message) {
	n := d.node
	if in.Session != "" {
		faults.SessionAgain.Tell(in.Conn, m.ID)
		return
	}
	if !n.accounts.admitSession(in, m.ID) {
		return
	}
	ctx, cancel := context.WithTimeout(n.base, svc.Limits.StoreWait)
	defer cancel()
	set, result, rerr := svc.Handler.Initialize(withOwner(ctx, in.Principal), m.Params)
	if rerr != nil {
		n.accounts.forgive(in)
		in.Conn.Answer(200, codec.AppendError(nil, m.ID, rerr.Code, rerr.Message, rerr.Data))
		return
	}
	s, err := n.sessions.create(ctx, svc, in, set)
	if no, limited := errors.AsType[verdict](err); limited {
		n.accounts.forgive(in)
		n.refusals.refuseVerdict(in.Conn, m.ID, no)
		return
	}
	if err != nil {
		n.accounts.forgive(in)
		n.log.Warn("session not created", "error", err)
		n.refusals.unavailable(in.Conn, m.ID)
		return
	}
	s.peer.madeBy(in)
	svc.began(ctx, s.peer)
	in.Conn.SetSession(s.key.ID)
	in.Conn.Answer(200, codec.AppendResult(nil, m.ID, result))
}

// request runs one request of a session.
func (n *Node) request(svc *Service, in *Input, principal any, m *codec.Message, body []byte) {
	for {
		s := n.sessions.of(svc, in, m.ID)
		if s == nil {
			return
		}
		r, err := s.admitted(in, m)
		if err == nil {
			s.begins(r, r.loggedWay(s, in.Conn), m, body, &Call{principal: principal, trace: in.Trace, attempt: 1})
			err = s.enters(r)
		}
		switch {
		case err == nil:
			r.serve()
		case errors.Is(err, kernel.ErrStopped):
			continue // it has just left memory: activate it anew
		default:
			n.refusals.refuseInSession(in.Conn, err, m.ID)
		}
		return
	}
}

// maxToken bounds a request's id and its progress token, in bytes as they were sent:
// a batch of requests has to fit one record.
var maxToken = limits.Token.Value()

var errLongToken = errors.New("actors: the id or the progress token is too long")

func tooLong(m *codec.Message) bool { return len(m.ID) > maxToken || len(m.ProgressToken) > maxToken }

// admitted returns the actor of a request that may run now; refuseInSession answers the error.
func (s *sessionActor) admitted(in *Input, m *codec.Message) (*requestActor, error) {
	if tooLong(m) {
		return nil, errLongToken
	}
	a, no := s.node.accounts.admit(s, in, m)
	if a == nil {
		return nil, no
	}
	return s.node.calls.actor(a), nil
}

// begins makes r stand for a request of the session, which is delivered in the way w.
func (s *sessionActor) begins(r *requestActor, w way, m *codec.Message, body []byte, c *Call) {
	c.peer = s.peer
	r.begins(s.svc, w, m, body, c)
}

// enters enters a request that was admitted in the session. refuseInSession answers the error;
// the actor is free then.
func (s *sessionActor) enters(r *requestActor) error {
	s.keepAlive(r.started)
	err := r.enter(s.svc.Limits.PerSession)
	if err != nil {
		r.cancel(err)
		s.refund(r)
		r.release()
	}
	return err
}

// refund gives the tokens of a call back that did not run.
func (s *sessionActor) refund(r *requestActor) { s.node.accounts.giveBack(s, r.from, r.call.msg) }

// notified takes a notification of the client. It waits for the store no longer than
// until.
func (s *sessionActor) notified(m *codec.Message, until time.Time) {
	switch string(m.Method) {
	case "notifications/cancelled":
		id := codec.Optional(m.Params, "requestId")
		reason, _ := codec.Str(codec.Field(m.Params, "reason"))
		if len(id) > 0 {
			s.cancelCall(string(id), reason, until)
			if s.bound != nil {
				s.node.listeners.end("", func(l *listenActor) bool { return l.sess == s && string(l.id) == string(id) })
			}
		}
	case mcp.NotifyInitialized:
		if s.bound != nil && s.view.Load().rec.Revision != "" && !s.bound.ready.Swap(true) {
			s.svc.Handler.Opened(s.peer, false)
		}
	default:
		s.svc.Handler.Notified(s.peer, string(m.Method), m.Params)
	}
}

// cancelCall hands a client's cancel to the call, and waits until its stream has
// the end mark: a call that was cancelled must not run again after a crash.
func (s *sessionActor) cancelCall(id, reason string, until time.Time) {
	done := make(chan error, 1)
	if s.Post(&cancelCall{id: id, reason: reason, acked: func(err error) { done <- err }}) != nil {
		return // the session is leaving memory: nothing of it runs here
	}
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}

// Close ends every call as HandOver does at its end, and stops the node's actors.
// Handlers that do not heed their context are waited for until ctx ends, but not
// those whose calls HandOver has handed over.
func (n *Node) Close(ctx context.Context) error {
	if n.drain.closing.Swap(true) {
		return nil
	}
	n.drain.over.Store(true)
	n.timer.Stop()
	if n.accounts.InFlight() > 0 {
		n.drain.giveUp(ctx)
	}
	n.statelessCalls.giveUp(nil, ErrClosing) // those that wait for input, too
	n.stopAll(ErrClosing)
	var err error
	for began := time.Now(); (n.accounts.InFlight() > 0 || !n.statelessCalls.empty()) && err == nil; {
		if n.drain.handing.Load() && !n.drain.running() && n.statelessCalls.empty() && time.Since(began) > quick {
			break
		}
		select {
		case <-ctx.Done():
			err = context.Cause(ctx)
		case <-time.After(5 * time.Millisecond):
		}
	}
	for _, a := range n.attachments.snapshot() {
		a.reconnect()
	}
	n.listeners.end("the server is shutting down", func(*listenActor) bool { return true })
	for _, s := range n.bound.snapshot() {
		s.endSession()
	}
	n.streams.Each(func(s *streamActor) { _ = s.Post(quitStream{}) })
	n.sessions.Each(func(s *sessionActor) {
		s.timer.Stop()
		n.sessions.Drop(s.key, s) // or whoever finds it would look for another one for ever
		s.Actor.Stop()
	})
	n.calls.close()
	n.heart.Stop()
	return err
}

// ResourceUpdated tells every session on this node that subscribed to the resource,
// or, with below, to one that it lies below.
func (n *Node) ResourceUpdated(svc *Service, uri string, below bool) {
	n.subs.Updated(svc.ID, uri, below)
}
