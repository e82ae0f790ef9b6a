package actors

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/letter"
	"github.com/troupe-run/troupe/internal/pulse"
	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/internal/record"
	"github.com/troupe-run/troupe/internal/relay"
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/internal/stream"
	"github.com/troupe-run/troupe/mcp"
)

// fleet is this node among the others that share its store. Without mail the node is alone: then every other boot that is
// named in a record is dead.
type fleet struct {
	node              *Node
	mail              store.Mail    // nil: alone
	sureFor           time.Duration // for how long a stream that was written here is certainly this node's, while the lease is
	readers           remoteReaders // connections of other nodes, of streams that are written here
	marks             marks         // boots that are gone
	readings          readings      // connections here, of streams that other nodes write
	beaten            time.Time     // when the heart last beat; this and away belong to its turn
	away              bool          // the lease was over, or the process stood still
	lapsed            bool          // the lease has been over for so long that clients were let go
	pushes            pushes        // messages of other nodes to the sessions of this one
	forwardedMessages pushes        // messages of clients that other nodes have forwarded to this one
	working           atomic.Int64  // letters that are worked on beside the goroutines that receive
	unknown           atomic.Int64  // letters that this release does not know, or cannot read

	looking     chan struct{} // one for each session whose record is read without a request: maxLooks
	lettersLost atomic.Int64  // when messages were lost last, by clock.sinceStart: what was read of a record before may have changed since
	pulse       *pulse.Pulse  // the process stood still, which is as if messages were lost; nil: alone

	news        News // nil: nobody wants it
	sentUpdates sentUpdates
	repetition  repetition

	usages uint64 // letters of usage so far; this and used belong to the heart's turn
	used   bool   // the last one said something
}

// maxLooks bounds the records that are read without a request.
const maxLooks = 16

// selfAddress is the node's own address.
func (f *fleet) selfAddress() store.Address {
	return store.Address{Node: f.node.name, Boot: f.node.boot}
}

// receivers are what a node does with the letters of each kind. They run on the goroutine that receives, and must not block;
// aside is for what waits.
var receivers = map[string]func(*fleet, *store.Letter){}

// receiveLetter handles a letter.
func (f *fleet) receiveLetter(l *store.Letter) {
	do, known := receivers[l.Kind]
	if !known {
		f.unknown.Add(1)
		replyTo(l, notKnown, nil)
		return
	}
	do(f, l)
}

// maxBeatDelay is how much later than planned a beat of the heart may come before the process counts as one that stood still.
const maxBeatDelay = 2 * time.Second

// cameBack reports whether the node is back after a time in which others may have taken over what it writes: its lease was over, or
// the process stood still. Its streams must look then whether they are still its own: an idle one would not find out. It belongs to
// the heart's turn.
func (f *fleet) cameBack(now time.Time) bool {
	if f.mail == nil {
		return false
	}
	suspended := f.node.store.Suspended()
	f.away = f.away || suspended || !f.beaten.IsZero() && now.Sub(f.beaten) > time.Second+maxBeatDelay
	f.beaten = now
	if !f.away || suspended {
		return false
	}
	f.away = false
	f.expireViews()
	return true
}

// noteLapse reports that the lease has been over for as long as it lasts, once in each outage. It belongs to the heart's turn.
func (f *fleet) noteLapse() bool {
	was := f.lapsed
	f.lapsed = f.mail != nil && f.node.store.Lapsed()
	return f.lapsed && !was
}

// onBeat is called every second. It belongs to the heart's turn.
func (f *fleet) onBeat(now time.Time) {
	if f.mail != nil {
		f.readers.pruneSilent(now)
		f.readings.askWriters(f, now)
		f.broadcastUsage()
	}
}

// letterUsage says, each second, what clients use of a node: what they may have of the others is as much less.
const letterUsage = "usage"

func init() { receivers[letterUsage] = (*fleet).receiveUsage }

type usageLetter struct {
	Num uint64 // rises
	All []quota.Share
}

// broadcastUsage tells the other nodes what clients use of this one, if it is worth mention, and once when it is no more. It belongs to the heart's turn.
func (f *fleet) broadcastUsage() {
	all := f.node.accounts.Report()
	if len(all) == 0 && !f.used || len(f.mail.Others()) == 0 {
		return
	}
	f.usages++
	f.used = len(all) > 0
	f.broadcastLetter(letterUsage, usageLetter{f.usages, all})
}

func (f *fleet) receiveUsage(l *store.Letter) {
	var u usageLetter
	if readLetter(l, f.node, &u) {
		f.node.accounts.Hear(time.Now(), l.From.Node+"/"+l.From.Boot, u.Num, u.All)
	}
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

// readLetter decodes what a letter says. If that is not possible, the letter is answered and counted, and read reports false.
func readLetter(l *store.Letter, n *Node, v any) bool {
	if err := codec.Unmarshal(l.Data, v); err != nil {
		n.fleet.unknown.Add(1)
		replyTo(l, notKnown, nil)
		return false
	}
	return true
}

// errNotHere reports that a node does not have what it was asked for, and will not have it without taking it over.
var errNotHere = errors.New("actors: not on that node")

// errNotKnown reports that a node's release does not know letters of a kind, or cannot read this one.
var errNotKnown = fmt.Errorf("actors: its release does not know such letters: %w", store.ErrUnavailable)

// short is a letter that one message of the mail has room for, whatever it says: each of its parts has a bound. What a client or a
// handler has said has none, and goes by deliverLetter. TestLargestLetters sends the largest of each kind.
type short interface{ short() }

// packet is a short letter in a form of its own: of at most relay.MaxHead and relay.MaxUpload bytes, or a frame of a stream.
type packet []byte

func (packet) short()        {}
func (usageLetter) short()   {}
func (streamLetter) short()  {}
func (extentLetter) short()  {}
func (updatedLetter) short() {}
func (listsLetter) short()   {}
func (*TaskChange) short()   {}

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

// askNode sends a letter and returns the reply. The errors are errNotHere, ErrNobody and ErrUnavailable, wrapped; the last one also
// means that the outcome is unknown.
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
		return nil, fmt.Errorf("actors: node %s cannot tell: %w", to.Node, store.ErrUnavailable)
	case reply[0] == notHere:
		return nil, errNotHere
	}
	return reply[1:], nil
}

// deliverLetter sends a letter of any size on behalf of a session: in parts, which are counted for its principal here and there. The errors are
// those of askNode.
func (f *fleet) deliverLetter(ctx context.Context, s *sessionActor, to store.Address, kind string, v any) error {
	data, err := encodeLetter(v)
	if err != nil {
		return err
	}
	from := s.billedAccount()
	var held quota.Holding
	for !held.ChargeAnyway(f.node.accounts.Accounts, from, quota.Bodies, int64(len(data))) {
		from = s.billedAccount()
	}
	defer held.Free()
	head := &forwardHead{Tenant: s.key.Tenant, Address: from.From(), Server: s.key.Server, Kind: kind}
	reply, err := f.node.relays.forwardRequest(ctx, to, exchangeLetter, relay.NewID(), head, data)
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

// maxAside bounds what letters have a node do at the same time beside the goroutine that receives them.
const maxAside = 256

// runAside runs what waits for something on behalf of a letter. If too much of that runs, the letter is answered with tryAgain.
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

// marks are the boots of which this node has noted that they are gone, so that a thousand takeovers note it once.
type marks struct {
	turn chan struct{}        // one at a time
	at   map[string]time.Time // by boot
}

const (
	// takenFor is for how long at least it is noted that a boot is gone: for longer than its calls may run and their records live.
	takenFor = 24 * time.Hour
	// remarkAfter is after what time it is noted anew: the boot may have been back meanwhile, and have begun other calls.
	remarkAfter = time.Minute
)

// markGone notes that a boot is gone, unless that was noted a moment ago. longest is how long calls may run, and their records live.
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

// A message to a session goes to the node that writes its standalone stream. Its sender asks again until that node has stored it, or
// is gone and has been replaced: so each message has a name, by which its writer, and the next one, know it.

// letterPush stores an entry on a stream.
const letterPush = "stream.push"

func init() { receivers[letterPush] = (*fleet).receivePush }

// pushLetter is an entry for a session's standalone stream.
type pushLetter struct {
	Stream StreamKey
	Kind   stream.Kind
	Meta   []byte // its name
	Data   json.RawMessage
}

// maxPushed is how many messages a node remembers that others have sent to its sessions.
const maxPushed = 4096

// pushes are the messages that other nodes have sent lately to the sessions of this node, by sender and name, or that they have forwarded
// from the clients of these, by session and content.
type pushes struct {
	life time.Duration // after which a message is another one though its name is the same; 0: never

	mu    sync.Mutex // guards the rest
	all   map[string]*pushed
	order []string
	n     uint64 // messages that this node has named
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

// nameMessage returns the meta of a message that goes to another node: its own, or one that names it.
func (d *pushes) nameMessage(n *Node, meta []byte) []byte {
	if len(meta) > 0 { // a question has an id
		return meta
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.n++
	return record.AppendPush(nil, n.boot+"."+strconv.FormatUint(d.n, 36))
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

// receivePush stores an entry of another node on a stream that is written here.
func (f *fleet) receivePush(l *store.Letter) {
	var m pushLetter
	if !readLetter(l, f.node, &m) {
		return
	}
	key := l.From.Boot + " " + m.Stream.streamPath() + " " + string(m.Meta)
	f.runAside(l, func() {
		x, first := f.pushes.beginPush(key)
		if first {
			f.storePush(&m, func(status byte) { f.pushes.endPush(key, x, status) })
		}
		replyTo(l, x.awaitOutcome(), nil)
	})
}

// pushWait is how long a message may take to be stored before its sender is told to ask again.
const pushWait = 4 * time.Second

// storePush stores an entry of another node, and tells once what became of it.
func (f *fleet) storePush(m *pushLetter, tell func(status byte)) {
	w, here := f.node.streams.Current(m.Stream)
	switch {
	case !here || w.Stopped():
		tell(notHere)
		return
	case w.pushed[string(m.Meta)]:
		tell(done)
		return
	}
	push := &pushEntries{entries: []stream.Entry{{Kind: m.Kind, Meta: m.Meta, Data: m.Data, Acked: func(err error) {
		switch {
		case err == nil:
			tell(done)
		case w.Stopped():
			tell(notHere)
		default:
			tell(tryAgain)
		}
	}}}, ofSession: true}
	if err := w.Post(push); err != nil {
		push.Refused(err)
	}
}

// repeatedFor is how long a client may send a message again that another node has forwarded to the one with its connection: it does so
// where it was not told that the message was taken. After that it has another one with the same content.
const repeatedFor = 30 * time.Second

// dedupKey reports whether a message of a client must not be taken twice, and how it is known then.
func dedupKey(key SessionKey, m *codec.Message, body []byte) (name string, ok bool) {
	if m.Kind != codec.Batch && (m.Kind != codec.Request || string(m.Method) == mcp.MethodPing) {
		return "", false
	}
	sum := sha256.Sum256(body)
	return key.recordKey() + " " + string(sum[:]), true
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
