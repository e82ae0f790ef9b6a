package interop

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestHostedServers has troupe host servers of npm, and compares each list, prompt, resource, completion, question, subscription and
// call with what the same server says to the same client over its own standard input and output. The client comes in both eras; the
// servers know only the older one.
func TestHostedServers(t *testing.T) {
	t.Parallel()
	modules := nodeModules(t)
	for _, b := range []backend{everything, files, memory, thinking} {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			b.compare(t, modules, &goWalks)
		})
	}
}

// backend is a server of others, with the walk through it.
type backend struct {
	name string
	// prepare returns a walk, and where the server is for this walk alone, started if it is at a URL.
	prepare func(t *testing.T, modules string) (*walk, *place)
	speaks  []string // of revision and stateless, what it speaks itself
}

// place is where clients find a server: a command, or the URL of a transport.
type place struct {
	Command string            `json:"command"`
	Args    []string          `json:"args"`
	Dir     string            `json:"cwd,omitempty"`
	Env     map[string]string `json:"env,omitempty"` // beside that of every hosted command

	transport string // stdio, http or sse
	url       string
	hosted    bool // troupe hosts it
}

// walker takes walks with the client of an SDK.
type walker struct {
	name   string
	speaks []string
	take   func(t *testing.T, w *walk, at *place, version string) []walked
	direct *walker // takes its place where a server speaks no revision that it speaks; nil where that does not happen
}

// goWalks is the Go SDK.
var goWalks = walker{name: "Go", speaks: []string{revision, stateless}, take: walkByGo}

// The servers of npm that are commands.
var (
	everything = backend{"everything", byNode("server-everything", walkEverything), []string{revision}}
	thinking   = backend{"sequential-thinking", byNode("server-sequential-thinking", walkThoughts), []string{revision}}
	files      = backend{"filesystem", func(t *testing.T, modules string) (*walk, *place) {
		dir := t.TempDir()
		at := nodePlace(modules, "server-filesystem")
		at.Args = append(at.Args, dir)
		return walkFiles(t, dir), at
	}, []string{revision}}
	memory = backend{"memory", func(t *testing.T, modules string) (*walk, *place) {
		at := nodePlace(modules, "server-memory")
		at.Env = map[string]string{"MEMORY_FILE_PATH": filepath.Join(t.TempDir(), "memory.jsonl")}
		return walkMemory(), at
	}, []string{revision}}
)

// byNode prepares a walk through a program of npm.
func byNode(name string, w func() *walk) func(*testing.T, string) (*walk, *place) {
	return func(_ *testing.T, modules string) (*walk, *place) { return w(), nodePlace(modules, name) }
}

// nodePlace is a program of npm, run by node.
func nodePlace(modules, name string) *place {
	return &place{transport: "stdio", Command: "node", Args: []string{filepath.Join(modules, "@modelcontextprotocol", name, "dist", "index.js")}}
}

// compare has a client walk through a server that troupe hosts, in each revision, and compares what it says with what it says to the
// same client directly: in the same revision if it speaks that, else in the other one.
func (b *backend) compare(t *testing.T, modules string, client *walker) {
	said := make(map[string][]walked)
	direct := client
	if !slices.ContainsFunc(client.speaks, func(version string) bool { return slices.Contains(b.speaks, version) }) {
		direct = client.direct
	}
	for _, version := range direct.speaks {
		if slices.Contains(b.speaks, version) {
			w, at := b.prepare(t, modules)
			said[version] = direct.take(t, w, at, version)
		}
	}
	for _, version := range client.speaks {
		t.Run(version, func(t *testing.T) {
			w, at := b.prepare(t, modules)
			s := hosting(t, at.options())
			got := client.take(t, w, &place{transport: "http", url: s.endpoint, hosted: true}, version)
			want := said[version]
			for _, other := range said {
				if want == nil {
					want = other
				}
			}
			w.compare(t, got, want, version == stateless)
		})
	}
}

// over returns the Go SDK's transport to a server.
func (p *place) over() mcp.Transport {
	switch p.transport {
	case "http":
		return &mcp.StreamableClientTransport{Endpoint: p.url}
	case "sse":
		return &mcp.SSEClientTransport{Endpoint: p.url}
	}
	cmd := exec.Command(p.Command, p.Args...)
	cmd.Dir, cmd.Env = p.Dir, []string{}
	for name, value := range p.environment() {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	return &mcp.CommandTransport{Command: cmd}
}

// environment is that of a command that is hosted, but for the mark of its keeper.
func (p *place) environment() map[string]string {
	env := make(map[string]string)
	for _, name := range []string{"HOME", "PATH", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "TZ"} {
		if value, ok := os.LookupEnv(name); ok {
			env[name] = value
		}
	}
	maps.Copy(env, p.Env)
	return env
}

// options are those of the server in the section backends: its clients are asked for their roots, and names have no prefix.
func (p *place) options() map[string]any {
	o := map[string]any{"roots": "forward", "prefix": "none"}
	switch {
	case p.transport != "stdio":
		o["url"], o["transport"] = p.url, p.transport
		return o
	case p.Dir != "":
		o["cwd"] = p.Dir
	}
	o["command"], o["args"] = p.Command, p.Args
	if p.Env != nil {
		o["env"] = p.Env
	}
	return o
}

// hosting starts troupe with one backend, which has these options.
func hosting(t *testing.T, options map[string]any) *server {
	t.Helper()
	file := filepath.Join(t.TempDir(), "troupe.yaml")
	if err := os.WriteFile(file, []byte(asJSON(map[string]any{"backends": map[string]any{"one": options}})), 0o600); err != nil {
		t.Fatal(err)
	}
	// A client that comes before a backend has said what it lists waits for as long as a busy machine needs to start it.
	return start(t, "--set", "conformance=false", "--set", "learn-wait=45s", "--memory", "--config", file)
}
