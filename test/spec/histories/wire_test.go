package histories

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/internal/eventstream"
)

// silent is after what time of silence a client gives a connection up. The server sends comments more often than that.
const silent = 50 * time.Second

// reply is the response to a request: its body, or its open event stream.
type reply struct {
	p       *process
	began   time.Time
	status  int // 0: there was no response
	session string
	body    string
	open    bool        // an event stream
	ended   bool        // the stream came to its end in order
	mine    atomic.Bool // the client broke the connection

	from  io.Reader
	in    *eventstream.Reader
	stop  context.CancelFunc
	gone  <-chan struct{} // closed when the connection has ended
	quiet *time.Timer
}

type event struct {
	id, data string
	name     string
}

// send sends a request to p, which may be nil. over ends it.
func (w *world) send(p *process, method, path, body string, header ...string) *reply {
	r := &reply{p: p, began: time.Now()}
	if p == nil {
		return r
	}
	ctx, stop := context.WithCancel(context.Background())
	r.stop, r.gone = stop, ctx.Done()
	r.quiet = time.AfterFunc(silent, stop)
	go func() {
		select {
		case <-w.over:
			stop()
		case <-ctx.Done():
		}
	}()
	req, err := http.NewRequestWithContext(ctx, method, "http://127.0.0.1"+path, strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	req.Header.Set("Accept", "application/json, text/event-stream")
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		if header[i+1] != "" {
			req.Header.Set(header[i], header[i+1])
		}
	}
	resp, err := p.http.Do(req)
	if err != nil {
		r.close()
		return r
	}
	r.status, r.session = resp.StatusCode, resp.Header.Get("Mcp-Session-Id")
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		r.open, r.from, r.in = true, resp.Body, eventstream.NewReader(r, 1<<30)
		return r
	}
	text, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	r.body = string(text)
	if err != nil {
		r.status = 0
	}
	r.close()
	return r
}

// breaks has the client break the connection.
func (r *reply) breaks() {
	r.mine.Store(true)
	r.close()
}

// breaksAfter has the client break the connection after a while.
func (r *reply) breaksAfter(d time.Duration) { time.AfterFunc(d, r.breaks) }

func (r *reply) close() {
	if r.stop != nil {
		r.quiet.Stop()
		r.stop()
	}
}

// Read reads from the connection, which is not silent then.
func (r *reply) Read(b []byte) (int, error) {
	n, err := r.from.Read(b)
	if n > 0 {
		r.quiet.Reset(silent)
	}
	return n, err
}

// next reads the next event. ok is false at the end of the stream.
func (r *reply) next() (e event, ok bool) {
	got, err := r.in.Next()
	if err != nil {
		r.ended = err == io.EOF
		r.close()
		return e, false
	}
	return event{id: got.ID, data: string(got.Data), name: got.Name}, true
}

// refused reports whether a response says to come again later.
func (r *reply) refused() bool {
	return r.status == 503 || r.status == 429 || r.status == 200 && !r.open && strings.Contains(r.body, `"retryAfterMs"`)
}

// whole reads the response where nothing else is to come: also if it became a stream because the store was slow.
func (r *reply) whole() *reply {
	for r.open {
		e, ok := r.next()
		if !ok {
			r.open, r.status = false, 0
		} else if m, ok := read(e.data); ok && e.data != "" && m.Method == "" {
			r.open, r.body = false, e.data
			r.breaks()
		}
	}
	return r
}
