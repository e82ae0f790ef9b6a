//go:build full

package interop

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestHostedServersByEveryClient has the clients of three SDKs, in both eras, walk through servers of others that troupe hosts, and
// through the same servers without it: servers of npm that are commands, run by node and by npx, and that listen, over HTTP+SSE and
// Streamable HTTP; one that speaks 2026-07-28 alone (npm/newest.mjs); and the conformance example of mcp-go.
func TestHostedServersByEveryClient(t *testing.T) {
	t.Parallel()
	modules := nodeModules(t)
	second := typeScriptWalks("2.4.0", modules, revision, stateless)
	first := typeScriptWalks("1.32.2", modules, revision)
	first.direct = &second
	byNpx := backend{"everything by npx", func(t *testing.T, modules string) (*walk, *place) {
		return walkEverything(), &place{transport: "stdio", Command: "npx", Args: []string{"--offline", "--no", "@modelcontextprotocol/server-everything"}, Dir: filepath.Dir(modules)}
	}, []string{revision}}
	newest := backend{"newest", func(t *testing.T, modules string) (*walk, *place) {
		return walkNewest(), &place{transport: "stdio", Command: "node", Args: []string{beside(t, "npm", "newest.mjs"), modules}}
	}, []string{stateless}}
	conformance := conformanceOfMCPGo(t)
	for _, b := range []backend{everything, byNpx, listening("sse", "/sse"), listening("streamableHttp", "/mcp"), files, memory, thinking, newest, conformance} {
		for _, client := range []*walker{&goWalks, &first, &second} {
			t.Run(b.name+"/"+client.name, func(t *testing.T) {
				t.Parallel()
				b.compare(t, modules, client)
			})
		}
	}
}

// typeScriptWalks is a release of the TypeScript SDK, which npm/walk.mjs drives.
func typeScriptWalks(release, modules string, speaks ...string) walker {
	return walker{name: "TypeScript " + release, speaks: speaks, take: func(t *testing.T, w *walk, at *place, version string) []walked {
		t.Helper()
		named := *w
		named.Steps = slices.Clone(w.Steps)
		for i := range named.Steps {
			named.Steps[i].As = w.Steps[i].name()
		}
		server := map[string]any{at.transport: at.url}
		if at.transport == "stdio" {
			line := map[string]any{"command": at.Command, "args": at.Args, "env": at.environment(), "stderr": "ignore"}
			if at.Dir != "" {
				line["cwd"] = at.Dir
			}
			server["line"] = line
		}
		settings := map[string]any{"modules": modules, "sdk": release, "revision": version, "transport": at.transport, "server": server, "walk": &named, "hosted": at.hosted}
		var all []walked
		runQuietly(t, func(o walked, _ io.Writer) { all = append(all, o) }, "node", filepath.Join("npm", "walk.mjs"), asJSON(settings))
		return w.plain(all)
	}}
}

// listening is server-everything at a URL: a process of its own for each walk, at a free port of the loopback interface.
func listening(mode, path string) backend {
	transport := map[string]string{"sse": "sse", "streamableHttp": "http"}[mode]
	return backend{"everything over " + mode, func(t *testing.T, modules string) (*walk, *place) {
		script := filepath.Join(modules, "@modelcontextprotocol", "server-everything", "dist", "index.js")
		cmd := exec.Command("node", "--import", beside(t, "npm", "listen.mjs"), script, mode)
		stderr, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		url := make(chan string, 1)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for lines := bufio.NewScanner(stderr); lines.Scan(); {
				if at, ok := strings.CutPrefix(lines.Text(), "listening at "); ok {
					url <- at
				}
			}
			_ = cmd.Wait()
		}()
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			<-ended
		})
		select {
		case at := <-url:
			return walkEverything(), &place{transport: transport, url: at + path}
		case <-ended:
			t.Fatalf("server-everything %s does not listen", mode)
		}
		return nil, nil
	}, []string{revision}}
}

// conformanceOfMCPGo is the conformance example of mcp-go, which the adapter's module can build.
func conformanceOfMCPGo(t *testing.T) backend {
	t.Helper()
	built := filepath.Join(t.TempDir(), "conformance")
	if out, err := exec.Command("go", "-C", filepath.Join("..", "..", "adapters", "mcpgo"), "build", "-o", built, "github.com/mark3labs/mcp-go/examples/conformance").CombinedOutput(); err != nil {
		t.Fatalf("build the conformance example of mcp-go: %v\n%s", err, out)
	}
	return backend{"mcp-go", func(t *testing.T, _ string) (*walk, *place) {
		for { // it takes no port that the system chooses, and another process may take one that was free
			free, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			addr := free.Addr().String()
			if err := free.Close(); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(built)
			cmd.Env = append(cmd.Environ(), "CONFORMANCE_ADDR="+addr)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_ = cmd.Wait()
			}()
			t.Cleanup(func() {
				_ = cmd.Process.Kill()
				<-ended
			})
			if serves(t, "http://"+addr+"/health", ended) {
				return walkConformance(), &place{transport: "http", url: "http://" + addr + "/mcp"}
			}
		}
	}, []string{revision, stateless}}
}

// serves waits until a server answers at a URL, and reports whether it does so before it ends.
func serves(t *testing.T, url string, ended <-chan struct{}) bool {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		select {
		case <-ended:
			return false
		default:
		}
		if r, err := http.Get(url); err == nil {
			_ = r.Body.Close()
			return r.StatusCode == http.StatusOK
		}
	}
	t.Fatalf("nobody answers at %s", url)
	return false
}

// beside is the absolute path of a file beside the tests.
func beside(t *testing.T, elem ...string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(elem...))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// walkNewest is the walk through npm/newest.mjs, which speaks 2026-07-28 alone.
func walkNewest() *walk {
	const one, by = "note://one", "note://by/Ada"
	return &walk{
		Roots:   []root{{"file:///home/ada", "home"}},
		Prompts: map[string]map[string]string{"greet": {"who": "Ada", "how": "Good day"}},
		Values:  map[string][]string{"who": {"A", "Z"}},
		Reads:   []string{"note://nothing"},
		Steps: []walkStep{
			{Call: "echo", Args: map[string]any{"text": "<b>\u2028ä</b>"}},
			{Call: "echo", Args: map[string]any{"text": 1}},
			{Call: "add", Args: map[string]any{"a": 1.5, "b": 2}},
			{Call: "fail"},
			{Level: "debug", Only: legacyOnly, Contains: "{}"},
			{Call: "steps", Args: map[string]any{"count": 3}, Progress: 3, Logs: []string{"1", "2", "3"}},
			{Call: "form"},
			{Call: "form", As: "who declines", Answer: &userAnswer{Action: "decline"}},
			{Call: "visit"},
			{Call: "model"},
			{Call: "roots"},
			{Call: "rounds"},
			{Subscribe: one},
			{Call: "touch", Args: map[string]any{"uri": one}, Updated: []string{one}},
			{Unsubscribe: one},
			{Subscribe: by},
			{Call: "touch", Args: map[string]any{"uri": by}, Updated: []string{by}},
			{Call: "grow", Changed: true},
		},
	}
}

// walkConformance is the walk through the conformance example of mcp-go.
func walkConformance() *walk {
	asked := accepted(map[string]any{"username": "ada", "email": "ada@example.com"})
	return &walk{
		Prompts: map[string]map[string]string{
			"test_prompt_with_arguments":         {"arg1": "to be", "arg2": "or not"},
			"test_prompt_with_embedded_resource": {"resourceUri": "test://static-text"},
		},
		Values: map[string][]string{"id": {"7"}},
		Reads:  []string{"test://nothing"},
		Steps: []walkStep{
			{Call: "test_simple_text"}, {Call: "test_image_content"}, {Call: "test_audio_content"}, {Call: "test_embedded_resource"},
			{Call: "test_multiple_content_types"}, {Call: "test_error_handling"},
			{Call: "test_sampling", Args: map[string]any{"prompt": "to be?"}},
			{Call: "test_elicitation", Args: map[string]any{"message": "Who are you?"}, Answer: asked},
			{Call: "test_elicitation", Args: map[string]any{"message": "Who?"}, Answer: &userAnswer{Action: "decline"}},
			{Call: "test_elicitation_sep1034_defaults", Answer: accepted(map[string]any{"age": 31})},
			{Call: "test_elicitation_sep1330_enums", Answer: accepted(map[string]any{"untitledSingle": "option2"})},
			// mcp-go sends what a tool says on the stream of the call or on the session's own, as it happens, and may lose what comes right before the result.
			{Call: "test_tool_with_logging", Logs: []string{"started", "processing"}, Only: legacyOnly},
			{Call: "test_tool_with_logging", Only: modernOnly},
			{Call: "test_tool_with_progress"},
		},
	}
}
