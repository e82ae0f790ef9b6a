package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
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
	if rt == nil {
		rt = NewTransport()
	}
	return &Stateless{url: url, http: &http.Client{Transport: rt}, capabilities: capabilities}
}

// Call sends a request. id is a raw JSON token, which is the token of its progress as
// well, and params the members of its params beside _meta, or "" for none.
func (m *Stateless) Call(ctx context.Context, id, method, params string) (*Answer, error) {
	if params != "" {
		params = "," + params
	}
	body := `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientInfo":{"name":"troupe-bench","version":"1"},"io.modelcontextprotocol/clientCapabilities":` + m.capabilities +
		`,"progressToken":` + id + `}` + params + `}}`
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, m.url, strings.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("MCP-Protocol-Version", "2026-07-28")
	r.Header.Set("Mcp-Method", method)
	var named struct {
		Params struct{ Name, URI, TaskID string }
	}
	if err := json.Unmarshal([]byte(body), &named); err != nil {
		return nil, fmt.Errorf("client: %s: %w", method, err)
	}
	switch method {
	case "tools/call", "prompts/get":
		r.Header.Set("Mcp-Name", named.Params.Name)
	case "resources/read":
		r.Header.Set("Mcp-Name", named.Params.URI)
	case "tasks/get", "tasks/update", "tasks/cancel":
		r.Header.Set("Mcp-Name", named.Params.TaskID)
	}
	resp, err := m.http.Do(r)
	if err != nil {
		return nil, unanswered(http.MethodPost, err)
	}
	return answer(resp, http.MethodPost)
}
