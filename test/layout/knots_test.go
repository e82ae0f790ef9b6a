package layout

import (
	"bytes"
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

// What a reader can hold at once: the files of a package that need each other in a circle, a knot, and the methods of a type.
const (
	mostKnot    = 12
	mostMethods = 25
)

// TestKnotsAndTypesAreSmall measures the largest knot of each package and its type with most methods, as go/types sees them.
func TestKnotsAndTypesAreSmall(t *testing.T) {
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
		if !p.Module.Main {
			continue
		}
		t.Run(p.ImportPath, func(t *testing.T) {
			t.Parallel()
			parsed, err := parse(p.Dir, p.GoFiles)
			if err != nil {
				t.Fatal(err)
			}
			if len(p.GoFiles) > mostKnot { // fewer are no knot that is too large, and checking types is most of the work
				uses, err := parsed.uses(p.ImportPath, exports)
				if err != nil {
					t.Fatal(err)
				}
				if k := largestKnot(uses); len(k) > mostKnot {
					t.Errorf("%d files need each other in a circle, and at most %d may: %s", len(k), mostKnot, strings.Join(k, " "))
				}
			}
			if name, n := parsed.largestType(); n > mostMethods {
				t.Errorf("%s has %d methods, and a type may have %d", name, n, mostMethods)
			}
		})
	}
}

// TestKnotsAreFound has knots of several sizes.
func TestKnotsAreFound(t *testing.T) {
	t.Parallel()
	of := func(pairs ...string) map[dependency][]string {
		uses := make(map[dependency][]string)
		for _, p := range pairs {
			uses[dependency{p[:1], p[1:]}] = nil
		}
		return uses
	}
	for name, tt := range map[string]struct {
		uses map[dependency][]string
		want string
	}{
		"nothing":             {nil, ""},
		"a tree":              {of("ab", "ac", "bd", "cd"), ""},
		"a pair":              {of("ab", "ba", "bc"), "ab"},
		"a circle":            {of("ab", "bc", "cd", "db"), "bcd"},
		"two circles":         {of("ab", "ba", "bc", "cd", "de", "ec"), "cde"},
		"circles that meet":   {of("ab", "ba", "bc", "cb", "cd", "dc", "ex"), "abcd"},
		"a circle and a tail": {of("za", "ab", "bc", "ca", "cx"), "abc"},
	} {
		if got := strings.Join(largestKnot(tt.uses), ""); got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}

// A dependency says that one file uses a name that another declares.
type dependency struct{ from, to string }

// largestKnot returns the most files of which each needs each other, directly or not, in order. One file is no knot.
func largestKnot(uses map[dependency][]string) (knot []string) {
	reach := make(map[string]map[string]bool)
	for d := range uses {
		if reach[d.from] == nil {
			reach[d.from] = make(map[string]bool)
		}
		reach[d.from][d.to] = true
	}
	files := slices.Sorted(maps.Keys(reach))
	for _, via := range files { // Warshall: who reaches via reaches what via reaches
		for _, from := range files {
			if reach[from][via] {
				maps.Copy(reach[from], reach[via])
			}
		}
	}
	for _, f := range files {
		if !reach[f][f] {
			continue
		}
		k := slices.DeleteFunc(slices.Clone(files), func(o string) bool { return !reach[f][o] || !reach[o][f] })
		if len(k) > len(knot) && len(k) > 1 {
			knot = k
		}
	}
	return knot
}

// largestType returns the type that has most methods of its own.
func (p *parsedPackage) largestType() (name string, most int) {
	methods := make(map[string]int)
	for _, f := range p.files {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil {
				of := fn.Recv.List[0].Type
				if star, ok := of.(*ast.StarExpr); ok {
					of = star.X
				}
				if index, ok := of.(*ast.IndexExpr); ok {
					of = index.X
				}
				if id, ok := of.(*ast.Ident); ok {
					methods[id.Name]++
				}
			}
		}
	}
	for _, n := range slices.Sorted(maps.Keys(methods)) {
		if methods[n] > most {
			name, most = n, methods[n]
		}
	}
	return name, most
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
