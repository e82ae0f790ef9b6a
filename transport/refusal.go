package transport

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/refusal"
	"github.com/troupe-run/troupe/mcp"
)

// maxEventID is the length of the longest Last-Event-ID, in bytes, that is passed on.
var maxEventID = limits.EventID.Value()

// maxEchoed is how many bytes of a header's value an error repeats.
const maxEchoed = 128

// refused is the response to a request that does not reach the dispatcher.
type refused struct {
	status, code int
	reason       string // metric label
	message      string
	data, id     []byte
	allow        string // methods, if they are not those of the endpoint
	challenge    string // WWW-Authenticate, if there is one
	retryAfter   time.Duration

	// bare leaves out the body. Over HTTP/2 a client that gives no window would keep the response, which nothing counts if it
	// was the memory for the request that there was no room for.
	bare bool

	// hangUp closes the connection, because its next bytes are not the start of a request.
	hangUp bool
}

// refusing returns the refusal for a row of the table of faults.
func refusing(f *refusal.Refusal) *refused {
	return &refused{status: f.Status, code: f.Code, reason: f.Label, message: f.Text, retryAfter: f.After, hangUp: f.HangUp}
}

var (
	refuseMethod      = refusing(refusal.Method)
	refuseHost        = refusing(refusal.Host)
	refuseOrigin      = refusing(refusal.Origin)
	refuseAuth        = refusing(refusal.Auth)
	refuseSession     = refusing(refusal.SessionID)
	refuseQuery       = refusing(refusal.Query)
	refuseContentType = refusing(refusal.ContentType)
	refuseEncoding    = refusing(refusal.Encoding)
	refuseAcceptPost  = refusing(refusal.AcceptPost)
	refuseAcceptGet   = refusing(refusal.AcceptGet)
	refuseTooLarge    = refusing(refusal.TooLarge)
	refuseEmpty       = refusing(refusal.Empty)
	refuseSlowBody    = refusing(refusal.SlowBody)
	refuseTrickle     = refusing(refusal.Trickle)
	refuseBody        = refusing(refusal.Body)
	refuseEventID     = refusing(refusal.EventID)
	refuseClosing     = refusing(refusal.Closing)
	refuseKind        = refusing(refusal.OneMessage)
	refuseMemory      = refusing(refusal.Memory)
	refuseTurn        = refusing(refusal.Turn)
	refuseMemoryShare = refusing(refusal.MemoryShare)

	refuseStatelessMethod = func() *refused {
		r := refusing(refusal.Method)
		r.allow = "POST, OPTIONS"
		return r
	}()

	// These are about the headers and _meta of a stateless message; of gives them its id.
	refuseNoRevision     = refusing(refusal.NoRevision)
	refuseNoCapabilities = refusing(refusal.NoCapabilities)
	refuseClientInfo     = refusing(refusal.ClientInfo)
	refuseRevisionHeader = refusing(refusal.RevisionHeader)
	refuseMethodHeader   = refusing(refusal.MethodHeader)
	refuseNameHeader     = refusing(refusal.NameHeader)

	// preflight is no refusal: it says that the request has been answered.
	preflight = &refused{}
)

// Denial is an error of Options.Authenticate that says how the request is answered.
type Denial struct {
	Status     int           // 400 to 599; any other means 401
	Challenge  string        // the value of WWW-Authenticate; "" is "Bearer" with 401, and none otherwise
	Code       int           // of the JSON-RPC error; 0 means that of the status
	Text       string        // for the client; "" means that of the status
	RetryAfter time.Duration // 0 leaves it out
	Reason     string        // metric label; "" means that of all denials
	Err        error         // for the log
}

func (d *Denial) Error() string {
	if d.Err == nil {
		return cmp.Or(d.Text, "denied")
	}
	return d.Err.Error()
}

// Unwrap returns Err.
func (d *Denial) Unwrap() error { return d.Err }

// denied returns the refusal of a request that is not authenticated.
func denied(err error) *refused {
	d, ok := errors.AsType[*Denial](err)
	if !ok {
		return refuseAuth
	}
	no := *refuseAuth
	no.challenge = d.Challenge
	if d.Status >= 400 && d.Status <= 599 && d.Status != no.status {
		no.status, no.message = d.Status, cmp.Or(http.StatusText(d.Status), "Refused")
	}
	if no.status >= 500 {
		no.code = mcp.CodeInternalError
	}
	no.code, no.message, no.reason = cmp.Or(d.Code, no.code), cmp.Or(d.Text, no.message), cmp.Or(d.Reason, no.reason)
	no.retryAfter = d.RetryAfter
	return &no
}

// uncounted returns the refusal of a request that nothing counts.
func (r refused) uncounted(of *http.Request) *refused {
	r.bare = of.ProtoMajor == 2
	return &r
}

// of returns the refusal with the id of m, if m is a request.
func (r refused) of(m *codec.Message) *refused {
	if m.Kind == codec.Request {
		r.id = m.ID
	}
	return &r
}

// refuseRevision refuses a version that is not supported, with the id of its message if that was read.
func (h *Handler) refuseRevision(x *Exchange, requested string) *refused {
	if len(requested) > maxEchoed {
		requested = requested[:maxEchoed]
	}
	supported := append([]string{}, h.o.Revisions...)
	if h.bothEras(x) {
		supported = append(supported, h.o.Stateless...)
	}
	slices.SortFunc(supported, func(a, b string) int { return strings.Compare(b, a) }) // newest first, as clients choose
	// Strings and slices of them cannot fail to marshal; bytes that are not UTF-8 become U+FFFD.
	data, _ := json.Marshal(struct {
		Supported []string `json:"supported"`
		Requested string   `json:"requested"`
	}{supported, strings.ToValidUTF8(requested, "\uFFFD")})
	fault := refusal.Version
	if len(h.o.Stateless) == 0 {
		fault = refusal.LegacyVersion
	}
	no := refusing(fault)
	no.data = data
	return no.of(&x.Msg)
}

// refuseMessage refuses a body that is no JSON-RPC message, with the reason and id that the scan found.
func refuseMessage(e *codec.ScanError) *refused {
	return &refused{status: 400, code: e.Code, reason: cmp.Or(e.Limit(), "message"), message: e.Reason, id: e.ID}
}

// refuseDebt refuses a body of a client whose bodies were refused too often.
func refuseDebt(wait time.Duration) *refused {
	return refusing(refusal.Of(limits.PrincipalRate.Row).In(wait))
}

// refuse writes the refusal and counts it.
func (h *Handler) refuse(w http.ResponseWriter, e endpoint, no *refused, p *plain) {
	if h.o.Observer != nil {
		h.o.Observer.Rejected(no.status, no.reason)
	}
	header := w.Header()
	switch no.status {
	case http.StatusMethodNotAllowed:
		header.Set("Allow", cmp.Or(no.allow, e.methods()))
	case http.StatusUnauthorized:
		header.Set("Www-Authenticate", "Bearer")
	}
	if no.challenge != "" {
		header.Set("Www-Authenticate", no.challenge)
	}
	if no.retryAfter > 0 {
		header.Set("Retry-After", seconds(no.retryAfter))
	}
	if no.hangUp {
		header.Set("Connection", "close")
	}
	if no.bare {
		h.respond(w, no.status, nil, p)
		return
	}
	b := codec.GetBuffer()
	defer b.Free()
	b.B = codec.AppendError(b.B, no.id, no.code, no.message, no.data)
	h.respondJSON(w, no.status, b.B, p)
}
