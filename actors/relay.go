package actors

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/actors/internal/mrtr"
	"github.com/troupe-run/troupe/actors/internal/relay"
	"github.com/troupe-run/troupe/actors/internal/stream"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/kernel"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/internal/refusal"
	"github.com/troupe-run/troupe/internal/store"
)

// relays are the exchanges between this node and others: requests that came here and belong there,
// and the other way round. Package actors/internal/relay has the two ends of one.
type relays struct {
	node      *Node
	proxies   *kernel.Directory[relay.ID, *proxy]
	exchanges *kernel.Directory[relayKey, *forwardedExchange]
	inbound   *kernel.Directory[relayKey, *inboundForward]
	broken    atomic.Int64 // exchanges with other nodes that were given up
	next      time.Time    // when the others hear next that this side is there; belongs to the heart's turn
}

// relayKey names an exchange of a request that another node took.
type relayKey struct {
	from store.Address
	id   relay.ID
}

// init makes the relays of a node.
func (d *relays) init(n *Node) {
	d.node, d.proxies, d.exchanges = n, kernel.NewDirectory[relay.ID, *proxy](), kernel.NewDirectory[relayKey, *forwardedExchange]()
	d.inbound = kernel.NewDirectory[relayKey, *inboundForward]()
}

// noteUnreadable answers and counts a letter that this release cannot read.
func (d *relays) noteUnreadable(l *store.Letter) {
	d.node.fleet.unknown.Add(1)
	replyTo(l, notKnown, nil)
}

// inboundForward is a request of another node, or a letter of any size, whose parts come one after
// the other.
type inboundForward struct {
	node       *Node
	key        relayKey
	kind       string
	head       forwardHead
	in         Input
	body       *relay.Upload
	from       *quota.Account // counts the request; nil for a letter, which belongs to one that was counted
	held       quota.Holding
	lastLetter atomic.Int64 // when its last letter came, by the node's clock
	over       atomic.Bool  // it has come, or was given up
}

// receiveForward takes the first letter of a request.
func (d *relays) receiveForward(l *store.Letter) {
	n := d.node
	if l.Kind != exchangeLetter && n.drain.closing.Load() { // what it had is gone
		replyTo(l, notHere, nil)
		return
	}
	b, err := relay.ReadBegin(l.Data)
	c := &inboundForward{node: n, kind: l.Kind, key: relayKey{l.From, b.ID}}
	if err != nil || codec.Unmarshal(b.Head, &c.head) != nil || l.Kind == exchangeLetter && n.fleet.large[c.head.Kind] == nil {
		d.noteUnreadable(l)
		return
	}
	_, twice := n.relays.inbound.Get(c.key)
	if _, begun := n.relays.exchanges.Get(c.key); begun || twice {
		n.fleet.unknown.Add(1) // and has no reply: that of the first one counts
		return
	}
	c.in = Input{Tenant: c.head.Tenant, Address: c.head.Address}
	c.body = relay.NewUpload(&b)
	if _, whole := c.body.Body(); whole {
		n.fleet.runAside(l, func() {
			if c.admitForward(l, b.Size) {
				c.dispatchForward(l)
			}
		})
		return
	}
	if c.admitForward(l, b.Size) {
		c.lastLetter.Store(int64(n.clock.sinceStart()))
		n.relays.inbound.Put(c.key, c)
		replyTo(l, done, []byte{sendMore})
	}
}

// admitForward counts the request on the account of its principal, or refuses it. Of a letter the
// bytes are counted.
func (c *inboundForward) admitForward(l *store.Letter, size int) bool {
	a := &c.node.accounts
	var no *refusal.Refusal
	if c.kind != exchangeLetter {
		c.from, no = a.enterRequest(nil, &c.in)
	}
	if no == nil {
		if no = a.reserveMemory(&c.held, nil, &c.in, quota.Bodies, quota.RequestBytes+int64(size)); no == nil {
			return true
		}
		c.releaseAdmission()
	}
	c.node.refusals.refuseRequest(c.refusalTarget(l), no, c.head.ID)
	return false
}

// refusalTarget is where the request is refused that l has brought.
func (c *inboundForward) refusalTarget(l *store.Letter) answerer {
	if c.kind != exchangeRetry && c.kind != exchangeCall {
		return &letterConn{l: l}
	}
	replyTo(l, done, []byte{isTaken})
	return c.node.relays.openExchange(c.key, &c.in, 0)
}

// receiveForwardPart takes a later letter of a request.
func (d *relays) receiveForwardPart(l *store.Letter) {
	n := d.node
	p, err := relay.ReadPart(l.Data)
	if err != nil {
		d.noteUnreadable(l)
		return
	}
	c, ok := n.relays.inbound.Get(relayKey{l.From, p.ID})
	if !ok || !c.body.AddPart(&p) {
		n.fleet.unknown.Add(1)
		replyTo(l, tryAgain, nil)
		return
	}
	c.lastLetter.Store(int64(n.clock.sinceStart()))
	if _, whole := c.body.Body(); !whole {
		replyTo(l, done, []byte{sendMore})
		return
	}
	n.fleet.runAside(l, func() { // if that is refused, the request expires
		if !c.over.Swap(true) {
			n.relays.inbound.Drop(c.key, c)
			c.dispatchForward(l)
		}
	})
}

// expireForward gives up a request that has not come as a whole.
func (c *inboundForward) expireForward() {
	if !c.over.Swap(true) {
		c.node.relays.inbound.Drop(c.key, c)
		c.releaseAdmission()
	}
}

func (c *inboundForward) releaseAdmission() {
	if c.from != nil {
		c.node.accounts.LeavePlace(c.from)
	}
	c.held.Free()
}

// dispatchForward takes the request, once all of it is here. l is its last letter.
func (c *inboundForward) dispatchForward(l *store.Letter) {
	body, _ := c.body.Body()
	var m codec.Message
	bad := false
	from, read := c.from, func() { bad = codec.Scan(body, &m, anyMessage) != nil }
	if c.kind == exchangeLetter {
		from, read = c.node.accounts.Of(c.in.Tenant, c.in.Address), func() { c.dispatchLetter(l, body) }
	}
	if len(body) <= limits.TurnBytes.Value() {
		read()
	} else if !c.node.accounts.runInTurn(c.node.base, from, false, read) {
		c.releaseAdmission()
		replyTo(l, tryAgain, nil)
		return
	}
	switch {
	case bad:
		c.releaseAdmission()
		c.node.relays.noteUnreadable(l)
	case c.kind == exchangeMessage:
		c.takeMessage(l, &m, body)
	case c.kind == exchangeCall:
		c.takeCall(l, &m, body)
	case c.kind == exchangeRetry:
		c.takeRetry(l, &m)
	}
}

// dispatchLetter takes a letter whose parts are all here. l is the last of them: its reply is that
// to the letter.
func (c *inboundForward) dispatchLetter(l *store.Letter, data []byte) {
	c.node.fleet.large[c.head.Kind](&store.Letter{From: l.From, Kind: c.head.Kind, Data: data, Reply: func(reply []byte) {
		c.releaseAdmission()
		status, said := reply[0], reply[1:]
		if status == done {
			said = append([]byte{isTaken}, said...)
		}
		replyTo(l, status, said)
	}})
}

// takeRetry takes a request that another node has taken, for a call that waits here.
func (c *inboundForward) takeRetry(l *store.Letter, m *codec.Message) {
	n := c.node
	defer c.held.Free()
	moved := false
	defer func() {
		if !moved {
			n.accounts.LeavePlace(c.from)
		}
	}()
	if m.Kind != codec.Request || m.State == nil || !Asks(m.Method) {
		n.relays.noteUnreadable(l)
		return
	}
	st, err := n.mrtr.openState(c.head.Server, c.head.Tenant, m, time.Now())
	if errors.Is(err, store.ErrUnavailable) || n.drain.over.Load() || n.store.Suspended() {
		replyTo(l, tryAgain, nil)
		return
	}
	most := limits.MaxQueued.Value()
	if err == nil {
		if r, ok := n.mrtr.Get(st.Park); ok {
			most = r.svc.Limits.Queue
			if n.drain.sparing.Load() && !r.svc.mayRerun(m, 0) {
				replyTo(l, tryAgain, nil)
				return
			}
		}
	}
	v := n.relays.openExchange(c.key, &c.in, most)
	var given map[string][]byte
	var bad error
	if err == nil {
		given, bad = mrtr.ParseResponses(m, st.Asked)
	}
	switch {
	case err != nil:
		badState(v, m.ID)
	case bad != nil:
		badResponses(v, m.ID, bad)
	default:
		x := retriedRequest{roundTrip: &direct{conn: v, over: make(chan struct{})}, id: bytes.Clone(m.ID), token: bytes.Clone(m.ProgressToken), meta: bytes.Clone(m.Meta), trace: c.head.Trace, from: c.from}
		verdict, outcome := n.mrtr.retryCall(st, x, mrtr.AnswersDigest(m), given)
		switch verdict {
		case retryTaken:
			moved = true
		case retryJoined:
			moved = true
			v.Gone(func() { n.accounts.LeavePlace(c.from) })
		case retrySettled:
			v.Answer(200, withID(m.ID, outcome))
		case retryRefused:
			badState(v, m.ID)
		default:
			v.Close()
			replyTo(l, notHere, nil)
			return
		}
	}
	replyTo(l, done, []byte{isTaken})
}

// takeMessage takes a message of a session that is here, which another node has taken.
func (c *inboundForward) takeMessage(l *store.Letter, m *codec.Message, body []byte) {
	n := c.node
	defer c.held.Free()
	n.accounts.LeavePlace(c.from) // a call is counted by itself
	s, ok := n.bound.Get(SessionKey{c.head.Tenant, c.head.Server, c.head.Session})
	if !ok {
		replyTo(l, notHere, nil)
		return
	}
	plain, err := n.keys.Open(c.head.Principal, c.head.additionalData())
	if err != nil {
		if !errors.Is(err, store.ErrUnavailable) {
			n.fleet.unknown.Add(1)
		}
		replyTo(l, tryAgain, nil)
		return
	}
	in := c.in
	in.Session, in.Version, in.Stateless = nameSessionAt(n.fleet.selfAddress(), c.head.Session), c.head.Version, c.head.Stateless
	in.Trace, in.Via = c.head.Trace, c.head.Via
	from := &letterConn{l: l, status: tryAgain}
	in.Conn = from
	if name, ok := dedupKey(s.sess.key, m, body); ok {
		x, first := n.forwardedMessages.beginPush(name)
		if !first {
			if x.awaitOutcome() == done {
				from.Accepted()
			}
			replyTo(l, tryAgain, nil) // unless it was answered
			return
		}
		defer func() { n.forwardedMessages.endPush(name, x, from.status) }()
	}
	svc := s.sess.svc
	var principal any = json.RawMessage(plain)
	if svc.Carried != nil {
		principal, in.Principal = svc.Carried(plain, nil)
	}
	in.Caller = principal
	n.Message(svc, &in, principal, m, body)
	replyTo(l, tryAgain, nil) // unless it was answered
}

// forwardedExchange is the exchange of a request that another node took, with a call of this one.
type forwardedExchange struct {
	*relay.Far
	key  relayKey
	held quota.Holding
}

// exchangeBytes is what each end of an exchange holds beside the bytes that wait.
const exchangeBytes = 4 << 10

// openExchange begins the exchange of a request. At most about most bytes wait for the other node.
func (d *relays) openExchange(key relayKey, in *Input, most int) *forwardedExchange {
	v := &forwardedExchange{key: key}
	d.node.accounts.reserveAnyway(&v.held, nil, in, quota.Queues, exchangeBytes)
	v.Far = relay.NewFar(key.id, &v.held, most, func(letter []byte) { d.node.fleet.sendLetter(key.from, exchangeFrame, packet(letter)) }, func() {
		d.exchanges.Drop(key, v)
		v.held.Free()
	})
	d.exchanges.Put(key, v)
	return v
}

// receiveExchangeFrame takes what a call of another node does with its exchange.
func (d *relays) receiveExchangeFrame(l *store.Letter) {
	n := d.node
	part, err := relay.ReadFrame(l.Data)
	if err != nil {
		n.fleet.unknown.Add(1)
		return
	}
	switch x, ok := n.relays.proxies.Get(part.ID); {
	case !ok: // it was given up
		n.relays.sendGone(l.From, part.ID, true)
	case x.to != l.From:
		n.fleet.unknown.Add(1)
	default:
		x.TakeFrame(&part)
	}
}

// sendGone tells a node that an exchange with it is over on this side.
func (d *relays) sendGone(to store.Address, id relay.ID, broken bool) {
	d.node.fleet.sendLetter(to, exchangeGone, packet((&relay.Gone{ID: id, Broken: broken}).Append(nil)))
}

// receiveExchangeGone takes the end of an exchange on its other side.
func (d *relays) receiveExchangeGone(l *store.Letter) {
	n := d.node
	g, err := relay.ReadGone(l.Data)
	if err != nil {
		n.fleet.unknown.Add(1)
		return
	}
	if x, ok := n.relays.proxies.Get(g.ID); ok && x.to == l.From {
		x.Break(relay.ErrSilent)
	}
	if v, ok := n.relays.exchanges.Get(relayKey{l.From, g.ID}); !ok {
	} else if g.Broken {
		v.Break()
	} else {
		v.Close()
	}
}

// receiveExchangeAlive takes how far the other sides of exchanges are.
func (d *relays) receiveExchangeAlive(l *store.Letter) {
	n := d.node
	for rest := l.Data; len(rest) > 0; {
		a, more, err := relay.ReadAlive(rest)
		if err != nil {
			n.fleet.unknown.Add(1)
			return
		}
		rest = more
		if x, ok := n.relays.proxies.Get(a.ID); ok && x.to == l.From {
			x.Hear(a.Num)
		} else if v, ok := n.relays.exchanges.Get(relayKey{l.From, a.ID}); ok {
			v.Hear(a.Credit)
		}
	}
}

// onBeat gives up the exchanges whose other side is not heard, and tells the others that this side
// is there. It is called every second, in the heart's turn.
func (d *relays) onBeat(now time.Time) {
	if d.node.fleet.mail == nil {
		return
	}
	d.proxies.Each(func(x *proxy) { x.BreakIfSilent(now) })
	d.exchanges.Each(func(v *forwardedExchange) {
		if v.Silent(now) {
			d.broken.Add(1)
			v.Break()
			d.sendGone(v.key.from, v.key.id, true)
		}
	})
	late := int64(d.node.clock.sinceStart() - relay.Patience)
	d.inbound.Each(func(c *inboundForward) {
		if c.lastLetter.Load() < late {
			c.expireForward()
		}
	})
	if now.Before(d.next) {
		return
	}
	d.next = now.Add(relay.Beat - time.Second/2) // half a second early, for ticks that are not quite a second apart
	letters := make(map[store.Address][]byte)
	say := func(to store.Address, a relay.Alive) {
		b := a.Append(letters[to])
		if len(b) > relay.MaxUpload {
			d.node.fleet.sendLetter(to, exchangeAlive, packet(b))
			b = nil
		}
		letters[to] = b
	}
	d.proxies.Each(func(x *proxy) { say(x.to, x.Alive()) })
	d.exchanges.Each(func(v *forwardedExchange) { say(v.key.from, v.Alive()) })
	for to, b := range letters {
		if len(b) > 0 {
			d.node.fleet.sendLetter(to, exchangeAlive, packet(b))
		}
	}
}

// giveUpProxies ends the exchanges of requests that came here: their clients send them again.
func (d *relays) giveUpProxies() { d.proxies.Each(func(x *proxy) { x.Break(ErrClosing) }) }

// closeExchanges ends what is left.
func (d *relays) closeExchanges() {
	d.giveUpProxies()
	d.exchanges.Each(func(v *forwardedExchange) { v.Break() })
	d.inbound.Each((*inboundForward).expireForward)
}

// cancelRequests ends the requests that came on the connection of s and are on other nodes: that
// with an id, or all if id is nil.
func (d *relays) cancelRequests(s *sessionActor, id []byte) {
	d.proxies.Each(func(x *proxy) {
		if x.sess == s && (id == nil || bytes.Equal(x.name, id)) {
			x.cancel(ErrCancelled)
		}
	})
}

// sealPrincipal returns a principal as its letter has it.
func (d *relays) sealPrincipal(principal any, head *forwardHead) (sealed []byte, err error) {
	plain, err := formOf(principal)
	if err != nil {
		return nil, err
	}
	return d.node.keys.Seal(plain, head.additionalData())
}

// formOf is the form that a principal has on the way to another node.
func formOf(principal any) ([]byte, error) {
	if p, ok := principal.(Carried); ok {
		return p.Carry()
	}
	return codec.Marshal(principal)
}

// forwardMessage forwards a message to the node that has its session's connection, and answers it
// as that does.
func (d *relays) forwardMessage(svc *Service, in *Input, principal any, m *codec.Message, body []byte) {
	n := d.node
	at, id, ok := sessionAt(in.Session)
	if !ok || n.fleet.mail == nil || at == n.fleet.selfAddress() {
		unknownConnection(in.Conn, m.ID)
		return
	}
	if !n.accounts.admitMessage(nil, in, m, len(body)) { // the other node charges it, too
		return
	}
	from, no := n.accounts.enterRequest(nil, in)
	if from == nil {
		n.refusals.refuseRequest(in.Conn, no, m.ID)
		return
	}
	defer n.accounts.LeavePlace(from)
	head := &forwardHead{Tenant: in.Tenant, Address: in.Address, Server: svc.ID, Session: id, Version: in.Version, Stateless: in.Stateless, Trace: in.Trace, Via: in.Via}
	var err error
	if head.Principal, err = d.sealPrincipal(principal, head); err != nil {
		n.log.Warn("principal not forwarded", "error", err)
		refusal.Unavailable.Tell(in.Conn, m.ID)
		return
	}
	wait := svc.Limits.StoreWait
	ctx, cancel := context.WithTimeout(n.base, wait)
	defer cancel()
	ask, stop := context.WithTimeout(ctx, wait/5*4)
	defer stop()
	reply, err := n.fleet.forwardRequest(ask, at, exchangeMessage, relay.NewID(), head, body)
	if err != nil {
		d.refuseLost(ctx, in, m, at, err)
		return
	}
	var said refusal.Refusal
	if reply[0] != isSettled || codec.Unmarshal(reply[1:], &said) != nil {
		refusal.Unavailable.Tell(in.Conn, m.ID)
		return
	}
	if said.Code == 0 {
		in.Conn.Accepted()
		return
	}
	in.Conn.Reject(&said)
}

// refuseLost refuses a message that could not be forwarded to the node with its session: the
// session is gone, or may be.
func (d *relays) refuseLost(ctx context.Context, in *Input, m *codec.Message, at store.Address, err error) {
	n := d.node
	lost := errors.Is(err, errNotHere)
	if !lost {
		select {
		case n.sessions.guesses <- struct{}{}: // the node may be made up
			lost = n.fleet.isNodeLost(ctx, at, err)
			<-n.sessions.guesses
		case <-ctx.Done():
		}
	}
	if lost {
		unknownConnection(in.Conn, m.ID)
		return
	}
	refusal.Unavailable.Tell(in.Conn, m.ID)
}

// proxy is a request that this node has taken and whose call waits on another one. Its goroutine
// does with the client's exchange what the call there does with its own.
type proxy struct {
	*relay.Near
	node   *Node
	to     store.Address
	id     relay.ID
	held   quota.Holding
	conn   Conn
	again  bool          // it may be sent again, whatever became of it
	every  time.Duration // how often its stream gets a comment at least, if it says nothing
	sess   *sessionActor // on whose connection it came; nil over HTTP
	name   []byte        // the request's id, raw
	cancel context.CancelCauseFunc
	client context.Context // done when the client need not be waited for any more
	going  context.Context // done then, too, and when all of the response has come
	stream *liveStream     // nil until the response is a stream

	primes    bool        // the client comes back for a stream that ends early
	resumable atomic.Bool // it has an event by which any node resumes the stream
}

// openProxy begins the exchange of a request with the node that has its call, or may have it. client is done when the client need not be
// waited for any more. The function that it returns ends the exchange on this side.
func (d *relays) openProxy(client context.Context, x *proxy) (end func()) {
	var over context.CancelFunc
	x.client = client
	x.going, over = context.WithCancel(client)
	x.Near = relay.NewNear(x.id, &x.held, func(letter []byte) { d.node.fleet.sendLetter(x.to, exchangeAlive, packet(letter)) }, over)
	d.proxies.Put(x.id, x) // before the request is forwarded, as frames may come before the reply
	return func() {
		d.proxies.Drop(x.id, x)
		over()
		x.held.Free()
	}
}

// forward brings the request to the other node, and does what its call does there until the exchange is over. With an error that has not begun.
func (x *proxy) forward(ctx context.Context, kind string, head *forwardHead, body []byte) error {
	if _, err := x.node.fleet.forwardRequest(ctx, x.to, kind, x.id, head, body); err != nil {
		return err
	}
	x.Hear(0)
	x.proxyCall()
	return nil
}

// passOnProxies ends the streams with which their clients come back at any other node: their calls run on where they are.
func (d *relays) passOnProxies() {
	d.proxies.Each(func(x *proxy) {
		if x.resumable.Load() {
			x.Break(ErrClosing)
		}
	})
}

// proxyCall does what the call does, until the exchange is over.
func (x *proxy) proxyCall() {
	d := &x.node.relays
	for {
		m, err := x.NextMessage(x.client)
		switch {
		case x.client.Err() != nil:
			d.sendGone(x.to, x.id, false)
			return
		case err != nil:
			if !errors.Is(err, ErrClosing) { // which is this node's end
				d.broken.Add(1)
			}
			d.sendGone(x.to, x.id, true)
			x.breakOff()
			return
		case x.applyMessage(&m):
			return
		}
		x.FreeMessage(&m)
	}
}

// breakOff ends the client's exchange, so that it sends the request again, or comes back for the response.
func (x *proxy) breakOff() {
	if x.stream != nil || !x.again {
		x.conn.Cut()
		return
	}
	refusal.Unavailable.Tell(x.conn, x.name)
}

// applyMessage does one thing to the client's exchange. It reports whether that ends it.
func (x *proxy) applyMessage(m *relay.Message) (over bool) {
	switch m.Kind {
	case relay.Open:
		if x.conn.Open() && x.sess == nil { // a connection that carries others is kept open as such
			x.stream = x.node.talking.addStream(x.conn, x.every)
		}
	case relay.Event, relay.Numbered:
		id, retry, data := "", 0, m.Data
		if m.Kind == relay.Numbered {
			id, retry, data = relay.ReadEvent(m.Data)
		}
		x.conn.Event(id, retry, data)
		x.conn.Flush()
		x.resumable.Store(id != "" && x.primes)
		x.stream.noteWritten()
		_ = x.conn.Room(x.going) // an error means that the client is gone, or that it reads too slowly
	case relay.Finish:
		x.conn.Finish()
		return true
	case relay.Answer:
		if m.Status == 202 {
			x.conn.Accepted()
		} else {
			x.conn.Answer(m.Status, m.Data)
		}
		return true
	case relay.Reject:
		var no refusal.Refusal
		if codec.Unmarshal(m.Data, &no) != nil {
			x.breakOff()
			return true
		}
		x.conn.Reject(&no)
		return true
	case relay.Cut:
		x.breakOff()
		return true
	}
	return false
}

// forwardOutcome is what became of a request that was forwarded to another node.
type forwardOutcome uint8

const (
	forwardServed  forwardOutcome = iota // it has its response, or its client is gone
	forwardMissing                       // that node does not have its call, and never will
	forwardSilent                        // that node may have it
)

// Carried is a principal that has a form for the node to which a message of its session is
// forwarded. Other principals go there as JSON. Nothing of it is stored, and nobody outside of the
// fleet can read it.
type Carried interface{ Carry() ([]byte, error) }

// letterConn is the exchange of a message that another node has taken: its response is the reply to
// the letter. Only Reject and Accepted are used: responses go out on the session's connection.
type letterConn struct {
	l      *store.Letter
	status byte // for pushes
}

var _ Conn = (*letterConn)(nil)

func (p *letterConn) Reject(no *refusal.Refusal) {
	data, err := codec.Marshal(no)
	if err != nil { // never: it is plain data
		replyTo(p.l, tryAgain, nil)
		return
	}
	replyTo(p.l, done, append([]byte{isSettled}, data...))
}

func (p *letterConn) Accepted() {
	p.status = done
	p.Reject(&refusal.Refusal{Status: 202}) // without a code it is none
}

func (*letterConn) SetSession(string)          {}
func (*letterConn) Answer(int, []byte) bool    { return false }
func (*letterConn) Open() bool                 { return false }
func (*letterConn) Event(string, int, []byte)  {}
func (*letterConn) Comment()                   {}
func (*letterConn) Flush()                     {}
func (*letterConn) Finish()                    {}
func (*letterConn) Cut()                       {}
func (*letterConn) Room(context.Context) error { return nil }
func (*letterConn) Gone(func())                {}

// nameSessionAt names the session of a connection of a node.
func nameSessionAt(a store.Address, id string) string { return a.Node + "." + a.Boot + "." + id }

// sessionAt returns the node and the id that the name of a session consists of. ok is false for
// what cannot be a name.
func sessionAt(name string) (at store.Address, id string, ok bool) {
	parts := strings.Split(name, ".")
	if len(parts) != 3 || !isName(parts[0]) || !isName(parts[1]) || !stream.ValidID(parts[2]) {
		return at, "", false
	}
	return store.Address{Node: parts[0], Boot: parts[1]}, parts[2], true
}

// isName reports whether s can be the name of a node, or of a boot.
func isName(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return len(s) > 0 && len(s) <= 32
}
