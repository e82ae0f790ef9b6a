package actors

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	replaying "github.com/troupe-run/troupe/actors/internal/replay"
	"github.com/troupe-run/troupe/actors/internal/session"
	"github.com/troupe-run/troupe/actors/internal/subscription"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/kernel"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/pulse"
	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/internal/refusal"
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/mcp"
)

// Config is the configuration of a node.
type Config struct {
	Name   string // of the node, [a-z0-9-]
	Boot   string // nonce of this start, [a-z0-9]
	Store  store.Store
	Limits NodeLimits
	Keys   store.Keys    // seal the data that clients carry
	Mail   store.Mail    // to the other nodes of the store; nil: there are none
	Lease  time.Duration // after which they take this node for gone, at the earliest; 0 means 5 s
	News   News          // gets what other nodes tell; nil drops it
	Log    *slog.Logger  // nil discards
	Hits   *limits.Log   // gets the limits that are hit; nil logs nothing
	Alone  bool          // the store ends with the process: nothing that runs here goes on in another one
	// Replayed gets how long a client waited until it was sent all that was stored of a stream, and
	// one of the Writer constants; nil drops it. It must not block.
	Replayed func(writer string, took time.Duration)
}

// Node serves sessions in one process. Make one with NewNode; its methods are safe for
// concurrent use.
type Node struct {
	site
	heart   heart
	stopAll context.CancelCauseFunc // ends site.base

	sessions  sessions
	bound     boundSessions
	calls     requestPool
	streams   streams
	takeovers takeovers
	resumes   resumes
	pending   pendingRequests
	answers   answers

	statelessCalls statelessCalls
	mrtr           parkedCalls
	listeners      listeners
	talking        liveStreams
	subs           *subscription.Table

	readings          readings      // connections here, of streams that other nodes write
	readers           remoteReaders // connections of other nodes, of streams that are written here
	pushes            pushes        // messages of other nodes to the sessions of this one
	forwardedMessages pushes        // messages of clients that other nodes have forwarded to this one
	relays            relays
	anchors           anchors
	nodeNews          nodeNews

	lostPings atomic.Int64
	timer     *time.Timer
}

// NewNode starts a node. Close ends it.
func NewNode(c Config) *Node {
	if c.Replayed == nil {
		c.Replayed = func(string, time.Duration) {}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	if c.Hits == nil {
		c.Hits = limits.NewLog(slog.New(slog.DiscardHandler))
	}
	n := &Node{site: site{k: kernel.New(kernel.Config{Log: c.Log, Kinds: kinds}), log: c.Log, name: c.Name, boot: c.Boot, store: c.Store, keys: c.Keys, clock: newClock(c.Store.Now)}}
	n.base, n.stopAll = context.WithCancelCause(context.Background())
	n.refusals = refusals{c.Hits}
	n.accounts = newAccounts(c.Limits, n.refusals, c.Store)
	n.cache = replaying.NewCache(replayCache(c.Limits.Bytes))
	n.drain.alone = c.Alone
	n.fleet = fleet{mail: c.Mail, self: store.Address{Node: c.Name, Boot: c.Boot}, accounts: &n.accounts, looking: make(chan struct{}, maxLooks),
		sureFor: cmp.Or(c.Lease, limits.Lease.Value()) * 4 / 5, // it is renewed each fifth
		marks:   marks{make(chan struct{}, 1), make(map[string]time.Time)}}
	composeOwners(n, maxLookups(c.Limits.Defaults().Calls))
	n.nodeNews.above, n.resumes.replayed = c.News, c.Replayed
	n.heart.node, n.heart.usage.site = n, &n.site
	n.k.Start(&n.heart.Actor, KindNode, "heart", &n.heart)
	n.timer = time.AfterFunc(time.Hour, func() { _ = n.heart.Post(tick{}) })
	n.timer.Reset(time.Second) // after the assignment, since the tick uses the field
	if n.fleet.mail != nil {
		n.fleet.pulse = pulse.New(n.expireViews)
		receiveLetters(n)
		n.fleet.mail.Listen(n.fleet.receiveLetter, n.nodeNews.onLettersMissed)
	}
	return n
}

// composeOwners gives each owner what it uses. lookups is how many requests may read their sessions
// from the store at once.
func composeOwners(n *Node, lookups int) {
	at := &n.site
	n.subs = subscription.NewTable(n.k, KindSubscription)
	n.talking.all = make(map[*liveStream]struct{})
	n.sessions = sessions{Directory: kernel.NewDirectory[SessionKey, *sessionActor](), site: at, streams: &n.streams, calls: &n.calls, pending: &n.pending, subs: n.subs, writers: &n.takeovers,
		lookups: make(chan struct{}, lookups), guesses: make(chan struct{}, limits.GuessReads.Value())}
	n.bound = boundSessions{kernel.NewDirectory[SessionKey, *boundConn](), n}
	n.calls.site, n.calls.streams, n.calls.mrtr, n.calls.statelessCalls, n.calls.talking = at, &n.streams, &n.mrtr, &n.statelessCalls, &n.talking
	n.streams.Directory, n.streams.site, n.streams.sessions = kernel.NewDirectory[StreamKey, *streamActor](), at, &n.sessions
	n.pending.site, n.pending.open = at, make(map[string]*pendingRequest)
	n.mrtr.Directory, n.mrtr.site = kernel.NewDirectory[string, *requestActor](), at
	n.listeners = listeners{kernel.NewDirectory[SessionKey, *listenActor](), at, n.subs, &n.talking}
	n.readings.site = at
	n.readers.site, n.readers.streams, n.readers.sessions, n.readers.pushes = at, &n.streams, &n.sessions, &n.pushes
	n.forwardedMessages.life = repeatedFor
	t := &n.takeovers
	t.site, t.streams, t.sessions, t.calls, t.pending, t.readings, t.pushes = at, &n.streams, &n.sessions, &n.calls, &n.pending, &n.readings, &n.pushes
	n.answers = answers{at, &n.pending, &n.sessions, &n.streams, t}
	r := &n.resumes
	r.site, r.sessions, r.streams, r.takeovers, r.readings = at, &n.sessions, &n.streams, t, &n.readings
	n.relays.init(n)
	n.anchors.node, n.sessions.anchors = n, &n.anchors
	n.nodeNews.node = n
}

// receiveLetters says what the node does with the letters of each kind.
func receiveLetters(n *Node) {
	n.fleet.receivers = map[string]func(*store.Letter){
		letterLook: n.readers.receiveLook, letterAttach: n.readers.receiveLook, letterCredit: n.readers.receiveCredit, letterAlive: n.readers.receiveAlive,
		letterFrame: n.readings.receiveFrame, letterAnswer: n.answers.receiveAnswer, letterPush: n.readers.receivePush, letterUsage: n.heart.usage.receiveUsage,
		letterSessionChanged: n.nodeNews.receiveChanged, letterSessionEnded: n.nodeNews.receiveEnded, letterCancel: n.nodeNews.receiveCancel,
		letterUpdated: n.nodeNews.receiveUpdated, letterLists: n.nodeNews.receiveLists, letterTask: n.nodeNews.receiveTask, letterEnd: n.nodeNews.receiveEnd,
		exchangeRetry: n.relays.receiveForward, exchangeCall: n.relays.receiveForward, exchangeMessage: n.relays.receiveForward, exchangeLetter: n.relays.receiveForward, exchangePart: n.relays.receiveForwardPart,
		exchangeFrame: n.relays.receiveExchangeFrame, exchangeAlive: n.relays.receiveExchangeAlive, exchangeGone: n.relays.receiveExchangeGone,
	}
	n.fleet.large = map[string]func(*store.Letter){letterAnswer: n.answers.receiveAnswer, letterPush: n.readers.receivePush}
}

// Kernel is the node's actor system.
func (n *Node) Kernel() *kernel.Kernel { return n.k }

// Accounts has what the node's clients have in use.
func (n *Node) Accounts() *quota.Accounts { return n.accounts.Accounts }

// StoredMost is how many bytes of a budget the principal has stored lately that has stored most. It
// looks at all principals.
func (n *Node) StoredMost(b store.Budget) int64 {
	return n.accounts.Most(func(a *quota.Account) int64 { return storedFor(a, b) })
}

// Stats are counts of what a node does, for metrics.
type Stats struct {
	InFlight, Streams, Sessions, Connections, Pending, Parked, Accounts int
	Appends, Resumes, Takeovers, Overflowed, LostPings                  int64
	TakeoverTime                                                        time.Duration
	Attaches                                                            int64 // clients that came here for streams that other nodes write
	Readings                                                            int   // those that read at the moment
	Replaying                                                           int64 // clients that do not have yet what is stored of their streams
	Forwarded, Broken                                                   int64 // requests that were forwarded to other nodes, and exchanges with them that were given up
	Recent, Pacing                                                      int64 // bytes appended lately, and appends that wait for their turn
	Cached, Cache                                                       int64 // appends that were replayed from memory, and bytes that are kept for that
}

// Stats returns the node's counts.
func (n *Node) Stats() Stats {
	kept, cached := n.cache.Use()
	return Stats{InFlight: int(n.accounts.InFlight()), Streams: n.streams.Len(), Sessions: n.sessions.Len() + n.bound.Len(), Connections: n.streams.attachments.Len() + n.bound.Len() + n.talking.len(),
		Pending: n.pending.len(), Parked: int(n.mrtr.waiting.Load()), Accounts: n.accounts.Len(), Appends: n.streams.appends.Load(), Resumes: n.resumes.begun.Load(),
		Takeovers: n.takeovers.taken.Load(), Overflowed: n.accounts.OverflowCount(), LostPings: n.lostPings.Load(),
		TakeoverTime: time.Duration(n.takeovers.nanos.Load()), Attaches: n.readings.attaches.Load(), Readings: n.readings.len(), Replaying: n.resumes.replaying.Load(),
		Forwarded: n.fleet.forwarded.Load(), Broken: n.relays.broken.Load(),
		Recent: n.accounts.pace.Taken(time.Now()), Pacing: int64(n.accounts.pace.Waiting()), Cached: cached, Cache: kept}
}

// ResourceUpdated sends an update to every session, on any node, that subscribed to the
// resource or, with below, to a resource above it.
func (n *Node) ResourceUpdated(svc *Service, uri string, below bool) {
	n.subs.SendUpdate(svc.ID, uri, below)
	n.nodeNews.broadcastUpdate(svc.ID, uri, below)
}

// Post takes one POST. It returns when the handler has returned and the request's bytes are no
// longer needed; the response may still be an open stream then.
func (n *Node) Post(svc *Service, in *Input, principal any, m *codec.Message, body []byte) {
	if in.Stateless {
		acceptor{n}.takeStateless(svc, in, principal, m, body)
		return
	}
	if n.anchors.routeMessage(svc, in, principal, m, body) {
		return
	}
	switch m.Kind {
	case codec.Request:
		if svc.refusedBy(&n.drain, principal, m, len(body)) || n.store.Suspended() && !n.awaitLease(svc.Limits.StoreWait) {
			if in.Session != "" && string(m.Method) != mcp.MethodInitialize {
				n.refusals.refuseInSession(in.Conn, refusal.Unavailable, m.ID)
			} else {
				refusal.Unavailable.Tell(in.Conn, m.ID)
			}
			return
		}
		switch {
		case string(m.Method) == mcp.MethodInitialize:
			n.sessions.initializeSession(svc, in, m, len(body))
			return
		case string(m.Method) == mcp.MethodPing && in.Session == "": // legal before initialize
			if n.accounts.admitMessage(nil, in, m, len(body)) {
				answerPing(svc, nil, in, in.Conn, m)
			}
			return
		}
		acceptor{n}.takeRequest(svc, in, principal, m, body)
	case codec.Notification, codec.Result, codec.ErrorResponse:
		if !n.accounts.admitMessage(nil, in, m, len(body)) {
			return
		}
		if m.Kind != codec.Notification {
			n.answers.takeAnswer(svc, in, m)
		} else if s := n.sessions.findSession(svc, in, nil); s != nil {
			s.takeNotification(in, m, time.Now().Add(svc.Limits.StoreWait))
			s.acceptMessage(in.Conn)
		}
	default:
		acceptor{n}.takeBatch(svc, in, principal, m, body)
	}
}

// Get takes a GET: it opens the session's standalone stream, or resumes any of its streams, if the
// principal may have what their calls need.
func (n *Node) Get(svc *Service, in *Input, principal any) {
	if n.drain.over.Load() {
		refusal.Unavailable.Tell(in.Conn, nil)
		return
	}
	if !n.accounts.admitGet(&svc.Limits, in) {
		return
	}
	if in.LastEventID != "" {
		n.resumes.takeResume(svc, in, principal)
		return
	}
	s := n.sessions.findToStay(in, func(in *Input) *sessionActor { return n.sessions.findSession(svc, in, nil) })
	if s == nil {
		return
	}
	defer s.endStay()
	if done, ok := n.accounts.admitStream(&s.sessionAccount, &svc.Limits, in); ok {
		defer done()
		standalone{s}.openStandalone(svc, in)
	}
}

// Delete ends a session: its record goes first, then its calls and streams.
func (n *Node) Delete(svc *Service, in *Input) {
	if !n.accounts.admitMessage(nil, in, &codec.Message{}, 0) {
		return
	}
	s, err := n.sessions.lookUp(svc, in)
	if s = n.sessions.checkFound(in, nil, s, err); s == nil {
		return
	}
	ctx, cancel := context.WithTimeout(n.base, svc.Limits.StoreWait)
	defer cancel()
	first, err := n.sessions.removeSession(ctx, s)
	if err != nil {
		n.log.Warn("session not deleted", "session", s.key.ID, "error", err)
		refusal.Unavailable.Tell(in.Conn, nil)
		return
	}
	if first { // false if another DELETE was quicker
		n.accounts.refundSessionTokens(in, perSession-1)
		n.accounts.refundSessionBytes(in, &s.view.Load().rec, &svc.Limits.Session)
	}
	in.Conn.Answer(200, nil)
}

// EndSession ends a session as its client's DELETE does, for an operator. svc is nil if its server
// is not mounted here. What the session has stored counts for its principal until that is
// forgotten. ErrNotFound: there is no such session.
func (n *Node) EndSession(ctx context.Context, svc *Service, key SessionKey) error {
	if svc != nil {
		s, err := n.sessions.loadSession(svc, key, nil)
		if err == nil {
			_, err = n.sessions.removeSession(ctx, s)
		}
		return err
	}
	rec, _, err := n.sessions.readRecord(ctx, key)
	if err == nil {
		err = n.store.Delete(ctx, key.recordKey(), 0)
	}
	if err == nil {
		n.fleet.broadcastEnd(ctx, key, &rec, false)
	}
	return err
}

// Connect begins a session on in.Conn, which stays its only connection. It calls SetSession with
// the session's id and opens the connection, or it calls Reject. The session ends with the
// connection.
func (n *Node) Connect(svc *Service, in *Input) {
	if n.drain.over.Load() || n.drain.handingOver.Load() { // the session would end at once
		refusal.Unavailable.Tell(in.Conn, nil)
		return
	}
	a, ok := n.accounts.admitBound(in)
	if !ok {
		return
	}
	l := &boundConn{among: n, conn: in.Conn, inputEnded: make(chan struct{}), sending: make(chan struct{}, 1)}
	l.holder, l.until = heldBy(in.Conn)
	l.endInput = sync.OnceFunc(func() { close(l.inputEnded) })
	if in.Patient {
		l.slots = make(chan struct{}, slotCount(svc.Limits.PerSession))
	}
	key := SessionKey{Tenant: in.Tenant, Server: svc.ID, ID: newID()}
	age := svc.Limits.Session.Absolute
	if in.Patient {
		age = math.MaxInt64 // it lives as long as its process
	}
	s := n.sessions.buildActor(svc, key, session.New(time.Now(), session.Lifetime{Idle: age, Absolute: age}), 0)
	l.sess, s.home, s.inputEnded, s.via = s, l, l.inputEnded, in.Via.HTTP
	s.held = 1 // its connection
	s.patient = in.Patient
	s.account.Keep(n.accounts.Accounts, a)                                      // the account also counts questions before the first request
	s.memory.ChargeAnyway(n.accounts.Accounts, a, quota.Sessions, sessionBytes) // a counts the connection, so it is not dropped
	l.said.Store(s.last.UnixNano())
	s.startSession()
	n.bound.Put(key, l)
	in.Session = nameSessionAt(n.fleet.selfAddress(), key.ID)
	in.Conn.SetSession(in.Session)
	if !in.Conn.Open() {
		sessionEnd{s}.endSession()
		a.Held[heldStreams].Add(-1)
		return
	}
	in.Conn.Gone(func() {
		sessionEnd{s}.endSession()
		a.Held[heldStreams].Add(-1)
	})
	if svc.life.over.Load() || s.ended.Load() { // it ended before its connection was open
		sessionEnd{s}.endSession()
		in.Conn.Finish()
	}
}

// Message takes one message, or a batch, of a session that Connect began; one of another node is
// forwarded to that. It returns when it no longer needs the bytes. Responses go out on the
// session's connection; in.Conn learns whether the message was taken.
func (n *Node) Message(svc *Service, in *Input, principal any, m *codec.Message, body []byte) {
	l, ok := n.bound.findBound(svc, in)
	if !ok {
		n.relays.forwardMessage(svc, in, principal, m, body)
		return
	}
	s := l.sess
	if _, handed := in.Conn.(*letterConn); !handed && in.Conn != l.conn {
		if x := n.forwardedMessages.findEarlier(s.key, m, body); x != nil && x.awaitOutcome() == done {
			in.Conn.Accepted() // it was taken when it came by another node, which does not know
			return
		}
	}
	s.peer.noteOwner(in)
	if rec := s.view.Load().rec; in.Version != "" && rec.Revision != "" && in.Version != rec.Revision {
		refusal.SessionRevision.TellMore(in.Conn, rec.Revision, m.ID)
		return
	}
	until := time.Now().Add(svc.Limits.StoreWait)
	if m.Kind != codec.Batch {
		if !(boundInput{l}).countsAsCall(in, m) && !n.accounts.admitMessage(&s.sessionAccount, in, m, len(body)) {
			return
		}
		if (boundInput{l}).takeMessage(in, in.Conn, boundReplier{l}, principal, m, body, until) {
			in.Conn.Accepted()
		}
		return
	}
	all, fault := readBatch(&s.svc.Terms, s.view.Load().rec.Revision, m, body)
	if fault != "" {
		if in.Conn == l.conn { // a refusal here is a message of its own, and has no id
			l.sendData(codec.AppendError(nil, nil, mcp.CodeInvalidRequest, fault, nil))
		} else {
			in.Conn.Reject(refusal.New(400, mcp.CodeInvalidRequest, fault))
		}
		return
	}
	requests, others := splitBatch(all)
	for _, e := range requests {
		if !(boundInput{l}).countsAsCall(in, &e.m) {
			others.addMessage(&e.m, len(e.raw))
		}
	}
	if no := n.accounts.chargeMessages(&s.sessionAccount, in, others); no != nil {
		n.refusals.refuseRequest(in.Conn, no, nil)
		return
	}
	gathered := &boundBatch{conn: l, open: len(requests)}
	for i := range all {
		reply := gathered.newMember() // each request of a batch is refused by itself
		boundInput{l}.takeMessage(in, reply, reply, principal, &all[i].m, all[i].raw, until)
	}
	in.Conn.Accepted()
}

// Writer returns a session whose standalone stream, or connection, this node writes; nil if it
// writes none.
func (n *Node) Writer(key SessionKey) *Peer {
	if s, ok := n.sessions.Get(key); ok && (!s.shared || (standalone{s}).writesStandalone()) {
		return s.peer
	}
	if l, ok := n.bound.Get(key); ok {
		return l.sess.peer
	}
	return nil
}

// PushTo is Peer.Push to a session that is named by its key. It does nothing, and reports false, if
// the session is not in this node's memory, or if another node writes its standalone stream.
func (n *Node) PushTo(key SessionKey, method string, params []byte) (here bool) {
	if s, ok := n.sessions.Get(key); ok && (!s.shared || (standalone{s}).writesStandalone()) {
		s.home.pushNotification(codec.AppendNotification(nil, method, params))
		return true
	}
	l, ok := n.bound.Get(key)
	if ok {
		l.pushNotification(codec.AppendNotification(nil, method, params))
	}
	return ok
}

// Sessions calls f for every session of the service that is on this node.
func (n *Node) Sessions(svc *Service, f func(*Peer)) {
	eachSession(n, func(s *sessionActor) {
		if s.svc == svc {
			f(s.peer)
		}
	})
}

// eachSession calls f for every session on this node, with the bound ones.
func eachSession(n *Node, f func(*sessionActor)) {
	n.sessions.Each(f)
	n.bound.Each(func(l *boundConn) { f(l.sess) })
}

// ListChanged tells all listeners of a service here that a list has changed: method is that of the
// notification. With again it tells also those that have heard of it. It does not wait for the
// listeners.
func (n *Node) ListChanged(svc *Service, method string, again bool) {
	n.listeners.Each(func(l *listenActor) {
		if l.svc == svc && l.filter.wantsMethod(method) {
			_ = l.Post(listChanged{method, again})
		}
	})
}

// TellLists tells the other nodes that lists of a service have changed here.
func (n *Node) TellLists(svc *Service, changed []ListChange) {
	n.fleet.broadcastLetter(letterLists, listsLetter{svc.ID, changed})
}

// TellTask tells the other nodes of a change of a task.
func (n *Node) TellTask(t *TaskChange) {
	if len(t.Params) > mostParams {
		t.Session, t.Method, t.Params = "", "", nil
	}
	n.fleet.broadcastLetter(letterTask, t)
}

// NewCall returns a call of a service that answers no request. ctx is the handler's; m stays valid
// as long as that runs.
func (n *Node) NewCall(ctx context.Context, svc *Service, m *codec.Message, a Apart, d Detached) *Call {
	from := n.accounts.Of(a.Tenant, "")
	c := &Call{ctx: ctx, callFacts: callFacts{msg: m, principal: a.Principal, attempt: a.Attempt, from: from,
		peer: &Peer{sessions: &n.sessions, svc: svc, key: SessionKey{Tenant: a.Tenant, Server: svc.ID, ID: a.Session}, who: &ofApart{a}}}}
	c.detached.Store(&d)
	if m.ProgressToken != nil {
		token := m.ProgressToken
		c.token.Store(&token)
	}
	c.turn = func(work func() error) (err error) {
		if n.accounts.runInTurn(ctx, from, false, func() { err = work() }) {
			return err
		}
		return Unavailable
	}
	return c
}

// TaskAccounts charges clients of a node for what their tasks store. Make it with TasksOf.
type TaskAccounts struct{ a *accounts }

// TasksOf returns the accounts of a node as far as tasks go.
func TasksOf(n *Node) TaskAccounts { return TaskAccounts{&n.accounts} }

// TaskCharge is what a task of a client stores, and for how long from when it was made.
type TaskCharge struct {
	Tenant, Address string
	Bytes           int
	Made            time.Time
	Kept            time.Duration
}

func (t TaskAccounts) chargeOf(c TaskCharge) storeCharge {
	return storeCharge{of: t.a.Of(c.Tenant, c.Address), in: store.TaskBudget, bytes: int64(c.Bytes), life: c.Kept}
}

// Charge charges a client for what a task of it is about to store. It returns the limit that leaves
// no room, and charges nothing then; with must it charges it all the same. The caller calls Settle.
func (t TaskAccounts) Charge(of TaskCharge, must bool) (no *limits.Row) {
	c := t.chargeOf(of)
	if !must {
		return t.a.chargeStore(c)
	}
	t.a.storing[c.in].Add(c.bytes)
	c.addBytes(c.bytes)
	return nil
}

// Settle says that what was charged is stored, or that it certainly is not, which gives it back.
func (t TaskAccounts) Settle(of TaskCharge, stored bool) {
	var err error
	if !stored {
		err = store.ErrRetry
	}
	t.a.settleCharge(t.chargeOf(of), err)
}

// Return gives back the charge for what is stored no more.
func (t TaskAccounts) Return(of TaskCharge) {
	t.a.Of(of.Tenant, of.Address).Lasting.TakeBack(time.Now(), of.Made, int64(of.Bytes), of.Kept)
}

// ReviewListeners ends the listeners of a service here that have nothing left to hear, as the
// resources that they follow are hidden from their clients, or need scopes that these lack. It does
// not wait for the listeners.
func ReviewListeners(n *Node, svc *Service) {
	n.listeners.Each(func(l *listenActor) {
		if l.svc == svc {
			l.reviewFilter()
		}
	})
}
