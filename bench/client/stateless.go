package client

import (
	"context"
	"net/http"
	"regexp"
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
	body, h := StatelessRequest(id, method, params, m.capabilities)
	a, err := Do(ctx, m.http, http.MethodPost, m.url, body, h)
	if err == nil && a.Events != nil {
		a.Events.noIDs = true
	}
	return a, err
}

// named finds what a request is about, whose member comes first.
var named = regexp.MustCompile(`^"(?:name|uri|taskId)":"([^"]*)"`)

// StatelessRequest returns the body and the headers of a request. What it is about is the first of
// params.
func StatelessRequest(id, method, params, capabilities string) (body string, h http.Header) {
	h = http.Header{"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {method}}
	if m := named.FindStringSubmatch(params[:min(len(params), 200)]); m != nil {
		h.Set("Mcp-Name", m[1])
	}
	if params != "" {
		params = "," + params
	}
	return Request(id, method, `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
		`"io.modelcontextprotocol/clientInfo":{"name":"troupe-bench","version":"1"},"io.modelcontextprotocol/clientCapabilities":`+capabilities+
		`,"progressToken":`+id+`}`+params+`}`), h
}
