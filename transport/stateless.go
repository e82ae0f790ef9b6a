package transport

import (
	"net/http"
	"slices"
	"strings"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/internal/refusal"
	"github.com/troupe-run/troupe/mcp"
)

// firstStateless is the first revision whose requests belong to no session.
var firstStateless = mcp.Revision20260728.String()

// isStatelessDate reports whether a value of MCP-Protocol-Version is a date of the stateless era, whether or not it is
// served.
func isStatelessDate(version string) bool {
	if len(version) != len(firstStateless) || version < firstStateless {
		return false
	}
	for i := 0; i < len(version); i++ {
		if dash := i == 4 || i == 7; dash != (version[i] == '-') || !dash && version[i]-'0' > 9 {
			return false
		}
	}
	return true
}

// admitVersion checks MCP-Protocol-Version. A value that is no revision with sessions can be judged only together with
// the message of a POST; until then x.Stateless says that there is such a value. A session may go on in a revision that is
// not served any more.
func (h *Handler) admitVersion(x *Exchange, r *http.Request) *refusal.Refusal {
	v := r.Header["Mcp-Protocol-Version"]
	if len(v) == 0 {
		return nil
	}
	requested := agreedValue(v)
	if i := slices.Index(h.o.Revisions, requested); i >= 0 {
		x.Version = h.o.Revisions[i]
		return nil
	}
	switch {
	case namesSession(x, r) && ofSessions(requested) != 0:
		x.Version = ofSessions(requested).String()
		return nil
	case !h.bothEras(x):
	case r.Method == http.MethodPost:
		x.Stateless = true
		return nil
	case isStatelessDate(requested):
		return refuseStatelessMethod
	}
	return h.refuseRevision(x, requested)
}

// namesSession reports whether a request belongs to a session that has begun.
func namesSession(x *Exchange, r *http.Request) bool {
	return x.endpoint == messagesEndpoint || x.endpoint == streamable && len(r.Header["Mcp-Session-Id"]) > 0
}

// ofSessions returns the revision that has sessions and this date, or 0.
func ofSessions(version string) mcp.Revision {
	if r, _ := mcp.ParseRevision(version); protocol.Has(r, protocol.FeatureSessions) {
		return r
	}
	return 0
}

// agreedValue returns the value of a header that may have come several times, in lines or in a list: clients and gateways add one
// that is there already, and fetch joins the two (RFC 9110, 5.3). Copies that are equal count as one; others are returned
// together, as a value that nothing is equal to.
func agreedValue(v []string) string {
	if len(v) == 0 {
		return ""
	}
	all := v[0]
	if len(v) > 1 {
		all = strings.Join(v, ", ")
	}
	first, rest, more := strings.Cut(all, ",")
	for first = trimBlanks(first); more; {
		var next string
		if next, rest, more = strings.Cut(rest, ","); trimBlanks(next) != first {
			return trimBlanks(all)
		}
	}
	return first
}

// admitStateless checks a message whose header or _meta is not of the legacy era (2026-07-28, streamable HTTP, request
// metadata; overview, _meta). Each refusal has the id of the message.
func (h *Handler) admitStateless(x *Exchange, header http.Header) *refusal.Refusal {
	m, requested := &x.Msg, agreedValue(header["Mcp-Protocol-Version"])
	if m.ProtocolVersion == nil && !isStatelessDate(requested) {
		if requested == "" {
			return refusalWithID(m, refusal.RevisionHeader)
		}
		return h.refuseRevision(x, requested)
	}
	if m.Kind != codec.Request && m.Kind != codec.Notification {
		return refusal.OneMessage
	}
	served := slices.Index(h.o.Stateless, requested)
	if m.ProtocolVersion == nil && served < 0 {
		return h.refuseRevision(x, requested)
	}
	// A notification needs no _meta, and of these headers only MCP-Protocol-Version.
	if m.Kind == codec.Request || m.ProtocolVersion != nil {
		if !isText(m.ProtocolVersion) {
			return refusalWithID(m, refusal.NoRevision)
		}
		if !codec.SameString(m.ProtocolVersion, requested) {
			return refusalWithID(m, refusal.RevisionHeader)
		}
	}
	if served < 0 {
		return h.refuseRevision(x, requested)
	}
	x.Stateless, x.Version = true, h.o.Stateless[served]
	method := header["Mcp-Method"]
	if m.Kind == codec.Notification {
		if len(method) > 0 && !saysMethod(method, m) {
			return refusalWithID(m, refusal.MethodHeader)
		}
		return nil
	}
	var declared [len(ofClient)][]byte
	codec.Fields(m.Meta, ofClient[:], declared[:])
	if !isObject(declared[0]) {
		return refusalWithID(m, refusal.NoCapabilities)
	}
	if info := declared[1]; info != nil && string(info) != "null" && !isObject(info) {
		return refusalWithID(m, refusal.ClientInfo)
	}
	if !saysMethod(method, m) {
		return refusalWithID(m, refusal.MethodHeader)
	}
	if raw, ok := mirroredName(m); ok && !saysName(header["Mcp-Name"], raw) {
		return refusalWithID(m, refusal.NameHeader)
	}
	return nil
}

// ofClient are the members of _meta in which a client declares itself.
var ofClient = [...]string{mcp.MetaClientCapabilities, mcp.MetaClientInfo}

// mirroredName returns the member of params that Mcp-Name must hold, if the method has one (2026-07-28, streamable HTTP,
// standard request headers; for tasks, the extension's).
func mirroredName(m *codec.Message) (raw []byte, ok bool) {
	switch string(m.Method) {
	case mcp.MethodToolsCall, mcp.MethodPromptsGet:
		return m.Name, true
	case mcp.MethodResourcesRead:
		return m.URI, true
	case mcp.MethodTasksGet, mcp.MethodTasksUpdate, mcp.MethodTasksCancel:
		return codec.Field(m.Params, "taskId"), true
	}
	return nil, false
}

func saysMethod(v []string, m *codec.Message) bool {
	return len(v) == 1 && trimBlanks(v[0]) == string(m.Method)
}

func saysName(v []string, raw []byte) bool {
	if len(v) != 1 {
		return false
	}
	name, ok := codec.DecodeHeader(v[0])
	return ok && codec.SameString(raw, name)
}

// isText and isObject report the type of raw JSON; nil has none.
func isText(raw []byte) bool   { return len(raw) > 0 && raw[0] == '"' }
func isObject(raw []byte) bool { return len(raw) > 0 && raw[0] == '{' }
