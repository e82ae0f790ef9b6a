package cluster

import (
	"context"
	"errors"
	"fmt"
	"hash"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/troupe-run/troupe/internal/letter"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/store"
)

// maxArrived caps the bytes of letters that wait to be received, for each of the two subjects.
const maxArrived = 64 << 20

// unsubscribeTime bounds how long a process that ends waits for the servers to take that nobody reads its letters any more.
const unsubscribeTime = time.Second

// Mail carries letters between the nodes that share the servers, each at most once: nothing is kept of one that is lost. All methods may be called
// from any goroutine, and none but Ask waits.
//
// Each letter and reply has a MAC by the key ring: one that does not come from a node of this store is dropped, and nobody replies to it. See the package's comment
// for what that covers.
//
// A node takes letters on two subjects, <prefix>.at.<node>.<boot> and <prefix>.all, over a connection of its own, and replies on
// <prefix>.re.>.
type Mail struct {
	node *Members
	self store.Address
	conn *nats.Conn
	mine *nats.Subscription // what is written to this boot
	asks *inbox             // replies that are waited for
	out  *outbox
	hits *limits.Log

	waiting waitingLetters
	aside   sync.WaitGroup // what works on the key ring

	hearts    hearts
	listening atomic.Bool
	says      atomic.Pointer[func() Load]
	turn      sync.Mutex // guards the fields below; held while a letter is received
	receive   func(*store.Letter)
	missed    func(from store.Address)
	replays   *letter.Replays

	counts mailCounts
	stop   chan struct{} // closed to end the goroutine that sends
	done   chan struct{} // closed when it has ended
}

type mailCounts struct{ sent, unsent, received, refused, forged, replayed, gaps atomic.Uint64 }

// MailStats counts since the start of the process, but for Heard.
type MailStats struct {
	Sent     uint64 // letters, hearts and replies that were handed to the connection
	Unsent   uint64 // that could not be
	Received uint64 // letters and hearts of others
	Refused  uint64 // that were malformed, or of another release
	Forged   uint64 // letters and replies without a valid MAC, or whose key is not in the ring
	Replayed uint64 // letters and hearts that had come before
	Gaps     uint64 // times that letters to all of one sender did not come
	Heard    int    // other nodes
}

// newMail connects, and subscribes to what others send. Letters are refused until Listen.
func newMail(ctx context.Context, n *Members, connect func(ctx context.Context, name string, more ...nats.Option) (*nats.Conn, error)) (*Mail, error) {
	m := &Mail{node: n, self: store.Address{Node: n.name, Boot: n.boot}, out: newOutbox(), hits: limits.NewLog(n.log), hearts: hearts{since: time.Now(), heard: make(map[store.Address]*heard)}, replays: letter.NewReplays(maxHeard), stop: make(chan struct{}), done: make(chan struct{})}
	var err error
	if m.conn, err = connect(ctx, n.name+" mail", nats.NoEcho(), nats.CustomInboxPrefix(n.subjectOf("re"))); err != nil {
		return nil, err
	}
	if err := m.subscribeLetters(ctx); err != nil {
		m.conn.Close()
		return nil, err
	}
	return m, nil
}

// subscribeLetters subscribes, and finds out whether the servers permit what mail needs.
func (m *Mail) subscribeLetters(ctx context.Context) (err error) {
	if m.asks, err = newInbox(m.conn, m.isReply); err != nil {
		return err
	}
	m.asks.publish = func(msg *nats.Msg) error { return m.out.queueLetter(msg, letter.To) }
	mine := m.node.subjectOf("at." + m.self.Node + "." + m.self.Boot)
	for _, subject := range []string{mine, m.node.subjectOf("all")} {
		sub, err := m.conn.Subscribe(subject, func(msg *nats.Msg) { m.handleMessage(msg, subject) })
		if subject == mine {
			m.mine = sub
		}
		if err == nil {
			err = sub.SetPendingLimits(maxCalls, maxArrived)
		}
		if err != nil {
			return fmt.Errorf("cluster: subscribe to messages of other nodes: %w", err)
		}
	}
	// Nobody gets these two. A server refuses what it does not permit before its next answer.
	for _, subject := range []string{mine, m.asks.prefix + "none"} {
		if err := m.conn.Publish(subject, nil); err != nil {
			return fmt.Errorf("cluster: send messages to other nodes: %w", err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err = m.conn.FlushWithContext(ctx)
	if refused := m.conn.LastError(); errors.Is(refused, nats.ErrPermissionViolation) {
		return m.node.remoteFault(refused, m.node.permissionAdvice())
	}
	if err != nil {
		return fmt.Errorf("cluster: subscribe to messages of other nodes: %w: %w", store.ErrUnavailable, err)
	}
	return nil
}

// Listen begins to take letters: it calls receive for each, one at a time, from goroutines that receive must not block. missed
// is called when letters to all from a node did not come, and when a node is silent for a lease, or has begun anew, without a goodbye: its last
// ones may not have come. Listen is called once.
func (m *Mail) Listen(receive func(*store.Letter), missed func(from store.Address)) {
	m.turn.Lock()
	m.receive, m.missed = receive, missed
	m.turn.Unlock()
	m.listening.Store(true)
	m.sendHeart(letter.Heart)
}

// handleMessage handles a message that came on one of the node's subjects. Nothing is sent to the address for replies before the MAC has been found right:
// it may be any subject, and this node may publish what the sender may not.
func (m *Mail) handleMessage(msg *nats.Msg, on string) {
	h, data, err := letter.Read(msg.Data)
	if err == nil && h.Form > letter.Bye {
		err = fmt.Errorf("%w: a reply where none is expected", letter.ErrMalformed)
	}
	if err != nil {
		m.counts.refused.Add(1)
		m.hits.LogRarely(slog.LevelWarn, "messages of other nodes cannot be read", slog.Any("error", err))
		return
	}
	if h.Form != letter.To && !m.listening.Load() {
		return
	}
	again := func(msg *nats.Msg) {
		if m.checkMAC(msg, &h, on, nil) {
			m.handleLetter(msg, h, data)
		}
	}
	if m.checkMAC(msg, &h, on, again) {
		m.handleLetter(msg, h, data)
	}
}

// handleLetter handles a letter of another node.
func (m *Mail) handleLetter(msg *nats.Msg, h letter.Head, data []byte) {
	from := store.Address{Node: h.Node, Boot: h.Boot}
	if from == m.self {
		return
	}
	m.turn.Lock()
	defer m.turn.Unlock()
	if !m.replays.First(&h) {
		m.counts.replayed.Add(1)
		m.hits.LogRarely(slog.LevelWarn, "messages of other nodes come more than once", slog.String("from", h.Node))
		return
	}
	if m.receive == nil { // Nobody listens yet, or any more.
		if msg.Reply != "" {
			m.sendAnswer(msg.Reply, letter.Refusal, nil)
		}
		return
	}
	m.counts.received.Add(1)
	if h.Form != letter.To {
		gap, first := m.hearts.hearLetter(from, h, data, time.Now())
		if gap {
			m.counts.gaps.Add(1)
			m.missed(from)
		}
		if first {
			m.sendHeart(letter.Heart) // A node that has just come learns at once who is there.
		}
	}
	if h.Form > letter.All {
		return
	}
	l := &store.Letter{From: from, Kind: h.Kind, Data: data}
	if msg.Reply != "" {
		var once atomic.Bool
		l.Reply = func(data []byte) {
			if !once.Swap(true) {
				m.sendAnswer(msg.Reply, letter.Reply, data)
			}
		}
	}
	m.receive(l)
}

// sendAnswer answers a letter. A reply that is too big becomes a refusal.
func (m *Mail) sendAnswer(subject string, form letter.Form, data []byte) {
	if len(data) > letter.MaxData {
		m.node.log.Error("a reply to another node is too big", "bytes", len(data), "most", letter.MaxData)
		form, data = letter.Refusal, nil
	}
	m.countUnsent(m.out.queueLetter(encodeLetter(m.self, subject, letter.Head{Form: form}, data), form))
}

// encodeLetter makes a letter or a reply of a node, without its MAC.
func encodeLetter(self store.Address, subject string, h letter.Head, data []byte) *nats.Msg {
	h.Node, h.Boot = self.Node, self.Boot
	return &nats.Msg{Subject: subject, Data: letter.Append(make([]byte, 0, letter.MaxHead+len(data)), h, data)}
}

// isReply reports whether a message is a reply of another node that can be read now.
func (m *Mail) isReply(msg *nats.Msg) bool {
	h, _, err := letter.Read(msg.Data)
	if err != nil || h.Form < letter.Reply {
		m.counts.refused.Add(1)
		m.hits.LogRarely(slog.LevelWarn, "replies of other nodes cannot be read", slog.Any("error", err))
		return false
	}
	return m.checkMAC(msg, &h, msg.Subject, func(msg *nats.Msg) {
		if m.checkMAC(msg, &h, msg.Subject, nil) {
			m.asks.handleAnswer(msg, false)
		}
	})
}

// composeLetter makes a letter. ErrTooBig: it does not fit.
func (m *Mail) composeLetter(subject string, form letter.Form, kind string, data []byte) (*nats.Msg, error) {
	h := letter.Head{Form: form, Kind: kind, Node: m.self.Node, Boot: m.self.Boot} // whose names Check needs
	if len(data) > letter.MaxData {
		return nil, fmt.Errorf("%w: a message %s of %d bytes, at most %d can be sent", store.ErrTooBig, kind, len(data), letter.MaxData)
	}
	if err := h.Check(); err != nil {
		return nil, err
	}
	return encodeLetter(m.self, m.node.subjectOf(subject), h, data), nil
}

// addressSubject returns the subject of a boot. The address may come from a client, and then be anything.
func addressSubject(to store.Address) (string, error) {
	if !validName(to.Node) || !validName(to.Boot) {
		return "", fmt.Errorf("%w: no node has such a name", store.ErrNobody)
	}
	return "at." + to.Node + "." + to.Boot, nil
}

// Ask sends a letter to a node and returns the reply. ErrNobody: it was not delivered, as nobody takes the letters of that boot. ErrTooBig: it was not
// sent. ErrUnavailable says that both are unknown. It takes 5 s at most.
func (m *Mail) Ask(ctx context.Context, to store.Address, kind string, data []byte) ([]byte, error) {
	subject, err := addressSubject(to)
	var msg, reply *nats.Msg
	if err == nil {
		msg, err = m.composeLetter(subject, letter.To, kind, data)
	}
	if err == nil {
		reply, err = m.asks.askAndWait(ctx, msg)
	}
	var h letter.Head
	if err == nil {
		h, data, err = letter.Read(reply.Data)
	}
	switch {
	case errors.Is(err, errNoResponders):
		err = store.ErrNobody
	case err == nil && h.Form != letter.Reply:
		err = fmt.Errorf("%w: it cannot take the message", store.ErrUnavailable)
	}
	if err != nil {
		return nil, fmt.Errorf("cluster: ask node %.32q: %w", to.Node, err)
	}
	return data, nil
}

// Send sends a letter to a node.
func (m *Mail) Send(to store.Address, kind string, data []byte) {
	subject, err := addressSubject(to)
	if err != nil {
		return
	}
	msg, err := m.composeLetter(subject, letter.To, kind, data)
	if err == nil {
		err = m.out.queueLetter(msg, letter.To)
	}
	m.countUnsent(err)
}

// Tell sends a letter to all other nodes.
func (m *Mail) Tell(kind string, data []byte) {
	msg, err := m.composeLetter("all", letter.All, kind, data)
	if err != nil {
		m.out.skipNumber()
	} else {
		err = m.out.queueLetter(msg, letter.All)
	}
	m.countUnsent(err)
}

// Says has each heart say what f returns. f must not block, and must not use the Mail.
func (m *Mail) Says(f func() Load) { m.says.Store(&f) }

// sendHeart tells all that this node is there, or leaves.
func (m *Mail) sendHeart(f letter.Form) {
	l := m.node.lease
	l.mu.Lock()
	b := beat{entry: l.entry.First, serves: l.serves, programs: l.programs}
	l.mu.Unlock()
	b.age = uint64(max(l.renewalAge(), 0) / time.Millisecond)
	if says := m.says.Load(); says != nil {
		load := (*says)()
		b.load = &load
	}
	msg, err := m.composeLetter("all", f, "", b.encode())
	if err == nil {
		err = m.out.queueLetter(msg, f)
	}
	m.countUnsent(err)
}

// countUnsent counts a message that is not sent.
func (m *Mail) countUnsent(err error) {
	if err == nil || errors.Is(err, store.ErrClosed) {
		return
	}
	m.counts.unsent.Add(1)
	if !errors.Is(err, nats.ErrReconnectBufExceeded) { // The loss of the connection is logged.
		m.hits.LogRarely(slog.LevelWarn, "messages to other nodes are not sent", slog.Any("error", err))
	}
}

// sendQueued sends what is queued, and hearts, until stop is closed.
func (m *Mail) sendQueued() {
	defer close(m.done)
	tick := time.NewTicker(heartEvery)
	defer tick.Stop()
	for {
		select {
		case <-m.stop:
			m.publishQueued()
			return
		case <-tick.C:
			if m.listening.Load() {
				m.sendHeart(letter.Heart)
				m.reportSilent()
				if m.node.keyring.isKeyDue() { // A node that seals nothing needs the next key for its letters.
					m.aside.Go(func() { _, _ = m.node.keyring.readKeys(true) }) // It is tried again.
				}
			}
		case <-m.out.ready:
		}
		m.publishQueued()
	}
}

// reportSilent takes what nodes that have fallen silent may have told last for missed.
func (m *Mail) reportSilent() {
	dead := m.hearts.takeSilent(m.node.opts.Lease, time.Now())
	if len(dead) == 0 {
		return
	}
	m.turn.Lock()
	defer m.turn.Unlock()
	for _, p := range dead {
		if m.receive != nil {
			m.counts.gaps.Add(1)
			m.missed(p)
		}
	}
}

func (m *Mail) publishQueued() {
	for _, msg := range m.out.takeLetters() {
		err := m.addMAC(msg)
		if err == nil {
			err = m.conn.PublishMsg(msg)
		}
		if err != nil {
			m.countUnsent(err)
			m.asks.refuseCall(msg.Reply, fmt.Errorf("%w: %w", store.ErrUnavailable, err)) // Its caller need not wait.
			continue
		}
		m.counts.sent.Add(1)
	}
}

// addMAC adds the MAC to a letter or a reply.
func (m *Mail) addMAC(msg *nats.Msg) error {
	epoch, key, ok := m.node.keyring.signingKey()
	if !ok {
		return errors.New("there is no key for messages")
	}
	key.withMAC(func(mac hash.Hash) { msg.Data = letter.Seal(msg.Data, epoch, mac, msg.Subject, msg.Reply) })
	return nil
}

// Others are the other nodes that were heard within the lease, and have not said goodbye.
func (m *Mail) Others() []store.Address {
	return m.hearts.otherNodes(m.self.Node, m.node.opts.Lease, time.Now())
}

// Gone is Node.Gone.
func (m *Mail) Gone(ctx context.Context, p store.Address) (bool, error) { return m.node.Gone(ctx, p) }

// Heard reports whether a boot has been heard, however long ago, and has not said goodbye. A name that was made up was not.
func (m *Mail) Heard(p store.Address) bool { return m.hearts.hasHeard(p) }

// Steady is Node.Steady.
func (m *Mail) Steady() bool { return m.node.Steady() }

// Stats returns the counts, which are 0 without mail.
func (m *Mail) Stats() MailStats {
	if m == nil {
		return MailStats{}
	}
	c := &m.counts
	return MailStats{Sent: c.sent.Load(), Unsent: c.unsent.Load(), Received: c.received.Load(), Refused: c.refused.Load(), Forged: c.forged.Load(), Replayed: c.replayed.Load(), Gaps: c.gaps.Load(), Heard: len(m.Others())}
}

// close says goodbye, ends what is waited for, and returns when no letter is being received any more.
func (m *Mail) close(running bool) {
	if m.listening.Load() {
		m.sendHeart(letter.Bye)
	}
	unsubscribe(m.conn, m.mine)
	m.out.close()
	if running {
		close(m.stop)
		<-m.done
	}
	m.asks.close()
	m.conn.Close() // sends what is buffered
	m.turn.Lock()
	defer m.turn.Unlock()
	m.receive = nil
}

// unsubscribe has whoever writes what sub is of learn from now on that nobody is there: without it, what comes to the server before it has noticed the end of
// the connection would be lost, and its sender could not know whether it was read. It returns once all that came before is read, or when that takes too long.
func unsubscribe(conn *nats.Conn, sub *nats.Subscription) {
	if !conn.IsConnected() {
		return
	}
	over := make(chan struct{})
	sub.SetClosedHandler(func(string) { close(over) })
	if sub.Drain() != nil {
		return
	}
	late := time.NewTimer(unsubscribeTime)
	defer late.Stop()
	select {
	case <-over:
	case <-late.C:
	}
}

// checkMAC reports whether a letter has a valid MAC for the subject that it came on. One whose key is not known yet is given to again once the key ring was
// read; without again there is no second time. With again it returns no sooner than those before it are read: the connection keeps what comes meanwhile,
// and drops what is too much of that.
func (m *Mail) checkMAC(msg *nats.Msg, h *letter.Head, on string, again func(*nats.Msg)) (ok bool) {
	ring := m.node.keyring
	key, known := ring.keyOf(h.Epoch)
	if known {
		key.withMAC(func(mac hash.Hash) { ok = letter.Sealed(msg.Data, mac, on, msg.Reply) })
	}
	switch {
	case again == nil:
	case ok:
		m.waiting.waitUntilRead()
	case !known && h.Epoch > ring.newestEpoch():
		kept, begin := m.waiting.keepLetter(waitingLetter{msg, again}, time.Now())
		if begin {
			m.aside.Go(m.readRing)
		}
		if kept {
			return false
		}
	}
	if !ok {
		m.counts.forged.Add(1)
		m.hits.LogRarely(slog.LevelWarn, "messages that no other node has sent are dropped: somebody else may publish to the subjects of the nodes", slog.String("says_from", h.Node))
	}
	return ok
}

// readRing reads the key ring, and then the letters that wait for it.
func (m *Mail) readRing() {
	ring := m.node.keyring
	before := ring.newestEpoch()
	joined, err := ring.readKeys(false)
	if joined && err == nil { // It may have begun before the key was made.
		_, err = ring.readKeys(false)
	}
	if err != nil {
		m.hits.LogRarely(slog.LevelWarn, "the key of messages from other nodes cannot be read", slog.Any("error", err))
	}
	defer m.waiting.endReading()
	for _, l := range m.waiting.takeLetters(ring.newestEpoch() > before, time.Now()) {
		l.again(l.msg)
	}
}
