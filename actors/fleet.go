package actors

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/actors/internal/attachment"
	"github.com/troupe-run/troupe/actors/internal/mrtr"
	"github.com/troupe-run/troupe/actors/internal/relay"
	"github.com/troupe-run/troupe/actors/internal/session"
	"github.com/troupe-run/troupe/actors/internal/stream"
	"github.com/troupe-run/troupe/actors/internal/takeover"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/letter"
	"github.com/troupe-run/troupe/internal/pulse"
	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/internal/store"
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

func (packet) short()      {}
func (usageLetter) short() {}

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

// receiveFrame takes what has happened to a stream that a client reads here.
func (f *fleet) receiveFrame(l *store.Letter) {
	var id, from, num uint64
	data := l.Data
	if len(data) == 0 {
		f.unknown.Add(1)
		return
	}
	what := data[0]
	data = data[1:]
	for _, p := range [...]*uint64{&id, &from, &num} {
		v, k := binary.Uvarint(data)
		if k <= 0 {
			f.unknown.Add(1)
			return
		}
		*p, data = v, data[k:]
	}
	x := f.readings.get(id)
	if x == nil || x.at != l.From {
		return
	}
	att := x.r.att
	switch what {
	case framed:
		var reader stream.Reader
		a, ok, err := reader.Add(num, data)
		if err != nil || !ok {
			f.unknown.Add(1)
			att.Tail(num) // the log has it
			return
		}
		x.noteHeard()
		att.Frame(attachment.Frame{From: from, Append: a})
		x.sendCredit(f, attachment.Size(&a))
		if a.Last {
			f.readings.dropReading(x)
		}
	case tailed:
		x.noteHeard()
		att.Tail(num)
	case finished:
		f.readings.dropReading(x)
		att.Finish()
	case polled:
		f.readings.dropReading(x)
		att.Poll()
	case cutLoose:
		f.readings.dropReading(x)
		att.Cut()
	case passedOn:
		f.readings.dropReading(x)
		x.r.followAgain()
	default: // of a newer release: the writer says the same when it is asked
		f.unknown.Add(1)
	}
}

// askWriter asks one node for the streams of readers.
func (f *fleet) askWriter(at store.Address, all []*reading) {
	ctx, cancel := context.WithTimeout(f.node.base, 2*askEvery)
	defer cancel()
	data := make([]byte, 0, 4*len(all))
	for _, x := range all {
		data = binary.AppendUvarint(data, x.id)
	}
	reply, err := f.askNode(ctx, at, letterAlive, packet(data))
	if err != nil {
		f.handleSilentWriter(at, all)
		return
	}
	for _, x := range all {
		tail, k := binary.Uvarint(reply)
		if k <= 0 {
			f.unknown.Add(1)
			return
		}
		reply = reply[k:]
		if f.readings.get(x.id) != x {
			continue
		}
		if tail == 0 { // the writer does not know the reader
			f.readings.dropReading(x)
			x.r.followAgain()
			continue
		}
		x.noteHeard()
		x.r.att.Tail(tail - 1)
	}
}

// handleSilentWriter deals with readers whose writer does not answer: their clients get no more comments, and if its node is gone, they
// read on from whoever has the stream then.
func (f *fleet) handleSilentWriter(at store.Address, all []*reading) {
	ctx, cancel := context.WithTimeout(f.node.base, 2*askEvery) // the question to a silent node has used up its own time
	defer cancel()
	gone, err := f.mail.Gone(ctx, at)
	now := time.Now()
	for _, x := range all {
		switch {
		case err == nil && gone:
			f.readings.dropReading(x)
			x.r.followAgain()
		default:
			x.mu.Lock()
			hush := now.Sub(x.lastHeard) > hushAfter
			x.mu.Unlock()
			if hush {
				x.r.att.Hush(true)
			}
		}
	}
	if err == nil && !gone {
		f.readings.askSoon()
	}
}

// receiveAnswer takes a client's answer that came to another node.
func (f *fleet) receiveAnswer(l *store.Letter) {
	n := f.node
	var a answerLetter
	if !readLetter(l, n, &a) {
		return
	}
	m := &codec.Message{Kind: codec.Result, ID: a.ID, Result: a.Result, Err: a.Err}
	if len(a.Err) > 0 {
		m.Kind = codec.ErrorResponse
	}
	f.runAside(l, func() {
		there := a.Stream.ID == ""
		w, here := n.streams.Current(a.Stream) // a takeover enters the questions before its stream is found
		open, err := n.pending.giveAnswer(a.Stream.Session, m)
		if err == nil && !open && here && !w.Stopped() {
			ctx, cancel := context.WithTimeout(n.base, w.svc.Limits.StoreWait)
			there, err = n.streams.stillWrites(ctx, w)
			cancel()
		}
		switch {
		case err != nil:
			replyTo(l, tryAgain, nil)
		case !open && !there:
			replyTo(l, notHere, nil)
		default: // taken, or nobody needs it any more
			replyTo(l, done, nil)
		}
	})
}

// addReader makes a reader of another node.
func (f *fleet) addReader(at readerKey, key StreamKey) *remoteReader {
	r := &remoteReader{at: at, fleet: f, stream: key, lastHeard: time.Now()}
	f.readers.mu.Lock()
	defer f.readers.mu.Unlock()
	if f.readers.all == nil {
		f.readers.all = make(map[readerKey]*remoteReader)
	}
	f.readers.all[at] = r
	return r
}

// receiveLook tells another node how far a stream has got that is written here, and for stream.attach makes a connection there its live one.
func (f *fleet) receiveLook(l *store.Letter) {
	n := f.node
	var m streamLetter
	if !readLetter(l, n, &m) {
		return
	}
	f.runAside(l, func() {
		at, err := f.attachReader(l, m)
		switch {
		case errors.Is(err, errNotHere):
			replyTo(l, notHere, nil)
		case err != nil:
			n.log.Debug("stream not attached", "stream", m.Stream.ID, "node", l.From.Node, "error", err)
			replyTo(l, tryAgain, nil)
		default:
			data, _ := letterOf(extentLetter{at.tail, at.bytes, at.watermarks})
			replyTo(l, done, data)
		}
	})
}

// attachReader carries out a letter stream.look or stream.attach.
func (f *fleet) attachReader(l *store.Letter, m streamLetter) (extent, error) {
	n := f.node
	w, here := n.streams.Current(m.Stream)
	if !here {
		return extent{}, errNotHere
	}
	if <-w.ready; w.Stopped() {
		return extent{}, errNotHere
	}
	ask := &attach{}
	if l.Kind == letterAttach {
		ctx, cancel := context.WithTimeout(n.base, w.svc.Limits.StoreWait)
		defer cancel()
		s, err := n.sessions.loadSession(ctx, w.svc, m.Stream.Session, nil) // it hears of what the client subscribes to
		if errors.Is(err, store.ErrNotFound) || errors.Is(err, ErrUnmounted) {
			return extent{}, errNotHere
		}
		if err != nil {
			return extent{}, err
		}
		ask.att, ask.sess = f.addReader(readerKey{l.From, m.Reader}, m.Stream), s
	}
	at, err := ask.askStream(w)
	if err != nil {
		if r, ok := ask.att.(*remoteReader); ok {
			r.removeReader()
		}
		return at, errNotHere
	}
	if s := ask.sess; s != nil && s.isCurrent(m.Stream.ID) && s.missed.Swap(false) {
		go w.svc.Handler.Opened(s.peer, true)
	}
	return at, nil
}

// receiveCredit takes the credit of a reader on another node.
func (f *fleet) receiveCredit(l *store.Letter) {
	id, k := binary.Uvarint(l.Data)
	if k <= 0 {
		f.unknown.Add(1)
		return
	}
	bytes, j := binary.Uvarint(l.Data[k:])
	if j <= 0 || len(l.Data) != k+j+1 || bytes > attachment.MaxFrame*2 {
		f.unknown.Add(1)
		return
	}
	r := f.readers.get(readerKey{l.From, id})
	switch {
	case r == nil:
	case l.Data[k+j] == 1:
		r.removeReader()
	default:
		r.takeCredit(int(bytes))
	}
}

// receiveAlive tells another node how far the streams of its readers are: for each reader the last append and one, 0 if it is not known here.
func (f *fleet) receiveAlive(l *store.Letter) {
	now := time.Now()
	var reply []byte
	for data := l.Data; len(data) > 0; {
		id, k := binary.Uvarint(data)
		if k <= 0 {
			f.unknown.Add(1)
			replyTo(l, notKnown, nil)
			return
		}
		data = data[k:]
		if r := f.readers.get(readerKey{l.From, id}); r != nil {
			reply = binary.AppendUvarint(reply, r.noteAsked(now)+1)
		} else {
			reply = append(reply, 0)
		}
	}
	replyTo(l, done, reply)
}

// isNodeLost reports whether what a boot has is lost with it, after a letter to it failed with err: it has said so, or it is gone. False means
// that it may still have it.
func (f *fleet) isNodeLost(ctx context.Context, at store.Address, err error) bool {
	if errors.Is(err, errNotHere) {
		return true
	}
	gone, err := f.mail.Gone(ctx, at)
	return err == nil && gone
}

// writerGone reports whether a writer is dead.
func (f *fleet) writerGone(ctx context.Context, w takeover.Writer) (bool, error) {
	gone, err := f.mail.Gone(ctx, store.Address{Node: w.Node, Boot: w.Boot})
	if err != nil {
		err = fmt.Errorf("actors: is node %s gone: %w", w.Node, err)
	}
	return gone, err
}

// parkedAt returns where the call waits that a state names, and whether that is another boot than this one.
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

func init() {
	receivers[letterSessionChanged] = (*fleet).receiveChanged
	receivers[letterSessionEnded] = (*fleet).receiveEnded
	receivers[letterCancel] = (*fleet).receiveCancel
}

// sessionLetter is what a letter says of a session.
type sessionLetter struct {
	Session SessionKey
	Rev     uint64 `json:",omitempty"` // of the record that was written
	Old     string `json:",omitempty"` // a stream that is the standalone stream no more
	Expired bool   `json:",omitempty"` // the session has ended by its own clock
	Forget  bool   `json:",omitempty"` // the answers that calls share are not right any more
	Change  uint64 `json:",omitempty"` // what makes them wrong; 0 if nothing says it
}

func (sessionLetter) short() {}

// cancelLetter says that a client has cancelled a call that does not run where the cancel arrived.
type cancelLetter struct {
	Session SessionKey
	Request string // its id, raw
	Reason  string `json:",omitempty"`
}

func (cancelLetter) short() {}

// askOthers tells all other nodes what they must know of a session before its client hears of it, and returns when each has
// said that it does, or after knownWait. Who has not heard of it by then stands still, and notices that when it goes on (internal/pulse); or letters to it
// are lost, and the number of one to all shows it: there must be one beside these, after them where what they make known is to be known first.
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

// broadcastChange makes a change of a session's record known. A change of its level or its subscriptions holds at all nodes when it
// returns, as askOthers says: who writes the standalone stream has read it then. Values are asked for where they are wanted.
func (f *fleet) broadcastChange(ctx context.Context, key SessionKey, was, now *session.Record, rev uint64) {
	if f.mail == nil || !needsBroadcast(was, now) {
		return
	}
	m := &sessionLetter{Session: key, Rev: rev}
	if was.Level != now.Level || !slices.Equal(was.Subscribed, now.Subscribed) {
		f.askOthers(ctx, letterSessionChanged, m)
	}
	f.broadcastLetter(letterSessionChanged, m)
}

// broadcastForget has the other nodes forget what the calls of a session share. The two letters may come in any order.
func (f *fleet) broadcastForget(ctx context.Context, key SessionKey) {
	m := &sessionLetter{Session: key, Forget: true, Change: rand.Uint64()}
	f.broadcastLetter(letterSessionChanged, m)
	f.askOthers(ctx, letterSessionChanged, m)
}

// endReplaced has the node that writes a standalone stream end it: another one is the session's now. It must be called before
// the stream's record is removed, which says which node that is.
func (f *fleet) endReplaced(key StreamKey) {
	if f.mail == nil {
		return
	}
	ctx, cancel := context.WithTimeout(f.node.base, knownWait)
	defer cancel()
	rec, _, err := f.node.streams.readWriter(ctx, key)
	if writer := (store.Address{Node: rec.Node, Boot: rec.Boot}); err == nil && writer != f.selfAddress() {
		f.sendLetter(writer, letterSessionChanged, sessionLetter{Session: key.Session, Old: key.ID})
	}
}

// receiveChanged takes the news that a session has changed. Who asks waits until it holds here.
func (f *fleet) receiveChanged(l *store.Letter) {
	n := f.node
	var m sessionLetter
	if !readLetter(l, n, &m) {
		return
	}
	key := m.Session
	if st, ok := n.streams.Get(StreamKey{key, m.Old}); ok && len(st.rec.Calls) == 0 {
		_ = st.Post(endStream{})
	}
	begins := n.sessions.Begins(key) // first: what begins later reads the new record
	s, here := n.sessions.Get(key)
	if here && m.Forget {
		s.sharedAnswer().forgetAnswer(m.Change)
	}
	// An update of a resource may come next, which the client has subscribed to by then: who writes its stream must have read that.
	reads := here && l.Reply != nil && s.view.Load().rev < m.Rev && s.writesStandalone()
	if !begins && !reads {
		if here {
			s.noteRevision(m.Rev)
		}
		replyTo(l, done, nil)
		return
	}
	f.runAside(l, func() {
		s, ok := n.sessions.Current(key)
		switch {
		case !ok:
		case !reads:
			s.noteRevision(m.Rev)
		default:
			if err := s.catchUpTo(m.Rev); err != nil && !errors.Is(err, store.ErrNotFound) {
				s.noteRevision(m.Rev)
				replyTo(l, tryAgain, nil)
				return
			}
		}
		replyTo(l, done, nil)
	})
}

// broadcastEnd tells the other nodes that a session has ended, which had the record. They know it when it returns, as askOthers says, unless it
// has expired: each finds that out by itself.
func (f *fleet) broadcastEnd(ctx context.Context, key SessionKey, rec *session.Record, expired bool) {
	m := &sessionLetter{Session: key, Old: rec.Standalone, Expired: expired}
	if f.broadcastLetter(letterSessionEnded, m); !expired {
		f.askOthers(ctx, letterSessionEnded, m)
	}
}

// receiveEnded takes the news that a session has ended. Clocks differ: a node judges by itself whether a session has
// expired.
func (f *fleet) receiveEnded(l *store.Letter) {
	n := f.node
	var m sessionLetter
	if !readLetter(l, n, &m) {
		return
	}
	key := m.Session
	if st, ok := n.streams.Get(StreamKey{key, m.Old}); ok && !m.Expired { // its session may not be in memory
		st.endStream()
	}
	begins := n.sessions.Begins(key) // first, as in receiveChanged
	s, here := n.sessions.Get(key)
	if !here && !begins {
		replyTo(l, done, nil)
		return
	}
	if here {
		s.asOf.Store(doubted) // should there be no place to end it now
	}
	f.runAside(l, func() { // it goes through all streams
		switch s, ok := n.sessions.Current(key); {
		case ok && m.Expired:
			_ = s.Post(idleTick{})
		case ok:
			s.endWithoutRecord()
		}
		replyTo(l, done, nil)
	})
}

// broadcastCancel tells the other nodes that a client has cancelled a call.
func (f *fleet) broadcastCancel(key SessionKey, id, reason string) {
	if len(id) > maxToken { // no call has such an id
		return
	}
	if len(reason) > mostReason {
		reason = strings.ToValidUTF8(reason[:mostReason], "")
	}
	f.broadcastLetter(letterCancel, cancelLetter{key, id, reason})
}

// receiveCancel cancels a call that runs here.
func (f *fleet) receiveCancel(l *store.Letter) {
	var m cancelLetter
	if !readLetter(l, f.node, &m) {
		return
	}
	if s, ok := f.node.sessions.Get(m.Session); ok {
		_ = s.Post(&cancelCall{id: m.Request, reason: m.Reason, acked: func(error) {}})
	}
}
