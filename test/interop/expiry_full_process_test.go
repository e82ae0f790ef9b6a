//go:build full

package interop

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// publicURL is that of the servers of these tests. Nobody asks there.
const publicURL = "https://mcp.example.com"

// signer makes tokens of an issuer whose key lies in a file, each for a moment.
type signer struct {
	private ed25519.PrivateKey
	path    string // of the server that they are for
	life    time.Duration
	made    atomic.Int64
}

// guardedByFile starts a server that takes the tokens of a signer.
func guardedByFile(t *testing.T, of *signer) *server {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	of.private = private
	dir := t.TempDir()
	keys, config := filepath.Join(dir, "keys.json"), filepath.Join(dir, "auth.yaml")
	for file, text := range map[string]string{
		keys:   fmt.Sprintf(`{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"1","x":%q}]}`, base64.RawURLEncoding.EncodeToString(public)),
		config: fmt.Sprintf("public-url: %s\nauth:\n  issuers:\n    - url: https://id.example.com\n      keys: %s\n", publicURL, keys),
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return start(t, "--memory", "--config", config)
}

// RoundTrip sends a fresh token of the same user with each request, as a client does that refreshes its token.
func (s *signer) RoundTrip(r *http.Request) (*http.Response, error) {
	claims, err := json.Marshal(map[string]any{"iss": "https://id.example.com", "sub": "alice", "client_id": "interop", "aud": publicURL + s.path, "exp": time.Now().Add(s.life).Unix(), "jti": s.made.Add(1)})
	if err != nil {
		return nil, err
	}
	encode := base64.RawURLEncoding.EncodeToString
	text := encode([]byte(`{"alg":"EdDSA","typ":"at+jwt","kid":"1"}`)) + "." + encode(claims)
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+text+"."+encode(ed25519.Sign(s.private, []byte(text))))
	return http.DefaultTransport.RoundTrip(r)
}

// messagesHeard are the messages that a client got.
type messagesHeard struct {
	mu    sync.Mutex
	texts []string
}

func (s *messagesHeard) note(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.texts = append(s.texts, text)
}

// times is how often a message came.
func (s *messagesHeard) times(text string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.texts {
		if t == text {
			n++
		}
	}
	return n
}

func connectAs(ctx context.Context, t *testing.T, to mcp.Transport, heard *messagesHeard) *mcp.ClientSession {
	t.Helper()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "interop", Version: "1.0.0"}, &mcp.ClientOptions{
		LoggingMessageHandler: func(_ context.Context, r *mcp.LoggingMessageRequest) { heard.note(fmt.Sprint(r.Params.Data)) },
	}).Connect(ctx, to, &mcp.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return session
}

// TestStreamAcrossExpiry has a call go on for longer than the token that it came with: its stream ends with the token, and the Go SDK resumes it with a fresh one. Each message comes
// once, and so does the answer.
func TestStreamAcrossExpiry(t *testing.T) {
	t.Parallel()
	of := &signer{path: "/mcp", life: time.Second} // and the 30 s by which clocks may differ
	s, heard := guardedByFile(t, of), new(messagesHeard)
	ctx := within(t)
	session := connectAs(ctx, t, &mcp.StreamableClientTransport{Endpoint: s.endpoint, HTTPClient: &http.Client{Transport: of}}, heard)
	if err := session.SetLoggingLevel(ctx, &mcp.SetLoggingLevelParams{Level: "info"}); err != nil {
		t.Fatal(err)
	}
	id, before := session.ID(), of.made.Load()
	const all = 45
	r, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "count", Arguments: map[string]any{"to": all, "delay_ms": 1000}})
	if err != nil {
		t.Fatal(err)
	}
	sameJSON(t, "result", r, text(fmt.Sprintf("counted to %d", all)))
	last := fmt.Sprintf("%d of %d", all, all)
	eventually(t, func() bool { return heard.times(last) > 0 }, func() string { return "the last message does not come" }) // handlers may be slower than the result
	for n := 1; n <= all; n++ {
		if k := heard.times(fmt.Sprintf("%d of %d", n, all)); k != 1 {
			t.Errorf("message %d came %d times", n, k)
		}
	}
	if made := of.made.Load() - before; session.ID() != id || made < 2 {
		t.Errorf("the session is %s, before %s, and %d tokens were sent", session.ID(), id, made)
	}
}

// TestSSEWithATokenOfAnSDK speaks HTTP+SSE with tokens for its own resource. With one for the other transport nothing is let in.
func TestSSEWithATokenOfAnSDK(t *testing.T) {
	t.Parallel()
	of := &signer{path: "/sse", life: time.Minute}
	s, heard := guardedByFile(t, of), new(messagesHeard)
	ctx := within(t)
	at := strings.TrimSuffix(s.endpoint, "/mcp") + "/sse"
	session := connectAs(ctx, t, &mcp.SSEClientTransport{Endpoint: at, HTTPClient: &http.Client{Transport: of}}, heard)
	r, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"text": "x"}})
	if err != nil {
		t.Fatal(err)
	}
	sameJSON(t, "result", r, text("x"))
	other := &signer{private: of.private, path: "/mcp", life: time.Minute}
	if _, err := mcp.NewClient(&mcp.Implementation{Name: "interop", Version: "1.0.0"}, nil).Connect(ctx, &mcp.SSEClientTransport{Endpoint: at, HTTPClient: &http.Client{Transport: other}}, nil); err == nil {
		t.Error("a token for the other transport is let in")
	}
}
