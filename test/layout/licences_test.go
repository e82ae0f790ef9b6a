package layout

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const licenceList = "docs/licences.md"

// linkedModule is a module that the command is linked with, and its directory.
type linkedModule struct{ path, dir string }

// linkedModules returns the modules of this build of the command. It needs nothing but the module cache.
func linkedModules(dir string) (all []linkedModule, err error) {
	cmd := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}}\t{{.Dir}}{{end}}{{end}}", "./cmd/troupe")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOPROXY=off")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("go list: %w: %s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	slices.Sort(lines)
	for _, line := range slices.Compact(lines) {
		if path, dir, ok := strings.Cut(line, "\t"); ok {
			all = append(all, linkedModule{path, dir})
		}
	}
	return all, nil
}

var licenceRow = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([^|]+) \\| (yes)? ?\\|$")

// unlicensed compares the list of licences, and the notices, with the modules that the command is linked with. notices has
// the text of the notice of each module that has one. The list may have further modules that go.mod requires: other builds
// link them.
func unlicensed(list, notice, goMod []byte, linked []string, notices map[string]string) (violations []string) {
	rows := map[string]string{}
	for _, row := range licenceRow.FindAllStringSubmatch(string(list), -1) {
		rows[row[1]] = row[3]
	}
	for _, module := range linked {
		if _, ok := rows[module]; !ok {
			violations = append(violations, fmt.Sprintf("%s has no row for %s, which the command is linked with", licenceList, module))
		}
		if text, ok := notices[module]; ok != (rows[module] == "yes") {
			violations = append(violations, fmt.Sprintf("%s: whether %s has a notice is wrong", licenceList, module))
		} else if !strings.Contains(string(notice), strings.TrimSpace(text)) {
			violations = append(violations, fmt.Sprintf("NOTICE lacks the notice of %s", module))
		}
	}
	required := readGoMod(goMod).required
	for _, module := range slices.Sorted(maps.Keys(rows)) {
		if _, ok := required[module]; !ok {
			violations = append(violations, fmt.Sprintf("%s has a row for %s, which go.mod does not require", licenceList, module))
		}
	}
	return violations
}

// TestLicences holds the list of licences, and NOTICE, to what the command is linked with.
func TestLicences(t *testing.T) {
	t.Parallel()
	linked, err := linkedModules(root)
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	notices := map[string]string{}
	for _, m := range linked {
		paths = append(paths, m.path)
		text, err := os.ReadFile(filepath.Join(m.dir, "NOTICE"))
		if errors.Is(err, fs.ErrNotExist) {
			text, err = os.ReadFile(filepath.Join(m.dir, "NOTICE.txt"))
		}
		if err == nil {
			notices[m.path] = string(text)
		} else if !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
	if len(paths) < 20 {
		t.Fatalf("go list names %d modules", len(paths))
	}
	read := func(name string) []byte {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	for _, violation := range unlicensed(read(licenceList), read("NOTICE"), read("go.mod"), paths, notices) {
		t.Error(violation)
	}
}

// TestLicencesFindsWhatIsMissing checks the check.
func TestLicencesFindsWhatIsMissing(t *testing.T) {
	t.Parallel()
	list := []byte("| `m/a` | MIT |  |\n| `m/b` | Apache-2.0 | yes |\n")
	goMod := []byte("module m\n\nrequire (\n\tm/a v1.0.0\n\tm/b v1.0.0\n)\n")
	for name, c := range map[string]struct {
		list, notice, goMod []byte
		linked              []string
		want                string
	}{
		"all is there":         {list, []byte("by B\n"), goMod, []string{"m/a", "m/b"}, ""},
		"a module without row": {list, []byte("by B\n"), goMod, []string{"m/a", "m/b", "m/c"}, "has no row for m/c"},
		"a lost notice":        {list, nil, goMod, []string{"m/b"}, "lacks the notice of m/b"},
		"an unlisted notice":   {[]byte("| `m/b` | MIT |  |\n"), []byte("by B\n"), goMod, []string{"m/b"}, "whether m/b has a notice is wrong"},
		"a stale row":          {list, []byte("by B\n"), []byte("module m\n"), nil, "does not require"},
	} {
		got := strings.Join(unlicensed(c.list, c.notice, c.goMod, c.linked, map[string]string{"m/b": "by B\n"}), "\n")
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
