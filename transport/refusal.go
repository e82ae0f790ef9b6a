package transport

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/refusal"
)

// maxEventID is the length of the longest Last-Event-ID, in bytes, that is passed on.
var maxEventID = limits.EventID.Value()

// maxEchoed is how many bytes of a header's value an error repeats.
const maxEchoed = 128

// refuseStatelessMethod refuses a method that has no meaning without sessions.
var refuseStatelessMethod = func() *refusal.Refusal {
	no := *refusal.Method
	no.Allow = "POST, OPTIONS"
	return &no
}()

// preflight is no refusal: it says that the request has been answered.
var preflight = new(refusal.Refusal)

// denied returns the refusal of a request that is not authenticated.
func denied(err error) *refusal.Refusal {
	if no, ok := errors.AsType[*refusal.Refusal](err); ok {
		return no
	}
	return refusal.Auth
}

// uncounted returns the refusal of a request that nothing counts. Over HTTP/2 it has no body: a client that gives no window would
// keep the response, and there was no memory for the request already.
func uncounted(no *refusal.Refusal, of *http.Request) *refusal.Refusal {
	bare := *no
	bare.Bare = of.ProtoMajor == 2
	return &bare
}

// about returns the refusal with the id of m, if m is a request.
func about(m *codec.Message, no *refusal.Refusal) *refusal.Refusal {
	if m.Kind == codec.Request {
		return no.For(m.ID)
	}
	return no
}

// refuseRevision refuses a version that is not supported, with the id of its message if that was read.
func (h *Handler) refuseRevision(x *Exchange, requested string) *refusal.Refusal {
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
	no := *refusal.Version
	if len(h.o.Stateless) == 0 {
		no = *refusal.LegacyVersion
	}
	no.Data = data
	return about(&x.Msg, &no)
}

// refuseMessage refuses a body that is no JSON-RPC message, with the reason and id that the scan found.
func refuseMessage(e *codec.ScanError) *refusal.Refusal {
	return &refusal.Refusal{Status: 400, Code: e.Code, Label: cmp.Or(e.Limit(), "message"), Text: e.Reason, ID: e.ID}
}

// refuse writes the refusal and counts it.
func (h *Handler) refuse(w http.ResponseWriter, e endpoint, no *refusal.Refusal, p *plain) {
	if h.o.Observer != nil {
		h.o.Observer.Rejected(no.Status, no.Label)
	}
	header := w.Header()
	switch no.Status {
	case http.StatusMethodNotAllowed:
		header.Set("Allow", cmp.Or(no.Allow, e.methods()))
	case http.StatusUnauthorized:
		header.Set("Www-Authenticate", "Bearer")
	}
	if no.Challenge != "" {
		header.Set("Www-Authenticate", no.Challenge)
	}
	if no.After > 0 {
		header.Set("Retry-After", seconds(no.After))
	}
	if no.HangUp {
		header.Set("Connection", "close")
	}
	if no.Bare {
		h.respond(w, no.Status, nil, p)
		return
	}
	b := codec.GetBuffer()
	defer b.Free()
	b.B = codec.AppendError(b.B, no.ID, no.Code, no.Text, no.Data)
	h.respondJSON(w, no.Status, b.B, p)
}
