//go:build unix

package compare

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestFirst runs the servers of docs/coming-from.md.
func TestFirst(t *testing.T) {
	each(t, "first", func(t *testing.T, p program) {
		for _, revision := range revisions {
			told := make(chan *mcp.ProgressNotificationParams, 100)
			user := &mcp.ClientOptions{
				ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
					if r.Params.Message != "Ship 3 to Oslo?" {
						return nil, fmt.Errorf("asked %q", r.Params.Message)
					}
					return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"ok": true}}, nil
				},
				ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { told <- r.Params },
			}
			if s, err := call(t, p.url+"/mcp", revision, "", "ship", map[string]any{"city": "Oslo", "items": 3}, user); s != "shipped 3 to Oslo" || err != nil {
				t.Errorf("%s: %q, %v", revision, s, err)
			}
			if filepath.Base(p.cmd.Path) != "mcpgo" { // whose notifications may come after what was sent later, or not at all
				if n := receive(t, told); n.Progress != 1 || n.Total != 2 || n.Message != "weighed" {
					t.Errorf("%s: progress %+v", revision, n)
				}
			}
			if s, err := call(t, p.url+"/mcp", revision, "", "ship", map[string]any{"city": "Oslo", "items": 21}, user); err == nil {
				t.Errorf("%s: too many: %q", revision, s)
			}
			if s, err := call(t, p.url+"/mcp", revision, "", "ship", map[string]any{"city": "Atlantis", "items": 3}, user); err == nil || err.Error() != "tool error: nothing ships to Atlantis" {
				t.Errorf("%s: to nowhere: %q, %v", revision, s, err)
			}
		}
	})
}

// TestComparison compares docs/comparison.md with the programs and the modules that it speaks of.
func TestComparison(t *testing.T) {
	page := readDoc(t, "comparison.md")
	rows := map[string][]string{} // the cells of a row by the first one
	for line := range strings.Lines(page) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| | ") {
			continue
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i, cell := range cells {
			cells[i] = strings.Trim(strings.TrimSpace(cell), "*")
		}
		if len(cells) != 5 || strings.Contains("|"+strings.Join(cells, "|")+"|", "||") {
			t.Errorf("not five cells: %s", line)
			continue
		}
		if last := cells[4]; !regexp.MustCompile("`Test[A-Z]\\w+`|read|seen by hand, \\d{4}-\\d\\d-\\d\\d|\\.md\\)").MatchString(last) {
			t.Errorf("%s: shown by %q", cells[0], last)
		}
		rows[cells[0]] = cells
	}
	if len(rows) < 40 {
		t.Fatalf("%d rows", len(rows))
	}
	for _, name := range []string{"weather", "book", "tenants", "first", "service"} {
		for i, library := range libraries {
			if name == "service" && library == "mcpgo" {
				continue
			}
			checkNumber(t, rows, "`"+name+"`", i, lines(t, name, library), 0)
		}
	}
	for i, library := range libraries {
		bin := build(t, "./first/"+library)
		info, err := buildinfo.ReadFile(bin)
		if err != nil {
			t.Fatal(err)
		}
		checkNumber(t, rows, "modules that", i, len(info.Deps), 0)
		file, err := os.Stat(bin)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d modules, %d bytes", library, len(info.Deps), file.Size())
		if runtime.GOOS == "linux" && runtime.GOARCH == "amd64" {
			checkNumber(t, rows, "size of that server", i, int(file.Size()/1e6), 10)
		}
	}
	for i, module := range []string{"troupe-run/troupe", "modelcontextprotocol/go-sdk", "mark3labs/mcp-go"} {
		out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Version}} {{.GoVersion}}", "github.com/"+module).Output()
		if err != nil {
			t.Fatal(err)
		}
		version, oldest, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
		if i > 0 && !strings.Contains(strings.ReplaceAll(page, "\n", " "), filepath.Base(module)+" "+version+" (of ") {
			t.Errorf("the page is not of %s %s", module, version)
		}
		if cell := row(t, rows, "oldest Go")[1+i]; strings.TrimSuffix(oldest, ".0") != cell {
			t.Errorf("%s needs Go %s, the page says %s", module, oldest, cell)
		}
	}
}

// row returns the cells of the row that begins with name.
func row(t *testing.T, rows map[string][]string, name string) []string {
	t.Helper()
	for first, cells := range rows {
		if strings.HasPrefix(first, name) {
			return cells
		}
	}
	t.Fatalf("no row %q", name)
	return nil
}

// checkNumber compares the number by which the cell of a library begins with what it is, give or take a percentage.
func checkNumber(t *testing.T, rows map[string][]string, name string, library, is, percent int) {
	t.Helper()
	cell := row(t, rows, name)[1+library]
	said, err := strconv.Atoi(regexp.MustCompile(`^\d+`).FindString(cell))
	if err != nil || max(said-is, is-said)*100 > percent*is {
		t.Errorf("%s, %s: it is %d, the page says %q", name, libraries[library], is, cell)
	}
}
