package interop

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// eras are how the Inspector is told which revision to speak, by revision.
var eras = map[string]string{"2025-11-25": "legacy", "2026-07-28": "modern"}

// inspect runs the command line of the Inspector against the shared server, and returns what it prints.
func inspect(t *testing.T, modules, revision string, args ...string) string {
	t.Helper()
	launcher := filepath.Join(modules, "@modelcontextprotocol", "inspector", "clients", "launcher", "build", "index.js")
	all := append([]string{launcher, "--cli", shared.endpoint, "--transport", "http", "--protocol-era", eras[revision]}, args...)
	node := exec.CommandContext(within(t), "node", all...)
	node.Env = append(node.Environ(), "HOME="+t.TempDir()) // where it would look for servers, and for tokens
	var out, problems bytes.Buffer
	node.Stdout, node.Stderr = &out, &problems
	if err := node.Run(); err != nil {
		t.Fatalf("the Inspector ends with %v: %s\n%s", err, &out, &problems)
	}
	return out.String()
}

// TestInspectorVerifiesSkills has the Inspector list the demo's skills, read each file, and compare it with its digest, and
// the frontmatter with what the entry says.
func TestInspectorVerifiesSkills(t *testing.T) {
	t.Parallel()
	modules := nodeModules(t)
	for revision := range eras {
		t.Run(revision, func(t *testing.T) {
			t.Parallel()
			for _, args := range [][]string{{"--method", "skills/list"}, {"--method", "skills/get", "--uri", "skill://tour/SKILL.md"}} {
				out := inspect(t, modules, revision, append(args, "--verify", "--require-digests")...)
				line, _, _ := strings.Cut(out, "\n")
				var report struct {
					URI, Outcome             string
					Conformance, Frontmatter []any
					Files                    []struct{ Status string }
				}
				if err := json.Unmarshal([]byte(line), &report); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
				if report.URI != "skill://tour/SKILL.md" || report.Outcome != "verified" || len(report.Conformance)+len(report.Frontmatter) > 0 || len(report.Files) != 2 {
					t.Errorf("%v: %s", args, out)
				}
				for _, f := range report.Files {
					if f.Status != "verified" {
						t.Errorf("%v: %s", args, out)
					}
				}
			}
		})
	}
}

// TestInspectorFindsThePage has the Inspector find the page of the demo's tool measure, and read it.
func TestInspectorFindsThePage(t *testing.T) {
	t.Parallel()
	modules := nodeModules(t)
	for revision := range eras {
		t.Run(revision, func(t *testing.T) {
			t.Parallel()
			var info map[string]any
			out := inspect(t, modules, revision, "--method", "tools/call", "--tool-name", "measure", "--app-info")
			if err := json.Unmarshal([]byte(out), &info); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			sameJSON(t, "the page", info, `{"hasApp":true,"toolName":"measure","resourceUri":"ui://everything/measure","prefersBorder":true,
				"resourceMimeType":"text/html;profile=mcp-app"}`)
		})
	}
}

// TestHostOfApps has a host of ext-apps show the pages of the demo and of examples/apps: see npm/app.mjs.
func TestHostOfApps(t *testing.T) {
	t.Parallel()
	modules := nodeModules(t)
	for page, endpoint := range map[string]string{"measure": shared.endpoint, "votes": example(t, "apps")} {
		for revision := range eras {
			t.Run(page+"/"+revision, func(t *testing.T) {
				t.Parallel()
				settings, err := json.Marshal(map[string]string{"modules": modules, "http": endpoint, "revision": revision, "page": page})
				if err != nil {
					t.Fatal(err)
				}
				out, err := exec.CommandContext(within(t), "node", filepath.Join("npm", "app.mjs"), string(settings)).CombinedOutput()
				if err != nil || string(out) != "done\n" {
					t.Errorf("the host ends with %v: %s", err, out)
				}
			})
		}
	}
}

// example builds and starts a program of the examples, and returns where it serves. It is killed when the test ends.
func example(t *testing.T, name string) (endpoint string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	build := exec.Command("go", append(append([]string{"build"}, buildFlags...), "-o", path, "./examples/"+name)...)
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", name, err, out)
	}
	cmd := exec.Command(path)
	cmd.Dir, cmd.Env = t.TempDir(), append(os.Environ(), "LISTEN=127.0.0.1:0")
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-read // Wait closes what the log is read from
		_ = cmd.Wait()
	})
	serving := make(chan string, 1)
	go func() {
		defer close(read)
		at := ""
		for lines := bufio.NewScanner(log); lines.Scan(); {
			if _, text, ok := strings.Cut(lines.Text(), "serving http://"); ok && at == "" {
				at = "http://" + text
				serving <- at
			}
		}
		close(serving)
	}()
	at := receive(t, serving)
	if at == "" {
		t.Fatalf("%s ends without serving", name)
	}
	return at
}
