package actors

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/attachment"
	"github.com/troupe-run/troupe/internal/record"
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/internal/stream"
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

// streamLetter names a stream, and for stream.attach the reader.
type streamLetter struct {
	Stream StreamKey
	Reader uint64 `json:",omitempty"`
}

// extentLetter is an extent.
type extentLetter struct {
	Tail  uint64
	Bytes int                `json:",omitempty"`
	Marks []record.Watermark `json:",omitempty"`
}

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

// findWriter returns the writer of the stream.
func (r *replay) findWriter(ctx context.Context) (streamWriter, record.Stream, error) {
	d := &r.n.streams
	if !d.writesHere(r.key) {
		end, over := r.n.cache.End(r.key.streamPath(), time.Now())
		if r.n.fleet.mail != nil || over {
			rec, _, err := d.readWriter(ctx, r.key)
			if err != nil {
				return nil, rec, err
			}
			if over && rec.Boot == r.n.boot { // nobody has taken it over since
				rec.End = end
				return nil, rec, nil
			}
			if far, err := d.findRemoteWriter(ctx, r.key, &rec, r.given); err != nil {
				return nil, rec, err
			} else if far != nil {
				return far, rec, nil
			}
		}
		var rec record.Stream
		leave, err := d.awaitLogTurn(ctx, r.s, r.charge)
		if err == nil {
			defer leave()
			if r.att == nil {
				rec, err = r.judgeEventID(ctx)
			}
		}
		if err != nil || rec.End > 0 {
			return nil, rec, err
		}
	}
	w, rec, err := d.findWriter(ctx, r.svc, r.s, r.key, r.given)
	if e, ok := errors.AsType[errRemoteWriter](err); ok {
		return e.remoteWriter, rec, nil
	}
	if w == nil || err != nil {
		return nil, rec, err
	}
	return localWriter{w}, rec, nil
}

// lostWriter returns why another node is not the stream's writer for now: ErrUnavailable, so that the resume tries again.
func (r *replay) lostWriter(w streamWriter, err error) error {
	if errors.Is(err, errNotHere) {
		r.given = w.(*remoteWriter).Writer
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	return err
}

// reading is a connection here whose stream another node writes.
type reading struct {
	id    uint64
	at    store.Address
	r     *replay
	mu    sync.Mutex // guards the rest
	heard time.Time
	owed  int // bytes of frames that the writer has not been told of
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
	x := &reading{id: d.last, at: w.nodeAddress(), r: r, heard: time.Now()}
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
	x.heard = time.Now()
	x.mu.Unlock()
	x.r.att.Hush(false)
}

// pinSession keeps the session in memory while its client reads a stream from here that another node writes.
func (r *replay) pinSession() {
	if r.pinned.Swap(true) {
		return
	}
	_ = r.s.Post(pinSession{1})
	r.conn.Gone(func() {
		r.unpinSession()
		if x := r.reading.Swap(nil); x != nil {
			r.n.fleet.readings.dropReading(x)
			r.n.fleet.sendLetter(x.at, letterCredit, packet(appendCredit(nil, x.id, 0, true)))
		}
	})
}

// unpinSession ends what pinSession began, for the session; the connection may be counted otherwise now.
func (r *replay) unpinSession() {
	if x := r.reading.Swap(nil); x != nil {
		r.n.fleet.readings.dropReading(x)
	}
	if r.pinned.Load() && !r.unpinned.Swap(true) {
		_ = r.s.Post(pinSession{-1})
	}
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
			hush := now.Sub(x.heard) > hushAfter
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
