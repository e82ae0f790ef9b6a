package interop

import (
	"io"
	"net/http"
	"os/exec"
	"strings"
	"testing"
)

// TestNothingWithoutAToken asks a guarded server with no token, and with ones that are none, for everything that it has: only preflights, metadata and
// health are answered. The proxy in front of it, which adds a valid token, has it answer.
func TestNothingWithoutAToken(t *testing.T) {
	t.Parallel()
	lab, err := lab()
	if err != nil {
		t.Fatal(err)
	}
	program := speak(t, exec.Command(lab, "guarded"))
	front, behind := program.hear(t), program.hear(t)
	host := strings.TrimSuffix(behind, "/mcp")
	const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	const modern = `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	const begin = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"interop","version":"1"}}}`
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // a refusal may end its connection
	ask := func(method, at, body, credentials string) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(within(t), method, at, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{"Accept": {"application/json, text/event-stream"}, "Content-Type": {"application/json"}, "Mcp-Session-Id": {"another"}, "Origin": {host}}
		if strings.Contains(body, "initialize") {
			r.Header.Del("Mcp-Session-Id")
		}
		if method == http.MethodOptions {
			r.Header.Set("Access-Control-Request-Method", "POST")
			r.Header.Set("Access-Control-Request-Headers", "authorization")
		}
		if credentials != "" {
			r.Header.Set("Authorization", credentials)
		}
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		_, _ = io.Copy(io.Discard, resp.Body)
		return resp
	}
	for _, credentials := range []string{"", "Basic YTpi", "Bearer x", "Bearer a.b.c"} {
		for _, path := range []string{"/mcp", "/sse", "/messages?sessionId=another", "/mcp?access_token=x"} {
			for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
				for _, body := range []string{"", ping, modern, begin, "[" + ping + "]", "no JSON"} {
					if body != "" && method != http.MethodPost {
						continue
					}
					resp := ask(method, host+path, body, credentials)
					if resp.StatusCode == http.StatusMethodNotAllowed { // before anybody is asked who they are
						continue
					}
					challenge := resp.Header.Get("WWW-Authenticate")
					if resp.StatusCode != http.StatusUnauthorized || !strings.HasPrefix(challenge, "Bearer ") || strings.Contains(challenge, "error=") != strings.HasPrefix(credentials, "Bearer") {
						t.Errorf("%s %s of %q with %q: %d, challenge %s", method, path, body, credentials, resp.StatusCode, challenge)
					}
				}
			}
		}
	}
	for _, path := range []string{"/healthz", "/readyz", "/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource"} {
		if resp := ask(http.MethodGet, host+path, "", ""); resp.StatusCode != http.StatusOK {
			t.Errorf("GET %s: %d, want 200", path, resp.StatusCode)
		}
	}
	for _, path := range []string{"/mcp", "/sse", "/messages"} {
		resp := ask(http.MethodOptions, host+path, "", "")
		if allowed := resp.Header.Get("Access-Control-Allow-Headers"); resp.StatusCode >= 300 || !strings.Contains(strings.ToLower(allowed), "authorization") {
			t.Errorf("a preflight to %s: %d, which allows %q", path, resp.StatusCode, allowed)
		}
	}
	if resp := ask(http.MethodPost, front, begin, ""); resp.StatusCode != http.StatusOK {
		t.Errorf("through the proxy that adds a token: %d, want 200", resp.StatusCode)
	}
}
