package mcp

import (
	"encoding/json"
	"fmt"
)

// Keys of `_meta` the protocol defines.
const (
	// MetaProgressToken asks for progress of the request that carries it.
	MetaProgressToken = "progressToken"
	// MetaRelatedTask ties a message to a task; its value is a [RelatedTask].
	MetaRelatedTask = "io.modelcontextprotocol/related-task"
	// MetaModelImmediateResponse is a string, in the response that creates a task, that a
	// host may give to the model at once.
	MetaModelImmediateResponse = "io.modelcontextprotocol/model-immediate-response"
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

// Meta is a `_meta` object kept as its bytes. The zero value is no `_meta`, and is
// omitted where the protocol makes it optional.
type Meta []byte

// RelatedTask is the value of [MetaRelatedTask].
type RelatedTask struct {
	TaskID string `json:"taskId"`
}

// MarshalJSON returns the bytes, or {} for none.
func (m Meta) MarshalJSON() ([]byte, error) { return Object(m).MarshalJSON() }

// UnmarshalJSON copies the bytes. null is no `_meta`; it refuses any other value that is
// not an object.
func (m *Meta) UnmarshalJSON(data []byte) error {
	if isNull(data) {
		*m = nil
		return nil
	}
	raw, err := decodeObjectBytes(data)
	if err != nil {
		return fmt.Errorf("mcp: decode _meta: %w", err)
	}
	*m = raw
	return nil
}

// Get returns the raw value of a key. The slice points into m. It allocates
// nothing unless a key in m is written with escapes.
func (m Meta) Get(key string) (json.RawMessage, bool) { return member(m, key) }

// ProgressToken returns the progress token, if there is one that is a string or a
// number. The token points into m.
func (m Meta) ProgressToken() (ProgressToken, bool) {
	raw, ok := member(m, MetaProgressToken)
	if !ok || raw[0] != '"' && raw[0] != '-' && (raw[0] < '0' || raw[0] > '9') {
		return nil, false
	}
	return ProgressToken(raw), true
}

// RelatedTask returns the id of the task the message belongs to, if it names one.
func (m Meta) RelatedTask() (taskID string, ok bool) {
	raw, ok := member(m, MetaRelatedTask)
	if !ok {
		return "", false
	}
	id, ok := member(raw, "taskId")
	if !ok || json.Unmarshal(id, &taskID) != nil {
		return "", false
	}
	return taskID, true
}

// With returns a copy of m in which key has the given raw value. The other members keep
// their bytes and their order; an existing key is replaced in its place. The value must
// be valid JSON.
func (m Meta) With(key string, value json.RawMessage) Meta {
	out := make(Meta, 0, len(m)+len(key)+len(value)+len(`{"":,}`))
	out = append(out, '{')
	add := func(k, v []byte) {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, k...), ':'), v...)
	}
	found := false
	for it := newMembers(m); it.next(); {
		if !it.is(key) {
			add(it.rawKey, it.value)
		} else if !found {
			add(it.rawKey, value)
			found = true
		}
	}
	if !found {
		add(quote(key), value)
	}
	return append(out, '}')
}

// SubscriptionID returns the id of the listen request whose stream carries the
// message, if it names one. The id points into m.
func (m Meta) SubscriptionID() (RequestID, bool) {
	raw, ok := member(m, MetaSubscriptionID)
	if !ok || raw[0] != '"' && raw[0] != '-' && (raw[0] < '0' || raw[0] > '9') {
		return nil, false
	}
	return RequestID(raw), true
}

// WithSubscriptionID returns a copy of m that names the listen request.
func (m Meta) WithSubscriptionID(id RequestID) Meta {
	return m.With(MetaSubscriptionID, json.RawMessage(id))
}

// WithServerInfo returns a copy of m that names the server, unless m does already.
func (m Meta) WithServerInfo(info Implementation) Meta {
	if _, named := m.Get(MetaServerInfo); named {
		return m
	}
	data, err := encode(info)
	if err != nil {
		return m // strings always encode
	}
	return m.With(MetaServerInfo, data)
}

// WithProgressToken returns a copy of m that carries the token.
func (m Meta) WithProgressToken(token ProgressToken) Meta {
	return m.With(MetaProgressToken, json.RawMessage(token))
}

// WithRelatedTask returns a copy of m that names the task.
func (m Meta) WithRelatedTask(taskID string) Meta {
	value := append([]byte(`{"taskId":`), quote(taskID)...)
	return m.With(MetaRelatedTask, append(value, '}'))
}
