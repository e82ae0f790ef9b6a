//go:build linux

package main

import (
	"context"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe/test/kit/when"
)

// runBlock matches the blocks of a document that are marked to be run: those that begin with "```sh run".
var runBlock = regexp.MustCompile("(?ms)^```sh run\n(.*?)^```$")

// documentedCommands are the documents that have such blocks, with what runs before them and what their output must have.
var documentedCommands = map[string]struct {
	before string
	want   []string
}{
	"README.md":       {"", []string{"the connection broke; the stream of the call is resumed", "counted to 10"}},
	"docs/by-hand.md": {"", []string{`"counted to 10"`, `Tea or coffee?`, `"text":"tea"`}},
	"docs/deploy.md":  {"", []string{"ready\n", "hello\n", "This is the key laptop", "without a key it is refused"}},
	"docs/operate.md": {`export DATA=$PWD/data BACKUP=$PWD/backup
troupe serve --data "$DATA" 2> log &
curl -sfo /dev/null --retry 30 --retry-delay 1 --retry-connrefused http://127.0.0.1:8080/readyz
initialize() { curl -sN http://127.0.0.1:8080/mcp -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream' "$@"; }
SESSION=$(initialize -o /dev/null -w '%header{mcp-session-id}' -d '{"jsonrpc":"2.0","id":1,"method":"initialize","params":
  {"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"of-the-backup","version":"1"}}}')
initialize -H "Mcp-Session-Id: $SESSION" -d '{"jsonrpc":"2.0","method":"notifications/initialized"}'
`, []string{"of-the-backup"}},
}

// TestDocumentedCommands runs the blocks of each document, as one script, in a directory of its own that has bin/troupe, and in a network of its own, as they
// take the ports that they name.
func TestDocumentedCommands(t *testing.T) {
	when.Full(t, "starts servers on the ports that documents name, in networks of their own")
	program := binary(t)
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	var marked []string
	for _, file := range append(files, "../../README.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if runBlock.Match(text) {
			marked = append(marked, strings.TrimPrefix(file, "../../"))
		}
	}
	slices.Sort(marked)
	if want := slices.Sorted(maps.Keys(documentedCommands)); !slices.Equal(marked, want) {
		t.Errorf("documents with commands to run are %q, and this test knows %q", marked, want)
	}
	for document, d := range documentedCommands {
		t.Run(filepath.Base(document), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.Mkdir(filepath.Join(dir, "bin"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(program, filepath.Join(dir, "bin", "troupe")); err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile("../../" + document)
			if err != nil {
				t.Fatal(err)
			}
			script := "set -u; ip link set lo up || exit 75\nexport PATH=$PWD/bin:$PATH HOME=$PWD\n" + d.before
			for _, block := range runBlock.FindAllSubmatch(text, -1) {
				script += string(block[1])
			}
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // unless something hangs, it takes half a minute
			defer cancel()
			cmd := exec.CommandContext(ctx, "unshare", "--net", "--pid", "--fork", "--kill-child", "bash", "-c", script)
			cmd.Dir = dir
			out, err := cmd.CombinedOutput()
			if cmd.ProcessState != nil && (cmd.ProcessState.ExitCode() == 75 || strings.HasPrefix(string(out), "unshare: ")) {
				t.Skipf("this test needs a network of its own: %s", out)
			}
			if err != nil {
				t.Errorf("%v", err)
			}
			for _, want := range d.want {
				if !strings.Contains(string(out), want) {
					t.Errorf("it does not say %q:\n%s", want, out)
				}
			}
		})
	}
}
