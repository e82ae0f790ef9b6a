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
	"time"

	"github.com/troupe-run/troupe/actors/internal/attachment"
	"github.com/troupe-run/troupe/actors/internal/record"
	"github.com/troupe-run/troupe/actors/internal/stream"
	"github.com/troupe-run/troupe/actors/internal/subscription"
	"github.com/troupe-run/troupe/actors/internal/takeover"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/protocol"
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

func init() {
	receivers[letterLook] = (*fleet).receiveLook
	receivers[letterAttach] = (*fleet).receiveLook
	receivers[letterFrame] = (*fleet).receiveFrame
	receivers[letterCredit] = (*fleet).receiveCredit
	receivers[letterAlive] = (*fleet).receiveAlive
	receivers[letterAnswer] = (*fleet).receiveAnswer
}

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
		r.unpinSession()  // the stream counts the connection now
		r.att.Hush(false) // the writer before may not have been heard
	}
	return at, err
}

// remoteWriter is another node that writes a stream.
type remoteWriter struct {
	fleet *fleet
	key   StreamKey
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
	x := w.fleet.readings.addReading(w, r) // first, as frames may come before the reply
	at, err := w.askExtent(ctx, letterAttach, streamLetter{w.key, x.id})
	if err != nil {
		w.fleet.readings.dropReading(x)
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
	reply, err := w.fleet.askNode(ctx, w.nodeAddress(), kind, v)
	if errors.Is(err, store.ErrNobody) {
		err = fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	return reply, err
}

// pushEntry has the writer store an entry. After ErrUnavailable it may be stored; the same entry may be pushed again.
func (w *remoteWriter) pushEntry(ctx context.Context, s *sessionActor, e *stream.Entry) error {
	return w.fleet.deliverLetter(ctx, s, w.nodeAddress(), letterPush, pushLetter{w.key, e.Kind, e.Meta, e.Data})
}

// reading is a connection here whose stream another node writes.
type reading struct {
	id        uint64
	at        store.Address
	r         *replay
	mu        sync.Mutex // guards the rest
	lastHeard time.Time
	owed      int // bytes of frames that the writer has not been told of
}

// readings are the connections of this node whose streams others write.
type readings struct {
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
	r.n.attaches.Add(1)
	x := &reading{id: d.last, at: w.nodeAddress(), r: r, lastHeard: time.Now()}
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
	x.r.att.Hush(false)
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

// appendCredit appends a letter stream.credit: bytes of frames have arrived at a reader, or its connection is gone.
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

// askWriters asks the writers of all streams that are read through this node whether they are there, and how far. It belongs to the heart's turn.
func (d *readings) askWriters(f *fleet, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if now.Before(d.next) {
		return
	}
	d.next = now.Add(askEvery)
	of := make(map[store.Address][]*reading)
	for _, x := range d.all {
		if len(of[x.at]) < maxAlive && !d.busy[x.at] {
			of[x.at] = append(of[x.at], x)
		}
	}
	for at, all := range of {
		d.busy[at] = true
		go func() {
			f.askWriter(at, all)
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

// letterAnswer brings a client's answer.
const letterAnswer = "answer"

// answerLetter is a client's answer on its way to what asked.
type answerLetter struct {
	Stream StreamKey // ID is "" for a question that does not outlive its process
	ID     json.RawMessage
	Result json.RawMessage `json:",omitempty"`
	Err    json.RawMessage `json:",omitempty"`
}

// errRemoteWriter reports that another node writes a stream.
type errRemoteWriter struct {
	*remoteWriter
	rec record.Stream // of the stream
}

func (e errRemoteWriter) Error() string { return "actors: node " + e.Node + " writes the stream" }

// reader is the one live connection of a stream. There are two:
//
//	attached      a connection here
//	remoteReader  a connection of another node, which gets what is stored as letters
//
// Its methods do not block.
type reader interface {
	// Frame takes an append that is stored.
	Frame(f attachment.Frame)
	// Poll ends the connection of a call that goes on here, and has the client come back soon.
	Poll()
	// Finish ends the response.
	Finish()
	// Reconnect ends the connection of a stream that goes on, here or elsewhere.
	Reconnect()
	// Cut closes the connection: another one has replaced it, or the stream is lost.
	Cut()
	// Gone calls f once when the connection is gone.
	Gone(f func())
}

var (
	_ reader = (*attached)(nil)
	_ reader = (*remoteReader)(nil)
)

// attached is one connection of a stream.
type attached = attachment.Attachment[StreamKey]

// extent is how far a stream has got, and what the writer knows of it without the log.
type extent struct {
	tail       uint64 // last append
	bytes      int    // that the log holds; 0 if that is not known
	watermarks []record.Watermark
}

// newAttachment makes the reading side of a connection that has read up to the event after, and
// goes on with entry skip of append next.
func (s *sessionActor) newAttachment(svc *Service, key StreamKey, rec *record.Stream, conn Conn, after stream.Position, next uint64, skip int, live bool, behind func()) *attached {
	holder, until := heldBy(conn)
	var withholds func([]byte) (bool, bool)
	if len(rec.Calls) == 0 && svc.Withholds != nil {
		withholds = withholdsFrom(svc, holder, s.view.Load().rec.Subscribed)
	}
	return attachment.New(attachment.Config[StreamKey]{
		Holder: holder, Until: until, Withholds: withholds,
		Among: &s.node.attachments, Key: key, Held: &s.billedAccount().Held[heldStreams], Conn: conn, Stream: key.ID, After: after,
		Primes: hasFeature(rec.Revision, protocol.FeatureStreamPriming), Answers: len(rec.Calls) > 0, Retry: svc.Limits.Retry, KeepAlive: svc.Limits.KeepAlive,
		Behind: behind,
	}, next, skip, live)
}

// withholdsFrom is the Withholds of a connection of a standalone stream, whose session subscribed to some resources when the client came. A client that subscribes to another one
// with a wider token comes back with that, for an update that its connection may not have. So it comes back once at most for each resource, whatever it brings.
func withholdsFrom(svc *Service, holder any, subscribed []string) func([]byte) (withheld, later bool) {
	return func(message []byte) (withheld, later bool) {
		uri, withheld := svc.Withholds(holder, message)
		return withheld, withheld && !slices.ContainsFunc(subscribed, func(to string) bool { return subscription.Covers(to, uri) })
	}
}

// closeReader ends the connection of a call that goes on. A client that is connected to another node may come back soon.
func (m closeConn) closeReader(a reader) {
	if near, ok := a.(*attached); ok && m.leaving {
		near.Reconnect()
	} else {
		a.Poll()
	}
}

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

// remoteReader is a connection on another node. What it gets are letters without a reply: what is lost of them, it finds in the log.
type remoteReader struct {
	at     readerKey
	fleet  *fleet
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
	r.fleet.sendLetter(r.at.node, letterFrame, packet(append(b, data...)))
}

func (r *remoteReader) Frame(f attachment.Frame) {
	r.mu.Lock()
	if !r.over {
		switch r.flow.Frame(f.Num, attachment.Size(&f.Append)) {
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

func (r *remoteReader) Poll() { r.endReader(polled) }

func (r *remoteReader) Finish() { r.endReader(finished) }

func (r *remoteReader) Reconnect() { r.endReader(passedOn) }

func (r *remoteReader) Cut() { r.endReader(cutLoose) }

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
	r.fleet.readers.dropReader(r)
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

// noteAsked notes that the reader's node has asked for it, and returns the last append that there was for it.
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

// readerSilence is after what time a reader is given up that its node does not speak of: it asks after its readers every
// [askEvery].
const readerSilence = 20 * time.Second

// remoteReaders are the readers of other nodes whose streams this node writes.
type remoteReaders struct {
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

// keptInMemory is how long an append is kept in memory for clients that come back at once.
const keptInMemory = 30 * time.Second

// replayCache is how many bytes of appends are kept by a node that may hold so many bytes for its clients, 0 for any number.
func replayCache(held int64) int64 {
	most := limits.ReplayCache.Value()
	if held > 0 {
		most = min(most, held/16)
	}
	return most
}
