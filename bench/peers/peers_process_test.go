package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe/bench/compare/repair"
	"github.com/troupe-run/troupe/bench/loadgen"
)

// asServer makes the test binary the program that it tests.
const asServer = "PEERS_TEST_AS_SERVER"

func TestMain(m *testing.M) {
	if os.Getenv(asServer) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// start runs a kind, with more flags, and returns its URL.
func start(t *testing.T, bin, kind string, more ...string) string {
	t.Helper()
	c := exec.Command(bin, append([]string{"--kind", kind}, more...)...)
	c.Env = append(os.Environ(), asServer+"=1")
	c.Stderr = t.Output()
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(url)
}

// sessions and stateless are the eras.
var (
	sessions  = loadgen.DefaultRevision
	stateless = loadgen.Stateless
)

var eras = map[string][]string{
	"adapter-gosdk":   {sessions, stateless},
	"adapter-mcpgo":   {sessions, stateless},
	"bare":            {sessions, stateless},
	"bare-fasthttp":   {sessions, stateless},
	"gosdk":           {sessions},
	"gosdk-stateless": {sessions, stateless},
	"mcp-go":          {sessions, stateless},
	"troupe-handler":  {sessions, stateless},
}

// echoes checks that a server echoes, in each era of its kind, and that it checks arguments unless
// it is bare.
func echoes(t *testing.T, url, kind string) {
	t.Helper()
	bare := strings.HasPrefix(kind, "bare")
	for _, era := range eras[kind] {
		o := loadgen.Options{URL: url, Revision: era, Clients: 2, Duration: 50 * time.Millisecond, WarmUp: -1, Size: 105}
		if bare { // its text is not the client's
			o.Arguments = `{"text":"x"}`
		}
		r, err := loadgen.Run(t.Context(), o)
		if err != nil {
			t.Errorf("%s: %v", era, err)
			continue
		}
		if r.Operations == 0 || r.Failed() > 0 {
			t.Errorf("%s: %d operations, failed: %v", era, r.Operations, r.Examples)
		}
		if bare {
			continue
		}
		o.Arguments = `{"text":1}`
		if _, err := loadgen.Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "the first operation failed") {
			t.Errorf("%s: a number in place of the text: %v, want a failed operation", era, err)
		}
	}
}

func TestKinds(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			if len(eras[kind]) == 0 {
				t.Fatal("no era is known")
			}
			echoes(t, start(t, self, kind), kind)
		})
	}
}

// TestStreams: what has sessions, and bare, keeps event streams open; with sessions, slow readers
// get long ones.
func TestStreams(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for kind, flags := range map[string][]string{"bare": nil, "gosdk": {"--streams"}, "mcp-go": nil, "troupe-handler": {"--data", t.TempDir()}} {
		t.Run(kind, func(t *testing.T) {
			o := loadgen.Options{URL: start(t, self, kind, flags...), Scenario: "streams", Count: 50, Duration: 100 * time.Millisecond}
			if r, err := loadgen.Run(t.Context(), o); err != nil || r.Operations != 50 || r.Failed() > 0 {
				t.Errorf("streams: %+v, %v", r, err)
			}
			if kind == "bare" {
				return
			}
			o.Scenario, o.Count = "hold", 50
			if r, err := loadgen.Run(t.Context(), o); err != nil || r.Operations != 50 || r.Failed() > 0 {
				t.Errorf("hold: %+v, %v", r, err)
			}
			o.Scenario, o.Count, o.Clients, o.Rate, o.Duration, o.WarmUp = "slow", 0, 50, 50, 500*time.Millisecond, -1 // no operation waits for a client
			if r, err := loadgen.Run(t.Context(), o); err != nil || r.Operations == 0 || r.Failed() > 0 || r.Beside.Bytes == 0 {
				t.Errorf("slow: %+v, %v", r, err)
			}
		})
	}
}

// TestFixed builds the program with the SDK's decoder replaced.
func TestFixed(t *testing.T) {
	file, err := repair.WriteModfile(t.Context(), ".", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(t.TempDir(), "peers")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-modfile", file, "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	for _, kind := range []string{"gosdk", "gosdk-stateless"} {
		t.Run(kind, func(t *testing.T) { echoes(t, start(t, bin, kind), kind) })
	}
}
