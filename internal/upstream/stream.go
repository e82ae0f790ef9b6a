package upstream

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/internal/eventstream"
	"github.com/troupe-run/troupe/mcp"
)

// A place is how far a stream was read, over all its connections.
type place struct {
	event  string        // the last id
	retry  time.Duration // the pause that the backend asked for, 0 for none
	events int           // that had an id or a message
	fails  int           // attempts in a row that got no event
}

// longestRetry bounds the pause that a backend may ask for.
const longestRetry = 5 * time.Minute

// pause returns how long to wait before the next connection.
func (p *place) pause() time.Duration {
	if p.retry > 0 && p.fails == 0 {
		return min(p.retry, longestRetry)
	}
	pause := LongestPause
	if p.fails < 10 {
		pause = min(pause, ShortestPause<<p.fails)
	}
	return max(pause, min(p.retry, longestRetry))
}

// followStream reads the response stream of a request from a place on until its answer has come, over as many connections as that takes.
// With a nil body it begins with another connection.
func (h *HTTP) followStream(ctx context.Context, m Outgoing, body io.ReadCloser, at *place) *Failure {
	for {
		if body != nil {
			answered, f := h.readEvents(body, m.ID, m.Revision, at)
			switch {
			case answered:
				return nil
			case f.Why == ReasonTooLarge || ctx.Err() != nil: // it is as large on the next connection
				return f
			case at.event == "":
				f.Text = "the backend's response stream ended before the answer"
				return f
			}
			if f := h.waitToReconnect(ctx, at.pause()); f != nil {
				return f
			}
		}
		var f *Failure
		if body, f = h.takeUp(ctx, m, at); f != nil {
			f.Outcome = Lost
			return f
		}
	}
}

// waitToReconnect waits before the next connection.
func (h *HTTP) waitToReconnect(ctx context.Context, d time.Duration) *Failure {
	if err := sleepFor(ctx, h.clock, d); err != nil {
		return &Failure{Why: ReasonEnded, Text: "the backend's response stream ended before the answer", Err: err}
	}
	return nil
}

// takeUp makes the next connection of a response stream. It tries again while that may help.
func (h *HTTP) takeUp(ctx context.Context, m Outgoing, at *place) (io.ReadCloser, *Failure) {
	for try := 1; ; try++ {
		body, f := h.getStream(ctx, m.Revision, at.event)
		if f == nil {
			return body, nil
		}
		if ctx.Err() != nil || try >= MostResumes || !isTemporary(f) {
			f.Text = "the backend's response stream cannot be taken up again"
			return nil, f
		}
		at.fails++
		if f := h.waitToReconnect(ctx, max(f.After, at.pause())); f != nil {
			return nil, f
		}
	}
}

// isTemporary reports whether a stream that was refused may be given later: the backend is away, or has not seen
// yet that the connection before has ended.
func isTemporary(f *Failure) bool {
	switch f.Why {
	case ReasonUnreachable, ReasonEnded, ReasonBusy:
		return true
	case ReasonStatus:
		return f.Status == http.StatusConflict || f.Status/100 == 5
	}
	return false
}

// getStream asks for what follows an event of a stream, or for the standalone stream.
func (h *HTTP) getStream(ctx context.Context, revision mcp.Revision, event string) (io.ReadCloser, *Failure) {
	r, err := h.newRequest(ctx, http.MethodGet, Outgoing{Revision: revision}, event)
	if err != nil {
		return nil, &Failure{Why: ReasonUnreachable, Outcome: NotRun, Text: "no request to the backend can be made", Err: err}
	}
	res, f := h.do(r)
	if f != nil {
		return nil, f
	}
	if isEventStream(res) {
		return res.Body, nil
	}
	body, f := readBody(res)
	if f != nil {
		return nil, f
	}
	reply := httpReply{status: res.StatusCode, header: res.Header, body: body, session: r.Header.Get(headerSession) != ""}
	if _, f = reply.judge(h.clock.Now()); f == nil {
		f = malformed("the backend answered with "+typeText(res.Header)+" where an event stream was asked for", body)
	}
	return nil, f
}

// readEvents reads one connection of a stream, and closes it. It returns true when the request on has its answer, and
// else why there is nothing more.
func (h *HTTP) readEvents(body io.ReadCloser, on int64, revision mcp.Revision, at *place) (answered bool, f *Failure) {
	before := at.events
	defer func() {
		if at.fails++; at.events > before {
			at.fails = 0
		}
	}()
	quiet := &watched{ReadCloser: body}
	defer quiet.Close()
	if !revision.Stateless() {
		quiet.resumable.Store(on == 0 || at.event != "")
		quiet.watch(h.clock)
	}
	events := eventstream.NewReader(quiet, MostMessage)
	for {
		e, err := events.Next()
		if err != nil {
			return false, streamFailure(err)
		}
		at.events++
		if e.Retry > 0 {
			at.retry = e.Retry
		}
		if len(e.Data) > 0 && isMessage(e.Name) {
			answered = h.in.Receive(bytes.Clone(e.Data), on) && on != 0
		}
		// Only now: whoever begins after it may not miss the message.
		if isToken(e.ID) && !revision.Stateless() {
			at.event = e.ID
			quiet.resumable.Store(true)
			h.in.Passed(on, e.ID)
		}
		if answered {
			return true, nil
		}
	}
}

// isMessage reports whether an event of a name is a message of the protocol.
func isMessage(name string) bool { return name == "" || name == "message" }

func streamFailure(err error) *Failure {
	if _, ok := errors.AsType[eventstream.SizeError](err); ok {
		return &Failure{Why: ReasonTooLarge, Text: "an event of the backend is too large"}
	}
	return &Failure{Why: ReasonEnded, Text: "the backend's stream ended", Err: err}
}

func (h *HTTP) rejoin(ctx context.Context, m Outgoing, event string) error {
	if event == "" {
		return &Failure{Why: ReasonEnded, Text: "the backend's response stream cannot be taken up again"}
	}
	ctx, stop := withLife(ctx, h.life)
	defer stop()
	return asError(h.followStream(ctx, m, nil, &place{event: event}))
}

// listen reads the standalone stream until the link ends. A backend need not have one.
func (h *HTTP) listen(revision mcp.Revision) <-chan struct{} {
	h.mu.Lock()
	at := place{event: h.event}
	h.mu.Unlock()
	h.running.Add(1)
	begun := make(chan struct{})
	begin := sync.OnceFunc(func() { close(begun) })
	go func() {
		defer h.running.Done()
		defer begin()
		for h.life.Err() == nil {
			body, f := h.getStream(h.life, revision, at.event)
			begin()
			if f == nil {
				_, f = h.readEvents(body, 0, revision, &at)
			} else {
				at.fails++
			}
			switch {
			case f.Why == ReasonSessionGone || f.Why == ReasonTooLarge:
				h.in.Ended(f)
				return
			case !isTemporary(f):
				return
			}
			if h.waitToReconnect(h.life, max(f.After, at.pause())) != nil {
				return
			}
		}
	}()
	return begun
}

// A watched stream is closed when it has been silent for too long, if it can be taken up again.
type watched struct {
	io.ReadCloser
	resumable atomic.Bool
	heard     atomic.Bool // something came since the last look
	closed    atomic.Bool
	stop      atomic.Pointer[func() bool]
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	if n > 0 {
		w.heard.Store(true)
	}
	return n, err
}

// watch looks at the stream from time to time.
func (w *watched) watch(c Clock) {
	stop := c.AfterFunc(StreamSilence, func() {
		switch {
		case w.closed.Load():
		case !w.heard.Swap(false) && w.resumable.Load():
			_ = w.ReadCloser.Close()
		default:
			w.watch(c)
		}
	})
	w.stop.Store(&stop)
	if w.closed.Load() {
		stop()
	}
}

// Close ends the watch, too.
func (w *watched) Close() error {
	w.closed.Store(true)
	if stop := w.stop.Load(); stop != nil {
		(*stop)()
	}
	return w.ReadCloser.Close()
}
