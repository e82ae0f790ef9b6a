package hostfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/troupe-run/troupe/host"
	"github.com/troupe-run/troupe/internal/backend/naming"
	"github.com/troupe-run/troupe/internal/configfile"
)

// section reads a section of backends.
func section(t *testing.T, text string) *File {
	t.Helper()
	var f File
	if err := configfile.Read([]byte("backends:\n"+text), map[string]configfile.Reader{"backends": ReadSection(&f, at("/srv/project/troupe.yaml"))}); err != nil {
		t.Fatal(err)
	}
	return &f
}

// TestEveryOption compares the section with every option with the Options that it stands for.
func TestEveryOption(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("testdata", "backends.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	f := section(t, strings.TrimPrefix(string(text), "backends:\n"))
	for i, want := range []string{
		`host.Target("/opt/tools/server") [--verbose --token=key-s3cret] {Isolation:principal Era:legacy Transport: Prefix:all. Tools:{Allow:[read_* list] Deny:[read_secret]} Scopes:[files:use] ToolScopes:map[list:[files:list files:read] read_*:[files:read]] Rerun:{Safe:[read_*] Never:[list]} OnLoss:end ` +
			`Roots:{Forward:false List:[{URI:file:///srv/shared Name: Meta:map[]} {URI:file:///srv/other Name: Meta:map[]} {URI:file:///Users/ada/notes%20here Name: Meta:map[]}]} ` +
			`Pool:{Warm:2 Max:10 MaxPerPrincipal:3 Queue:50 StartTimeout:5m0s Idle:1h0m0s MaxLife:24h0m0s MaxMemory:536870912} Env:API_KEY=*** MODE=*** OTHER=*** EnvFile:/srv/project/.env Dir:/srv/project/data StderrRate:5.5 ` +
			`Confinement:{Rlimits:{Enforce:try OpenFiles:256 Processes:64 FileSize:1073741824 AddressSpace:34359738368 CPU:1h0m0s} NoNewPrivs:require Files:{Enforce:try Read:[/usr /Users/ada] Write:[/srv/project/data]} NoNetwork:require OwnPIDs:try ` +
			`Cgroup:{Enforce:require Memory:1073741824 CPUs:1.5 Processes:100}} Hide: Headers: PassHeaders:[]}`,
		`host.Target("server") [] {Isolation: Era: Transport: Prefix:none Tools:{Allow:[] Deny:[]} Scopes:[] ToolScopes:map[] Rerun:{Safe:[] Never:[]} OnLoss: Roots:{Forward:false List:[]} Pool:{Warm:0 Max:-1 MaxPerPrincipal:-1 Queue:0 StartTimeout:0s Idle:-1ns MaxLife:0s MaxMemory:0} ` +
			`Env: EnvFile: Dir: StderrRate:-1 Confinement:{Rlimits:{Enforce: OpenFiles:0 Processes:0 FileSize:0 AddressSpace:0 CPU:0s} NoNewPrivs: Files:{Enforce: Read:[] Write:[]} NoNetwork:try OwnPIDs: Cgroup:{Enforce: Memory:0 CPUs:0 Processes:0}} Hide: Headers: PassHeaders:[]}`,
		`host.Target("https://mcp.example.com/mcp") [] {Isolation:shared Era:modern Transport:http Prefix: Tools:{Allow:[] Deny:[]} Scopes:[] ToolScopes:map[] Rerun:{Safe:[] Never:[]} OnLoss: Roots:{Forward:true List:[]} Pool:{Warm:0 Max:0 MaxPerPrincipal:0 Queue:0 StartTimeout:0s Idle:0s MaxLife:0s MaxMemory:0} ` +
			`Env: EnvFile: Dir: StderrRate:0 Confinement:{Rlimits:{Enforce: OpenFiles:0 Processes:0 FileSize:0 AddressSpace:0 CPU:0s} NoNewPrivs: Files:{Enforce: Read:[] Write:[]} NoNetwork: OwnPIDs: Cgroup:{Enforce: Memory:0 CPUs:0 Processes:0}} Hide: Headers:Authorization=*** PassHeaders:[X-Tenant Accept-Language]}`,
	} {
		b := f.Backends[i]
		_, args, _ := b.Target.Command()
		b.Options.Hide = nil // TestMask has those
		if diff := cmp.Diff(want, fmt.Sprintf("%#v %v %+v", b.Target, args, b.Options)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", b.Name, diff)
		}
	}
	if f.Backends[0].Options.Env["API_KEY"] != "key-s3cret" || f.Backends[2].Options.Headers["Authorization"] != "Bearer token-s3cret" || !f.Backends[2].Disabled {
		t.Error("values of the section")
	}
}

// TestEveryKeyIsRead requires that the file with every option has every key, and the line of the field that a key stands for.
func TestEveryKeyIsRead(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("testdata", "backends.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for key := range ownKeys.read {
		if !strings.Contains(string(text), "\n    "+key+":") {
			t.Errorf("testdata/backends.yaml has no %s", key)
		}
	}
	for field, key := range fieldKeys {
		if ownKeys.read[key] == nil {
			t.Errorf("%s is called %s in files, which is no key", field, key)
		}
	}
}

// TestLinesAreRead reads what Lines writes of a backend: it says the same, but for secrets.
func TestLinesAreRead(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("testdata", "backends.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	f := section(t, strings.TrimPrefix(string(text), "backends:\n"))
	for _, b := range f.Backends {
		lines := strings.Join(b.Lines(), "\n") + "\n"
		again := section(t, lines).Backends[0]
		if got := strings.Join(again.Lines(), "\n") + "\n"; got != lines {
			t.Errorf("(-first +second):\n%s", cmp.Diff(lines, got))
		}
		again.Options.Env, again.Options.Headers, again.Options.Hide = b.Options.Env, b.Options.Headers, b.Options.Hide
		if diff := cmp.Diff(b.Options, again.Options); diff != "" {
			t.Errorf("(-first +second):\n%s", diff)
		}
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("long-", 10)
	for called, want := range map[string]string{
		"memory": "memory", "My Server": "My_Server", "@scope/name": "scope_name", "a.b.c": "a_b_c", "-": "-", "..": "backend_5ec1f7e7", "文件": "backend_39932f24", "Größe": "Gr_e_aedc3f80",
		long: "long-long-long-long-long-long-l_a7ade2e7",
	} {
		got := cleanName(called)
		if got != want || !goodName.MatchString(got) {
			t.Errorf("%q is called %q, want %q", called, got, want)
		}
	}
	f := read(t, `{"mcpServers": {"a b": {"command": "a"}, "a.b": {"command": "b"}, "a_b": {"command": "c"}, "x": {"command": "d"}, "x__y": {"command": "e"}, "x__z": {"command": "e", "disabled": true}}}`)
	for i, want := range []string{"", "it would be called a_b, as the one in line 1 is", "it would be called a_b", "", "its prefix \"x__y__\" and that of x, \"x__\", begin alike", ""} {
		err := f.Backends[i].Err
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", f.Backends[i].Name, err, want)
		}
	}
	if p := naming.Prefix("a", host.NoPrefix); p != "" {
		t.Errorf("no prefix is %q", p)
	}
	if as := f.Backends[0].As; as != "a b" {
		t.Errorf("it is called %q in the file", as)
	}
}

func TestJoin(t *testing.T) {
	t.Parallel()
	one, two := read(t, `{"mcpServers": {"a": {"command": "a"}, "b": {"command": "b"}}}`), section(t, "  c: {command: c}\n  a: {command: d}\n")
	all := Join(one, two)
	names := ""
	for _, b := range all.Backends {
		names += b.Name
		if b.Usable() {
			names += "+"
		}
	}
	if err := all.Backends[3].Err; names != "a+b+c+a" || err == nil || err.Error() != "/srv/project/troupe.yaml:3: backends.a: there is one of this name in /srv/project/.mcp.json:1" {
		t.Errorf("%s, %v", names, err)
	}
	if two.Backends[1].Err != nil {
		t.Error("a file that was joined is changed")
	}
	if Join(one) != one {
		t.Error("one file is another")
	}
}

func TestMask(t *testing.T) {
	t.Parallel()
	f := read(t, `{"mcpServers": {
		"a": {"command": "a", "args": ["${file:many-lines}", "--api-key", "literal-secret", "--token=other-literal", "${EVENTS_KEY}", "${HOME}/x", "postgres://u:pass-word@db/"], "env": {"A": "short", "B": "key-s3cret", "C": "key-s3cret-longer"}},
		"b": {"url": "https://me:pass%20word@b.example/mcp?api_key=in-the-query&x=visible-here", "headers": {"X-A": "Bearer in-the-header"}}
	}}`)
	for i, lines := range []string{
		"first-s3cret|second-s3cret|literal-secret|other-literal|events-s3cret|key-s3cret|key-s3cret-longer|pass-word => ***|***|***|***|***|***|***|***",
		"short /Users/ada/x --api-key => short /Users/ada/x --api-key",
	} {
		text, want, _ := strings.Cut(lines, " => ")
		if got := f.Backends[0].Mask(text); got != want {
			t.Errorf("%d: %s, want %s", i, got, want)
		}
	}
	if hidden := f.Backends[0].Options.Hide; !slices.Contains(hidden, "literal-secret") || !slices.Contains(hidden, "key-s3cret") {
		t.Errorf("the options hide %q", []string(hidden))
	}
	if got, want := f.Backends[1].Mask("pass word|me:pass%20word|in-the-query|visible-here|Bearer in-the-header|in-the-header"), "***|***|***|visible-here|***|***"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	a, b := strings.Join(f.Backends[0].Lines(), "\n"), strings.Join(f.Backends[1].Lines(), "\n")
	if want := `args: ["${file:many-lines}", "--api-key", "***", "--token=***", "${EVENTS_KEY}", "${HOME}/x", "postgres://***@db/"]`; !strings.Contains(a, want) {
		t.Errorf("%s\nwant %s", a, want)
	}
	if want := `url: "https://***@b.example/mcp?api_key=***&x=visible-here"`; !strings.Contains(b, want) {
		t.Errorf("%s\nwant %s", b, want)
	}
	for raw, want := range map[string]string{
		"https://${USER}:p@a/?token=${TOKEN}&key=k": "https://***@a/?token=${TOKEN}&key=***", "https://${TOKEN}@a/": "https://${TOKEN}@a/", "https://${HOST}/x?a=b": "https://${HOST}/x?a=b",
	} {
		if got := maskURL(raw); got != want {
			t.Errorf("%s is shown as %s, want %s", raw, got, want)
		}
	}
}

// TestShown shows what runs without its secrets: in arguments also those that are too short to be looked for in texts.
func TestShown(t *testing.T) {
	t.Parallel()
	a := read(t, `{"mcpServers": {"a": {"command": "npx", "args": ["-y", "@x/y", "${EVENTS_KEY}", "--pin=${PIN}", "${PIN}", "--api-key", "k", "a b"],
		"env": {"B": "key-s3cret"}, "cwd": "/srv/${EVENTS_KEY}"}}}`).Backends[0]
	target, options := ShowBackend(a.Target, a.Options.WithDefaults())
	if want := `npx -y @x/y *** --pin=*** *** --api-key *** "a b"`; target != want {
		t.Errorf("the command is %s, want %s", target, want)
	}
	all := strings.Join(options, "\n") + "\n"
	for _, want := range []string{"env:\n  B: \"***\"\n", "cwd: \"/srv/***\"\n", "isolation: session\n", "max: 256\n", "start-timeout: 2m0s\n", "stderr-rate: 20\n"} {
		if !strings.Contains(all, want) {
			t.Errorf("the options lack %q:\n%s", want, all)
		}
	}
	if strings.Contains(all, "command") || strings.Contains(all, "npx") {
		t.Errorf("the options have the command:\n%s", all)
	}
	b := read(t, `{"mcpServers": {"b": {"url": "https://me:pass@b.example/mcp?api_key=k", "headers": {"X-A": "Bearer in-the-header"}}}}`).Backends[0]
	target, options = ShowBackend(b.Target, b.Options)
	if all := strings.Join(options, "\n"); target != "https://b.example/mcp" || !strings.HasPrefix(all, "headers:\n  X-A: \"***\"") {
		t.Errorf("the URL is %s with %s", target, all)
	}
}

// TestDigest has a digest as it was first, which stores have, and what makes another one.
func TestDigest(t *testing.T) {
	t.Parallel()
	digest := func(members string) string {
		b := section(t, "  a:\n    "+strings.ReplaceAll(members, "; ", "\n    ")+"\n").Backends[0]
		if b.Err != nil {
			t.Fatal(b.Err)
		}
		return b.Digest()
	}
	const base = "command: a; args: [b]"
	if got := digest(base); got != "02e8d5f7cea38644252f40c033bb5287" {
		t.Errorf("the digest is %s", got)
	}
	for _, same := range []string{
		"isolation: shared", "isolation: session", "prefix: none", "tools: {deny: [a]}", "rerun: {safe: [a]}", "on-loss: end", "warm: 1", "max: 5", "idle: 5m", "stderr-rate: 1", "no-new-privs: off", "network: any", "roots: none",
		"rlimits: {enforce: off}", "max-memory: 1GiB",
	} {
		if got := digest(base + "; " + strings.ReplaceAll(same, ": off", ": 'off'")); got != digest(base) {
			t.Errorf("%s makes another digest", same)
		}
	}
	seen := map[string]string{digest(base): base}
	for _, other := range []string{
		"env: {A: b}", "env: {A: c}", "env-file: .env", "cwd: /", "era: legacy", "roots: forward", "roots: [/a]", "no-new-privs: try", "network: none", "own-pids: try", "files: {read: [/a]}", "rlimits: {processes: 5}", "cgroup: {processes: 5}",
	} {
		got := digest(base + "; " + other)
		if seen[got] != "" {
			t.Errorf("%s has the digest of %s", other, seen[got])
		}
		seen[got] = other
	}
	for _, other := range []string{"command: a", "command: a; args: [b, c]", "command: b; args: [b]", "url: 'https://a/'", "url: 'https://a/'; transport: sse", "url: 'https://a/'; headers: {A: b}", "url: 'https://a/'; pass-headers: [A]"} {
		got := digest(other)
		if seen[got] != "" {
			t.Errorf("%s has the digest of %s", other, seen[got])
		}
		seen[got] = other
	}
	for _, name := range []string{"a", "b"} {
		serve := host.Serve(name, func(context.Context, io.Reader, io.Writer) error { return nil })
		if got := Digest(serve, host.Options{Hide: []string{"s3cret"}}); seen[got] != "" || got != Digest(serve, host.Options{}) {
			t.Errorf("the server %s of this process has the digest of %s", name, seen[got])
		} else {
			seen[got] = name
		}
	}
}

func TestDiff(t *testing.T) {
	t.Parallel()
	was := section(t, "  a: {command: a}\n  b: {command: b}\n  c: {command: c}\n  d: {command: d}\n  e: {command: e, disabled: true}\n  f: {command: f}\n  h: {command: '${NO}'}\n")
	for text, want := range map[string]Changes{
		"  a: {command: a}\n  b: {command: b}\n  c: {command: c}\n  d: {command: d}\n  f: {command: f}\n": {},
		"  b: {command: b}\n  a: {command: a}\n  c: {command: c, args: [x]}\n  d: {command: d, max: 3}\n  e: {command: e}\n  f: {command: '${NO}'}\n  g: {command: '${NO}'}\n  h: {command: h}\n": {
			Added: []string{"e", "h"}, Replaced: []string{"c"}, Adjusted: []string{"d"}, Broken: []string{"f"}, Reordered: true,
		},
		"  z: {command: z}\n  a: {command: a, isolation: session}\n  d: {command: d, disabled: true}\n": {Added: []string{"z"}, Removed: []string{"b", "c", "d", "f"}},
	} {
		got := Diff(was, section(t, text))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s\nfor\n%s", diff, text)
		}
		if got.Any() != !cmp.Equal(want, Changes{}) {
			t.Errorf("Any is %v for\n%s", got.Any(), text)
		}
	}
}

func TestFromCommand(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"npx -y @modelcontextprotocol/server-everything": "server-everything", "npx -y @modelcontextprotocol/server-memory@1.2.3": "server-memory", "uvx mcp-server-fetch": "mcp-server-fetch", "/opt/bin/my-server --x": "my-server",
		"node dist/server.js": "server", "uv run server.py": "server", "python3 -m my_server": "my_server", `C:\tools\srv.exe -v`: "srv", "npx": "npx", "docker run -i mcp/time": "docker", "go run ./cmd/srv": "srv", "./": "backend", "python -m mcp.server": "mcp_server",
		"env A=b npx -y @modelcontextprotocol/server-memory": "server-memory", "env A=b": "env",
	} {
		f := FromCommand(strings.Fields(line)...)
		b := f.Backends[0]
		program, args, _ := b.Target.Command()
		if b.Name != want || !b.Usable() || b.Options.Prefix != host.NoPrefix || strings.Join(append([]string{program}, args...), " ") != line {
			t.Errorf("%q is %s: %v %v", line, b.Name, program, args)
		}
	}
}

// TestFindProgram has commands whose programs are there, and others.
func TestFindProgram(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"server": 0o700, "notes": 0o600} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	lookup := func(string) (string, bool) { return dir, true }
	for _, tt := range []struct {
		name string
		o    host.Options
		want string
	}{
		{"server", host.Options{}, ""},
		{filepath.Join(dir, "server"), host.Options{}, ""},
		{"./server", host.Options{Dir: dir}, ""},
		{"notes", host.Options{}, "there is no program notes in PATH, which is " + dir},
		{"server", host.Options{Env: host.Secrets{"PATH": "/nowhere"}}, "there is no program server in PATH, which is /nowhere"},
		{filepath.Join(dir, "notes"), host.Options{}, filepath.Join(dir, "notes") + " is no program that can be run"},
		{dir, host.Options{}, dir + " is no program that can be run"},
	} {
		got := ""
		if err := (Backend{Target: host.Command(tt.name), Options: tt.o}).FindProgram(lookup); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	if err := (Backend{Target: host.URL("https://a/")}).FindProgram(lookup); err != nil {
		t.Error(err)
	}
}

func TestLoad(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, ".vscode", "mcp.json")
	write := func(path, text string) {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(path, `{"servers": {"a": {"command": "${file:bin}", "envFile": "${workspaceFolder}/.env"}}}`)
	write(filepath.Join(dir, "bin"), "server\n")
	write(filepath.Join(dir, ".env"), "A=b\n")
	f, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	b := f.Backends[0]
	if name, _, _ := b.Target.Command(); name != "server" || b.Options.Env["A"] != "b" || b.Options.Dir != dir || b.Err != nil {
		t.Errorf("%s %v %s %v", name, b.Options.Env, b.Options.Dir, b.Err)
	}
	if _, err := Load(filepath.Join(dir, "no")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	write(path, strings.Repeat(" ", mostBytes)+"{}")
	if _, err := Load(path); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("a file that is too large: %v", err)
	}
}

// TestDocument compares the table of options with the keys, and reads the example.
func TestDocument(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../../docs/hosting.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(data), "## Options")
	table, _, _ := strings.Cut(rest, "\n`no-new-privs`")
	documented := map[string]bool{}
	for line := range strings.Lines(table) {
		if cells := strings.Split(line, " | "); strings.HasPrefix(line, "| `") {
			for key := range strings.SplitSeq(strings.Trim(cells[0], "| "), ", ") {
				documented[strings.Trim(key, "`")] = true
			}
		}
	}
	for key := range ownKeys.read {
		if !documented[key] {
			t.Errorf("docs/hosting.md has no row for %s", key)
		}
	}
	if len(documented) != len(ownKeys.read) {
		t.Errorf("docs/hosting.md has %d keys, and there are %d", len(documented), len(ownKeys.read))
	}
	_, example, _ := strings.Cut(string(data), "```yaml\nbackends:\n")
	example, _, _ = strings.Cut(example, "```")
	for _, b := range section(t, example).Backends {
		if b.Err != nil && !errors.Is(b.Err, ErrUnset) {
			t.Errorf("the example: %v", b.Err)
		}
	}
}

// TestManyBackends reads more than there may be.
func TestManyBackends(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for i := range 3 * mostBackends {
		fmt.Fprintf(&b, "%q: {\"command\": \"a\"},", fmt.Sprint("b", i))
	}
	f := read(t, `{"mcpServers": {`+b.String()+"}}")
	if last := f.Backends[mostBackends]; len(f.Backends) != mostBackends+1 || last.Err == nil || f.Backends[mostBackends-1].Err != nil {
		t.Errorf("%d backends, the last one is wrong: %v", len(f.Backends), last.Err)
	}
}
