package upstream

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"

	"github.com/troupe-run/troupe/internal/eventstream"
)

// SSE is the link to a server over HTTP+SSE, the transport of 2024-11-05: all that the server says
// comes on one event stream, whose connection is the session, and messages are posted to an endpoint
// that its first event names. An endpoint of another origin is refused: it would get the header.
type SSE struct {
	dialer
	life     context.Context
	end      context.CancelCauseFunc
	running  sync.WaitGroup
	endpoint string
}

var _ Link = (*SSE)(nil)

// NewSSE returns the link to the event stream of a server of HTTP+SSE.
func NewSSE(o HTTPOptions) *SSE {
	s := &SSE{dialer: newDialer(o)}
	s.life, s.end = context.WithCancelCause(context.Background())
	return s
}

// Open connects and waits for the endpoint.
func (s *SSE) Open(ctx context.Context, in Inbox) error {
	if err := checkURL(s.o.URL); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { s.end(context.Cause(ctx)) })
	defer stop()
	r, err := http.NewRequestWithContext(s.life, http.MethodGet, s.o.URL, http.NoBody)
	if err != nil {
		return &Failure{Why: ReasonUnreachable, Outcome: NotRun, Text: "no request to the backend can be made", Err: err}
	}
	r.Header.Set("Accept", acceptStream)
	res, f := s.do(r)
	if f != nil {
		return f
	}
	if !isEventStream(res) {
		body, f := readBody(res)
		if f == nil {
			reply := httpReply{status: res.StatusCode, header: res.Header, body: body}
			_, f = reply.judge(s.clock.Now())
		}
		if f == nil {
			f = malformed("the backend answered with "+typeText(res.Header)+" where an event stream was asked for", body)
		}
		return f
	}
	events := eventstream.NewReader(res.Body, MostMessage)
	if f := s.readEndpoint(events); f != nil {
		_ = res.Body.Close()
		return f
	}
	s.running.Add(1)
	go s.read(events, res.Body, in)
	return nil
}

// readEndpoint reads the first event with a name of its own.
func (s *SSE) readEndpoint(events *eventstream.Reader) *Failure {
	for range MostBatch {
		e, err := events.Next()
		if err != nil {
			f := streamFailure(err)
			f.Outcome = NotRun
			return f
		}
		if e.Name != "endpoint" {
			continue
		}
		s.endpoint, err = endpointOf(s.o.URL, string(e.Data))
		if err != nil {
			f := badHandshake("the backend's endpoint is refused", e.Data)
			f.Err = err
			return f
		}
		return nil
	}
	return badHandshake("the backend names no endpoint", nil)
}

// endpointOf resolves the endpoint that a stream names. It must have the origin of the stream.
func endpointOf(stream, endpoint string) (string, error) {
	base, err := url.Parse(stream)
	if err != nil {
		return "", err
	}
	if len(endpoint) > 8<<10 {
		return "", fmt.Errorf("it has %d bytes", len(endpoint))
	}
	u, err := base.Parse(endpoint)
	if err != nil {
		return "", err
	}
	if u.Scheme != base.Scheme || hostOf(u) != hostOf(base) {
		return "", fmt.Errorf("it is of another origin than the stream")
	}
	u.User, u.Fragment = base.User, ""
	return u.String(), nil
}

// hostOf returns host and port in lower case.
func hostOf(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return string(bytes.ToLower([]byte(u.Hostname()))) + ":" + port
}

func (s *SSE) read(events *eventstream.Reader, body io.Closer, in Inbox) {
	defer s.running.Done()
	defer body.Close()
	for {
		e, err := events.Next()
		if err != nil {
			f := streamFailure(err)
			f.Text = "the backend's event stream ended"
			in.Ended(f)
			s.end(f) // answers come on the stream alone: nothing that is still being posted gets one
			return
		}
		if len(e.Data) > 0 && isMessage(e.Name) {
			in.Receive(bytes.Clone(e.Data), 0)
		}
	}
}

// Send posts a message. Its answer comes on the event stream.
func (s *SSE) Send(ctx context.Context, m Outgoing) error {
	ctx, stop := withLife(ctx, s.life)
	defer stop()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.endpoint, bytes.NewReader(m.Body))
	if err != nil {
		return &Failure{Why: ReasonUnreachable, Outcome: NotRun, Text: "no request to the backend can be made", Err: err}
	}
	for name, values := range m.Header {
		r.Header[http.CanonicalHeaderKey(name)] = values
	}
	r.Header.Set("Content-Type", "application/json")
	res, f := s.do(r)
	if f != nil {
		return f
	}
	if res.StatusCode/100 == 2 {
		drainBody(res)
		return nil
	}
	body, f := readBody(res)
	if f != nil {
		return f
	}
	reply := httpReply{status: res.StatusCode, header: res.Header, body: body, session: true}
	_, f = reply.judge(s.clock.Now())
	return asError(f)
}

// Close ends the stream, and with it the session.
func (s *SSE) Close(context.Context, bool) {
	s.end(context.Canceled)
	s.running.Wait()
}

// HasOneEra is true.
func (s *SSE) HasOneEra() bool { return true }

// ClosesStream is false: there is one stream for all.
func (s *SSE) ClosesStream() bool { return false }
