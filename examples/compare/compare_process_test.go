//go:build unix

package compare

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// revisions are those that the programs are run in.
var revisions = []string{"2025-11-25", "2026-07-28"}

// lines returns the number of lines of a program without empty lines and comments.
func lines(t *testing.T, name, library string) (n int) {
	t.Helper()
	f, err := os.Open(filepath.Join(name, library, "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if line := strings.TrimSpace(s.Text()); line != "" && !strings.HasPrefix(line, "//") {
			n++
		}
	}
	return n
}

// each runs a test with each of the three programs of a name, and checks that Troupe's is the shortest.
func each(t *testing.T, name string, test func(*testing.T, program)) {
	t.Helper()
	length := map[string]int{}
	for _, library := range libraries {
		length[library] = lines(t, name, library)
	}
	t.Logf("lines of %s: %v", name, length)
	for _, library := range libraries {
		if library != "troupe" && length[library] <= length["troupe"] {
			t.Errorf("with %s it takes %d lines, with troupe %d", library, length[library], length["troupe"])
		}
		t.Run(library, func(t *testing.T) { test(t, start(t, "./"+name+"/"+library)) })
	}
}

// program is a running program.
type program struct {
	url    string
	cmd    *exec.Cmd
	exited chan error
}

// start builds and runs a program, and returns once it listens.
func start(t *testing.T, dir string) program {
	t.Helper()
	return run(t, build(t, dir), freeAddress(t), "DATA="+t.TempDir())
}

// build builds the program of a directory, once for all tests.
func build(t *testing.T, dir string) string {
	t.Helper()
	bin := filepath.Join(programs, dir)
	if _, err := os.Stat(bin); err == nil {
		return bin
	}
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin, dir).CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return bin
}

// freeAddress returns an address on this machine where nobody listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// run runs a program that listens at an address, and returns once it does.
func run(t *testing.T, bin, addr string, env ...string) program {
	t.Helper()
	c := exec.Command(bin)
	c.Env = append(append(os.Environ(), "LISTEN="+addr), env...)
	c.Stderr = t.Output()
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	exited, over := make(chan error, 1), make(chan struct{})
	go func() {
		exited <- c.Wait()
		close(over)
	}()
	t.Cleanup(func() {
		_ = c.Process.Kill()
		<-over
	})
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		if conn, err := net.Dial("tcp", addr); err == nil {
			_ = conn.Close()
			return program{"http://" + addr, c, exited}
		}
		if time.Now().After(end) {
			t.Fatal("it does not listen")
		}
	}
}

// ends waits for the end of a program that was told to end.
func (p program) ends(t *testing.T) {
	t.Helper()
	select {
	case err := <-p.exited:
		if err != nil {
			t.Errorf("at SIGTERM: %v", err)
		}
	case <-time.After(patience):
		t.Error("it does not end at SIGTERM")
	}
}

// bearer sends a token with each request.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// call connects to url, calls a tool and returns its text.
func call(t *testing.T, url, revision string, token bearer, tool string, args any, o *mcp.ClientOptions) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	hc := http.DefaultClient
	if token != "" {
		hc = &http.Client{Transport: token}
	}
	s, err := mcp.NewClient(&mcp.Implementation{Name: "compare", Version: "1.0.0"}, o).
		Connect(ctx, &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: hc}, &mcp.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		return "", err
	}
	defer s.Close()
	p := &mcp.CallToolParams{Name: tool, Arguments: args}
	p.SetProgressToken("token")
	return textOf(s.CallTool(ctx, p))
}

// textOf returns the text of a result, or the error that it is.
func textOf(r *mcp.CallToolResult, err error) (string, error) {
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, c := range r.Content {
		if text, ok := c.(*mcp.TextContent); ok {
			b.WriteString(text.Text)
		}
	}
	if r.IsError {
		return "", fmt.Errorf("tool error: %s", b.String())
	}
	return b.String(), nil
}

func TestWeather(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/alerts/active/area/CA":
			fmt.Fprint(w, `{"features":[{"properties":{"event":"Flood","severity":"Minor","areaDesc":"Coast"}}]}`)
		case "/points/37.5,-122":
			fmt.Fprintf(w, `{"properties":{"forecast":"http://%s/forecast"}}`, r.Host)
		case "/forecast":
			fmt.Fprint(w, `{"properties":{"periods":[{"name":"Tonight","detailedForecast":"Clear."}]}}`)
		default:
			http.NotFound(w, r)
		}
	}))
	defer api.Close()
	t.Setenv("WEATHER_API", api.URL)
	each(t, "weather", func(t *testing.T, p program) {
		for _, revision := range revisions {
			if s, err := call(t, p.url+"/mcp", revision, "", "get_alerts", map[string]any{"state": "CA"}, nil); s != "Flood (Minor): Coast\n" || err != nil {
				t.Errorf("%s: alerts %q, %v", revision, s, err)
			}
			if s, err := call(t, p.url+"/mcp", revision, "", "get_forecast", map[string]any{"latitude": 37.5, "longitude": -122}, nil); s != "Tonight: Clear.\n" || err != nil {
				t.Errorf("%s: forecast %q, %v", revision, s, err)
			}
			if s, err := call(t, p.url+"/mcp", revision, "", "get_alerts", map[string]any{"state": "XX"}, nil); err == nil || !strings.Contains(err.Error(), "404") {
				t.Errorf("%s: alerts for nowhere: %q, %v", revision, s, err)
			}
		}
	})
}

func TestBook(t *testing.T) {
	user := &mcp.ClientOptions{ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		switch {
		case strings.HasPrefix(r.Params.Message, "Which day"):
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"date": "2026-12-24"}}, nil
		case r.Params.Message == "How many guests on 2026-12-24?":
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"guests": 4}}, nil
		default:
			return nil, fmt.Errorf("asked %q", r.Params.Message)
		}
	}}
	each(t, "book", func(t *testing.T, p program) {
		for _, revision := range revisions {
			if s, err := call(t, p.url+"/mcp", revision, "", "book", nil, user); s != "booked for 4 on 2026-12-24" || err != nil {
				t.Errorf("%s: %q, %v", revision, s, err)
			}
		}
		// A client of its time does not know results that ask. go-sdk answers one round of questions for it, and sends it the next one.
		older := *user
		older.MultiRoundTrip = &mcp.MultiRoundTripOptions{Disabled: true}
		want := "booked for 4 on 2026-12-24"
		if filepath.Base(p.cmd.Path) == "gosdk" {
			want = ""
		}
		if s, err := call(t, p.url+"/mcp", "2025-11-25", "", "book", nil, &older); s != want || err != nil {
			t.Errorf("a client that knows no results that ask: %q, %v", s, err)
		}
	})
}

func TestTenants(t *testing.T) {
	each(t, "tenants", func(t *testing.T, p program) {
		for _, revision := range revisions {
			for _, n := range []int{0, 7, 49} {
				who := fmt.Sprint("tenant-", n)
				if s, err := call(t, fmt.Sprintf("%s/%d/mcp", p.url, n), revision, bearer(who), "whoami", nil, nil); s != who || err != nil {
					t.Errorf("%s: %q, %v", revision, s, err)
				}
				if s, err := call(t, fmt.Sprintf("%s/%d/mcp", p.url, n), revision, "tenant-3", "whoami", nil, nil); err == nil {
					t.Errorf("%s: with another's token: %q", revision, s)
				}
			}
		}
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		p.ends(t)
	})
}
