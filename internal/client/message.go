package client

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/troupe-run/troupe/mcp"
)

// message is a JSON-RPC message of a server.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *mcp.Error      `json:"error"`
}

// parseMessages returns the messages of a text, which is one or, in 2025-03-26, a batch. It fails for anything else.
func parseMessages(data []byte) ([]message, error) {
	data = bytes.TrimSpace(data)
	var all []message
	var err error
	if len(data) > 0 && data[0] == '[' {
		err = json.Unmarshal(data, &all)
	} else {
		all = make([]message, 1)
		err = json.Unmarshal(data, &all[0])
	}
	if err != nil {
		return nil, fmt.Errorf("no message of MCP: %w", err)
	}
	for _, m := range all {
		if m.Method == "" && m.Result == nil && m.Error == nil {
			return nil, fmt.Errorf("no message of MCP: it has neither a method nor a result nor an error")
		}
	}
	return all, nil
}

// isAnswerTo reports whether m is the response to the request with the id. An error may lack its id, as far as the server could not read that.
func (m *message) isAnswerTo(id string) bool {
	if m.Method != "" {
		return false
	}
	return string(m.ID) == id || m.Error != nil && (len(m.ID) == 0 || string(m.ID) == "null")
}

// resultOrError is the result of a response, or its error.
func (m *message) resultOrError() (json.RawMessage, error) {
	if m.Error != nil {
		return nil, m.Error
	}
	return m.Result, nil
}

// encodeMessage encodes a request, or a notification for an id of "".
func encodeMessage(id, method string, params map[string]json.RawMessage) ([]byte, error) {
	m := struct {
		JSONRPC string                     `json:"jsonrpc"`
		ID      json.RawMessage            `json:"id,omitempty"`
		Method  string                     `json:"method"`
		Params  map[string]json.RawMessage `json:"params,omitempty"`
	}{"2.0", json.RawMessage(id), method, params}
	return json.Marshal(m)
}

// encodeRaw encodes what always encodes: strings, numbers, and structs of them.
func encodeRaw(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		panic("client: " + err.Error())
	}
	return data
}
