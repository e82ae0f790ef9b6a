//go:build linux && full

package kubelet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupe-run/troupe/bench/client"
)

// load is clients that call one after the other, and retry nothing but what the specification says: what was refused with 503 or with retryAfterMs,
// and the stream of a session that broke off.
type load struct {
	url       string
	stopping  chan struct{}
	clients   sync.WaitGroup
	answered  [4]atomic.Int64 // by kind
	refused   atomic.Int64
	resumed   atomic.Int64
	lost      chan string
	transport *http.Transport
}

// The kinds of clients.
var kinds = [...]string{"short calls without a session", "long calls without a session", "short calls of a session", "streams of a session"}

// startLoad starts clients of each kind against what is at a URL.
func startLoad(t *testing.T, url string) *load {
	t.Helper()
	l := &load{url: url, stopping: make(chan struct{}), lost: make(chan string, 1000), transport: client.NewTransport()}
	sessions := make([]*client.Client, 10)
	for i := range sessions {
		sessions[i] = client.New(url, l.transport)
		if err := sessions[i].BeginSession(t.Context(), `{}`); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		l.repeat(0, func(ctx context.Context) error { return l.callStateless(ctx, 50) })
		l.repeat(1, func(ctx context.Context) error { return l.callStateless(ctx, 1500) })
	}
	for i, c := range sessions {
		if i < 2 {
			l.repeat(2, func(ctx context.Context) error {
				return l.callSession(ctx, c, `{"name":"sleep","arguments":{"ms":50}}`, "slept 50 ms", 0)
			})
		} else {
			l.repeat(3, func(ctx context.Context) error {
				// Longer than pods serve on that are to end.
				return l.callSession(ctx, c, `{"name":"count","arguments":{"to":15,"delay_ms":400},"_meta":{"progressToken":1}}`, "counted to 15", 15)
			})
		}
	}
	return l
}

// repeat has a client make calls until the load stops. The first one that is lost ends it.
func (l *load) repeat(kind int, call func(context.Context) error) {
	l.clients.Go(func() {
		for {
			select {
			case <-l.stopping:
				return
			default:
			}
			if err := call(context.Background()); err != nil {
				l.lost <- kinds[kind] + ": " + err.Error()
				return
			}
			l.answered[kind].Add(1)
		}
	})
}

// stop lets the clients end what they call, and reports what was lost. Each kind has made calls, or nothing is proved.
func (l *load) stop(t *testing.T) {
	t.Helper()
	close(l.stopping)
	l.clients.Wait()
	close(l.lost)
	for what := range l.lost {
		t.Errorf("lost: %s", what)
	}
	for kind := range kinds {
		n := l.answered[kind].Load()
		t.Logf("%s: %d answered", kinds[kind], n)
		if n == 0 {
			t.Errorf("%s: none was answered", kinds[kind])
		}
	}
	t.Logf("%d requests were refused and sent again, and %d were sent to resume streams", l.refused.Load(), l.resumed.Load())
	if l.resumed.Load() == 0 {
		t.Error("no stream was handed over")
	}
	l.transport.CloseIdleConnections()
}

// again waits before a request is sent again.
func (l *load) again(counter *atomic.Int64) {
	counter.Add(1)
	<-time.After(100 * time.Millisecond)
}

// answer is a response.
type answer struct {
	Result *struct{ Content []struct{ Text string } }
	Error  *struct {
		Code    int
		Message string
		Data    struct{ RetryAfterMs int }
	}
}

var errRefused = errors.New("refused")

// judge says whether a response is the one that is wanted.
func judge(status int, body []byte, want string) error {
	var a answer
	switch err := json.Unmarshal(body, &a); {
	case status == http.StatusServiceUnavailable, a.Error != nil && a.Error.Data.RetryAfterMs > 0:
		return errRefused
	case err != nil:
		return fmt.Errorf("%w: %d %s", err, status, body)
	case status != http.StatusOK || a.Result == nil || len(a.Result.Content) != 1 || a.Result.Content[0].Text != want:
		return fmt.Errorf("answered with %d %s, want %q", status, body, want)
	}
	return nil
}

// callStateless makes a call of 2026-07-28.
func (l *load) callStateless(ctx context.Context, ms int) error {
	for c := client.NewStateless(l.url, l.transport, `{}`); ; l.again(&l.refused) {
		a, err := c.SendRequest(ctx, "1", "tools/call", fmt.Sprintf(`"name":"sleep","arguments":{"ms":%d}`, ms))
		if err != nil {
			return err
		}
		status, body := a.Status, a.Body
		for a.Events != nil { // which cannot be resumed: the last event is the response
			e, err := a.Events.Next()
			if errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return err
			}
			if strings.Contains(e.Data, `"id":1`) {
				body = []byte(e.Data)
			}
		}
		if err := judge(status, body, fmt.Sprintf("slept %d ms", ms)); !errors.Is(err, errRefused) {
			return err
		}
	}
}

// callSession makes a call of a session, and resumes its stream, if the answer becomes one, until it has the response. Each notification of progress comes once.
func (l *load) callSession(ctx context.Context, c *client.Client, params, want string, progress int) error {
	for ; ; l.again(&l.refused) {
		a, err := c.SendRequest(ctx, "1", "tools/call", params)
		if err != nil {
			return err
		}
		if a.Events == nil {
			if err := judge(a.Status, a.Body, want); !errors.Is(err, errRefused) {
				return err
			}
			continue
		}
		return l.readStream(ctx, c, a, want, progress)
	}
}

func (l *load) readStream(ctx context.Context, c *client.Client, a *client.Answer, want string, progress int) error {
	last := ""
	for {
		for {
			e, err := a.Events.Next()
			if err != nil {
				if last == "" {
					return fmt.Errorf("a stream ends before its first event: %w", err)
				}
				break // the server, or the proxy, has ended the connection, and not the stream
			}
			last = e.ID
			if strings.Contains(e.Data, `"id":1`) && !strings.Contains(e.Data, `"method"`) {
				a.Close()
				return judgeStream(c, e, want, progress)
			}
		}
		for {
			l.again(&l.resumed)
			var err error
			if a, err = c.ResumeStream(ctx, last); err != nil {
				if client.Failed(err) == 0 {
					return err
				}
				continue // nothing was called by it
			}
			if a.Events != nil {
				break
			}
			if a.Status != http.StatusServiceUnavailable {
				return fmt.Errorf("a stream cannot be resumed: %d %s", a.Status, a.Body)
			}
		}
	}
}

// judgeStream says whether a stream that ends with an event was the one that is wanted, with so many notifications of progress.
func judgeStream(c *client.Client, end client.Event, want string, progress int) error {
	if err := judge(http.StatusOK, []byte(end.Data), want); err != nil {
		return err
	}
	at, err := client.ParseID(end.ID)
	if err != nil {
		return err
	}
	defer c.ForgetStream(at.Stream)
	events, err := c.StreamRecord(at.Stream).MergeEvents()
	if err != nil {
		return err
	}
	n := 0
	for _, e := range events {
		if strings.Contains(e.Data, `"notifications/progress"`) {
			if n++; !strings.Contains(e.Data, fmt.Sprintf(`"progress":%d,`, n)) && !strings.Contains(e.Data, fmt.Sprintf(`"progress":%d}`, n)) {
				return fmt.Errorf("the progress after %d is %s", n-1, e.Data)
			}
		}
	}
	if n != progress {
		return fmt.Errorf("a stream has %d of %d notifications of progress", n, progress)
	}
	return nil
}
