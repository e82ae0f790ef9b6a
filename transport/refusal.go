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
	refused := *refusal.Method
	refused.Allow = "POST, OPTIONS"
	return &refused
}()

// preflight is no refusal: it says that the request has been answered.
var preflight = new(refusal.Refusal)

// authRefusal returns the refusal of a request that is not authenticated.
func authRefusal(err error) *refusal.Refusal {
	if refused, ok := errors.AsType[*refusal.Refusal](err); ok {
		return refused
	}
	return refusal.Auth
}

// memoryRefusal returns the refusal of a request that nothing counts. Over HTTP/2 it has no body: a client that gives no window would
// keep the response, and there was no memory for the request already.
func memoryRefusal(refused *refusal.Refusal, of *http.Request) *refusal.Refusal {
	bare := *refused
	bare.Bare = of.ProtoMajor == 2
	return &bare
}

// refusalWithID returns the refusal with the id of m, if m is a request.
func refusalWithID(m *codec.Message, refused *refusal.Refusal) *refusal.Refusal {
	if m.Kind == codec.Request {
		return refused.For(m.ID)
	}
	return refused
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
	refused := *refusal.Version
	if len(h.o.Stateless) == 0 {
		refused = *refusal.LegacyVersion
	}
	refused.Data = data
	return refusalWithID(&x.Msg, &refused)
}

// refuseMessage refuses a body that is no JSON-RPC message, with the reason and id that the scan found.
func refuseMessage(e *codec.ScanError) *refusal.Refusal {
	return &refusal.Refusal{Status: 400, Code: e.Code, Label: cmp.Or(e.Limit(), "message"), Text: e.Reason, ID: e.ID}
}

// refuseRequest writes the refusal and counts it.
func (h *Handler) refuseRequest(w http.ResponseWriter, e endpoint, refused *refusal.Refusal, p *plain) {
	if h.o.Observer != nil {
		h.o.Observer.Rejected(refused.Status, refused.Label)
	}
	header := w.Header()
	switch refused.Status {
	case http.StatusMethodNotAllowed:
		header.Set("Allow", cmp.Or(refused.Allow, e.allowHeader()))
	case http.StatusUnauthorized:
		header.Set("Www-Authenticate", "Bearer")
	}
	if refused.Challenge != "" {
		header.Set("Www-Authenticate", refused.Challenge)
	}
	if refused.After > 0 {
		header.Set("Retry-After", wholeSeconds(refused.After))
	}
	if refused.HangUp {
		header.Set("Connection", "close")
	}
	if refused.Bare {
		h.respondUncached(w, refused.Status, nil, p)
		return
	}
	b := codec.GetBuffer()
	defer b.Free()
	b.B = codec.AppendError(b.B, refused.ID, refused.Code, refused.Text, refused.Data)
	h.respondJSON(w, refused.Status, b.B, p)
}
