package transport

import (
	"bytes"
	"net/http"
	"strings"

	"github.com/troupe-run/troupe/internal/refusal"
	"github.com/troupe-run/troupe/mcp"
)

// admitRequest makes all checks that come before the dispatcher. It returns nil if the request may
// go on.
func (h *Handler) admitRequest(x *Exchange, w http.ResponseWriter, r *http.Request) *refusal.Refusal {
	if refused := h.o.admitNames(r); refused != nil {
		return refused
	}
	if origin := r.Header["Origin"]; len(origin) > 0 {
		header := w.Header()
		header["Access-Control-Allow-Origin"] = origin[:1:1]
		header["Access-Control-Expose-Headers"] = exposedHeaders
		header.Add("Vary", "Origin")
	}
	if !x.endpoint.allowsMethod(r.Method) {
		return refusal.Method
	}
	if r.Method == http.MethodOptions {
		h.answerPreflight(x, w, r, x.endpoint.allowHeader())
		return preflight
	}
	if h.streams.isClosing() {
		return refusal.Closing
	}
	if h.o.Authenticate != nil {
		principal, err := h.o.Authenticate(r)
		if err != nil {
			h.o.Log.DebugContext(r.Context(), "transport: authentication refused", "remote", r.RemoteAddr, "error", err)
			return authRefusal(err)
		}
		x.Principal = principal
		if refused := x.charges.moveCharge(); refused != nil {
			return refused
		}
	}
	if refused := h.admitVersion(x, r); refused != nil {
		return refused
	}
	switch x.endpoint {
	case sseEndpoint:
		return admitGet(r)
	case messagesEndpoint:
		id, ok := sessionOf(r)
		if !ok {
			return refusal.Query
		}
		x.SessionID = id
		return h.admitPost(x, w, r)
	}
	if v := r.Header["Mcp-Session-Id"]; len(v) > 0 && !x.Stateless {
		if len(v) > 1 || !isVisibleASCII(v[0]) {
			return refusal.SessionID
		}
		x.SessionID = v[0]
	}
	if r.Method != http.MethodPost && h.onlyStateless(x) {
		return refuseStatelessMethod
	}
	switch r.Method {
	case http.MethodPost:
		return h.admitPost(x, w, r)
	case http.MethodGet:
		if refused := admitGet(r); refused != nil {
			return refused
		}
		if v := r.Header["Last-Event-Id"]; len(v) > 0 {
			if len(v) > 1 || len(v[0]) > maxEventID {
				return refusal.EventID
			}
			x.LastEventID = v[0]
		}
	}
	return nil
}

// admitNames checks Host and Origin, which every path of a server does first.
func (o *Options) admitNames(r *http.Request) *refusal.Refusal {
	from := sideOf(r)
	if !o.hostAllowed(r.Host, from) {
		return refusal.Host
	}
	if origin := r.Header["Origin"]; len(origin) > 1 || len(origin) == 1 && !o.originAllowed(origin[0], r.Host, from == onLoopback) {
		return refusal.Origin
	}
	return nil
}

func admitGet(r *http.Request) *refusal.Refusal {
	if _, sse := acceptedMedia(r.Header["Accept"]); !sse {
		return refusal.AcceptGet
	}
	return nil
}

func (h *Handler) admitPost(x *Exchange, w http.ResponseWriter, r *http.Request) *refusal.Refusal {
	if v := r.Header["Content-Type"]; len(v) != 1 || !isJSON(v[0]) {
		return refusal.ContentType
	}
	if v := r.Header["Content-Encoding"]; len(v) > 1 || len(v) == 1 && !strings.EqualFold(v[0], "identity") {
		return refusal.Encoding
	}
	// Requests to the messages endpoint are answered on the session's stream, so they need no
	// Accept.
	if x.endpoint == streamable {
		if json, sse := acceptedMedia(r.Header["Accept"]); !json || !sse {
			return refusal.AcceptPost
		}
	}
	if r.ContentLength > h.o.MaxBody {
		return refuseSize(h.o.MaxBody)
	}
	if refused := (exchangeRequest{x}).readBody(w, r); refused != nil {
		return refused
	}
	refused := h.admitMessage(x, r)
	if refused != nil && refused.After == 0 && x.charges.account != nil && h.o.Owe != nil {
		values := x.Msg.Values
		if values == 0 { // it is no JSON: nobody has counted them
			values = bytes.Count(x.Body, []byte{','})
		}
		h.o.Owe(x.charges.account, len(x.Body), values)
	}
	return refused
}

// admitMessage checks the message in the body of a POST.
func (h *Handler) admitMessage(x *Exchange, r *http.Request) *refusal.Refusal {
	if refused := (exchangeRequest{x}).scanBody(r.Context()); refused != nil {
		return refused
	}
	if refused := x.charges.chargeValues(); refused != nil {
		return refusalWithID(&x.Msg, refused)
	}
	if x.Stateless || x.Msg.ProtocolVersion != nil && h.bothEras(x) || h.onlyStateless(x) && string(x.Msg.Method) != mcp.MethodInitialize {
		return h.admitStateless(x, r.Header)
	}
	return nil
}
