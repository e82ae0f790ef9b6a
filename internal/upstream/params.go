package upstream

import (
	"bytes"
	"strconv"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/mcp"
)

// hop is what of `_meta` belongs to one connection, and is made anew on the next.
type hop struct {
	revision     mcp.Revision // what `_meta` says; nothing before 2026-07-28
	clientInfo   []byte       // an object, or nil
	capabilities []byte       // an object; nil is {}
	level        string       // the log level, "" for what is passed on
	progress     int64        // the token, 0 for none
}

// appendParams appends params, which is a valid JSON object or nil, with the members of `_meta` that
// belong to the hop made anew. All other members keep their bytes and their order. It appends nothing
// if nothing is left to say.
func appendParams(dst, params []byte, h hop) []byte {
	start, placed := len(dst), false
	add := func(key, value []byte) {
		if len(dst) > start {
			dst = append(dst, ',')
		} else {
			dst = append(dst, '{')
		}
		dst = append(append(append(dst, '"'), key...), '"', ':')
		dst = append(dst, value...)
	}
	for key, value := range codec.Members(params) {
		if !sameKey(key, "_meta") {
			add(key, value)
			continue
		}
		if meta := h.appendMeta(nil, value); !placed && meta != nil {
			add(key, meta)
		}
		placed = true
	}
	if meta := h.appendMeta(nil, nil); !placed && meta != nil {
		add([]byte("_meta"), meta)
	}
	switch {
	case len(dst) > start:
		dst = append(dst, '}')
	case params != nil:
		dst = append(dst, '{', '}')
	}
	return dst
}

// appendMeta appends old, a `_meta` or nil, as it is for this hop; nothing if it has no members.
func (h hop) appendMeta(dst, old []byte) []byte {
	start := len(dst)
	begin := func(key []byte) {
		if len(dst) > start {
			dst = append(dst, ',')
		} else {
			dst = append(dst, '{')
		}
		dst = append(append(append(dst, '"'), key...), '"', ':')
	}
	for key, value := range codec.Members(old) {
		if h.replaces(key) {
			continue
		}
		begin(key)
		dst = append(dst, value...)
	}
	if h.revision.Stateless() {
		begin([]byte(mcp.MetaProtocolVersion))
		dst = codec.AppendString(dst, h.revision.String())
		if h.clientInfo != nil {
			begin([]byte(mcp.MetaClientInfo))
			dst = append(dst, h.clientInfo...)
		}
		begin([]byte(mcp.MetaClientCapabilities))
		if h.capabilities == nil {
			dst = append(dst, '{', '}')
		}
		dst = append(dst, h.capabilities...)
		if h.level != "" {
			begin([]byte(mcp.MetaLogLevel))
			dst = codec.AppendString(dst, h.level)
		}
	}
	if h.progress != 0 {
		begin([]byte(mcp.MetaProgressToken))
		dst = strconv.AppendInt(dst, h.progress, 10)
	}
	if len(dst) > start {
		dst = append(dst, '}')
	}
	return dst
}

// replaces reports whether the member key of `_meta` is not passed on. The log level of a request is a
// member of the newer era alone; the older one has logging/setLevel.
func (h hop) replaces(key []byte) bool {
	for _, own := range []string{mcp.MetaProgressToken, mcp.MetaProtocolVersion, mcp.MetaClientInfo, mcp.MetaClientCapabilities} {
		if sameKey(key, own) {
			return true
		}
	}
	return (h.level != "" || !h.revision.Stateless()) && sameKey(key, mcp.MetaLogLevel)
}

// sameKey reports whether key, as [codec.Members] yields it, is name.
func sameKey(key []byte, name string) bool {
	if bytes.IndexByte(key, '\\') < 0 {
		return string(key) == name
	}
	quoted := append(append([]byte{'"'}, key...), '"')
	return codec.SameString(quoted, name)
}

// onOneLine returns a message without line breaks. They are only between tokens, as JSON has none in
// strings.
func onOneLine(message []byte) []byte {
	if bytes.IndexByte(message, '\n') < 0 && bytes.IndexByte(message, '\r') < 0 {
		return message
	}
	return codec.AppendCompact(make([]byte, 0, len(message)), message)
}

// nameOf returns the member of params that the header Mcp-Name repeats, "" if the method has none
// (2026-07-28, streamable HTTP, standard request headers; for tasks, the extension's).
func nameOf(method string, params []byte) string {
	member := ""
	switch method {
	case mcp.MethodToolsCall, mcp.MethodPromptsGet:
		member = "name"
	case mcp.MethodResourcesRead:
		member = "uri"
	case mcp.MethodTasksGet, mcp.MethodTasksUpdate, mcp.MethodTasksCancel:
		member = "taskId"
	default:
		return ""
	}
	name, _ := codec.Str(codec.Field(params, member))
	return name
}

// parseID returns the number of a raw id, if it is one that we may have given.
func parseID(raw []byte) (int64, bool) {
	id, err := strconv.ParseInt(string(raw), 10, 64)
	return id, err == nil && id > 0
}

// isRawID reports whether raw is the id of a question: a string or an integer as JSON, of bounded length.
func isRawID(raw []byte) bool {
	return len(raw) > 0 && len(raw) <= MostToken && (raw[0] == '"' || raw[0] == '-' || '0' <= raw[0] && raw[0] <= '9') && codec.Valid(raw)
}

// isObject reports whether raw is a JSON object.
func isObject(raw []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(raw, " \t\r\n"), []byte{'{'}) && codec.Valid(raw)
}
