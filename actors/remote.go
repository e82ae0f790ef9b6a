package actors

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/actors/internal/attachment"
	"github.com/troupe-run/troupe/actors/internal/record"
	"github.com/troupe-run/troupe/actors/internal/stream"
	"github.com/troupe-run/troupe/actors/internal/takeover"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/store"
)

// The letters about streams; docs/design/015-fleet.md says what repairs the loss of each.
const (
	letterLook   = "stream.look"
	letterAttach = "stream.attach"
	letterFrame  = "stream.frame"
	letterCredit = "stream.credit"
	letterAlive  = "stream.alive"
)

// streamWriter is who writes a stream: an actor of this node, or another node.
type streamWriter interface {
	// readExtent returns how far the stream has got.
	readExtent(ctx context.Context) (extent, error)
	// attachReplay makes the connection of r the stream's only live one.
	attachReplay(ctx context.Context, r *replay) (extent, error)
}

var (
	_ streamWriter = localWriter{}
	_ streamWriter = (*remoteWriter)(nil)
)

// localWriter is an actor of this node that writes a stream.
type localWriter struct{ *streamActor }

func (w localWriter) readExtent(context.Context) (extent, error) {
	return (&attach{}).askStream(w.streamActor)
}

func (w localWriter) attachReplay(_ context.Context, r *replay) (extent, error) {
	at, err := (&attach{att: r.att, sess: r.s}).askStream(w.streamActor)
	if err == nil {
		r.unpinSession()          // the stream counts the connection now
		r.att.HushComments(false) // the writer before may not have been heard
	}
	return at, err
}

// remoteWriter is another node that writes a stream.
type remoteWriter struct {
	readings *readings
	key      StreamKey
	takeover.Writer
}

// nodeAddress is the boot that writes the stream.
func (w *remoteWriter) nodeAddress() store.Address { return store.Address{Node: w.Node, Boot: w.Boot} }

// streamLetter names a stream, and for stream.attach the reader.
type streamLetter struct {
	Stream StreamKey
	Reader uint64 `json:",omitempty"`
}

func (streamLetter) short() {}

// extentLetter is an extent.
type extentLetter struct {
	Tail  uint64
	Bytes int                `json:",omitempty"`
	Marks []record.Watermark `json:",omitempty"`
}

func (extentLetter) short() {}

func (w *remoteWriter) readExtent(ctx context.Context) (extent, error) {
	return w.askExtent(ctx, letterLook, streamLetter{Stream: w.key})
}

func (w *remoteWriter) attachReplay(ctx context.Context, r *replay) (extent, error) {
	if turns := r.n.accounts.attaches; turns.Take(ctx, r.s.billedAccount()) {
		defer turns.Leave()
	} else {
		return extent{}, fmt.Errorf("actors: too many streams of other nodes are asked for: %w", store.ErrUnavailable)
	}
	x := w.readings.addReading(w, r) // first, as frames may come before the reply
	at, err := w.askExtent(ctx, letterAttach, streamLetter{w.key, x.id})
	if err != nil {
		w.readings.dropReading(x)
		return at, err
	}
	x.noteHeard()
	return at, nil
}

func (w *remoteWriter) askExtent(ctx context.Context, kind string, l streamLetter) (at extent, err error) {
	reply, err := w.askNode(ctx, kind, l)
	if err != nil {
		return at, err
	}
	var e extentLetter
	if err := codec.Unmarshal(reply, &e); err != nil {
		return at, fmt.Errorf("actors: node %s: unreadable reply: %w", w.Node, store.ErrUnavailable)
	}
	return extent{e.Tail, e.Bytes, e.Marks}, nil
}

// askNode is fleet.askNode. A node that nobody hears is not gone before its entry is.
func (w *remoteWriter) askNode(ctx context.Context, kind string, v short) ([]byte, error) {
	reply, err := w.readings.fleet.askNode(ctx, w.nodeAddress(), kind, v)
	if errors.Is(err, store.ErrNobody) {
		err = fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	return reply, err
}

// pushEntry has the writer store an entry. After ErrUnavailable it may be stored; the same entry
// may be pushed again.
func (w *remoteWriter) pushEntry(ctx context.Context, s payer, p pushLetter) error {
	return w.readings.fleet.deliverLetter(ctx, w.key.Session, s, w.nodeAddress(), letterPush, p)
}

// reading is a connection here whose stream another node writes.
type reading struct {
	id        uint64
	at        store.Address
	r         *replay
	mu        sync.Mutex // guards the rest
	lastHeard time.Time  // zero before the writer has answered
	owed      int        // bytes of frames that the writer has not been told of
}

// readings are the connections of this node whose streams others write.
type readings struct {
	*site
	attaches atomic.Int64 // clients that came here for streams that other nodes write

	mu   sync.Mutex // guards the rest
	all  map[uint64]*reading
	last uint64
	busy map[store.Address]bool // nodes that are being asked
	next time.Time              // when they are asked again
}

func (d *readings) addReading(w *remoteWriter, r *replay) *reading {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.all == nil {
		d.all, d.busy = make(map[uint64]*reading), make(map[store.Address]bool)
	}
	d.last++
	d.attaches.Add(1)
	x := &reading{id: d.last, at: w.nodeAddress(), r: r}
	d.all[x.id] = x
	if old := r.reading.Swap(x); old != nil {
		delete(d.all, old.id)
	}
	r.pinSession()
	return x
}

func (d *readings) dropReading(x *reading) {
	d.mu.Lock()
	delete(d.all, x.id)
	d.mu.Unlock()
	x.r.reading.CompareAndSwap(x, nil)
}

func (d *readings) get(id uint64) *reading {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.all[id]
}

func (d *readings) len() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.all)
}

// noteHeard notes that the writer is there.
func (x *reading) noteHeard() {
	x.mu.Lock()
	x.lastHeard = time.Now()
	x.mu.Unlock()
	x.r.att.HushComments(false)
}

// isAnswered reports whether the writer has answered.
func (x *reading) isAnswered() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return !x.lastHeard.IsZero()
}

// creditEvery is after how many bytes of frames the writer is told that they have arrived.
const creditEvery = attachment.MaxFrame / 4

// sendCredit tells the writer, now and then, which frames have arrived.
func (x *reading) sendCredit(f *fleet, bytes int) {
	x.mu.Lock()
	x.owed += bytes
	owed := x.owed
	if owed >= creditEvery {
		x.owed = 0
	}
	x.mu.Unlock()
	if owed >= creditEvery {
		f.sendLetter(x.at, letterCredit, packet(appendCredit(nil, x.id, owed, false)))
	}
}

// appendCredit appends a letter stream.credit: bytes of frames have arrived at a reader, or its
// connection is gone.
func appendCredit(b []byte, id uint64, bytes int, gone bool) []byte {
	b = binary.AppendUvarint(b, id)
	b = binary.AppendUvarint(b, uint64(bytes))
	if gone {
		return append(b, 1)
	}
	return append(b, 0)
}

const (
	// askEvery is how often a node asks the writers of the streams that are read through it.
	askEvery = 2500 * time.Millisecond
	// hushAfter is after what time without its writer a connection gets no more comments.
	hushAfter = 12 * time.Second
	// maxAlive bounds the readers in one letter.
	maxAlive = 8192
)

// askWriters asks the writers of all streams that are read through this node whether they are
// there, and how far. It belongs to the heart's turn.
func (d *readings) askWriters(now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if now.Before(d.next) {
		return
	}
	d.next = now.Add(askEvery)
	of := make(map[store.Address][]*reading)
	for _, x := range d.all {
		if len(of[x.at]) < maxAlive && !d.busy[x.at] && x.isAnswered() { // before that its writer may not know of it
			of[x.at] = append(of[x.at], x)
		}
	}
	for at, all := range of {
		d.busy[at] = true
		go func() {
			d.askWriter(at, all)
			d.mu.Lock()
			delete(d.busy, at)
			d.mu.Unlock()
		}()
	}
}

// askSoon has the writers asked again with the heart's next beat.
func (d *readings) askSoon() {
	d.mu.Lock()
	d.next = time.Time{}
	d.mu.Unlock()
}

// errRemoteWriter reports that another node writes a stream.
type errRemoteWriter struct {
	*remoteWriter
	rec record.Stream // of the stream
}

func (e errRemoteWriter) Error() string { return "actors: node " + e.Node + " writes the stream" }

var (
	_ reader = (*attached)(nil)
	_ reader = (*remoteReader)(nil)
)

// What a letter of kind stream.frame has happened to a reader.
const (
	framed   byte = iota + 1 // an append was stored
	tailed                   // appends were stored that do not come as frames
	finished                 // the response ends
	polled                   // the client shall come back soon
	passedOn                 // the writer has given the stream up
	cutLoose                 // another connection has replaced this one
)

// frameHead is the largest head of such a letter.
const frameHead = 1 + 3*binary.MaxVarintLen64

// remoteReader is a connection on another node. What it gets are letters without a reply: what is
// lost of them, it finds in the log.
type remoteReader struct {
	at     readerKey
	among  *remoteReaders
	stream StreamKey

	mu        sync.Mutex // guards the rest
	flow      attachment.Flow
	over      bool
	onGone    []func()
	lastHeard time.Time // when its node last spoke of it
}

// sendFrame sends a letter about the reader. The caller holds mu.
func (r *remoteReader) sendFrame(what byte, from, num uint64, data []byte) {
	b := make([]byte, 0, frameHead+len(data))
	b = append(b, what)
	for _, n := range [...]uint64{r.at.id, from, num} {
		b = binary.AppendUvarint(b, n)
	}
	r.among.fleet.sendLetter(r.at.node, letterFrame, packet(append(b, data...)))
}

func (r *remoteReader) Frame(f attachment.Frame) {
	r.mu.Lock()
	if !r.over {
		switch r.flow.AddAppend(f.Num, attachment.AppendSize(&f.Append)) {
		case attachment.AsFrame:
			r.sendFrame(framed, f.From, f.Num, f.Append.Encode())
		case attachment.AsTail:
			r.sendFrame(tailed, f.From, f.Num, nil)
		}
	}
	over := f.Last && !r.flow.Behind
	r.mu.Unlock()
	if over {
		r.removeReader()
	}
}

// takeCredit notes that bytes of frames have arrived.
func (r *remoteReader) takeCredit(bytes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lastHeard = time.Now()
	if r.flow.Credit(bytes) && !r.over {
		r.sendFrame(tailed, r.flow.Tail, r.flow.Tail, nil)
	}
}

func (r *remoteReader) Poll()      { r.endReader(polled) }
func (r *remoteReader) Finish()    { r.endReader(finished) }
func (r *remoteReader) Reconnect() { r.endReader(passedOn) }
func (r *remoteReader) Cut()       { r.endReader(cutLoose) }

// endReader sends the reader its last letter.
func (r *remoteReader) endReader(how byte) {
	r.mu.Lock()
	if r.over {
		r.mu.Unlock()
		return
	}
	r.sendFrame(how, 0, 0, nil)
	r.mu.Unlock()
	r.removeReader()
}

// removeReader ends the reader: its connection is gone, or gets nothing more from here.
func (r *remoteReader) removeReader() {
	r.among.dropReader(r)
	r.mu.Lock()
	r.over = true
	gone := r.onGone
	r.onGone = nil
	r.mu.Unlock()
	for _, f := range gone {
		f()
	}
}

func (r *remoteReader) Gone(f func()) {
	r.mu.Lock()
	if !r.over {
		r.onGone = append(r.onGone, f)
		r.mu.Unlock()
		return
	}
	r.mu.Unlock()
	f()
}

// noteAsked notes that the reader's node has asked for it, and returns the last append that there
// was for it.
func (r *remoteReader) noteAsked(now time.Time) (tail uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lastHeard = now
	return r.flow.Tail
}

// isSilent reports whether the reader's node has not spoken of it for long.
func (r *remoteReader) isSilent(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return now.Sub(r.lastHeard) > readerSilence
}

// readerKey names a reader of another node.
type readerKey struct {
	node store.Address
	id   uint64
}

// readerSilence is after what time a reader is given up that its node does not speak of: it asks
// after its readers every [askEvery].
const readerSilence = 20 * time.Second

// remoteReaders are the readers of other nodes whose streams this node writes.
type remoteReaders struct {
	*site
	streams  *streams
	sessions *sessions
	pushes   *pushes

	mu  sync.Mutex // guards all
	all map[readerKey]*remoteReader
}

func (d *remoteReaders) dropReader(r *remoteReader) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.all[r.at] == r {
		delete(d.all, r.at)
	}
}

func (d *remoteReaders) get(at readerKey) *remoteReader {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.all[at]
}

// pruneSilent gives up readers whose nodes no longer speak of them. It belongs to the heart's turn.
func (d *remoteReaders) pruneSilent(now time.Time) {
	d.mu.Lock()
	var silent []*remoteReader
	for _, r := range d.all {
		if r.isSilent(now) {
			silent = append(silent, r)
		}
	}
	d.mu.Unlock()
	for _, r := range silent {
		r.removeReader()
	}
}

// removeAll gives up all readers: the node stops.
func (d *remoteReaders) removeAll() {
	d.mu.Lock()
	all := slices.Collect(maps.Values(d.all))
	d.mu.Unlock()
	for _, r := range all {
		r.removeReader()
	}
}

func (d *remoteReaders) len() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.all)
}

// receiveFrame takes what has happened to a stream that a client reads here.
func (d *readings) receiveFrame(l *store.Letter) {
	var id, from, num uint64
	data := l.Data
	if len(data) == 0 {
		d.fleet.unknown.Add(1)
		return
	}
	what := data[0]
	data = data[1:]
	for _, p := range [...]*uint64{&id, &from, &num} {
		v, k := binary.Uvarint(data)
		if k <= 0 {
			d.fleet.unknown.Add(1)
			return
		}
		*p, data = v, data[k:]
	}
	x := d.get(id)
	if x == nil || x.at != l.From {
		return
	}
	att := x.r.att
	switch what {
	case framed:
		var reader stream.Reader
		a, ok, err := reader.Add(num, data)
		if err != nil || !ok {
			d.fleet.unknown.Add(1)
			att.NoteTail(num) // the log has it
			return
		}
		x.noteHeard()
		att.Frame(attachment.Frame{From: from, Append: a})
		x.sendCredit(&d.fleet, attachment.AppendSize(&a))
		if a.Last {
			d.dropReading(x)
		}
	case tailed:
		x.noteHeard()
		att.NoteTail(num)
	case finished:
		d.dropReading(x)
		att.Finish()
	case polled:
		d.dropReading(x)
		att.Poll()
	case cutLoose:
		d.dropReading(x)
		att.Cut()
	case passedOn:
		d.dropReading(x)
		x.r.followAgain()
	default: // of a newer release: the writer says the same when it is asked
		d.fleet.unknown.Add(1)
	}
}

// askWriter asks one node for the streams of readers.
func (d *readings) askWriter(at store.Address, all []*reading) {
	ctx, cancel := context.WithTimeout(d.base, 2*askEvery)
	defer cancel()
	data := make([]byte, 0, 4*len(all))
	for _, x := range all {
		data = binary.AppendUvarint(data, x.id)
	}
	reply, err := d.fleet.askNode(ctx, at, letterAlive, packet(data))
	if err != nil {
		d.handleSilentWriter(at, all)
		return
	}
	for _, x := range all {
		tail, k := binary.Uvarint(reply)
		if k <= 0 {
			d.fleet.unknown.Add(1)
			return
		}
		reply = reply[k:]
		if d.get(x.id) != x {
			continue
		}
		if tail == 0 { // the writer does not know the reader
			d.dropReading(x)
			x.r.followAgain()
			continue
		}
		x.noteHeard()
		x.r.att.NoteTail(tail - 1)
	}
}

// handleSilentWriter deals with readers whose writer does not answer: their clients get no more
// comments, and if its node is gone, they read on from whoever has the stream then.
func (d *readings) handleSilentWriter(at store.Address, all []*reading) {
	ctx, cancel := context.WithTimeout(d.base, 2*askEvery) // the question to a silent node has used up its own time
	defer cancel()
	gone, err := d.fleet.mail.Gone(ctx, at)
	now := time.Now()
	for _, x := range all {
		switch {
		case err == nil && gone:
			d.dropReading(x)
			x.r.followAgain()
		default:
			x.mu.Lock()
			hush := now.Sub(x.lastHeard) > hushAfter
			x.mu.Unlock()
			if hush {
				x.r.att.HushComments(true)
			}
		}
	}
	if err == nil && !gone {
		d.askSoon()
	}
}

// addReader makes a reader of another node.
func (d *remoteReaders) addReader(at readerKey, key StreamKey) *remoteReader {
	r := &remoteReader{at: at, among: d, stream: key, lastHeard: time.Now()}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.all == nil {
		d.all = make(map[readerKey]*remoteReader)
	}
	d.all[at] = r
	return r
}

// receiveLook tells another node how far a stream has got that is written here, and for
// stream.attach makes a connection there its live one.
func (d *remoteReaders) receiveLook(l *store.Letter) {
	var m streamLetter
	if !d.fleet.readLetter(l, &m) {
		return
	}
	d.fleet.runAside(l, func() {
		at, err := d.attachReader(l, m)
		switch {
		case errors.Is(err, errNotHere):
			replyTo(l, notHere, nil)
		case err != nil:
			d.log.Debug("stream not attached", "stream", m.Stream.ID, "node", l.From.Node, "error", err)
			replyTo(l, tryAgain, nil)
		default:
			data, _ := letterOf(extentLetter{at.tail, at.bytes, at.watermarks})
			replyTo(l, done, data)
		}
	})
}

// attachReader carries out a letter stream.look or stream.attach.
func (d *remoteReaders) attachReader(l *store.Letter, m streamLetter) (extent, error) {
	w, here := d.streams.Current(m.Stream)
	if !here {
		return extent{}, errNotHere
	}
	if <-w.ready; w.Stopped() {
		return extent{}, errNotHere
	}
	ask, s := &attach{}, (*sessionActor)(nil) // s gets the connection
	if l.Kind == letterAttach {
		var err error
		s, err = d.sessions.loadSession(serviceOf(w.svc), m.Stream.Session, nil) // it hears of what the client subscribes to
		if errors.Is(err, store.ErrNotFound) || errors.Is(err, ErrUnmounted) {
			return extent{}, errNotHere
		}
		if err != nil {
			return extent{}, err
		}
		ask.att, ask.sess = d.addReader(readerKey{l.From, m.Reader}, m.Stream), s
	}
	at, err := ask.askStream(w)
	if err != nil {
		if r, ok := ask.att.(*remoteReader); ok {
			r.removeReader()
		}
		return at, errNotHere
	}
	if s != nil && (standalone{s}).isCurrent(m.Stream.ID) && s.missed.Swap(false) {
		go serviceOf(w.svc).Handler.Opened(s.peer, true)
	}
	return at, nil
}

// receiveCredit takes the credit of a reader on another node.
func (d *remoteReaders) receiveCredit(l *store.Letter) {
	id, k := binary.Uvarint(l.Data)
	if k <= 0 {
		d.fleet.unknown.Add(1)
		return
	}
	bytes, j := binary.Uvarint(l.Data[k:])
	if j <= 0 || len(l.Data) != k+j+1 || bytes > attachment.MaxFrame*2 {
		d.fleet.unknown.Add(1)
		return
	}
	r := d.get(readerKey{l.From, id})
	switch {
	case r == nil:
	case l.Data[k+j] == 1:
		r.removeReader()
	default:
		r.takeCredit(int(bytes))
	}
}

// receiveAlive tells another node how far the streams of its readers are: for each reader the last
// append and one, 0 if it is not known here.
func (d *remoteReaders) receiveAlive(l *store.Letter) {
	now := time.Now()
	var reply []byte
	for data := l.Data; len(data) > 0; {
		id, k := binary.Uvarint(data)
		if k <= 0 {
			d.fleet.unknown.Add(1)
			replyTo(l, notKnown, nil)
			return
		}
		data = data[k:]
		if r := d.get(readerKey{l.From, id}); r != nil {
			reply = binary.AppendUvarint(reply, r.noteAsked(now)+1)
		} else {
			reply = append(reply, 0)
		}
	}
	replyTo(l, done, reply)
}

// receivePush stores an entry of another node on a stream that is written here.
func (d *remoteReaders) receivePush(l *store.Letter) {
	var m pushLetter
	if !d.fleet.readLetter(l, &m) {
		return
	}
	key := l.From.Boot + " " + m.Stream.streamPath() + " " + string(m.Meta)
	d.fleet.runAside(l, func() {
		x, first := d.pushes.beginPush(key)
		if first {
			d.storePush(&m, func(status byte) { d.pushes.endPush(key, x, status) })
		}
		replyTo(l, x.awaitOutcome(), nil)
	})
}

// storePush stores an entry of another node, and tells once what became of it.
func (d *remoteReaders) storePush(m *pushLetter, tell func(status byte)) {
	w, here := d.streams.Current(m.Stream)
	switch {
	case !here || w.Stopped():
		tell(notHere)
		return
	case m.Age > 0:
		if known, err := d.knowsMessage(w, m); known || err != nil {
			switch {
			case known:
				tell(done)
			case errors.Is(err, errNotHere):
				tell(notHere)
			default:
				tell(tryAgain)
			}
			return
		}
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

// knowsMessage reports whether a message that is sent again was stored before.
func (d *remoteReaders) knowsMessage(w *streamActor, m *pushLetter) (bool, error) {
	ctx, cancel := context.WithTimeout(d.base, pushWait)
	defer cancel()
	sent := time.Now().Add(-m.Age)
	s, err := d.sessions.loadSession(serviceOf(w.svc), m.Stream.Session, nil) // it pays
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, ErrUnmounted) {
		return false, errNotHere
	}
	if err != nil {
		return false, err
	}
	return d.sessions.writers.hasMessage(ctx, s, m.Stream.ID, m.Meta, sent, m.After)
}

// letterPush stores an entry on a stream.
const letterPush = "stream.push"

// pushLetter is an entry for a session's standalone stream.
type pushLetter struct {
	Stream StreamKey
	Kind   stream.Kind
	Meta   []byte // its name
	Data   json.RawMessage
	Age    time.Duration // since it was first sent, 0 for the first time
	After  uint64        // append of which the stream's record told then
}
