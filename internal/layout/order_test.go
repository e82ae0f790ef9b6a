package layout

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// ordered is the number of files, without doc.go, from which on a package gives them an order.
const ordered = 3

// TestFilesHaveAnOrder checks each package of several files against the order that a comment in it gives below "# Files",
// from the top: at most a fifth of the dependencies between its files run upward. One may in any case, as two files that
// need each other are no reason to make them one.
func TestFilesHaveAnOrder(t *testing.T) {
	t.Parallel()
	if testing.Short() || raceEnabled {
		t.Skip("it checks the types of every package, and shares nothing: runs without -short and -race")
	}
	packages, err := listed(root)
	if err != nil {
		t.Fatal(err)
	}
	exports := make(map[string]string, len(packages))
	for _, p := range packages {
		exports[p.ImportPath] = p.Export
	}
	for _, p := range packages {
		var files []string
		for _, f := range p.GoFiles {
			if f = partOf(f); f != "doc.go" && !slices.Contains(files, f) {
				files = append(files, f)
			}
		}
		if p.Module.Main && len(files) >= ordered {
			t.Run(p.ImportPath, func(t *testing.T) {
				t.Parallel()
				parsed, err := parse(p.Dir, p.GoFiles)
				if err != nil {
					t.Fatal(err)
				}
				uses, err := parsed.uses(p.ImportPath, exports)
				if err != nil {
					t.Fatal(err)
				}
				if isForPrograms(p.ImportPath) && parsed.documents("# Files") {
					t.Error("go doc shows the order of files to those who use the package: put it below the package clause of doc.go")
				}
				for _, fault := range judgeOrder(parsed.order(), files, uses) {
					t.Error(fault)
				}
			})
		}
	}
}

// TestOrderIsJudged breaks the rule in each way.
func TestOrderIsJudged(t *testing.T) {
	uses := map[dependency][]string{{"a.go", "b.go"}: {"B"}, {"a.go", "c.go"}: {"C"}, {"b.go", "c.go"}: {"C"}, {"c.go", "a.go"}: {"A"}, {"c.go", "b.go"}: {"B"}}
	for name, tt := range map[string]struct {
		order []string
		uses  map[dependency][]string
		want  string
	}{
		"no order":           {nil, uses, "no comment gives an order: list the files below # Files in doc.go"},
		"a file is not in":   {[]string{"a.go", "b.go"}, nil, "the order lacks c.go: add it below # Files in doc.go"},
		"a file is gone":     {[]string{"a.go", "b.go", "c.go", "d.go"}, nil, "the order has d.go, which is not there"},
		"a file comes twice": {[]string{"a.go", "b.go", "c.go", "a.go"}, nil, "the order has a.go twice"},
		"too much upward":    {[]string{"a.go", "b.go", "c.go"}, uses, "2 of 5 dependencies between files run against the order, more than a fifth:\n\tc.go uses A of a.go\n\tc.go uses B of b.go"},
		"one upward":         {[]string{"a.go", "b.go", "c.go"}, map[dependency][]string{{"c.go", "a.go"}: {"A"}}, ""},
		"in order":           {[]string{"a.go", "b.go", "c.go"}, map[dependency][]string{{"a.go", "b.go"}: {"B"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := strings.Join(judgeOrder(tt.order, []string{"a.go", "b.go", "c.go"}, tt.uses), "\n"); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// A dependency says that one file uses a name that another declares.
type dependency struct{ from, to string }

// judgeOrder returns the faults of an order of files.
func judgeOrder(order, files []string, uses map[dependency][]string) (faults []string) {
	if len(order) == 0 {
		return []string{"no comment gives an order: list the files below # Files in doc.go"}
	}
	at := make(map[string]int)
	for i, f := range order {
		if _, twice := at[f]; twice {
			faults = append(faults, "the order has "+f+" twice")
		}
		if at[f] = i; !slices.Contains(files, f) {
			faults = append(faults, "the order has "+f+", which is not there")
		}
	}
	for _, f := range files {
		if _, ok := at[f]; !ok {
			faults = append(faults, "the order lacks "+f+": add it below # Files in doc.go")
		}
	}
	var up []dependency
	for d := range uses {
		if at[d.from] > at[d.to] {
			up = append(up, d)
		}
	}
	if len(up) <= max(1, len(uses)/5) {
		return faults
	}
	slices.SortFunc(up, func(a, b dependency) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to)) })
	fault := fmt.Sprintf("%d of %d dependencies between files run against the order, more than a fifth:", len(up), len(uses))
	for _, d := range up {
		fault += fmt.Sprintf("\n\t%s uses %s of %s", d.from, strings.Join(uses[d], " "), d.to)
	}
	return append(faults, fault)
}

// listedPackage is the output of go list for a package.
type listedPackage struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	Module                  struct{ Main bool }
}

// listed returns the packages of the module in dir with all that they import.
func listed(dir string) (all []listedPackage, err error) {
	cmd := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles,Module", "./...")
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w: %s", err, stderr.Bytes())
	}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listedPackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
}

// parsedPackage is a package with its positions.
type parsedPackage struct {
	fset  *token.FileSet
	files []*ast.File
}

func parse(dir string, names []string) (p parsedPackage, err error) {
	p.fset = token.NewFileSet()
	for _, name := range names {
		f, err := parser.ParseFile(p.fset, filepath.Join(dir, name), nil, parser.ParseComments)
		if err != nil {
			return p, err
		}
		p.files = append(p.files, f)
	}
	return p, nil
}

func (p *parsedPackage) file(pos token.Pos) string {
	return partOf(filepath.Base(p.fset.Position(pos).Filename))
}

// partOf returns the file that name counts as: a file that is built only on some systems, such as lock_unix.go, is a
// part of lock.go, whether or not that exists.
func partOf(name string) string {
	name = strings.TrimSuffix(name, ".go")
	for _, end := range []string{"_unix", "_linux", "_windows", "_native", "_std", "_other", "_on", "_off"} {
		name = strings.TrimSuffix(name, end)
	}
	return name + ".go"
}

// isForPrograms reports whether programs of other modules may use the package.
func isForPrograms(path string) bool {
	for _, own := range []string{"internal", "cmd", "examples", "bench", "interop"} {
		if strings.Contains(path+"/", "/"+own+"/") {
			return false
		}
	}
	return true
}

// documents reports whether the package's comment has a line.
func (p *parsedPackage) documents(line string) bool {
	for _, f := range p.files {
		if slices.Contains(strings.Split(f.Doc.Text(), "\n"), line) {
			return true
		}
	}
	return false
}

// order returns the files that a comment lists below "# Files": that of the package, or one below the package clause. The lines are indented; names without ".go"
// end at two blanks, after which a line may describe them.
func (p *parsedPackage) order() (order []string) {
	for _, f := range p.files {
		for _, c := range f.Comments {
			_, list, _ := strings.Cut("\n"+c.Text(), "\n# Files\n")
			if i := strings.Index(list, "\n# "); i >= 0 {
				list = list[:i]
			}
			order = append(order, listedFiles(list)...)
		}
	}
	return order
}

// listedFiles returns the files that the indented lines of a comment name.
func listedFiles(list string) (files []string) {
	for line := range strings.Lines(list) {
		if names, ok := strings.CutPrefix(strings.TrimRight(line, "\n"), "\t"); ok {
			names, _, _ = strings.Cut(names, "  ")
			for _, name := range strings.Fields(names) {
				files = append(files, name+".go")
			}
		}
	}
	return files
}

// uses returns the dependencies between the files of the package, with the names that cause each.
func (p *parsedPackage) uses(path string, exports map[string]string) (map[dependency][]string, error) {
	lookup := func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) }
	info := types.Info{Uses: make(map[*ast.Ident]types.Object)}
	conf := types.Config{Importer: importer.ForCompiler(p.fset, "gc", lookup), FakeImportC: true}
	pkg, err := conf.Check(path, p.fset, p.files, &info)
	if err != nil {
		return nil, err
	}
	names := make(map[dependency]map[string]bool)
	for id, o := range info.Uses {
		v, isVar := o.(*types.Var)
		local := o.Parent() != nil && o.Parent() != pkg.Scope() || isVar && !v.IsField() && o.Parent() == nil
		if o.Pkg() != pkg || !o.Pos().IsValid() || local {
			continue
		}
		if d := (dependency{p.file(id.Pos()), p.file(o.Pos())}); d.from != d.to {
			if names[d] == nil {
				names[d] = make(map[string]bool)
			}
			names[d][o.Name()] = true
		}
	}
	uses := make(map[dependency][]string, len(names))
	for d, n := range names {
		uses[d] = slices.Sorted(maps.Keys(n))
	}
	return uses, nil
}
