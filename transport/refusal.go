package transport

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/troupe-run/troupe/codec"
)

// JSON-RPC codes the transport answers with itself.
const (
	codeParse      = -32700
	codeInvalid    = -32600
	codeInternal   = -32603
	codeEventID    = -32011
	codeRevision   = -32022
	maxEventID     = 256
	maxEchoed      = 128
	methodsAllowed = "GET, POST, DELETE, OPTIONS"
)

// refusal is the answer to a request that does not reach the dispatcher.
type refusal struct {
	status, code int
	reason       string // metric label
	message      string
	data, id     []byte
	retryAfter   time.Duration

	// hangUp closes the connection, because its next bytes are not the start of a request.
	hangUp bool
}

var (
	refuseMethod      = &refusal{status: 405, code: codeInvalid, reason: "method", message: "Method not allowed"}
	refuseHost        = &refusal{status: 403, code: codeInvalid, reason: "host", message: "Host not allowed"}
	refuseOrigin      = &refusal{status: 403, code: codeInvalid, reason: "origin", message: "Origin not allowed"}
	refuseAuth        = &refusal{status: 401, code: codeInvalid, reason: "auth", message: "Unauthorized"}
	refuseSession     = &refusal{status: 400, code: codeInvalid, reason: "session-id", message: "Invalid Mcp-Session-Id header"}
	refuseContentType = &refusal{status: 415, code: codeInvalid, reason: "content-type", message: "Content-Type must be application/json in UTF-8"}
	refuseEncoding    = &refusal{status: 415, code: codeInvalid, reason: "content-encoding", message: "Content-Encoding is not supported"}
	refuseAcceptPost  = &refusal{status: 406, code: codeInvalid, reason: "accept", message: "Accept must admit application/json and text/event-stream"}
	refuseAcceptGet   = &refusal{status: 406, code: codeInvalid, reason: "accept", message: "Accept must admit text/event-stream"}
	refuseTooLarge    = &refusal{status: 413, code: codeInvalid, reason: "too-large", message: "Request body too large", hangUp: true}
	refuseEmpty       = &refusal{status: 400, code: codeParse, reason: "empty", message: "Request body is empty"}
	refuseSlowBody    = &refusal{status: 408, code: codeInvalid, reason: "body-timeout", message: "Request body took too long", hangUp: true}
	refuseBody        = &refusal{status: 400, code: codeParse, reason: "body", message: "Request body could not be read", hangUp: true}
	refuseEventID     = &refusal{status: 400, code: codeEventID, reason: "event-id", message: "unknown event id"}
	refuseClosing     = &refusal{status: 503, code: codeInternal, reason: "closing", message: "Server is shutting down", retryAfter: time.Second}

	// preflight is no refusal: the request has been answered.
	preflight = &refusal{}
)

// refuseRevision answers a MCP-Protocol-Version that is not supported.
func (h *Handler) refuseRevision(requested string) *refusal {
	if len(requested) > maxEchoed {
		requested = requested[:maxEchoed]
	}
	supported := h.o.Revisions
	if supported == nil {
		supported = []string{}
	}
	// Strings and slices of them cannot fail to marshal; what is no UTF-8 becomes U+FFFD.
	data, _ := json.Marshal(struct {
		Supported []string `json:"supported"`
		Requested string   `json:"requested"`
	}{supported, strings.ToValidUTF8(requested, "\uFFFD")})
	return &refusal{status: 400, code: codeRevision, reason: "version", message: "Unsupported protocol version", data: data}
}

// refuseMessage answers a body that is no JSON-RPC message. Reason and id are what the scan found.
func refuseMessage(e *codec.ScanError) *refusal {
	return &refusal{status: 400, code: e.Code, reason: "message", message: e.Reason, id: e.ID}
}

// refuse writes the answer no and counts it.
func (h *Handler) refuse(w http.ResponseWriter, r *http.Request, no *refusal) {
	if h.o.Observer != nil {
		h.o.Observer.Rejected(no.status, no.reason)
	}
	if r.ContentLength != 0 && !no.hangUp {
		// net/http reads what is left of a small body before it answers, so that has to end, too.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(h.o.BodyTimeout))
	}
	header := w.Header()
	switch no.status {
	case http.StatusMethodNotAllowed:
		header.Set("Allow", methodsAllowed)
	case http.StatusUnauthorized:
		header.Set("Www-Authenticate", "Bearer")
	}
	if no.retryAfter > 0 {
		header.Set("Retry-After", seconds(no.retryAfter))
	}
	if no.hangUp {
		header.Set("Connection", "close")
	}
	b := codec.GetBuffer()
	defer b.Free()
	b.B = codec.AppendError(b.B, no.id, no.code, no.message, no.data)
	h.respond(w, no.status, b.B)
}
