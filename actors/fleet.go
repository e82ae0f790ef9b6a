package actors

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/actors/internal/mrtr"
	"github.com/troupe-run/troupe/actors/internal/record"
	"github.com/troupe-run/troupe/actors/internal/relay"
	"github.com/troupe-run/troupe/actors/internal/session"
	"github.com/troupe-run/troupe/actors/internal/takeover"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/letter"
	"github.com/troupe-run/troupe/internal/pulse"
	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/mcp"
)

// fleet is this node among the others that share its store. Without mail the node is alone: then
// every other boot that is named in a record is dead.
type fleet struct {
	mail     store.Mail    // nil: alone
	self     store.Address // the node's own
	accounts *accounts     // count letters of any size
	sureFor  time.Duration // for how long a stream that was written here is certainly this node's, while the lease is
	marks    marks         // boots that are gone

	// receivers are what the node does with the letters of each kind, and large with those of any
	// size. They are filled before the first letter comes. They run on the goroutine that receives,
	// and must not block: runAside is for what waits. Those in large reply to each letter, and hold
	// what it says no longer than until then.
	receivers, large map[string]func(*store.Letter)

	working   atomic.Int64 // letters that are worked on beside the goroutines that receive
	unknown   atomic.Int64 // letters that this release does not know, or cannot read
	forwarded atomic.Int64 // requests that were forwarded to other nodes

	looking     chan struct{} // one for each session whose record is read without a request: maxLooks
	lettersLost atomic.Int64  // when messages were lost last, by clock.sinceStart: what was read of a record before may have changed since
	pulse       *pulse.Pulse  // the process stood still, which is as if messages were lost; nil: alone
}

// maxLooks bounds the records that are read without a request.
const maxLooks = 16

// selfAddress is the node's own address.
func (f *fleet) selfAddress() store.Address { return f.self }

// receiveLetter handles a letter.
func (f *fleet) receiveLetter(l *store.Letter) {
	do, known := f.receivers[l.Kind]
	if !known {
		f.unknown.Add(1)
		replyTo(l, notKnown, nil)
		return
	}
	do(l)
}

// The first byte of each reply.
const (
	done     byte = iota // what follows is the reply
	notHere              // what the letter is for is not on this node, which gives it up
	tryAgain             // not now
	notKnown             // the node's release does not know such letters
)

// replyTo answers a letter, if its sender waits for that.
func replyTo(l *store.Letter, status byte, data []byte) {
	if l.Reply != nil {
		l.Reply(append([]byte{status}, data...))
		l.Reply = nil
	}
}

// readLetter decodes what a letter says. If that is not possible, the letter is answered and
// counted, and read reports false.
func (f *fleet) readLetter(l *store.Letter, v any) bool {
	if err := codec.Unmarshal(l.Data, v); err != nil {
		f.unknown.Add(1)
		replyTo(l, notKnown, nil)
		return false
	}
	return true
}

// errNotHere reports that a node does not have what it was asked for, and will not have it without
// taking it over.
var errNotHere = errors.New("actors: not on that node")

// errNotKnown reports that a node's release does not know letters of a kind, or cannot read this
// one.
var errNotKnown = fmt.Errorf("actors: its release does not know such letters: %w", store.ErrUnavailable)

// errBigHead reports that what is to be said of a request beside its body does not fit a letter, so that none was sent.
var errBigHead = fmt.Errorf("actors: a request does not fit a letter: %w", store.ErrUnavailable)

// errNotNow reports that a node has done nothing about a letter, and may later.
var errNotNow = fmt.Errorf("it cannot tell: %w", store.ErrUnavailable)

// short is a letter that one message of the mail has room for, whatever it says: each of its parts
// has a bound. What a client or a handler has said has none, and goes by deliverLetter.
// TestLargestLetters sends the largest of each kind.
type short interface{ short() }

// packet is a short letter in a form of its own: of at most relay.MaxHead and relay.MaxUpload
// bytes, or a frame of a stream.
type packet []byte

func (packet) short() {}

// letterOf is what a letter says.
func letterOf(v short) ([]byte, error) {
	if raw, ok := v.(packet); ok {
		return raw, nil
	}
	return encodeLetter(v)
}

func encodeLetter(v any) ([]byte, error) {
	data, err := codec.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("actors: letter: %w", err)
	}
	return data, nil
}

// askNode sends a letter and returns the reply. The errors are errNotHere, ErrNobody and
// ErrUnavailable, wrapped; the last one also means that the outcome is unknown.
func (f *fleet) askNode(ctx context.Context, to store.Address, kind string, v short) ([]byte, error) {
	data, err := letterOf(v)
	if err != nil {
		return nil, err
	}
	reply, err := f.mail.Ask(ctx, to, kind, data)
	switch {
	case err != nil:
		return nil, fmt.Errorf("actors: ask node %s: %w", to.Node, err)
	case len(reply) > 0 && reply[0] == notKnown:
		return nil, fmt.Errorf("actors: node %s: %w", to.Node, errNotKnown)
	case len(reply) == 0 || reply[0] >= tryAgain:
		return nil, fmt.Errorf("actors: node %s: %w", to.Node, errNotNow)
	case reply[0] == notHere:
		return nil, errNotHere
	}
	return reply[1:], nil
}

// deliverLetter sends a letter of any size on behalf of a session: in parts, which are counted for
// its principal here and there. The errors are those of askNode.
func (f *fleet) deliverLetter(ctx context.Context, key SessionKey, by payer, to store.Address, kind string, v any) error {
	data, err := encodeLetter(v)
	if err != nil {
		return err
	}
	from := by.billedAccount()
	var held quota.Holding
	for !held.ChargeAnyway(f.accounts.Accounts, from, quota.Bodies, int64(len(data))) {
		from = by.billedAccount()
	}
	defer held.Free()
	head := &forwardHead{Tenant: key.Tenant, Address: from.NetworkAddress(), Server: key.Server, Kind: kind}
	reply, err := f.forwardRequest(ctx, to, exchangeLetter, relay.NewID(), head, data)
	switch {
	case errors.Is(err, errNotKnown) && len(data) <= letter.MaxData: // the release before takes it as one message
		_, err = f.askNode(ctx, to, kind, packet(data))
	case err == nil && reply[0] != isTaken:
		err = fmt.Errorf("actors: node %s has no room for a letter of %d bytes: %w", to.Node, len(data), store.ErrUnavailable)
	}
	return err
}

// sendLetter sends a letter to a node, and does not wait.
func (f *fleet) sendLetter(to store.Address, kind string, v short) {
	if data, err := letterOf(v); err == nil {
		f.mail.Send(to, kind, data)
	}
}

// broadcastLetter sends a letter to all other nodes, if there are any.
func (f *fleet) broadcastLetter(kind string, v short) {
	if f.mail == nil {
		return
	}
	if data, err := letterOf(v); err == nil {
		f.mail.Tell(kind, data)
	}
}

// maxAside bounds what letters have a node do at the same time beside the goroutine that receives
// them.
const maxAside = 256

// runAside runs what waits for something on behalf of a letter. If too much of that runs, the
// letter is answered with tryAgain.
func (f *fleet) runAside(l *store.Letter, do func()) {
	if f.working.Add(1) > maxAside {
		f.working.Add(-1)
		replyTo(l, tryAgain, nil)
		return
	}
	go func() {
		defer f.working.Add(-1)
		do()
	}()
}

// marks are the boots of which this node has noted that they are gone, so that a thousand takeovers
// note it once.
type marks struct {
	turn chan struct{}        // one at a time
	at   map[string]time.Time // by boot
}

const (
	// takenFor is for how long at least it is noted that a boot is gone: for longer than its calls
	// may run and their records live.
	takenFor = 24 * time.Hour
	// remarkAfter is after what time it is noted anew: the boot may have been back meanwhile, and
	// have begun other calls.
	remarkAfter = time.Minute
)

// markGone notes that a boot is gone, unless that was noted a moment ago. longest is how long calls
// may run, and their records live.
func (k *marks) markGone(ctx context.Context, of store.Lease, boot string, longest time.Duration) error {
	select {
	case k.turn <- struct{}{}:
		defer func() { <-k.turn }()
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", store.ErrUnavailable, context.Cause(ctx))
	}
	now := time.Now()
	maps.DeleteFunc(k.at, func(_ string, at time.Time) bool { return now.Sub(at) > remarkAfter })
	if _, marked := k.at[boot]; marked {
		return nil
	}
	if err := of.MarkTaken(ctx, boot, max(takenFor, longest)+remarkAfter); err != nil {
		return fmt.Errorf("actors: note that a node is gone: %w: %w", store.ErrUnavailable, err)
	}
	k.at[boot] = now
	return nil
}

// isNodeLost reports whether what a boot has is lost with it, after a letter to it failed with err:
// it has said so, or it is gone. False means that it may still have it.
func (f *fleet) isNodeLost(ctx context.Context, at store.Address, err error) bool {
	if errors.Is(err, errNotHere) {
		return true
	}
	gone, err := f.mail.Gone(ctx, at)
	return err == nil && gone
}

// knowsOthers reports whether what this node does not find in the store is not there: before it has
// been steady for a while, others may have been away as it was, and be about to store it again.
func (f *fleet) knowsOthers() bool { return f.mail == nil || f.mail.Steady() }

// writerGone reports whether a writer is dead.
func (f *fleet) writerGone(ctx context.Context, w takeover.Writer) (bool, error) {
	gone, err := f.mail.Gone(ctx, store.Address{Node: w.Node, Boot: w.Boot})
	if err != nil {
		err = fmt.Errorf("actors: is node %s gone: %w", w.Node, err)
	}
	return gone, err
}

// parkedAt returns where the call waits that a state names, and whether that is another boot than
// this one.
func (f *fleet) parkedAt(st *mrtr.State) (at store.Address, other bool) {
	at = store.Address{Node: st.Node, Boot: st.Boot}
	return at, f.mail != nil && at.Boot != "" && at != f.selfAddress()
}

// The letters about sessions.
const (
	letterSessionChanged = "session.changed"
	letterSessionEnded   = "session.ended"
	letterCancel         = "cancel"
)

// sessionLetter is what a letter says of a session.
type sessionLetter struct {
	Session SessionKey
	Rev     uint64         `json:",omitempty"` // of the record that was written
	Old     string         `json:",omitempty"` // a stream that is the standalone stream no more
	Anchor  session.Anchor `json:",omitzero"`  // of a session that has ended, or has moved
	Expired bool           `json:",omitempty"` // the session has ended by its own clock
	Forget  bool           `json:",omitempty"` // the answers that calls share are not right any more
	Change  uint64         `json:",omitempty"` // what makes them wrong; 0 if nothing says it
}

func (sessionLetter) short() {}

// cancelLetter says that a client has cancelled a call that does not run where the cancel arrived.
type cancelLetter struct {
	Session SessionKey
	Request string // its id, raw
	Reason  string `json:",omitempty"`
}

func (cancelLetter) short() {}

// askOthers tells all other nodes what they must know of a session before its client hears of it,
// and returns when each has said that it does, or after knownWait. Who has not heard of it by then
// stands still, and notices that when it goes on (internal/pulse); or letters to it are lost, and
// the number of one to all shows it: there must be one beside these, after them where what they
// make known is to be known first.
func (f *fleet) askOthers(ctx context.Context, kind string, m *sessionLetter) {
	if f.mail == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, knownWait)
	defer cancel()
	var all sync.WaitGroup
	for _, to := range f.mail.Others() {
		all.Go(func() { _, _ = f.askNode(ctx, to, kind, m) })
	}
	all.Wait()
}

// broadcastChange makes a change of a session's record known. A change of its level or its
// subscriptions holds at all nodes when it returns, as askOthers says: who writes the standalone
// stream has read it then. Values are asked for where they are wanted.
func (f *fleet) broadcastChange(ctx context.Context, key SessionKey, was, now *session.Record, rev uint64) {
	if f.mail == nil || !needsBroadcast(was, now) {
		return
	}
	m := &sessionLetter{Session: key, Rev: rev}
	if was.Anchor != now.Anchor {
		m.Anchor = was.Anchor
	}
	if was.Level != now.Level || !slices.Equal(was.Subscribed, now.Subscribed) {
		f.askOthers(ctx, letterSessionChanged, m)
	}
	f.broadcastLetter(letterSessionChanged, m)
}

// broadcastForget has the other nodes forget what the calls of a session share. The two letters may
// come in any order.
func (f *fleet) broadcastForget(ctx context.Context, key SessionKey) {
	m := &sessionLetter{Session: key, Forget: true, Change: rand.Uint64()}
	f.broadcastLetter(letterSessionChanged, m)
	f.askOthers(ctx, letterSessionChanged, m)
}

// broadcastEnd tells the other nodes that a session has ended, which had the record. They know it
// when it returns, as askOthers says, unless it has expired: each finds that out by itself.
func (f *fleet) broadcastEnd(ctx context.Context, key SessionKey, rec *session.Record, expired bool) {
	m := &sessionLetter{Session: key, Old: rec.Standalone, Anchor: rec.Anchor, Expired: expired}
	if f.broadcastLetter(letterSessionEnded, m); !expired {
		f.askOthers(ctx, letterSessionEnded, m)
	}
}

// broadcastCancel tells the other nodes that a client has cancelled a call.
func (f *fleet) broadcastCancel(key SessionKey, id, reason string) {
	f.broadcastLetter(letterCancel, cancelLetter{key, id, reason})
}

// forwardHead is what a letter says of a request beside its body.
type forwardHead struct {
	ID      []byte `json:",omitempty"` // raw JSON
	Kind    string `json:",omitempty"` // of the letter that is the body
	Tenant  string
	Address string `json:",omitempty"`
	Server  string
	Trace   Trace `json:",omitzero"`

	// The rest is said of a message of a session.
	Session   string `json:",omitempty"`
	Version   string `json:",omitempty"`
	Stateless bool   `json:",omitempty"`
	Via       Via    `json:",omitzero"`
	Principal []byte `json:",omitempty"` // sealed
}

// additionalData binds a principal to the message that it came with.
func (h *forwardHead) additionalData() []byte {
	return []byte("message\x00" + h.Tenant + "\x00" + h.Server + "\x00" + h.Session)
}

// The first byte of the reply to a letter of a request.
const (
	sendMore  byte = iota // the next part may come
	isTaken               // the call was found, and frames follow
	isSettled             // a refusal.Refusal follows, or an acceptance
)

// The letters about requests that belong to another node; docs/design/015-fleet.md says what
// repairs the loss of each.
const (
	exchangeRetry   = "exchange.retry"   // a request that is sent again, for the node where its call is parked
	exchangeMessage = "exchange.message" // a message of a session, for the node that has its connection
	exchangeCall    = "exchange.call"    // a message of a session, for the node where that is anchored
	exchangeLetter  = "exchange.letter"  // a letter of any size, of the kind that its head names
	exchangePart    = "exchange.part"    // more of the body of one of these
	exchangeFrame   = "exchange.frame"   // what the call does with its exchange
	exchangeAlive   = "exchange.alive"   // both ways: one side is there, and how far it is
	exchangeGone    = "exchange.gone"    // both ways: one side has given the exchange up
)

// forwardRequest sends a request to the node that it belongs to, and returns the reply to its last
// letter. The errors are those of fleet.askNode.
func (f *fleet) forwardRequest(ctx context.Context, to store.Address, kind string, id relay.ID, head *forwardHead, body []byte) ([]byte, error) {
	said, err := codec.Marshal(head)
	if err != nil || len(said) > relay.MaxHead {
		return nil, fmt.Errorf("%w: it has %d bytes beside its body", errBigHead, len(said))
	}
	f.forwarded.Add(1)
	at := min(len(body), relay.MaxUpload)
	reply, err := f.askNode(ctx, to, kind, packet((&relay.Begin{ID: id, Size: len(body), Head: said, Data: body[:at]}).Append(nil)))
	for err == nil && at < len(body) && len(reply) == 1 && reply[0] == sendMore {
		end := min(len(body), at+relay.MaxUpload)
		reply, err = f.askNode(ctx, to, exchangePart, packet((&relay.Part{ID: id, Offset: at, Data: body[at:end]}).Append(nil)))
		at = end
	}
	if err == nil && (len(reply) == 0 || reply[0] == sendMore) {
		err = fmt.Errorf("actors: node %s: unreadable reply: %w", to.Node, store.ErrUnavailable)
	}
	return reply, err
}

// maxPushed is how many messages a node remembers that others have sent to its sessions.
const maxPushed = 4096

// pushes are the messages that other nodes have sent lately to the sessions of this node, by sender
// and name, or that they have forwarded from the clients of these, by session and content. A message
// to a session goes to the node that writes its standalone stream. Its sender asks again until that
// node has stored it, or is gone and has been replaced: so each message has a name, by which its
// writer knows it, and this one, if it has forgotten it, or the next one finds it in the log.
type pushes struct {
	life time.Duration // after which a message is another one though its name is the same; 0: never

	mu    sync.Mutex // guards the rest
	all   map[string]*pushed
	order []string
	n     uint64 // messages that this node has named
}

// nameMessage returns the meta of a message that goes to another node: its own, or one that names
// it.
func (d *pushes) nameMessage(boot string, meta []byte) []byte {
	if len(meta) > 0 { // a question has an id
		return meta
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.n++
	return record.AppendPush(nil, boot+"."+strconv.FormatUint(d.n, 36))
}

// beginPush enters a message. first is false if it has come before.
func (d *pushes) beginPush(key string) (x *pushed, first bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if x := d.findPush(key); x != nil {
		return x, false
	}
	if d.all == nil {
		d.all = make(map[string]*pushed)
	}
	if len(d.order) == maxPushed {
		delete(d.all, d.order[0])
		d.order = d.order[1:]
	}
	x = &pushed{over: make(chan struct{}), since: time.Now()}
	d.all[key] = x
	d.order = append(d.order, key)
	return x, true
}

// findPush returns a message that has come before, nil if it has not. The lock is held.
func (d *pushes) findPush(key string) *pushed {
	if x := d.all[key]; x != nil && (d.life == 0 || time.Since(x.since) < d.life) {
		return x
	}
	return nil
}

// endPush notes what became of a message. One that is not stored may come again.
func (d *pushes) endPush(key string, x *pushed, status byte) {
	d.mu.Lock()
	if status != done && d.all[key] == x {
		delete(d.all, key)
	}
	d.mu.Unlock()
	x.status = status
	close(x.over)
}

// findEarlier returns a message of a client that was forwarded a moment ago, nil if there is none.
func (d *pushes) findEarlier(key SessionKey, m *codec.Message, body []byte) *pushed {
	d.mu.Lock()
	none := len(d.all) == 0
	d.mu.Unlock()
	if none { // and nothing to compare with
		return nil
	}
	name, ok := dedupKey(key, m, body)
	if !ok {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.findPush(name)
}

// pushed is one of them.
type pushed struct {
	over   chan struct{} // closed when the outcome is known
	status byte
	since  time.Time
}

// awaitOutcome returns what became of a message: tryAgain if that is not known soon.
func (x *pushed) awaitOutcome() (status byte) {
	patience := time.NewTimer(pushWait)
	defer patience.Stop()
	select {
	case <-x.over:
		return x.status
	case <-patience.C:
		return tryAgain
	}
}

// pushWait is how long a message may take to be stored before its sender is told to ask again.
const pushWait = 4 * time.Second

// repeatedFor is how long a client may send a message again that another node has forwarded to the
// one with its connection: it does so where it was not told that the message was taken. After that
// it has another one with the same content.
const repeatedFor = 30 * time.Second

// dedupKey reports whether a message of a client must not be taken twice, and how it is known then.
func dedupKey(key SessionKey, m *codec.Message, body []byte) (name string, ok bool) {
	if m.Kind != codec.Batch && (m.Kind != codec.Request || string(m.Method) == mcp.MethodPing) {
		return "", false
	}
	sum := sha256.Sum256(body)
	return key.recordKey() + " " + string(sum[:]), true
}

// knownWait is how long a client waits at most until the other nodes know of a change of its
// session.
const knownWait = time.Second

// mostReason bounds the reason of a cancel that is kept, or that other nodes are told.
const mostReason = 1 << 10

// needsBroadcast reports whether a change of a record is of interest elsewhere. A confirmed digest
// is not: whoever begins the next standalone stream has the newest record then.
func needsBroadcast(was, now *session.Record) bool {
	return was.Level != now.Level || was.Standalone != now.Standalone || was.Anchor != now.Anchor || !slices.Equal(was.Subscribed, now.Subscribed) ||
		!maps.EqualFunc(was.Values, now.Values, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) })
}
