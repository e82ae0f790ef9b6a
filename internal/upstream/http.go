package upstream

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync"
	"sync/atomic"

	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/mcp"
)

// HTTPOptions say where a backend is.
type HTTPOptions struct {
	URL string // http or https
	// Header is sent with each request. It has the backend's credentials, if it wants some.
	Header http.Header
	// Client makes the connections; nil is a new one with the default transport. Its redirects are not followed:
	// the next server would get the header.
	Client *http.Client
	Clock  Clock // nil is the system's
}

// dialer makes HTTP requests, and tells whether one that failed may have been read.
type dialer struct {
	o      HTTPOptions
	client http.Client
	clock  Clock
}

func newDialer(o HTTPOptions) dialer {
	d := dialer{o: o, clock: clockOr(o.Clock)}
	if o.Client != nil {
		d.client = *o.Client
	}
	d.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return d
}

// do sends a request. A response to it is the caller's to close.
func (d *dialer) do(r *http.Request) (*http.Response, *Failure) {
	var asked, connected atomic.Bool
	trace := &httptrace.ClientTrace{
		GetConn: func(string) { asked.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	}
	for name, values := range d.o.Header {
		r.Header[http.CanonicalHeaderKey(name)] = values
	}
	ctx, cancel := context.WithCancel(r.Context())
	res, err := d.client.Do(r.WithContext(httptrace.WithClientTrace(ctx, trace)))
	if err == nil {
		res.Body = &answerBody{res.Body, cancel}
		return res, nil
	}
	cancel()
	// A transport of the program's own may not know traces. Then only errors of dialling tell.
	if asked.Load() && !connected.Load() || isDialError(err) {
		return nil, &Failure{Why: ReasonUnreachable, Outcome: NotRun, Text: "the backend cannot be reached", Err: err}
	}
	return nil, &Failure{Why: ReasonEnded, Text: "the connection to the backend broke", Err: err}
}

// answerBody is the body of a response, whose request ends with it.
type answerBody struct {
	io.ReadCloser
	cancel context.CancelFunc
}

// Close ends the request first: a transport may wait for the rest of a body that is only closed, which another goroutine reads.
func (b *answerBody) Close() error {
	b.cancel()
	return b.ReadCloser.Close()
}

func isDialError(err error) bool {
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "dial" {
		return true
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return true
	}
	_, ok := errors.AsType[*tls.CertificateVerificationError](err)
	return ok
}

// readBody reads what is no event stream, and closes it.
func readBody(res *http.Response) ([]byte, *Failure) {
	defer res.Body.Close()
	most := MostStray
	if mediaType(res.Header) == "application/json" {
		most = MostMessage
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, int64(most)+1))
	switch {
	case err != nil:
		return nil, &Failure{Why: ReasonEnded, Status: res.StatusCode, Text: "the backend broke off its answer", Err: err, Excerpt: excerptOf(body)}
	case len(body) > most && most == MostMessage:
		return nil, &Failure{Why: ReasonTooLarge, Status: res.StatusCode, Text: "the backend's answer is too large"}
	}
	return body[:min(len(body), most)], nil
}

// drainBody closes a body that nobody needs. It reads a short one before, so that its connection can be used again.
func drainBody(res *http.Response) {
	if 0 < res.ContentLength && res.ContentLength <= MostStray {
		_, _ = io.CopyN(io.Discard, res.Body, res.ContentLength)
	}
	_ = res.Body.Close()
}

func isEventStream(res *http.Response) bool {
	return res.StatusCode == http.StatusOK && mediaType(res.Header) == "text/event-stream"
}

// HTTP is the link to a server over Streamable HTTP, in all revisions. Each request has a response
// stream of its own, which is taken up again if it breaks and its events have ids (before 2026-07-28).
type HTTP struct {
	dialer
	in      Inbox
	life    context.Context
	end     context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex // guards the rest
	session string
	event   string // the standalone stream is taken up after it
}

var (
	_ Link     = (*HTTP)(nil)
	_ resumer  = (*HTTP)(nil)
	_ listener = (*HTTP)(nil)
)

// NewHTTP returns the link to an endpoint of Streamable HTTP.
func NewHTTP(o HTTPOptions) *HTTP {
	h := &HTTP{dialer: newDialer(o)}
	h.life, h.end = context.WithCancel(context.Background())
	return h
}

// Open checks the URL. There is no connection to make.
func (h *HTTP) Open(_ context.Context, in Inbox) error {
	h.in = in
	return checkURL(h.o.URL)
}

func checkURL(text string) error {
	u, err := url.Parse(text)
	if err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" {
		return nil
	}
	return &Failure{Why: ReasonUnreachable, Outcome: NotRun, Text: "the backend's URL is none of HTTP", Err: err}
}

// HasOneEra is false: each request, or session, is of an era.
func (h *HTTP) HasOneEra() bool { return false }

// ClosesStream is true.
func (h *HTTP) ClosesStream() bool { return true }

// Send posts a message, and reads the response to a request to its end.
func (h *HTTP) Send(ctx context.Context, m Outgoing) error {
	ctx, stop := withLife(ctx, h.life)
	defer stop()
	r, err := h.newRequest(ctx, http.MethodPost, m, "")
	if err != nil {
		return &Failure{Why: ReasonUnreachable, Outcome: NotRun, Text: "no request to the backend can be made", Err: err}
	}
	res, f := h.do(r)
	if f == nil {
		f = h.readResponse(ctx, res, m, r.Header.Get(headerSession) != "")
	}
	return asError(f)
}

// asError keeps a nil *Failure from becoming an error.
func asError(f *Failure) error {
	if f == nil {
		return nil
	}
	return f
}

// withLife returns ctx, which also ends when the life of a link does.
func withLife(ctx, life context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(life, func() { cancel(context.Canceled) })
	return ctx, func() {
		stop()
		cancel(context.Canceled)
	}
}

const (
	headerSession  = "Mcp-Session-Id"
	headerVersion  = "Mcp-Protocol-Version"
	headerEvent    = "Last-Event-Id"
	acceptStream   = "text/event-stream"
	acceptAnything = "application/json, text/event-stream"
)

// newRequest returns an HTTP request for a message, or for a stream after an event.
func (h *HTTP) newRequest(ctx context.Context, method string, m Outgoing, event string) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, h.o.URL, bytes.NewReader(m.Body))
	if err != nil {
		return nil, err
	}
	for name, values := range m.Header {
		r.Header[http.CanonicalHeaderKey(name)] = values
	}
	r.Header.Set("Accept", acceptStream)
	if method == http.MethodPost {
		r.Header.Set("Accept", acceptAnything)
		r.Header.Set("Content-Type", "application/json")
	}
	if session := h.Session(); session != "" && m.Method != mcp.MethodInitialize {
		r.Header.Set(headerSession, session)
	}
	if protocol.Has(m.Revision, protocol.FeatureVersionHeader) {
		r.Header.Set(headerVersion, m.Revision.String())
	}
	if m.Revision.Stateless() && m.Method != "" {
		r.Header.Set("Mcp-Method", m.Method)
		if m.Name != "" {
			r.Header.Set("Mcp-Name", encodeHeader(m.Name))
		}
	}
	if event != "" {
		r.Header.Set(headerEvent, event)
	}
	return r, nil
}

// readResponse reads the response to a message.
func (h *HTTP) readResponse(ctx context.Context, res *http.Response, m Outgoing, session bool) *Failure {
	if m.Method == mcp.MethodInitialize && res.StatusCode == http.StatusOK {
		if f := h.beginSession(res.Header.Get(headerSession)); f != nil {
			_ = res.Body.Close()
			return f
		}
	}
	if isEventStream(res) && m.ID != 0 {
		return h.followStream(ctx, m, res.Body, &place{})
	}
	if res.StatusCode/100 == 2 && m.ID == 0 {
		drainBody(res)
		return nil
	}
	body, f := readBody(res)
	if f != nil {
		return f
	}
	reply := httpReply{status: res.StatusCode, header: res.Header, body: body, session: session, id: m.ID}
	message, f := reply.judge(h.clock.Now())
	switch {
	case f != nil:
		if f.Why == ReasonSessionGone {
			h.in.Ended(f)
		}
		return f
	case message == nil || h.in.Receive(message, m.ID):
		return nil
	}
	return malformed("the backend answered another request", body)
}

func (h *HTTP) beginSession(id string) *Failure {
	if id != "" && !isToken(id) {
		return badHandshake("the backend's session id is no header", []byte(id))
	}
	h.mu.Lock()
	h.session = id
	h.mu.Unlock()
	return nil
}

// Session returns the id of the session, "" without one.
func (h *HTTP) Session() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.session
}

func (h *HTTP) adopt(session, event string) {
	h.mu.Lock()
	h.session, h.event = session, event
	h.mu.Unlock()
}

// Close ends all streams, and the session unless it is to be kept. A server need not let a client end it.
func (h *HTTP) Close(ctx context.Context, keep bool) {
	h.end()
	h.running.Wait()
	h.mu.Lock()
	session := h.session
	h.session = ""
	h.mu.Unlock()
	if session == "" || keep {
		return
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodDelete, h.o.URL, http.NoBody)
	if err != nil {
		return
	}
	r.Header.Set(headerSession, session)
	if res, f := h.do(r); f == nil {
		_ = res.Body.Close()
	}
}
