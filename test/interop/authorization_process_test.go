package interop

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// lab builds bench/lab beside the command.
var lab = sync.OnceValues(func() (string, error) { return built("bench/lab") })

// built builds a program of this repository beside the command.
func built(directory string) (string, error) {
	path := filepath.Join(filepath.Dir(program), filepath.Base(directory))
	build := exec.Command("go", append(append([]string{"build"}, buildFlags...), "-o", path, "./"+directory)...)
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", directory, err, out)
	}
	return path, nil
}

// redirectURI is where the browser ends. Nobody listens there: it is not asked for.
const redirectURI = "http://127.0.0.1/callback"

// The clients that the authorization server knows from the start. server asks it for opaque tokens.
var registered = []map[string]any{
	{"client_id": "pre", "token_endpoint_auth_method": "none", "application_type": "native", "redirect_uris": []string{redirectURI}, "grant_types": []string{"authorization_code", "refresh_token"}, "response_types": []string{"code"}},
	{"client_id": "machine", "client_secret": "a secret of the machine", "redirect_uris": []string{}, "grant_types": []string{"client_credentials"}, "response_types": []string{}},
	{"client_id": "server", "client_secret": "a secret of the server", "redirect_uris": []string{}, "grant_types": []string{"client_credentials"}, "response_types": []string{}},
}

// site is a guarded server and the authorization server whose tokens it takes.
type site struct {
	modules, format, issuer, endpoint string
	documents                         string // where metadata of clients is, with the client's name behind it
}

// speaker is a program that says things line by line.
type speaker struct {
	lines *bufio.Scanner
	say   func(string)
}

// speak starts a program that ends when the test does: when its input ends, or at SIGTERM.
func speak(t *testing.T, cmd *exec.Cmd) *speaker {
	t.Helper()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close() // the end of input ends it
		_ = cmd.Process.Signal(syscall.SIGTERM)
		late := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
		defer late.Stop()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%s says:\n%s", cmd.Path, &stderr)
		}
	})
	return &speaker{bufio.NewScanner(out), func(line string) {
		if _, err := fmt.Fprintln(in, line); err != nil {
			t.Fatal(err)
		}
	}}
}

// hear returns the next line.
func (s *speaker) hear(t *testing.T) string {
	t.Helper()
	heard := make(chan string, 1)
	go func() {
		defer close(heard)
		if s.lines.Scan() {
			heard <- s.lines.Text()
		}
	}()
	return receive(t, heard)
}

// startSite starts an authorization server whose tokens have a format (see npm/auth/provider.mjs), and a server that takes them.
func startSite(t *testing.T, format string) *site {
	t.Helper()
	s := &site{modules: nodeModules(t), format: format}
	trusted := s.serveDocuments(t)
	settings, err := json.Marshal(map[string]any{"modules": s.modules, "format": format, "clients": registered})
	if err != nil {
		t.Fatal(err)
	}
	node := exec.Command("node", filepath.Join("npm", "auth", "provider.mjs"), string(settings))
	node.Env = append(os.Environ(), "NODE_EXTRA_CA_CERTS="+trusted)
	provider := speak(t, node)
	var first struct{ Issuer string }
	if line := provider.hear(t); json.Unmarshal([]byte(line), &first) != nil || first.Issuer == "" {
		t.Fatalf("the authorization server says %q", line)
	}
	s.issuer = first.Issuer
	s.endpoint = s.serve(t)
	provider.say(fmt.Sprintf(`{"resource":%q}`, s.endpoint))
	provider.hear(t)
	return s
}

// serve starts troupe serve for tokens of the authorization server, behind a proxy whose URL clients use, and returns the endpoint there.
func (s *site) serve(t *testing.T) string {
	t.Helper()
	var behind *url.URL
	front := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(behind); r.Out.Host = r.In.Host }, FlushInterval: -1})
	t.Cleanup(front.Close)
	file := filepath.Join(t.TempDir(), "troupe.yaml")
	config := fmt.Sprintf(`public-url: %s
auth:
  issuers:
  - url: %s
    introspection: {url: %[2]s/token/introspection, client-id: server, client-secret: a secret of the server}
  scopes: [demo:read]
`, front.URL, s.issuer)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	var err error
	if behind, err = url.Parse("http://" + start(t, "--memory", "--config", file).addr); err != nil {
		t.Fatal(err)
	}
	return front.URL + "/mcp"
}

// serveDocuments serves the metadata of clients over TLS, and returns the file with the certificate that is to be trusted.
func (s *site) serveDocuments(t *testing.T) string {
	t.Helper()
	var documents *httptest.Server
	documents = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{ // who asks sees it
			"client_id": documents.URL + r.URL.Path, "client_name": strings.Trim(r.URL.Path, "/"), "application_type": "native", "token_endpoint_auth_method": "none",
			"redirect_uris": []string{redirectURI}, "grant_types": []string{"authorization_code", "refresh_token"}, "response_types": []string{"code"},
		})
	}))
	t.Cleanup(documents.Close)
	s.documents = documents.URL + "/"
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: documents.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// checkFormat checks that a token is what the authorization server was to make.
func (s *site) checkFormat(t *testing.T, token string) {
	t.Helper()
	encoded, _, signed := strings.Cut(token, ".")
	if s.format == "opaque" {
		if signed {
			t.Errorf("the token is signed: %s", token)
		}
		return
	}
	text, err := base64.RawURLEncoding.DecodeString(encoded)
	var header struct{ Alg, Typ string }
	if err == nil {
		err = json.Unmarshal(text, &header)
	}
	if err != nil || header.Alg != s.format || header.Typ != "at+jwt" {
		t.Errorf("the token's header is %s (%v), want %s and at+jwt", text, err, s.format)
	}
}

// identity is what the tool whoami answers.
type identity struct {
	Subject, Client string
	Machine         bool
	Scopes          []string
}

// authClient is a client of npm/auth/client.mjs.
type authClient struct {
	Name     string   `json:"name"`
	Register string   `json:"register"`
	ID       string   `json:"id,omitempty"`
	Secret   string   `json:"secret,omitempty"`
	Scopes   string   `json:"scopes,omitempty"`
	Newest   bool     `json:"newest,omitempty"` // 2026-07-28
	Steps    []string `json:"steps"`
	Tools    []string `json:"tools,omitempty"` // those of the steps call and up, if not whoami and guarded

	answers map[string]string // what they answer then, by the step
}

// tool is the one that a step calls.
func (c *authClient) tool(step string) string {
	tools := []string{"whoami", "guarded"}
	if c.Tools != nil {
		tools = c.Tools
	}
	if step == "up" {
		return tools[1]
	}
	return tools[0]
}

// client returns a client that is known in the given way.
func (s *site) client(register string, steps ...string) authClient {
	c := authClient{Name: register, Register: register, Steps: steps}
	switch register {
	case "pre":
		c.ID = "pre"
	case "machine":
		c.ID, c.Secret = "machine", "a secret of the machine"
	case "cimd":
		c.ID = s.documents + "client.json"
	}
	return c
}

// checkStep checks what a client was answered in one of its steps.
func (c *authClient) checkStep(t *testing.T, step, text string) {
	t.Helper()
	if c.answers != nil {
		if want := c.answers[step]; text != want {
			t.Errorf("it is answered %q, want %q", text, want)
		}
		return
	}
	if step == "up" {
		if want := "written by demo:read demo:write"; text != want {
			t.Errorf("it is answered %q, want %q", text, want)
		}
		return
	}
	var got identity
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatalf("whoami answers %q: %v", text, err)
	}
	want, machine := "alice", c.Register == "machine"
	if machine {
		want = "machine"
	}
	if got.Subject != want || got.Machine != machine || c.ID != "" && got.Client != c.ID || !strings.Contains(strings.Join(got.Scopes, " "), "demo:read") {
		t.Errorf("the caller is %+v, want the subject %s of the client %q, with demo:read", got, want, c.ID)
	}
}

// driveAuthorization runs npm/auth/client.mjs with a release, and reports its output as tests.
func driveAuthorization(t *testing.T, s *site, release string, clients ...authClient) {
	t.Helper()
	came := make(map[string]bool)
	runScript(t, func(l struct{ Name, Step, Text, Error string }, _ io.Writer) {
		came[l.Name+"/"+l.Step] = true
		t.Run(l.Name+"/"+l.Step, func(t *testing.T) {
			if l.Error != "" {
				t.Fatal(l.Error)
			}
			for _, c := range clients {
				if c.Name == l.Name {
					c.checkStep(t, l.Step, l.Text)
				}
			}
		})
	}, "node", filepath.Join("npm", "auth", "client.mjs"), asJSON(map[string]any{"modules": s.modules, "sdk": release, "issuer": s.issuer, "http": s.endpoint, "clients": clients}))
	for _, c := range clients {
		for _, step := range c.Steps {
			if !came[c.Name+"/"+step] {
				t.Errorf("%s did not come to the step %s", c.Name, step)
			}
		}
	}
}

// TestAuthorization has one client of each SDK go from 401 to an answered call by way of a real authorization server. TestAuthorizationOfSDKs has all of them.
func TestAuthorization(t *testing.T) {
	t.Parallel()
	s := startSite(t, "ES256")
	t.Run("TypeScript", func(t *testing.T) {
		t.Parallel()
		driveAuthorization(t, s, "2.4.0", s.client("dcr", "call", "refresh"), s.client("cimd", "call", "up", "call"))
	})
	t.Run("Go", func(t *testing.T) {
		t.Parallel()
		s.driveGo(t, s.client("dcr", "call", "up", "refresh"))
	})
}
