package transport

import (
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"
)

// serveInline serves an exchange whose connection cannot be taken over. The response ends when ServeHTTP returns, while
// a call may go on. So the dispatcher gets a goroutine of its own, and this one writes.
func (h *Handler) serveInline(x *Exchange, w http.ResponseWriter, method string) {
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		h.dispatchMethod(x, method)
	}()
	woken, done := false, x.base.Done()
	for x.isFresh() {
		select {
		case <-x.wake:
			woken = true
		case <-returned:
			// Something was sent by now; the state says what.
			returned = nil
		case <-done:
			if done = nil; x.clientLeft() {
				x.clientGone()
			}
		}
	}
	x.mu.Lock()
	s, writes := x.s, x.state == answered
	x.mu.Unlock()
	if s != nil {
		x.pumpStream(w)
		x.abortIf(s)
		return
	}
	if writes && !woken {
		<-x.wake // The response is being written. handlerReturned would wait for the lock, and virtual time stands still there.
	}
	x.handlerReturned()
}

// clientGone ends an exchange whose client is gone before anything was sent.
func (x *Exchange) clientGone() {
	if x.Stateless {
		x.endByClient()
		return
	}
	x.mu.Lock()
	if x.state == fresh {
		x.state = gone
	}
	x.mu.Unlock()
}

// isFresh reports whether nothing has been sent yet.
func (x *Exchange) isFresh() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.state == fresh
}

// pumpStream writes an event stream through w until the stream ends. Nothing else uses w meanwhile. If w, which the program may have wrapped,
// panics, the stream is cut: its caller aborts the request then.
func (x *Exchange) pumpStream(w http.ResponseWriter) {
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
				if done = nil; x.clientLeft() {
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
func (x *Exchange) writeBatch(w http.ResponseWriter, rc *http.ResponseController, batch []byte) error {
	for {
		x.mu.Lock()
		if x.state == gone || x.hasLeft() {
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
