package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/troupe-run/troupe/internal/eventstream"
)

// maxBody is the largest body of a response, and the largest event, in bytes.
const maxBody = 128 << 20

// NewTransport returns connections that suit many streams to one server.
func NewTransport() *http.Transport {
	return &http.Transport{
		DialContext:         (&net.Dialer{Timeout: 2 * time.Second}).DialContext,
		MaxIdleConns:        256,
		MaxIdleConnsPerHost: 256,
		DisableCompression:  true,
	}
}

// newHTTP returns an HTTP client with the connections, or with its own if rt is nil.
func newHTTP(rt http.RoundTripper) *http.Client {
	if rt == nil {
		rt = NewTransport()
	}
	return &http.Client{Transport: rt}
}

// Answer is the response to a request: a body, or an open event stream.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte  // nil for a stream
	Events *Events // nil for a body
}

// Close ends the stream, if the answer is one.
func (a *Answer) Close() {
	if a.Events != nil {
		a.Events.Close()
	}
}

// Do sends a request with the headers that all of them need and those in h, which it may keep.
// Events are not recorded.
func Do(ctx context.Context, by *http.Client, method, url, body string, h http.Header) (*Answer, error) {
	var content io.Reader
	if method == http.MethodPost {
		content = strings.NewReader(body)
		h["Content-Type"] = []string{"application/json"}
	}
	r, err := http.NewRequestWithContext(ctx, method, url, content)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	h["Accept"] = []string{"application/json, text/event-stream"}
	r.Header = h
	resp, err := by.Do(r)
	if err != nil {
		return nil, lossOf(method, err)
	}
	a := &Answer{Status: resp.StatusCode, Header: resp.Header}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		a.Events = &Events{op: method, body: resp.Body, rd: eventstream.NewReader(resp.Body, maxBody)}
		return a, nil
	}
	defer resp.Body.Close()
	if n := resp.ContentLength; n >= 0 && n <= maxBody {
		a.Body = make([]byte, n)
		_, err = io.ReadFull(resp.Body, a.Body)
	} else {
		a.Body, err = io.ReadAll(io.LimitReader(resp.Body, maxBody))
	}
	if err != nil {
		return nil, &Error{method, Broken, err}
	}
	return a, nil
}

// Stage is how far a request got before it failed.
type Stage int

// The stages.
const (
	// Refused: there was no connection, and the server has seen nothing.
	Refused Stage = iota + 1
	// Lost: the connection broke before a byte of the answer came. Whether the
	// server has seen the request is unknown.
	Lost
	// Broken: the connection broke within the answer.
	Broken
)

func (s Stage) String() string { return [...]string{"no stage", "refused", "lost", "broken"}[s] }

// Error reports a connection that failed.
type Error struct {
	Op    string // the HTTP method
	Stage Stage
	Err   error
}

func (e *Error) Error() string {
	return fmt.Sprintf("client: %s %s: %v", e.Op, e.Stage, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// Failed returns the stage of a connection's failure, and 0 for any other error.
func Failed(err error) Stage {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Stage
	}
	return 0
}

// lossOf is the error of a request that got no answer.
func lossOf(op string, err error) error {
	stage := Lost
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "dial" || errors.Is(err, syscall.ECONNREFUSED) {
		stage = Refused
	}
	return &Error{op, stage, err}
}

// Request returns a request. id is a raw JSON token and params a JSON object, or "" for none.
func Request(id, method, params string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,` + membersOf(method, params)
}

func notificationOf(method, params string) string {
	return `{"jsonrpc":"2.0",` + membersOf(method, params)
}

func membersOf(method, params string) string {
	if params != "" {
		params = `,"params":` + params
	}
	return `"method":"` + method + `"` + params + `}`
}

func answerOf(id, result string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"result":` + result + `}`
}

// Sleep waits for d. It returns false if ctx ends first.
func Sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
