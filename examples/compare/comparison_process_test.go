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
	rows := 0
	for line := range strings.Lines(page) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| | ") {
			continue
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		rows++
		if len(cells) != 5 || strings.Contains("|"+strings.Join(cells, "|")+"|", "|  |") {
			t.Errorf("not five cells: %s", line)
			continue
		}
		if last := cells[4]; !regexp.MustCompile("`Test[A-Z]\\w+`|read: \\S|seen by hand, \\d{4}-\\d\\d-\\d\\d").MatchString(last) {
			t.Errorf("%s: shown by %q", cells[0], last)
		}
	}
	if rows < 40 {
		t.Errorf("%d rows found on the page: the test looks at the wrong place", rows)
	}
	for _, name := range []string{"weather", "book", "tenants", "first", "service"} {
		for i, library := range libraries {
			if name == "service" && library == "mcpgo" {
				continue
			}
			checkNumber(t, page, "`"+name+"`", i, lines(t, name, library), 0)
		}
	}
	for i, library := range libraries {
		bin := build(t, "./first/"+library)
		info, err := buildinfo.ReadFile(bin)
		if err != nil {
			t.Fatal(err)
		}
		checkNumber(t, page, "modules that", i, len(info.Deps), 0)
		out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", "./first/"+library).Output()
		if err != nil {
			t.Fatal(err)
		}
		checkNumber(t, page, "packages that", i, len(strings.Fields(string(out))), 10)
		file, err := os.Stat(bin)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d modules, %d bytes", library, len(info.Deps), file.Size())
		if runtime.GOOS == "linux" && runtime.GOARCH == "amd64" {
			checkNumber(t, page, "size of that server", i, int(file.Size()/1e6), 10)
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
		if cell := tableRow(t, page, "oldest Go")[1+i]; strings.TrimSuffix(oldest, ".0") != cell {
			t.Errorf("%s needs Go %s, the page says %s", module, oldest, cell)
		}
	}
}

// TestReadmeOfTheComparison checks that the README has the same modules and sizes as the page.
func TestReadmeOfTheComparison(t *testing.T) {
	page, readme := tableRow(t, readDoc(t, "comparison.md"), "modules that"), tableRow(t, readDoc(t, "../README.md"), "modules; size")
	sizes := tableRow(t, readDoc(t, "comparison.md"), "size of that server")
	for i, library := range libraries {
		modules, size, _ := strings.Cut(readme[1+i], "; ")
		if said, _, _ := strings.Cut(sizes[1+i], ";"); modules != page[1+i] || size != said {
			t.Errorf("%s: the README says %s, the page %s and %s", library, readme[1+i], page[1+i], said)
		}
	}
}

// tableRow returns the cells of the row of a table that begins with name, without their stars.
func tableRow(t *testing.T, text, name string) []string {
	t.Helper()
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "| "+name) {
			cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
			for i, cell := range cells {
				cells[i] = strings.ReplaceAll(strings.TrimSpace(cell), "**", "")
			}
			return cells
		}
	}
	t.Fatalf("no row %q", name)
	return nil
}

// checkNumber compares the number by which the cell of a library begins with what it is, give or take a percentage.
func checkNumber(t *testing.T, page, name string, library, is, percent int) {
	t.Helper()
	cell := tableRow(t, page, name)[1+library]
	said, err := strconv.Atoi(regexp.MustCompile(`^\d+`).FindString(cell))
	if err != nil || max(said-is, is-said)*100 > percent*is {
		t.Errorf("%s, %s: it is %d, the page says %q", name, libraries[library], is, cell)
	}
}
