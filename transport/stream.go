package transport

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/mcp"
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
	// chunkRoom is kept free at the start of a buffer for the size line of its chunk: 8 digits, CR,
	// LF.
	chunkRoom = 10

	lastChunk = "0\r\n\r\n"

	// firstChunk goes out with a header that no event follows at once. Proxies such as nginx keep
	// the header of a response over HTTP/2 until its first byte has come.
	firstChunk = "3\r\n" + comment + "\r\n"

	// maxWrite is how many bytes one write may hold, so that a reader that is slow but makes
	// progress is not cut for a large event.
	maxWrite = 256 << 10

	// lingerTime is how long a finished connection is still read from. Otherwise bytes that the
	// peer sent meanwhile would reset the connection before the peer has read the end.
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

// exchangeWriter writes the event stream of an exchange to its connection.
type exchangeWriter struct {
	*Exchange
}

// pumpBeside starts a goroutine that writes. ServeHTTP waits for it when the dispatcher has
// returned. mu is held.
func (x exchangeWriter) pumpBeside(header http.Header) {
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

// closeAfter announces that the connection is closed after the stream, because its write deadline
// stays set. HTTP/2 has a deadline for each stream.
func (x exchangeWriter) closeAfter(header http.Header) {
	if x.http1 {
		header.Set("Connection", "close")
	}
}

// appendHead returns the status line and headers of a response on a connection that was taken over.
func (x exchangeWriter) appendHead(header http.Header) []byte {
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

// pendingBuffer returns the buffer of events that are queued and not flushed.
func (s *stream) pendingBuffer() *codec.Buffer {
	if s.pending == nil {
		s.pending = codec.GetBuffer()
		s.pending.B = append(s.pending.B[:0], make([]byte, chunkRoom)...)
	}
	return s.pending
}

func (x exchangeWriter) cutStream(reason string) {
	x.mu.Lock()
	switch x.state {
	case fresh:
		x.state, x.aborted = gone, true
		cancel, hook, after := x.end.takeAll()
		x.mu.Unlock()
		tellGone(cancel, hook, after)
		x.wakeWriter()
	case streaming, finishing:
		x.endAndUnlock(reason)
	default:
		x.mu.Unlock()
	}
}

// wakeWriter wakes the goroutine of ServeHTTP if that one writes.
func (x exchangeWriter) wakeWriter() {
	if x.wake == nil {
		return
	}
	select {
	case x.wake <- struct{}{}:
	default:
	}
}

// startWriter makes sure that a writer runs. mu is held.
func (x exchangeWriter) startWriter() {
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
func (x exchangeWriter) noteWritten(n int) {
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
func (x exchangeWriter) writeQueued() {
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

func (x exchangeWriter) writeFault(err error) string {
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return cutTimeout
	}
	return x.goneReason()
}

// goneReason returns the reason of a cut when the client is gone.
func (x exchangeWriter) goneReason() string {
	if x.client().endsWithConnection() {
		return cutClosed
	}
	return cutWrite
}

// endAndUnlock makes a stream gone. reason says why it is cut; "" means that it ended well. mu is
// held, and released.
func (x exchangeWriter) endAndUnlock(reason string) {
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
	x.charges.refundBytes(quota.Queues, s.charged)
	s.charged = 0
	if s.room != nil {
		close(s.room)
		s.room = nil
	}
	conn, w := s.conn, x.w
	cancel, hook, after := x.end.takeAll()
	if conn == nil && s.cut && w != nil {
		// A write that is under way must not hold up ServeHTTP.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now())
	}
	x.mu.Unlock()
	if s.cut && conn != nil {
		abortConn(conn, reason)
	}
	tellGone(cancel, hook, after)
	x.h.hangups.stopWatching(s.watch)
	if !s.cut && conn != nil && (s.reuse == nil || !s.reuse.keepConn(conn)) {
		closeLingering(conn)
	}
	x.h.streams.removeStream(x.Exchange)
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
func (x exchangeWriter) chargeQueue() bool {
	s := x.s
	want := queueCharge(s.queuedBytes())
	if want <= s.charged {
		return true
	}
	if x.charges.chargeBytes(quota.Queues, want-s.charged) != nil {
		return false
	}
	s.charged = want
	return true
}

// refundQueue takes off what is not queued any more. mu is held.
func (x exchangeWriter) refundQueue() {
	s := x.s
	if want := queueCharge(s.queuedBytes()); want < s.charged {
		x.charges.refundBytes(quota.Queues, s.charged-want)
		s.charged = want
	}
}

// pumpStream writes an event stream through w until the stream ends. Nothing else uses w meanwhile.
// If w, which the program may have wrapped, panics, the stream is cut: its caller aborts the
// request then.
func (x exchangeWriter) pumpStream(w http.ResponseWriter) {
	defer func() {
		if v := recover(); v != nil && v != http.ErrAbortHandler {
			x.h.o.Log.LogAttrs(x.base, slog.LevelError, "transport: a response panicked", panicAttrs(v, debug.Stack())...)
		}
		x.cutStream(cutPanic) // unless it has ended
	}()
	rc, done := http.NewResponseController(w), x.base.Done()
	for started := false; ; {
		x.mu.Lock()
		if x.state == gone {
			x.w = nil
			x.mu.Unlock()
			return
		}
		batch, buf := x.s.takeBatch(false, x.state == finishing)
		if len(batch) == 0 && started {
			if x.s.ended {
				// net/http writes the end of the response after the return.
				_ = rc.SetWriteDeadline(time.Now().Add(x.h.o.WriteTimeout))
				x.w = nil
				x.endAndUnlock("")
				return
			}
			x.mu.Unlock()
			select {
			case <-x.wake:
			case <-done:
				if done = nil; x.client().hasLeft() {
					x.cutStream(x.goneReason())
				}
			}
			continue
		}
		if len(batch) == 0 && !x.s.ended {
			batch = []byte(comment) // with the header: see firstChunk
		}
		x.mu.Unlock()
		begins := !started
		if begins {
			if x.unread { // the server reads it before it sends the header
				x.h.endBody(w)
			}
			w.WriteHeader(http.StatusOK)
			started = true
		}
		err := x.writeBatch(w, rc, batch)
		if begins && x.unread { // or the server would take its end for that of the client
			_ = rc.SetReadDeadline(time.Time{})
		}
		buf.Free()
		x.mu.Lock()
		x.s.writing = 0
		x.noteWritten(0)
		if err != nil {
			x.w = nil
			x.endAndUnlock(x.writeFault(err))
			return
		}
		x.mu.Unlock()
	}
}

// writeBatch writes one batch and flushes it.
func (x exchangeWriter) writeBatch(w http.ResponseWriter, rc *http.ResponseController, batch []byte) error {
	for {
		x.mu.Lock()
		if x.state == gone || x.client().hasCancelled() {
			x.mu.Unlock()
			return ErrGone
		}
		// Under mu, so that this never extends the deadline that a Cut sets.
		_ = rc.SetWriteDeadline(time.Now().Add(x.h.o.WriteTimeout))
		x.mu.Unlock()
		n, err := w.Write(batch[:min(len(batch), maxWrite)])
		if err == nil {
			err = rc.Flush()
		}
		if err != nil && !errors.Is(err, http.ErrNotSupported) {
			return err
		}
		x.mu.Lock()
		x.noteWritten(n)
		x.mu.Unlock()
		if batch = batch[n:]; len(batch) == 0 {
			return nil
		}
	}
}

// closesAfterStream reports whether the connection of a stream that begins will be closed after it,
// because the server ends. Clients of revisions without priming come back when a stream breaks, but
// not when a response has ended well. So the end must not be announced to them: see Reuse.
func (x exchangeWriter) closesAfterStream() bool {
	if !x.h.isLeaving() || x.Stateless {
		return x.h.isLeaving()
	}
	r, _ := mcp.ParseRevision(x.Version)
	return protocol.Has(r, protocol.FeatureStreamPriming)
}

// reuseOf returns where to put the connection of x after its stream, or nil if the connection must
// be closed. It must be if ahead, the number of bytes already read from it, is not 0: nobody can
// give them back.
func (x exchangeWriter) reuseOf(ahead int) *reuse {
	if !x.chunks || x.closes || ahead > 0 || x.closesAfterStream() {
		return nil
	}
	l, _ := x.base.Value(reuseKey{}).(*reuse)
	return l
}
