package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

// ClientCapabilities is what a client can do. A pointer that is not nil declares its
// capability, even if it points to an empty value.
type ClientCapabilities struct {
	Experimental map[string]Object          `json:"experimental,omitempty"`
	Roots        *ListChanged               `json:"roots,omitempty"`
	Sampling     *SamplingCapability        `json:"sampling,omitempty"`
	Elicitation  *ElicitationCapability     `json:"elicitation,omitempty"`
	Tasks        *ClientTasksCapability     `json:"tasks,omitempty"`
	Extensions   map[string]Object          `json:"extensions,omitempty"` // 2026-07-28
	Extra        map[string]json.RawMessage `json:"-"`                    // members no revision defines
}

// ServerCapabilities is what a server can do. As in [ClientCapabilities], a pointer that
// is not nil declares.
type ServerCapabilities struct {
	Experimental map[string]Object          `json:"experimental,omitempty"`
	Logging      *Object                    `json:"logging,omitempty"`
	Completions  *Object                    `json:"completions,omitempty"`
	Prompts      *ListChanged               `json:"prompts,omitempty"`
	Resources    *ResourcesCapability       `json:"resources,omitempty"`
	Tools        *ListChanged               `json:"tools,omitempty"`
	Tasks        *ServerTasksCapability     `json:"tasks,omitempty"`
	Extensions   map[string]Object          `json:"extensions,omitempty"` // 2026-07-28
	Extra        map[string]json.RawMessage `json:"-"`                    // members no revision defines
}

// ListChanged declares a list, and whether the server announces its changes.
type ListChanged struct {
	ListChanged bool `json:"listChanged,omitempty"`
}

// ResourcesCapability declares resources, and which changes the server announces.
type ResourcesCapability struct {
	Subscribe   bool `json:"subscribe,omitempty"`
	ListChanged bool `json:"listChanged,omitempty"`
}

// SamplingCapability declares sampling. Tools allows tools and toolChoice, Context
// the includeContext values besides none.
type SamplingCapability struct {
	Context *Object `json:"context,omitempty"`
	Tools   *Object `json:"tools,omitempty"`
}

// ElicitationCapability declares elicitation. An empty one means form mode only; ask
// [ClientCapabilities.Has].
type ElicitationCapability struct {
	Form *Object `json:"form,omitempty"`
	URL  *Object `json:"url,omitempty"`
}

// ClientTasksCapability declares which requests a client accepts as tasks. The
// requests not named do not take a task.
type ClientTasksCapability struct {
	List     *Object             `json:"list,omitempty"`
	Cancel   *Object             `json:"cancel,omitempty"`
	Requests *ClientTaskRequests `json:"requests,omitempty"`
}

// ClientTaskRequests are the client's requests that may become tasks.
type ClientTaskRequests struct {
	Sampling    *SamplingTaskRequests    `json:"sampling,omitempty"`
	Elicitation *ElicitationTaskRequests `json:"elicitation,omitempty"`
}

// SamplingTaskRequests are the sampling requests that may become tasks.
type SamplingTaskRequests struct {
	CreateMessage *Object `json:"createMessage,omitempty"`
}

// ElicitationTaskRequests are the elicitation requests that may become tasks.
type ElicitationTaskRequests struct {
	Create *Object `json:"create,omitempty"`
}

// ServerTasksCapability declares which requests a server accepts as tasks.
type ServerTasksCapability struct {
	List     *Object             `json:"list,omitempty"`
	Cancel   *Object             `json:"cancel,omitempty"`
	Requests *ServerTaskRequests `json:"requests,omitempty"`
}

// ServerTaskRequests are the server's requests that may become tasks.
type ServerTaskRequests struct {
	Tools *ToolTaskRequests `json:"tools,omitempty"`
}

// ToolTaskRequests are the tool requests that may become tasks.
type ToolTaskRequests struct {
	Call *Object `json:"call,omitempty"`
}

type plainClientCapabilities ClientCapabilities
type plainServerCapabilities ServerCapabilities

// MarshalJSON writes the members of Extra behind the known ones.
func (c ClientCapabilities) MarshalJSON() ([]byte, error) {
	return encodeWithExtra(plainClientCapabilities(c), c.Extra)
}

// UnmarshalJSON keeps members no revision defines in Extra.
func (c *ClientCapabilities) UnmarshalJSON(data []byte) error {
	var plain plainClientCapabilities
	extra, err := decodeWithExtra(data, &plain)
	if err != nil {
		return fmt.Errorf("mcp: decode client capabilities: %w", err)
	}
	plain.Extra = extra
	*c = ClientCapabilities(plain)
	return nil
}

// MarshalJSON writes the members of Extra behind the known ones.
func (c ServerCapabilities) MarshalJSON() ([]byte, error) {
	return encodeWithExtra(plainServerCapabilities(c), c.Extra)
}

// UnmarshalJSON keeps members no revision defines in Extra.
func (c *ServerCapabilities) UnmarshalJSON(data []byte) error {
	var plain plainServerCapabilities
	extra, err := decodeWithExtra(data, &plain)
	if err != nil {
		return fmt.Errorf("mcp: decode server capabilities: %w", err)
	}
	plain.Extra = extra
	*c = ServerCapabilities(plain)
	return nil
}

func encodeWithExtra(plain any, extra map[string]json.RawMessage) ([]byte, error) {
	data, err := encode(plain)
	if err != nil || len(extra) == 0 {
		return data, err
	}
	keys := make([]string, 0, len(extra))
	for key := range extra {
		keys = append(keys, key)
	}
	slices.Sort(keys) // equal capabilities encode to equal bytes, so digests agree
	data = data[:len(data)-1]
	for _, key := range keys {
		if len(data) > 1 {
			data = append(data, ',')
		}
		data = append(append(append(data, quote(key)...), ':'), extra[key]...)
	}
	return append(data, '}'), nil
}

func decodeWithExtra(data []byte, plain any) (map[string]json.RawMessage, error) {
	if !json.Valid(data) {
		return nil, fmt.Errorf("%w: not JSON", ErrMalformed)
	}
	var extra map[string]json.RawMessage
	err := decodeStruct(data, plain, func(key string, value []byte) {
		if extra == nil {
			extra = make(map[string]json.RawMessage)
		}
		extra[key] = bytes.Clone(value)
	})
	return extra, err
}
