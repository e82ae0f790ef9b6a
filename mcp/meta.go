package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// Keys of `_meta` the protocol defines.
const (
	// MetaProgressToken asks for progress of the request that carries it.
	MetaProgressToken = "progressToken"
	// MetaRelatedTask ties a message to a task; its value names the task.
	MetaRelatedTask = "io.modelcontextprotocol/related-task"
	// MetaProtocolVersion names the revision of a single request (2026-07-28).
	MetaProtocolVersion = "io.modelcontextprotocol/protocolVersion"
	// MetaClientInfo is the client's [Implementation] (2026-07-28).
	MetaClientInfo = "io.modelcontextprotocol/clientInfo"
	// MetaClientCapabilities are the client's [ClientCapabilities] (2026-07-28).
	MetaClientCapabilities = "io.modelcontextprotocol/clientCapabilities"
	// MetaServerInfo is the server's [Implementation] (2026-07-28).
	MetaServerInfo = "io.modelcontextprotocol/serverInfo"
	// MetaLogLevel is the least severe [LoggingLevel] that one request wants (2026-07-28).
	MetaLogLevel = "io.modelcontextprotocol/logLevel"
	// MetaSubscriptionID tags the notifications of a listen stream (2026-07-28).
	MetaSubscriptionID = "io.modelcontextprotocol/subscriptionId"
)

// Meta is a `_meta` object: raw JSON values by key. [Raw] makes such a value of a Go value, and Decode reads one:
//
//	meta := mcp.Meta{"example.com/trace": mcp.Raw("abc"), "example.com/tries": mcp.Raw(3)}
//
// nil is no `_meta`. An empty Meta is left out where the protocol makes it optional. A decoded value has the bytes that came, and
// is written with them, but for white space: no number loses digits, and no member of an object is lost. The keys are written in
// order, and of two equal keys the last one counts.
type Meta map[string]json.RawMessage

// Raw returns v as JSON, as json.Marshal writes it, but without escapes for HTML. It panics for a v that has no JSON, such as a channel,
// a function or NaN; json.Marshal returns an error.
func Raw(v any) json.RawMessage {
	data, err := encode(v)
	if err != nil {
		panic(fmt.Sprintf("mcp: Raw(%T): %v", v, err))
	}
	return data
}

// MarshalJSON returns an object with the keys in order; nil is {} and a nil value null. It does not check the values: the encoder does.
func (m Meta) MarshalJSON() ([]byte, error) {
	size := len(`{}`)
	for key, value := range m {
		size += len(key) + len(value) + len(`"":null,`)
	}
	out := append(make([]byte, 0, size), '{')
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(out, quote(key)...), ':')
		if value := m[key]; len(value) > 0 {
			out = append(out, value...)
		} else {
			out = append(out, "null"...)
		}
	}
	return append(out, '}'), nil
}

// UnmarshalJSON copies the values. null is no `_meta`; it refuses any other value that is not an object.
func (m *Meta) UnmarshalJSON(data []byte) error {
	if isNull(data) {
		*m = nil
		return nil
	}
	raw, err := decodeObjectBytes(data)
	if err != nil {
		return fmt.Errorf("mcp: decode _meta: %w", err)
	}
	out := Meta{}
	for it := newMembers(raw); it.next(); {
		out[it.key()] = it.value[:len(it.value):len(it.value)] // so that an append copies it
	}
	*m = out
	return nil
}

// Decode decodes the value of a key into what into points to. found is false, and into is left alone, if there is none, or null.
// The error is that of json.Unmarshal.
func (m Meta) Decode(key string, into any) (found bool, err error) {
	raw := m[key]
	if len(raw) == 0 || isNull(raw) {
		return false, nil
	}
	return true, json.Unmarshal(raw, into)
}

// Clone returns a copy of m that shares nothing with it.
func (m Meta) Clone() Meta {
	out := maps.Clone(m)
	for key, value := range out {
		out[key] = bytes.Clone(value)
	}
	return out
}

// With returns a copy of m in which key has the given value, which must be valid JSON. m may be nil.
func (m Meta) With(key string, value json.RawMessage) Meta {
	out := make(Meta, len(m)+1)
	maps.Copy(out, m)
	out[key] = value
	return out
}

// ProgressToken returns the progress token, if there is one that is a string or a
// number. The token points into m.
func (m Meta) ProgressToken() (ProgressToken, bool) {
	token, ok := tokenIn(m[MetaProgressToken])
	return ProgressToken(token), ok
}

// SubscriptionID returns the id of the listen request whose stream carries the
// message, if it names one. The id points into m.
func (m Meta) SubscriptionID() (RequestID, bool) {
	id, ok := tokenIn(m[MetaSubscriptionID])
	return RequestID(id), ok
}

// WithServerInfo returns a copy of m that names the server, or m itself if it does already.
func (m Meta) WithServerInfo(info Implementation) Meta {
	if _, named := m[MetaServerInfo]; named {
		return m
	}
	return m.With(MetaServerInfo, Raw(info))
}

// tokenIn returns raw if it is a string or a number.
func tokenIn(raw json.RawMessage) (token []byte, ok bool) {
	token = bytes.TrimSpace(raw)
	if len(token) == 0 || token[0] != '"' && token[0] != '-' && (token[0] < '0' || token[0] > '9') {
		return nil, false
	}
	return token, true
}
