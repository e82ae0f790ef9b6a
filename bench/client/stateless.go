package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
)

// Stateless speaks 2026-07-28 to one endpoint. There is no session: the caller keeps
// the questions and states of its requests.
type Stateless struct {
	url          string
	http         *http.Client
	capabilities string
}

// NewStateless returns a client of the endpoint. If rt is nil, the client has its own
// connections. capabilities is a JSON object.
func NewStateless(url string, rt http.RoundTripper, capabilities string) *Stateless {
	return &Stateless{url: url, http: newHTTP(rt), capabilities: capabilities}
}

// SendRequest sends a request. id is a raw JSON token, which is the token of its progress as
// well, and params the members of its params beside _meta, or "" for none.
func (m *Stateless) SendRequest(ctx context.Context, id, method, params string) (*Answer, error) {
	if params != "" {
		params = "," + params
	}
	body := requestOf(id, method, `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
		`"io.modelcontextprotocol/clientInfo":{"name":"troupe-bench","version":"1"},"io.modelcontextprotocol/clientCapabilities":`+m.capabilities+
		`,"progressToken":`+id+`}`+params+`}`)
	var named struct {
		Params struct{ Name, URI, TaskID string }
	}
	if err := json.Unmarshal([]byte(body), &named); err != nil {
		return nil, fmt.Errorf("client: %s: %w", method, err)
	}
	h := http.Header{"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {method}}
	switch method {
	case "tools/call", "prompts/get":
		h.Set("Mcp-Name", named.Params.Name)
	case "resources/read":
		h.Set("Mcp-Name", named.Params.URI)
	case "tasks/get", "tasks/update", "tasks/cancel":
		h.Set("Mcp-Name", named.Params.TaskID)
	}
	a, err := Do(ctx, m.http, http.MethodPost, m.url, body, h)
	if err == nil && a.Events != nil {
		a.Events.noIDs = true
	}
	return a, err
}
