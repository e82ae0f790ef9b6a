package actors

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/actors/internal/mrtr"
	"github.com/troupe-run/troupe/actors/internal/relay"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/kernel"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/internal/refusal"
	"github.com/troupe-run/troupe/internal/store"
)

// The letters about requests that belong to another node; docs/design/015-fleet.md says what repairs the loss of each.
const (
	exchangeRetry   = "exchange.retry"   // a request that is sent again, for the node where its call is parked
	exchangeMessage = "exchange.message" // a message of a session, for the node that has its connection
	exchangeLetter  = "exchange.letter"  // a letter of any size, of the kind that its head names
	exchangePart    = "exchange.part"    // more of the body of one of these
	exchangeFrame   = "exchange.frame"   // what the call does with its exchange
	exchangeAlive   = "exchange.alive"   // both ways: one side is there, and how far it is
	exchangeGone    = "exchange.gone"    // both ways: one side has given the exchange up
)

func init() {
	receivers[exchangeRetry] = receiveForward
	receivers[exchangeMessage] = receiveForward
	receivers[exchangeLetter] = receiveForward
	receivers[exchangePart] = receiveForwardPart
	receivers[exchangeFrame] = receiveExchangeFrame
	receivers[exchangeAlive] = receiveExchangeAlive
	receivers[exchangeGone] = receiveExchangeGone
}

// relays are the exchanges between this node and others: requests that came here and belong there, and the other way
// round. Package actors/internal/relay has the two ends of one.
type relays struct {
	node      *Node
	proxies   *kernel.Directory[relay.ID, *proxy]
	exchanges *kernel.Directory[relayKey, *forwardedExchange]
	inbound   *kernel.Directory[relayKey, *inboundForward]
	forwarded atomic.Int64 // requests that were forwarded to other nodes
	broken    atomic.Int64 // exchanges with other nodes that were given up
	next      time.Time    // when the others hear next that this side is there; belongs to the heart's turn
}

// relayKey names an exchange of a request that another node took.
type relayKey struct {
	from store.Address
	id   relay.ID
}

// initRelays makes the relays of a node.
func (d *relays) initRelays(n *Node) {
	d.node, d.proxies, d.exchanges = n, kernel.NewDirectory[relay.ID, *proxy](), kernel.NewDirectory[relayKey, *forwardedExchange]()
	d.inbound = kernel.NewDirectory[relayKey, *inboundForward]()
}

// forwardHead is what a letter says of a request beside its body.
type forwardHead struct {
	ID      []byte `json:",omitempty"` // raw JSON
	Kind    string `json:",omitempty"` // of the letter that is the body
	Tenant  string
	Address string `json:",omitempty"`
	Server  string

	// The rest is said of a message of a session.
	Session   string `json:",omitempty"`
	Version   string `json:",omitempty"`
	Stateless bool   `json:",omitempty"`
	Trace     Trace  `json:",omitzero"`
	Principal []byte `json:",omitempty"` // sealed
}

// The first byte of the reply to a letter of a request.
const (
	sendMore  byte = iota // the next part may come
	isTaken               // the call was found, and frames follow
	isSettled             // a refusal.Refusal follows, or an acceptance
)

// forwardRequest sends a request to the node that it belongs to, and returns the reply to its last letter. The errors are those of
// fleet.askNode.
func (d *relays) forwardRequest(ctx context.Context, to store.Address, kind string, id relay.ID, head *forwardHead, body []byte) ([]byte, error) {
	said, err := codec.Marshal(head)
	if err != nil || len(said) > relay.MaxHead {
		return nil, fmt.Errorf("actors: a request of %d bytes beside its body does not fit a letter: %w", len(said), store.ErrUnavailable)
	}
	d.forwarded.Add(1)
	at := min(len(body), relay.MaxUpload)
	reply, err := d.node.fleet.askNode(ctx, to, kind, packet((&relay.Begin{ID: id, Size: len(body), Head: said, Data: body[:at]}).Append(nil)))
	for err == nil && at < len(body) && len(reply) == 1 && reply[0] == sendMore {
		end := min(len(body), at+relay.MaxUpload)
		reply, err = d.node.fleet.askNode(ctx, to, exchangePart, packet((&relay.Part{ID: id, Offset: at, Data: body[at:end]}).Append(nil)))
		at = end
	}
	if err == nil && (len(reply) == 0 || reply[0] == sendMore) {
		err = fmt.Errorf("actors: node %s: unreadable reply: %w", to.Node, store.ErrUnavailable)
	}
	return reply, err
}

// noteUnreadable answers and counts a letter that this release cannot read.
func noteUnreadable(l *store.Letter, n *Node) {
	n.fleet.unknown.Add(1)
	replyTo(l, notKnown, nil)
}

// inboundForward is a request of another node, or a letter of any size, whose parts come one after the other.
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
func receiveForward(f *fleet, l *store.Letter) {
	n := f.node
	if l.Kind != exchangeLetter && n.drain.closing.Load() { // what it had is gone
		replyTo(l, notHere, nil)
		return
	}
	b, err := relay.ReadBegin(l.Data)
	c := &inboundForward{node: n, kind: l.Kind, key: relayKey{l.From, b.ID}}
	if err != nil || codec.Unmarshal(b.Head, &c.head) != nil || l.Kind == exchangeLetter && largeLetters[c.head.Kind] == nil {
		noteUnreadable(l, n)
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

// admitForward counts the request on the account of its principal, or refuses it. Of a letter the bytes are counted.
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
	if c.kind != exchangeRetry {
		return &letterConn{l: l}
	}
	replyTo(l, done, []byte{isTaken})
	return c.node.relays.openExchange(c.key, &c.in, 0)
}

// receiveForwardPart takes a later letter of a request.
func receiveForwardPart(f *fleet, l *store.Letter) {
	n := f.node
	p, err := relay.ReadPart(l.Data)
	if err != nil {
		noteUnreadable(l, n)
		return
	}
	c, ok := n.relays.inbound.Get(relayKey{l.From, p.ID})
	if !ok || !c.body.Add(&p) {
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
		c.node.accounts.Leave(c.from)
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
		noteUnreadable(l, c.node)
	case c.kind == exchangeMessage:
		c.takeMessage(l, &m, body)
	case c.kind == exchangeRetry:
		c.takeRetry(l, &m)
	}
}

// largeLetters are what a node does with letters of any size. They reply to each one, and hold what it says no longer than until then.
var largeLetters = map[string]func(*fleet, *store.Letter){
	letterAnswer: (*fleet).receiveAnswer,
	letterPush:   (*fleet).receivePush,
}

// dispatchLetter takes a letter whose parts are all here. l is the last of them: its reply is that to the letter.
func (c *inboundForward) dispatchLetter(l *store.Letter, data []byte) {
	largeLetters[c.head.Kind](&c.node.fleet, &store.Letter{From: l.From, Kind: c.head.Kind, Data: data, Reply: func(reply []byte) {
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
			n.accounts.Leave(c.from)
		}
	}()
	if m.Kind != codec.Request || m.State == nil || !Asks(m.Method) {
		noteUnreadable(l, n)
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
		given, bad = mrtr.Responses(m, st.Asked)
	}
	switch {
	case err != nil:
		badState(v, m.ID)
	case bad != nil:
		badResponses(v, m.ID, bad)
	default:
		x := retriedRequest{roundTrip: &direct{conn: v, over: make(chan struct{})}, id: bytes.Clone(m.ID), token: bytes.Clone(m.ProgressToken), meta: bytes.Clone(m.Meta), from: c.from}
		verdict, outcome := n.mrtr.retryCall(st, x, mrtr.AnswersDigest(m), given)
		switch verdict {
		case retryTaken:
			moved = true
		case retryJoined:
			moved = true
			v.Gone(func() { n.accounts.Leave(c.from) })
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
	n.accounts.Leave(c.from) // a call is counted by itself
	s, ok := n.bound.Get(SessionKey{c.head.Tenant, c.head.Server, c.head.Session})
	if !ok {
		replyTo(l, notHere, nil)
		return
	}
	plain, err := n.mrtr.keys.Open(c.head.Principal, c.head.additionalData())
	if err != nil {
		if !errors.Is(err, store.ErrUnavailable) {
			n.fleet.unknown.Add(1)
		}
		replyTo(l, tryAgain, nil)
		return
	}
	in := c.in
	in.Session, in.Version, in.Trace, in.Stateless = nameSessionAt(n.fleet.selfAddress(), c.head.Session), c.head.Version, c.head.Trace, c.head.Stateless
	from := &letterConn{l: l, status: tryAgain}
	in.Conn = from
	if name, ok := dedupKey(s.sess.key, m, body); ok {
		x, first := n.fleet.forwardedMessages.beginPush(name)
		if !first {
			if x.awaitOutcome() == done {
				from.Accepted()
			}
			replyTo(l, tryAgain, nil) // unless it was answered
			return
		}
		defer func() { n.fleet.forwardedMessages.endPush(name, x, from.status) }()
	}
	svc := s.sess.svc
	var principal any = json.RawMessage(plain)
	if svc.Carried != nil {
		principal, in.Principal = svc.Carried(plain)
	}
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
func receiveExchangeFrame(f *fleet, l *store.Letter) {
	n := f.node
	part, err := relay.ReadFrame(l.Data)
	if err != nil {
		f.unknown.Add(1)
		return
	}
	switch x, ok := n.relays.proxies.Get(part.ID); {
	case !ok: // it was given up
		n.relays.sendGone(l.From, part.ID, true)
	case x.to != l.From:
		f.unknown.Add(1)
	default:
		x.Take(&part)
	}
}

// sendGone tells a node that an exchange with it is over on this side.
func (d *relays) sendGone(to store.Address, id relay.ID, broken bool) {
	d.node.fleet.sendLetter(to, exchangeGone, packet((&relay.Gone{ID: id, Broken: broken}).Append(nil)))
}

// receiveExchangeGone takes the end of an exchange on its other side.
func receiveExchangeGone(f *fleet, l *store.Letter) {
	n := f.node
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
func receiveExchangeAlive(f *fleet, l *store.Letter) {
	n := f.node
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

// onBeat gives up the exchanges whose other side is not heard, and tells the others that this side is there. It is called every
// second, in the heart's turn.
func (d *relays) onBeat(now time.Time) {
	if d.node.fleet.mail == nil {
		return
	}
	d.proxies.Each(func(x *proxy) { x.Check(now) })
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

// cancelRequests ends the requests that came on the connection of s and are on other nodes: that with an id, or all if id is nil.
func (d *relays) cancelRequests(s *sessionActor, id []byte) {
	d.proxies.Each(func(x *proxy) {
		if x.sess == s && (id == nil || bytes.Equal(x.name, id)) {
			x.cancel(ErrCancelled)
		}
	})
}

// sealPrincipal returns a principal as its letter has it.
func (d *relays) sealPrincipal(principal any, head *forwardHead) (sealed []byte, err error) {
	var plain []byte
	if p, ok := principal.(Carried); ok {
		plain, err = p.Carry()
	} else {
		plain, err = codec.Marshal(principal)
	}
	if err != nil {
		return nil, err
	}
	return d.node.mrtr.keys.Seal(plain, head.additionalData())
}

// forwardMessage forwards a message to the node that has its session's connection, and answers it as that does.
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
	defer n.accounts.Leave(from)
	head := &forwardHead{Tenant: in.Tenant, Address: in.Address, Server: svc.ID, Session: id, Version: in.Version, Stateless: in.Stateless, Trace: in.Trace}
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
	reply, err := d.forwardRequest(ask, at, exchangeMessage, relay.NewID(), head, body)
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

// refuseLost refuses a message that could not be forwarded to the node with its session: the session is gone, or may be.
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
