package actors

import (
	"context"
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/troupe-run/troupe/internal/attachment"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/internal/record"
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/internal/stream"
	"github.com/troupe-run/troupe/internal/subscription"
)

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

	mu    sync.Mutex // guards the rest
	flow  attachment.Flow
	over  bool
	gone  []func()
	heard time.Time // when its node last spoke of it
}

// readerKey names a reader of another node.
type readerKey struct {
	node store.Address
	id   uint64
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
	r.heard = time.Now()
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
	r.fleet.readers.dropReader(r)
	r.mu.Lock()
	r.over = true
	gone := r.gone
	r.gone = nil
	r.mu.Unlock()
	for _, f := range gone {
		f()
	}
}

func (r *remoteReader) Gone(f func()) {
	r.mu.Lock()
	if !r.over {
		r.gone = append(r.gone, f)
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
	r.heard = now
	return r.flow.Tail
}

// isSilent reports whether the reader's node has not spoken of it for long.
func (r *remoteReader) isSilent(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return now.Sub(r.heard) > readerSilence
}

// readerSilence is after what time a reader is given up that its node does not speak of: it asks after its readers every
// [askEvery].
const readerSilence = 20 * time.Second

// remoteReaders are the readers of other nodes whose streams this node writes.
type remoteReaders struct {
	mu  sync.Mutex // guards all
	all map[readerKey]*remoteReader
}

// addReader makes a reader of another node.
func (f *fleet) addReader(at readerKey, key StreamKey) *remoteReader {
	r := &remoteReader{at: at, fleet: f, stream: key, heard: time.Now()}
	f.readers.mu.Lock()
	defer f.readers.mu.Unlock()
	if f.readers.all == nil {
		f.readers.all = make(map[readerKey]*remoteReader)
	}
	f.readers.all[at] = r
	return r
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

// cacheAppend keeps an append that was just stored; from is the number of its first part. One of several parts is read from the log
// when it is wanted, and what came before it, too: the numbers between are those of its parts.
func (s *streamActor) cacheAppend(from uint64, e *stream.Effect) {
	if e.Num != from {
		s.node.cache.Drop(s.path)
		return
	}
	low, _ := s.m.Kept()
	until := time.Now().Add(min(keptInMemory, s.svc.Limits.ReplayAge))
	s.node.cache.Keep(s.path, stream.Append{Num: e.Num, Epoch: e.Epoch, Entries: e.Entries, Last: e.Last}, low, until)
}

// readCached returns the appends from..to if this node has kept them, and nobody else can have written the stream since.
func (r *replay) readCached(from, to uint64) ([]stream.Append, bool) {
	if !r.ours {
		return nil, false
	}
	all, ok := r.n.cache.Read(r.key.streamPath(), from, to, time.Now())
	if ok {
		size := 0
		for i := range all {
			size += attachment.Size(&all[i])
		}
		r.charge.noteRead(size, len(all))
	}
	return all, ok
}
