package hostfile

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/troupe-run/troupe/host"
	"github.com/troupe-run/troupe/internal/configfile"
)

var update = flag.Bool("update", false, "write what the files of testdata say into their .want files")

// at is a source with an environment and files of its own.
func at(path string) Source {
	variables := map[string]string{
		"HOME": "/Users/ada", "PIN": "1234", "API_KEY": "key-s3cret", "EVENTS_KEY": "events-s3cret", "EMPTY": "", "INPUT_SEARCH_KEY": "search-s3cret", "REFERENCE": "${API_KEY}",
	}
	files := map[string]string{
		"/srv/project/.env":             "# of the project\nAPI_KEY=from-file-s3cret\nexport OTHER='other-s3cret' # more\n",
		"/Users/ada/.secrets/github":    "github-s3cret\r\n",
		"/run/secrets/token":            "token-s3cret\n",
		"/run/secrets/empty":            "\n",
		"/srv/project/wrong.env":        "A=1\nB\n",
		"/srv/project/relative":         "relative-s3cret",
		`C:\secret`:                     "windows-s3cret",
		"/srv/project/key-s3cret":       "found-s3cret",
		"/srv/project/many-lines":       "first-s3cret\nsecond-s3cret\nx\n",
		"/srv/project/with-references":  "${API_KEY}",
		"/srv/project/with-references2": "A=${API_KEY}\n",
	}
	return Source{
		Path:   path,
		Lookup: func(name string) (string, bool) { v, ok := variables[name]; return v, ok },
		ReadFile: func(path string) ([]byte, error) {
			if text, ok := files[path]; ok {
				return []byte(text), nil
			}
			return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
		},
		Home: "/Users/ada",
	}
}

// TestClientsFiles reads files as their clients' documentation has them, and compares what they say with what it was. No secret is shown.
func TestClientsFiles(t *testing.T) {
	t.Parallel()
	for file, path := range map[string]string{
		"claude-desktop.json":         "/Users/ada/Library/Application Support/Claude/claude_desktop_config.json",
		"claude-desktop-windows.json": "/Users/ada/claude_desktop_config.json",
		"claude-code.json":            "/srv/project/.mcp.json",
		"cursor.json":                 "/srv/project/.cursor/mcp.json",
		"vscode.json":                 "/srv/project/.vscode/mcp.json",
		"windsurf.json":               "/Users/ada/.codeium/windsurf/mcp_config.json",
		"gemini.json":                 "/srv/project/.gemini/settings.json",
		"cline.json":                  "/srv/project/cline_mcp_settings.json",
		"backends.yaml":               "/srv/project/troupe.yaml",
	} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(filepath.Join("testdata", file))
			if err != nil {
				t.Fatal(err)
			}
			f := &File{}
			if strings.HasSuffix(file, ".yaml") {
				err = configfile.Read(data, map[string]configfile.Reader{"backends": ReadSection(f, at(path))})
			} else {
				f, err = Read(data, at(path))
			}
			if err != nil {
				t.Fatal(err)
			}
			got := saidBy(f)
			if strings.Contains(got, "s3cret") {
				t.Errorf("a secret is shown:\n%s", got)
			}
			want := filepath.Join("testdata", strings.TrimSuffix(file, filepath.Ext(file))+".want")
			if *update {
				if err := os.WriteFile(want, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			text, err := os.ReadFile(want)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(text), got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", file, diff)
			}
			if len(f.Mistakes()) > 0 {
				t.Errorf("mistakes are %v, want none", f.Mistakes())
			}
		})
	}
}

// saidBy is all that a file says.
func saidBy(f *File) string {
	var b strings.Builder
	for _, one := range f.Backends {
		for _, line := range one.Lines() {
			fmt.Fprintln(&b, line)
		}
		for _, err := range one.faults() {
			fmt.Fprintln(&b, "    # error:", err)
		}
		if errors.Is(one.Err, ErrUnset) {
			fmt.Fprintln(&b, "    # unset")
		}
	}
	for _, note := range f.Notes {
		fmt.Fprintln(&b, "# note:", note)
	}
	return b.String()
}

// read reads a file of a project.
func read(t *testing.T, text string) *File {
	t.Helper()
	f, err := Read([]byte(text), at("/srv/project/.mcp.json"))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestValues has what comes out of the files of clients, beyond what may be shown.
func TestValues(t *testing.T) {
	t.Parallel()
	all := map[string]Backend{}
	for file, path := range map[string]string{
		"claude-code.json": "/srv/project/.mcp.json", "cursor.json": "/srv/project/.cursor/mcp.json", "vscode.json": "/srv/project/.vscode/mcp.json",
		"windsurf.json": "/Users/ada/.codeium/windsurf/mcp_config.json", "gemini.json": "/srv/project/.gemini/settings.json", "claude-desktop-windows.json": "/x/y.json",
	} {
		data, err := os.ReadFile(filepath.Join("testdata", file))
		if err != nil {
			t.Fatal(err)
		}
		f, err := Read(data, at(path))
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range f.Backends {
			all[strings.TrimSuffix(file, ".json")+" "+b.Name] = b
		}
	}
	command := func(name string) string {
		program, args, _ := all[name].Target.Command()
		return strings.Join(append([]string{program}, args...), " | ")
	}
	for name, want := range map[string]string{
		"claude-code database":              "/Users/ada/tools/db-server | --config | ./config.json",
		"cursor local":                      "python | /srv/project/tools/mcp_server.py | --cache | /Users/ada/.cache",
		"vscode search":                     "npx | -y | server-search | --region | eu",
		"claude-desktop-windows everything": `C:\Program Files\nodejs\npx.cmd | -y | @modelcontextprotocol/server-everything | --dir | C:\Users\Ada\My Files\$data`,
	} {
		if got := command(name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	if url, _ := all["claude-code api"].Target.URL(); url != "https://api.example.com/mcp" {
		t.Errorf("the URL is %q", url)
	}
	if got := all["claude-code events"].Options.Transport; got != host.SSE {
		t.Errorf("the transport is %q", got)
	}
	for name, want := range map[string]host.Secrets{
		"claude-code api":                   {"Authorization": "Bearer key-s3cret"},
		"claude-code database":              {"DB_URL": "postgres://reader:key-s3cret@db.internal/main", "CACHE_DIR": "/tmp"},
		"cursor local":                      {"API_KEY": "key-s3cret", "OTHER": "other-s3cret"},
		"vscode search":                     {"SEARCH_KEY": "search-s3cret", "RETRIES": "3", "API_KEY": "from-file-s3cret", "OTHER": "other-s3cret"},
		"windsurf github-mcp-server":        {"GITHUB_PERSONAL_ACCESS_TOKEN": "github-s3cret"},
		"windsurf remote-http-mcp":          {"API_KEY": "Bearer key-s3cret"},
		"gemini httpServer":                 {"X-Custom-Header": "custom-value", "Authorization": "Bearer key-s3cret"},
		"gemini pythonTools":                {"DATABASE_URL": "events-s3cret", "API_KEY": "key-s3cret"},
		"claude-desktop-windows everything": {"APPDATA": `C:\Users\Ada\AppData\Roaming`, "GREETING": "Grüß dich 😀 /"},
	} {
		got := all[name].Options.Env
		if got == nil {
			got = all[name].Options.Headers
		}
		if diff := cmp.Diff(map[string]string(want), map[string]string(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if dir := all["cursor local"].Options.Dir; dir != "/srv/project" {
		t.Errorf("a command of a project runs in %q", dir)
	}
	if dir := all["gemini pythonTools"].Options.Dir; dir != "/srv/project/mcp-servers/python" {
		t.Errorf("a command with a cwd runs in %q", dir)
	}
	if dir := all["claude-desktop-windows everything"].Options.Dir; dir != "" {
		t.Errorf("a command of no project runs in %q", dir)
	}
}
