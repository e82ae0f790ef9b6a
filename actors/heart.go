package actors

import (
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/kernel"
	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/mcp"
)

// heart is the node's actor: it sends pings, has comments sent on silent streams, and has
// due writer records stored.
type heart struct {
	kernel.Actor
	node    *Node
	pingers map[pinged]*pinger
	ticks   uint64
	lease   leaseWatch
	usage   usageReports
	rolled  time.Time // when the kernel last forgot how deep mailboxes were
}

type tick struct{}

// rollEvery is how often the depth of mailboxes is begun to be looked at anew.
const rollEvery = 10 * time.Second

func (h *heart) Receive(m any) {
	n := h.node
	if _, ok := m.(tick); !ok || n.drain.closing.Load() {
		return
	}
	now := time.Now()
	streams := n.streams.attachments.Snapshot()
	var links []*boundConn
	n.bound.Each(func(l *boundConn) { links = append(links, l) })
	h.pingAll(streams, links, now)
	// A connection that fails must not cost the others their comments, nor end the node.
	for _, a := range streams {
		h.Contain(a.EndIfExpired)
		h.Contain(func() { a.Comment(now) })
	}
	for _, l := range links {
		if momentPassed(l.until, now) {
			h.Contain(func() { sessionEnd{l.sess}.endSession() })
			continue
		}
		h.Contain(func() { l.commentIfSilent(now, l.sess.svc.Limits.KeepAlive) })
	}
	n.listeners.endListeners(tokenExpired, func(l *listenActor) bool { return momentPassed(l.until, now) })
	for _, s := range n.talking.silentStreams(now) {
		h.Contain(s.sendComment)
	}
	n.mrtr.outcomes.Expire(now)
	n.accounts.DropStale(now)
	n.cache.Expire(now)
	jumped, running := n.clock.hasJumped(), int64(n.clock.sinceStart())
	jumped = h.lease.cameBack(&n.site, now) || jumped
	n.streams.Each(func(s *streamActor) {
		if d := s.due.Load(); d != 0 && (jumped || running > d) {
			_ = s.Post(refresh{})
		}
	})
	if now.Sub(h.rolled) >= rollEvery {
		h.rolled = now
		n.k.Roll()
	}
	if h.lease.noteLapse(&n.site) {
		h.letGo(streams)
	}
	if n.fleet.mail != nil {
		n.readers.pruneSilent(now)
		n.readings.askWriters(now)
		h.usage.broadcastUsage()
	}
	n.relays.onBeat(now)
	n.timer.Reset(time.Second)
}

// letGo ends connections of clients that can go on elsewhere, where the node's lease has been over
// for long: another node may have what they wait for, and this one hears nothing of it. A call that
// its client could not come back for keeps its connection: closing it would be a cancel, or lose
// the response.
func (h *heart) letGo(streams []*attached) {
	n := h.node
	n.log.Warn("this node has no lease: clients that can come back are sent to other nodes", "streams", len(streams), "listeners", n.listeners.Len())
	for _, a := range streams {
		h.Contain(a.Release)
	}
	n.listeners.endListeners("this node has lost its store: listen again", func(l *listenActor) bool { return l.sess == nil })
}

func (h *heart) Failed(any, bool) { h.node.timer.Reset(time.Second) }

// maxUnanswered is how many pings in a row a client may leave unanswered.
const maxUnanswered = 2

// pinging decides when to ping the client of one connection, and when the client counts as
// gone. The zero value is a connection that has just begun.
type pinging struct {
	last   time.Time // of the last ping, or the beginning
	open   bool      // the last ping has no answer yet
	missed int       // earlier pings without an answer, in a row
}

type pingAction uint8

const (
	pingNothing pingAction = iota
	pingNow
	pingGone // close the connection
)

// nextAction is called at intervals; answered says that the last ping has its answer.
func (p *pinging) nextAction(now time.Time, every time.Duration, answered bool) pingAction {
	if answered {
		p.open, p.missed = false, 0
	}
	switch {
	case p.last.IsZero():
		p.last = now
		return pingNothing
	case now.Sub(p.last) < every:
		return pingNothing
	case p.open:
		p.missed++
	}
	if p.missed == maxUnanswered {
		return pingGone
	}
	p.last, p.open = now, true
	return pingNow
}

// pinger is pinging with the open question. It belongs to the heart's turn.
type pinger struct {
	pinging
	asked *pendingRequest
	tick  uint64 // the heart's tick that last found the connection
}

// pinged is a connection whose client can be pinged.
type pinged interface {
	// SendUnstored sends a message that is not stored, if there is room.
	SendUnstored(data []byte, now time.Time)
	// Finish closes the connection.
	Finish()
}

// pingClient pings the client of a connection of session s when that is due. It belongs to the
// heart's turn.
func (h *heart) pingClient(c pinged, s *sessionActor, now time.Time) {
	n, p := h.node, h.pingers[c]
	if p == nil {
		if h.pingers == nil {
			h.pingers = make(map[pinged]*pinger)
		}
		p = new(pinger)
		h.pingers[c] = p
	}
	p.tick = h.ticks
	answered := false
	if p.asked != nil {
		select {
		case <-p.asked.ch:
			answered, p.asked = true, nil
		default:
		}
	}
	switch p.nextAction(now, s.svc.Limits.PingEvery, answered) {
	case pingNow:
		h.forgetPing(p)
		p.asked = n.pending.openPing(s.key)
		c.SendUnstored(codec.AppendRequest(nil, []byte(p.asked.id), mcp.MethodPing, nil), now)
	case pingGone:
		n.lostPings.Add(1)
		n.log.Info("client does not answer pings", "session", s.key.ID)
		c.Finish()
	}
}

func (h *heart) forgetPing(p *pinger) {
	if p.asked != nil {
		h.node.pending.closeQuestion(p.asked)
		p.asked = nil
	}
}

// pingAll pings the clients of standalone streams and of bound sessions. It belongs to the
// heart's turn.
func (h *heart) pingAll(streams []*attached, links []*boundConn, now time.Time) {
	n := h.node
	h.ticks++
	for _, a := range streams {
		if s, ok := n.sessions.Get(a.Key.Session); ok && s.svc.Limits.PingEvery > 0 && s.view.Load().rec.Standalone == a.Key.ID {
			h.Contain(func() { h.pingClient(a, s, now) })
		}
	}
	for _, l := range links {
		if s := l.sess; s.svc.Limits.PingEvery > 0 && s.view.Load().rec.Revision != "" {
			h.Contain(func() { h.pingClient(boundPing{l}, s, now) })
		}
	}
	for c, p := range h.pingers {
		if p.tick != h.ticks { // its connection is gone
			h.forgetPing(p)
			delete(h.pingers, c)
		}
	}
}

// boundPing is the connection of a bound session.
type boundPing struct{ l *boundConn }

func (p boundPing) SendUnstored(data []byte, _ time.Time) {
	if !p.l.isFull() {
		p.l.sendData(data)
	}
}

func (p boundPing) Finish() { p.l.endForGood(false) }

// maxBeatDelay is how much later than planned a beat of the heart may come before the process
// counts as one that stood still.
const maxBeatDelay = 2 * time.Second

// leaseWatch is what the heart knows of the node's lease.
type leaseWatch struct {
	beaten time.Time // when the heart last beat
	away   bool      // the lease was over, or the process stood still
	lapsed bool      // the lease has been over for so long that clients were let go
}

// cameBack reports whether the node is back after a time in which others may have taken over what
// it writes: its lease was over, or the process stood still. Its streams must look then whether
// they are still its own: an idle one would not find out. It belongs to the heart's turn.
func (w *leaseWatch) cameBack(n *site, now time.Time) bool {
	if n.fleet.mail == nil {
		return false
	}
	suspended := n.store.Suspended()
	w.away = w.away || suspended || !w.beaten.IsZero() && now.Sub(w.beaten) > time.Second+maxBeatDelay
	w.beaten = now
	if !w.away || suspended {
		return false
	}
	w.away = false
	n.expireViews()
	return true
}

// noteLapse reports that the lease has been over for as long as it lasts, once in each outage. It
// belongs to the heart's turn.
func (w *leaseWatch) noteLapse(n *site) bool {
	was := w.lapsed
	w.lapsed = n.fleet.mail != nil && n.store.Lapsed()
	return w.lapsed && !was
}

// usageReports are the letters of usage that the heart sends.
type usageReports struct {
	*site
	sent uint64 // letters so far
	used bool   // the last one said something
}

// broadcastUsage tells the other nodes what clients use of this one, if it is worth mention, and
// once when it is no more. It belongs to the heart's turn.
func (u *usageReports) broadcastUsage() {
	all := u.accounts.ReportShares()
	if len(all) == 0 && !u.used || len(u.fleet.mail.Others()) == 0 {
		return
	}
	u.sent++
	u.used = len(all) > 0
	u.fleet.broadcastLetter(letterUsage, usageLetter{u.sent, all})
}

// receiveUsage takes what clients use of another node.
func (u *usageReports) receiveUsage(l *store.Letter) {
	var m usageLetter
	if u.fleet.readLetter(l, &m) {
		u.accounts.HearShares(time.Now(), l.From.Node+"/"+l.From.Boot, m.Num, m.All)
	}
}

// letterUsage says, each second, what clients use of a node: what they may have of the others is as
// much less.
const letterUsage = "usage"

type usageLetter struct {
	Num uint64 // rises
	All []quota.Share
}

func (usageLetter) short() {}
