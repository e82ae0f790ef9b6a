package transport

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/transport/server"
)

// The reasons why a stream ended without Finish.
const (
	cutAsked   = "asked"         // Cut
	cutQueue   = "queue-full"    // more queued than MaxQueued
	cutMemory  = "memory"        // the client has its share of the memory, or nothing is left
	cutWrite   = "write"         // the peer is gone
	cutTimeout = "write-timeout" // the peer does not read
	cutPanic   = "panic"         // the dispatcher panicked, or the response to which the stream is written
	cutClosing = "closing"       // the handler was closed
	cutClosed  = "client-closed" // the client of a stateless request is gone, which cancels it, or one of HTTP+SSE, which ends its session
)

const (
	// chunkRoom is kept free at the start of a buffer for the size line of its chunk: 8 digits, CR, LF.
	chunkRoom = 10

	lastChunk = "0\r\n\r\n"

	// firstChunk goes out with a header that no event follows at once. Proxies such as nginx keep the header of a response
	// over HTTP/2 until its first byte has come.
	firstChunk = "3\r\n" + comment + "\r\n"

	// maxWrite is how many bytes one write may hold, so that a reader that is slow but makes progress is not cut for a
	// large event.
	maxWrite = 256 << 10

	// lingerTime is how long a finished connection is still read from. Otherwise bytes that the peer sent meanwhile
	// would reset the connection before the peer has read the end.
	lingerTime = 500 * time.Millisecond
)

// stream is the part of an Exchange whose response is an event stream. The Exchange's mu guards it.
type stream struct {
	conn  net.Conn // nil if the connection could not be taken over
	reuse *reuse   // where conn goes after the stream; nil closes it

	backlog backlog
	head    []byte        // the response's header, until it is written
	pending *codec.Buffer // queued, not flushed
	out     *codec.Buffer // flushed, not yet taken by the writer
	writing int           // bytes the writer has taken and not written
	charged int64         // counted on the client's account
	active  bool          // there is a writer
	ended   bool          // the writer has taken the end of the response
	cut     bool          // the response is broken off rather than ended
	room    chan struct{} // closed when there is room or the stream is gone; nil if nobody waits

	watch  uint64        // the number that hangups gave
	pumped chan struct{} // closed when a pump beside ServeHTTP is done
}

func (s *stream) queuedBytes() int {
	n := s.writing
	for _, b := range [...]*codec.Buffer{s.pending, s.out} {
		if b != nil {
			n += len(b.B) - chunkRoom
		}
	}
	return n
}

// flushPending moves pending events to the writer's side.
func (s *stream) flushPending() {
	switch {
	case s.pending == nil:
	case s.out == nil:
		s.out, s.pending = s.pending, nil
	default:
		s.out.B = append(s.out.B, s.pending.B[chunkRoom:]...)
		s.pending.Free()
		s.pending = nil
	}
}

// takeBatch gives the writer its next bytes, framed, and the buffer to free after they are written.
func (s *stream) takeBatch(chunks, last bool) (batch []byte, buf *codec.Buffer) {
	if s.head != nil && s.out != nil && len(s.out.B) > streamBytes {
		batch, s.head = s.head, nil // alone, rather than with a copy of all that
		return batch, nil
	}
	buf, s.out = s.out, nil
	if buf != nil {
		s.writing = len(buf.B) - chunkRoom
		batch = buf.B[chunkRoom:]
		if chunks {
			var size [chunkRoom]byte
			line := append(strconv.AppendInt(size[:0], int64(len(batch)), 16), '\r', '\n')
			start := chunkRoom - len(line)
			copy(buf.B[start:], line)
			buf.B = append(buf.B, '\r', '\n')
			batch = buf.B[start:]
		}
	}
	if last && !s.ended {
		s.ended = true
		if chunks {
			if buf == nil {
				batch = []byte(lastChunk)
			} else {
				start := len(buf.B) - len(batch)
				buf.B = append(buf.B, lastChunk...)
				batch = buf.B[start:]
			}
		}
	}
	if s.head != nil {
		switch {
		case len(batch) > 0 || last:
		case chunks:
			batch = []byte(firstChunk)
		default:
			batch = []byte(comment)
		}
		batch = append(s.head, batch...)
		s.head = nil
	}
	return batch, buf
}

// Open commits the response to text/event-stream and sends its header. At the SSE endpoint it also sends the event that
// gives the address of the session's messages. It returns false if the client is gone, something was sent before, or
// the handler is being closed.
func (x *Exchange) Open() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	// Over HTTP/1 the client may only have closed its sending side; if it is gone, the first write notices. Where all ends
	// with the connection, that is the end.
	over := (x.endsWithConnection() || x.inline) && x.clientLeft()
	if x.state != fresh || x.w == nil || over || !x.h.addStream(x) {
		return false
	}
	header := x.w.Header()
	x.setHeaders(header)
	header["Content-Type"] = sseHeader
	header["Cache-Control"] = cacheHeader
	header["X-Accel-Buffering"] = bufferingHeader
	x.s = &stream{charged: streamBytes}
	x.chargeBytesAnyway(quota.Queues, streamBytes)
	x.state = streaming
	if x.endpoint == sseEndpoint {
		b := x.s.pendingBuffer()
		b.B = appendEndpoint(b.B, x.messages, x.session)
		x.s.flushPending()
	}
	if x.inline {
		x.closeAfter(header)
		if x.closesAfterStream() {
			header.Set("Connection", "close")
		}
		x.wakeWriter()
		return true
	}
	conn, rw, err := http.NewResponseController(x.w).Hijack()
	if err != nil { // a wrapper promised what the connection cannot do
		x.pumpBeside(header)
		return true
	}
	if x.stopWatching != nil {
		x.stopWatching()
	}
	x.w = nil
	x.s.conn, x.s.reuse = conn, x.reuseOf(rw.Reader.Buffered())
	if x.endsWithConnection() {
		x.watchConnection(conn)
	}
	x.s.head = x.appendHead(header)
	x.startWriter()
	return true
}

// pumpBeside starts a goroutine that writes. ServeHTTP waits for it when the dispatcher has returned. mu is held.
func (x *Exchange) pumpBeside(header http.Header) {
	x.wake = make(chan struct{}, 1)
	x.closeAfter(header)
	x.s.pumped = make(chan struct{})
	go func(w http.ResponseWriter) {
		defer close(x.s.pumped)
		x.pumpStream(w)
	}(x.w)
}

var (
	sseHeader       = []string{typeSSE}
	cacheHeader     = []string{"no-cache, no-transform"}
	bufferingHeader = []string{"no"}

	// ownHeaders are those that depend on how the stream is written.
	ownHeaders = map[string]bool{"Content-Length": true, "Transfer-Encoding": true, "Connection": true,
		"Keep-Alive": true, "Trailer": true, "Upgrade": true, "Date": true}
)

// closeAfter announces that the connection is closed after the stream, because its write deadline stays set. HTTP/2 has
// a deadline for each stream.
func (x *Exchange) closeAfter(header http.Header) {
	if x.http1 {
		header.Set("Connection", "close")
	}
}

// appendHead returns the status line and headers of a response on a connection that was taken over.
func (x *Exchange) appendHead(header http.Header) []byte {
	var b bytes.Buffer
	b.Grow(512)
	if x.chunks {
		b.WriteString("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n")
	} else {
		b.WriteString("HTTP/1.0 200 OK\r\n")
	}
	if x.s.reuse == nil {
		b.WriteString("Connection: close\r\n")
	}
	b.WriteString("Date: ")
	b.Write(time.Now().UTC().AppendFormat(b.AvailableBuffer(), http.TimeFormat))
	b.WriteString("\r\n")
	_ = header.WriteSubset(&b, ownHeaders) // a bytes.Buffer never fails
	b.WriteString("\r\n")
	return b.Bytes()
}

// Event queues one server-sent event: an id unless it is "", a retry in milliseconds if it is over 0, and always data,
// which is copied and may be empty. It cuts the connection if the event does not fit, see Options.MaxQueued. Without an
// open stream it does nothing. At the SSE endpoint, whose clients know no ids, an event is one message on one line:
// data, which must be JSON. Empty data sends nothing there.
func (x *Exchange) Event(id string, retryMS int, data []byte) {
	const around = 48 // bytes of an event beside its id and data
	if x.endpoint == sseEndpoint && isBlank(data) {
		return
	}
	x.mu.Lock()
	if x.state != streaming {
		x.mu.Unlock()
		return
	}
	size, limit := len(id)+len(data)+around, x.h.o.MaxQueued
	if !x.s.backlog.fitsEvent(x.s.queuedBytes(), size, limit) {
		x.endAndUnlock(cutQueue)
		return
	}
	b := x.s.pendingBuffer()
	if x.endpoint == sseEndpoint {
		b.B = appendMessage(b.B, data)
	} else {
		b.B = appendEvent(b.B, id, retryMS, data)
	}
	x.s.backlog.noteQueued(x.s.queuedBytes(), size, limit, x.h.o.WriteTimeout)
	if !x.chargeQueue() {
		x.endAndUnlock(cutMemory)
		return
	}
	x.mu.Unlock()
}

// pendingBuffer returns the buffer of events that are queued and not flushed.
func (s *stream) pendingBuffer() *codec.Buffer {
	if s.pending == nil {
		s.pending = codec.GetBuffer()
		s.pending.B = append(s.pending.B[:0], make([]byte, chunkRoom)...)
	}
	return s.pending
}

// Comment queues a comment, which keeps the connection alive and finds out whether the peer is. If anything is queued
// already, that serves as well, and Comment adds nothing.
func (x *Exchange) Comment() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.state == streaming && x.s.queuedBytes() == 0 {
		b := x.s.pendingBuffer()
		b.B = append(b.B, comment...)
	}
}

// Flush hands what is queued to the connection's writer.
func (x *Exchange) Flush() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.state != streaming || x.s.pending == nil {
		return
	}
	x.s.flushPending()
	x.startWriter()
}

// Finish ends the stream once everything queued is written, flushed or not. It closes the connection, unless Reuse
// keeps it. Later events are ignored.
func (x *Exchange) Finish() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.state != streaming {
		return
	}
	x.state = finishing
	x.s.flushPending()
	x.startWriter()
}

// Cut closes the connection now; what is queued is lost. Before anything was sent, it breaks off the request without a
// response.
func (x *Exchange) Cut() { x.cutStream(cutAsked) }

func (x *Exchange) cutStream(reason string) {
	x.mu.Lock()
	switch x.state {
	case fresh:
		x.state, x.aborted = gone, true
		cancel, hook, after := x.cancel, x.takeHook(), x.onGone
		x.onGone = nil
		x.mu.Unlock()
		tellGone(cancel, hook)
		for _, f := range after {
			go f()
		}
		x.wakeWriter()
	case streaming, finishing:
		x.endAndUnlock(reason)
	default:
		x.mu.Unlock()
	}
}

// Room waits until less than half of MaxQueued is queued: then any event fits. Events that were not flushed count, so
// call Flush first. It returns ErrGone when the connection is gone, or the cause of ctx.
func (x *Exchange) Room(ctx context.Context) error {
	for {
		x.mu.Lock()
		if x.state == gone || x.state == answered {
			x.mu.Unlock()
			return ErrGone
		}
		if x.s == nil || x.s.queuedBytes() < x.h.o.MaxQueued/2 {
			x.mu.Unlock()
			return nil
		}
		if x.s.room == nil {
			x.s.room = make(chan struct{})
		}
		room := x.s.room
		x.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// startWriter makes sure that a writer runs. mu is held.
func (x *Exchange) startWriter() {
	if x.s.conn == nil {
		x.wakeWriter()
		return
	}
	if !x.s.active {
		x.s.active = true
		go x.writeQueued()
	}
}

// noteWritten notes that n bytes are written, and wakes the callers that wait for room. mu is held.
func (x *Exchange) noteWritten(n int) {
	s := x.s
	s.writing -= min(n, s.writing)
	s.backlog.noteWritten(n, s.queuedBytes())
	x.refundQueue()
	if s.room != nil && s.queuedBytes() < x.h.o.MaxQueued/2 {
		close(s.room)
		s.room = nil
	}
}

// writeQueued writes to a connection that was taken over until nothing is left.
func (x *Exchange) writeQueued() {
	x.mu.Lock()
	for x.state != gone {
		batch, buf := x.s.takeBatch(x.chunks, x.state == finishing)
		if len(batch) == 0 {
			x.s.active = false
			if x.s.ended {
				x.endAndUnlock("")
				return
			}
			x.mu.Unlock()
			return
		}
		conn := x.s.conn
		x.mu.Unlock()
		var err error
		for len(batch) > 0 && err == nil {
			var n int
			_ = conn.SetWriteDeadline(time.Now().Add(x.h.o.WriteTimeout))
			n, err = conn.Write(batch[:min(len(batch), maxWrite)])
			batch = batch[n:]
			x.mu.Lock()
			x.noteWritten(n)
			x.mu.Unlock()
		}
		buf.Free()
		x.mu.Lock()
		if err != nil {
			x.endAndUnlock(x.writeFault(err))
			return
		}
		x.s.writing = 0
		x.noteWritten(0)
	}
	x.mu.Unlock()
}

func (x *Exchange) writeFault(err error) string {
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return cutTimeout
	}
	return x.goneReason()
}

// goneReason returns the reason of a cut when the client is gone.
func (x *Exchange) goneReason() string {
	if x.endsWithConnection() {
		return cutClosed
	}
	return cutWrite
}

// endAndUnlock makes a stream gone. reason says why it is cut; "" means that it ended well. mu is held, and released.
func (x *Exchange) endAndUnlock(reason string) {
	if x.state == gone {
		x.mu.Unlock()
		return
	}
	s := x.s
	x.state = gone
	s.cut = reason != ""
	s.pending.Free()
	s.out.Free()
	s.pending, s.out, s.head = nil, nil, nil
	x.refundBytes(quota.Queues, s.charged)
	s.charged = 0
	if s.room != nil {
		close(s.room)
		s.room = nil
	}
	conn, w, cancel, hook, after := s.conn, x.w, x.cancel, x.takeHook(), x.onGone
	x.onGone = nil
	if conn == nil && s.cut && w != nil {
		// A write that is under way must not hold up ServeHTTP.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now())
	}
	x.mu.Unlock()
	if s.cut && conn != nil {
		abortConn(conn, reason)
	}
	tellGone(cancel, hook)
	for _, f := range after {
		go f()
	}
	x.h.hangups.stopWatching(s.watch)
	if !s.cut && conn != nil && (s.reuse == nil || !s.reuse.keepConn(conn)) {
		closeLingering(conn)
	}
	x.h.removeStream(x)
	x.wakeWriter()
	if s.cut && x.h.o.Observer != nil {
		x.h.o.Observer.Cut(reason)
	}
}

// abortConn closes conn at once.
func abortConn(conn net.Conn, reason string) {
	// Closing a TLS connection waits for the peer; closing the connection below does not.
	below := belowTLS(conn)
	if reason == cutQueue || reason == cutMemory || reason == cutTimeout {
		// Otherwise the kernel would keep the bytes for a peer that does not read for minutes.
		if t, ok := below.(*net.TCPConn); ok {
			_ = t.SetLinger(0)
		}
	}
	if g := server.ConnOf(conn); g != nil { // its listener counts it until it is closed itself
		_ = g.Close()
		return
	}
	_ = below.Close()
}

// closeLingering closes conn once the peer has seen the end of the response, or after a moment.
func closeLingering(conn net.Conn) {
	if server.CloseWrite(conn) == nil {
		_ = conn.SetReadDeadline(time.Now().Add(lingerTime))
		_, _ = io.CopyN(io.Discard, conn, maxWrite)
	}
	_ = conn.Close()
}

// queueCharge is what is counted for a stream with n queued bytes: in steps, so that most events
// change nothing.
func queueCharge(n int) int64 {
	return int64(max(1, (n+streamBytes-1)/streamBytes)) * streamBytes
}

// chargeQueue counts what is queued. It returns false if there is no room for that. mu is held.
func (x *Exchange) chargeQueue() bool {
	s := x.s
	want := queueCharge(s.queuedBytes())
	if want <= s.charged {
		return true
	}
	if x.chargeBytes(quota.Queues, want-s.charged) != nil {
		return false
	}
	s.charged = want
	return true
}

// refundQueue takes off what is not queued any more. mu is held.
func (x *Exchange) refundQueue() {
	s := x.s
	if want := queueCharge(s.queuedBytes()); want < s.charged {
		x.refundBytes(quota.Queues, s.charged-want)
		s.charged = want
	}
}
