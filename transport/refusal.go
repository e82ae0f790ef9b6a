package transport

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/mcp"
)

const (
	// maxEventID is the longest Last-Event-ID that is passed on.
	maxEventID = 256

	// maxEchoed is how much of a header's value is sent back in an error.
	maxEchoed = 128
)

// refusal is the answer to a request that does not reach the dispatcher.
type refusal struct {
	status, code int
	reason       string // metric label
	message      string
	data, id     []byte
	allow        string // methods, if they are not those of the endpoint
	retryAfter   time.Duration

	// hangUp closes the connection, because its next bytes are not the start of a request.
	hangUp bool
}

var (
	refuseMethod      = &refusal{status: 405, code: mcp.CodeInvalidRequest, reason: "method", message: "Method not allowed"}
	refuseHost        = &refusal{status: 403, code: mcp.CodeInvalidRequest, reason: "host", message: "Host not allowed: --allow-host and Options.AllowHosts allow it"}
	refuseOrigin      = &refusal{status: 403, code: mcp.CodeInvalidRequest, reason: "origin", message: "Origin not allowed: --allow-origin and Options.AllowOrigins allow it"}
	refuseAuth        = &refusal{status: 401, code: mcp.CodeInvalidRequest, reason: "auth", message: "Unauthorized"}
	refuseSession     = &refusal{status: 400, code: mcp.CodeInvalidRequest, reason: "session-id", message: "Invalid Mcp-Session-Id header"}
	refuseQuery       = &refusal{status: 400, code: mcp.CodeInvalidRequest, reason: "session-id", message: "The query must hold one valid sessionId"}
	refuseContentType = &refusal{status: 415, code: mcp.CodeInvalidRequest, reason: "content-type", message: "Content-Type must be application/json in UTF-8"}
	refuseEncoding    = &refusal{status: 415, code: mcp.CodeInvalidRequest, reason: "content-encoding", message: "Content-Encoding is not supported"}
	refuseAcceptPost  = &refusal{status: 406, code: mcp.CodeInvalidRequest, reason: "accept", message: "Accept must admit application/json and text/event-stream"}
	refuseAcceptGet   = &refusal{status: 406, code: mcp.CodeInvalidRequest, reason: "accept", message: "Accept must admit text/event-stream"}
	refuseTooLarge    = &refusal{status: 413, code: mcp.CodeInvalidRequest, reason: "too-large", message: "Request body too large", hangUp: true}
	refuseEmpty       = &refusal{status: 400, code: mcp.CodeParseError, reason: "empty", message: "Request body is empty"}
	refuseSlowBody    = &refusal{status: 408, code: mcp.CodeInvalidRequest, reason: "body-timeout", message: "Request body took too long", hangUp: true}
	refuseBody        = &refusal{status: 400, code: mcp.CodeParseError, reason: "body", message: "Request body could not be read", hangUp: true}
	refuseEventID     = &refusal{status: 400, code: mcp.CodeBadEventID, reason: "event-id", message: badEventID}
	refuseClosing     = &refusal{status: 503, code: mcp.CodeInternalError, reason: "closing", message: "Server is shutting down", retryAfter: time.Second}

	refuseModernMethod = &refusal{status: 405, code: mcp.CodeInvalidRequest, reason: "method", message: "Method not allowed", allow: "POST, OPTIONS"}
	refuseKind         = &refusal{status: 400, code: mcp.CodeInvalidRequest, reason: "message", message: "The body must be one request or notification"}

	// What is wrong with the headers and _meta of a modern message; of gives it its id.
	refuseNoRevision     = refusal{status: 400, code: mcp.CodeInvalidParams, reason: "meta", message: "params._meta must have " + mcp.MetaProtocolVersion + ", a string"}
	refuseNoCapabilities = refusal{status: 400, code: mcp.CodeInvalidParams, reason: "meta", message: "params._meta must have " + mcp.MetaClientCapabilities + ", an object"}
	refuseClientInfo     = refusal{status: 400, code: mcp.CodeInvalidParams, reason: "meta", message: mcp.MetaClientInfo + " must be an object"}
	refuseRevisionHeader = refusal{status: 400, code: mcp.CodeHeaderMismatch, reason: "header-mismatch", message: "Header mismatch: MCP-Protocol-Version is not the version in params._meta"}
	refuseMethodHeader   = refusal{status: 400, code: mcp.CodeHeaderMismatch, reason: "header-mismatch", message: "Header mismatch: Mcp-Method is not the method"}
	refuseNameHeader     = refusal{status: 400, code: mcp.CodeHeaderMismatch, reason: "header-mismatch", message: "Header mismatch: Mcp-Name is not what params names"}

	// badEventID is the one text for every event id, so that it tells nothing about those of others.
	badEventID = mcp.NewError(mcp.CodeBadEventID, "").Message

	// preflight is no refusal: the request has been answered.
	preflight = &refusal{}
)

// of is the refusal of m, whose id it carries if m is a request.
func (r refusal) of(m *codec.Message) *refusal {
	if m.Kind == codec.Request {
		r.id = m.ID
	}
	return &r
}

// refuseRevision answers a version that is not supported, and the message it came with if that was read.
func (h *Handler) refuseRevision(x *Exchange, requested string) *refusal {
	if len(requested) > maxEchoed {
		requested = requested[:maxEchoed]
	}
	supported := append([]string{}, h.o.Revisions...)
	if h.bothEras(x) {
		supported = append(supported, h.o.Modern...)
	}
	slices.SortFunc(supported, func(a, b string) int { return strings.Compare(b, a) }) // newest first, as clients choose
	// Strings and slices of them cannot fail to marshal; what is no UTF-8 becomes U+FFFD.
	data, _ := json.Marshal(struct {
		Supported []string `json:"supported"`
		Requested string   `json:"requested"`
	}{supported, strings.ToValidUTF8(requested, "\uFFFD")})
	return refusal{status: 400, code: mcp.CodeUnsupportedVersion, reason: "version", message: "Unsupported protocol version", data: data}.of(&x.Msg)
}

// refuseMessage answers a body that is no JSON-RPC message. Reason and id are what the scan found.
func refuseMessage(e *codec.ScanError) *refusal {
	return &refusal{status: 400, code: e.Code, reason: cmp.Or(e.Limit(), "message"), message: e.Reason, id: e.ID}
}

// refuse writes the answer no and counts it.
func (h *Handler) refuse(w http.ResponseWriter, r *http.Request, e endpoint, no *refusal) {
	if h.o.Observer != nil {
		h.o.Observer.Rejected(no.status, no.reason)
	}
	if r.ContentLength != 0 && !no.hangUp {
		// net/http reads what is left of a small body before it answers, so that has to end, too, and before the
		// time to write is over.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(min(h.o.BodyTimeout, h.o.WriteTimeout) / 2))
	}
	header := w.Header()
	switch no.status {
	case http.StatusMethodNotAllowed:
		header.Set("Allow", cmp.Or(no.allow, e.methods()))
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
	h.respond(w, no.status, b.B, new([1]string), new(watched))
}
