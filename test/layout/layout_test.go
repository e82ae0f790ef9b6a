package layout

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

// A layoutRule checks the whole repository and returns its violations, a line each.
type layoutRule func(repository) []string

// layoutRules are the rules for every file of the repository. Each has cases in TestLayoutRulesFind that break it.
var layoutRules = map[string]layoutRule{
	"every file parses":                             unparsable,
	"files stay small":                              overlongFiles,
	"a package has one doc comment":                 packageDocs,
	"packages are named for a subject":              vaguePackages,
	"the root has few tests":                        rootTests,
	"a package has few files":                       crowdedPackages,
	"a type that composes others has few methods":   methodsOfTypes,
	"tests wait for events and not for time":        sleepingTests,
	"work left over names its issue":                looseToDos,
	"nothing depends on one machine":                machinePaths,
	"layers import what is below them":              importsAcrossLayers,
	"a dependency stays where it belongs":           strayDependencies,
	"no dependency is replaced":                     replacedModules,
	"each direct dependency has its reason":         undocumentedDependencies,
	"the public API shows only our types and std's": foreignTypesInAPI,
	"each mutex is in the document of locks":        undocumentedLocks,
	"one table has the features of revisions":       revisionsCompared,
	"diagrams name what the code has":               namesInDiagrams,
	"the picture of the rooms shows the imports":    pictureOf,
	"links of documents lead somewhere":             brokenLinks,
	"the index links each document":                 unlinkedDocuments,
}

func TestLayout(t *testing.T) {
	t.Parallel()
	repo, err := readRepository(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	for name, rule := range layoutRules {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, violation := range rule(repo) {
				t.Error(violation)
			}
		})
	}
}

// A repository is the work tree as the rules see it.
type repository struct {
	texts   map[string][]byte // all text files, by slash-separated path
	sources []source          // the Go files among them
	modules []string          // directories of further modules, which rules on imports skip
	broken  []string          // Go files that do not parse
}

// A source is one Go file.
type source struct {
	path string
	text []byte
	file *ast.File
	fset *token.FileSet
}

func (s source) dir() string {
	if dir := path.Dir(s.path); dir != "." {
		return dir
	}
	return ""
}

func (s source) isTest() bool { return strings.HasSuffix(s.path, "_test.go") }

func (s source) line(pos token.Pos) int { return s.fset.Position(pos).Line }

// at returns the place of pos, for a violation.
func (s source) at(pos token.Pos) string { return fmt.Sprintf("%s:%d", s.path, s.line(pos)) }

// imports returns the imported paths with their names in the file.
func (s source) imports() map[string]string {
	names := map[string]string{}
	for _, spec := range s.file.Imports {
		target, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue // go/parser refuses such a file
		}
		name := defaultImportName(target)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[target] = name
	}
	return names
}

var majorVersion = regexp.MustCompile(`^v\d+$`)

// defaultImportName guesses a package's name from its path, which the house's imports allow.
func defaultImportName(target string) string {
	base := path.Base(target)
	if majorVersion.MatchString(base) {
		base = path.Base(path.Dir(target))
	}
	base = strings.TrimSuffix(strings.TrimPrefix(base, "go-"), ".go")
	return strings.TrimSuffix(base, "-go")
}

// own returns the sources that belong to the root module.
func (r repository) own() []source {
	return slices.DeleteFunc(slices.Clone(r.sources), func(s source) bool {
		return slices.ContainsFunc(r.modules, func(module string) bool { return within(s.path, module) })
	})
}

// within reports whether a path is dir or lies below it; the empty dir is the root alone.
func within(target, dir string) bool {
	return target == dir || dir != "" && strings.HasPrefix(target, dir+"/")
}

// skippedDirs hold only files that are not committed.
var skippedDirs = []string{".git", "bin", "out", "node_modules"}

func readRepository(fsys fs.FS) (repository, error) {
	repo := repository{texts: map[string][]byte{}}
	err := fs.WalkDir(fsys, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // another test's file, gone since the directory was read
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains(skippedDirs, entry.Name()):
			return fs.SkipDir
		case entry.Name() == ".git": // a linked work tree has a file of that name
			return nil
		case !entry.Type().IsRegular() || strings.HasSuffix(name, ".test") || strings.HasSuffix(name, ".prof"):
			return nil
		}
		text, err := fs.ReadFile(fsys, name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if bytes.IndexByte(text, 0) < 0 {
			repo.texts[name] = text
		}
		if path.Base(name) == "go.mod" && name != "go.mod" {
			repo.modules = append(repo.modules, path.Dir(name))
		}
		if path.Ext(name) != ".go" || strings.Contains("/"+name, "/testdata/") {
			return nil
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			repo.broken = append(repo.broken, err.Error())
			return nil
		}
		repo.sources = append(repo.sources, source{path: name, text: text, file: file, fset: fset})
		return nil
	})
	return repo, err
}

func unparsable(repo repository) []string { return repo.broken }

func overlongFiles(repo repository) []string {
	const most, mostOfTests = 800, 900
	var violations []string
	for _, s := range repo.sources {
		limit := most
		if s.isTest() {
			limit = mostOfTests
		}
		if lines := bytes.Count(s.text, []byte("\n")); lines > limit {
			violations = append(violations, fmt.Sprintf("%s has %d lines, at most %d are allowed: split it by noun", s.path, lines, limit))
		}
	}
	return violations
}

func packageDocs(repo repository) []string {
	files := map[string][]source{}
	for _, s := range repo.sources {
		if !s.isTest() {
			files[s.dir()+" "+s.file.Name.Name] = append(files[s.dir()+" "+s.file.Name.Name], s)
		}
	}
	var violations []string
	for _, group := range files {
		var documented []string
		for _, s := range group {
			doc := s.file.Doc.Text()
			if doc == "" {
				continue
			}
			documented = append(documented, s.path)
			opening := "Package " + s.file.Name.Name + " "
			if s.file.Name.Name == "main" {
				opening = "Command "
			}
			if !strings.HasPrefix(doc, opening) {
				violations = append(violations, fmt.Sprintf("%s: the package doc does not begin with %q", s.path, opening))
			}
		}
		slices.Sort(documented)
		switch len(documented) {
		case 0:
			violations = append(violations, fmt.Sprintf("%s: package %s has no doc comment", path.Dir(group[0].path), group[0].file.Name.Name))
		case 1:
		default:
			violations = append(violations, fmt.Sprintf("package %s has doc comments in %s; keep one", group[0].file.Name.Name, strings.Join(documented, ", ")))
		}
	}
	slices.Sort(violations)
	return violations
}

func vaguePackages(repo repository) []string {
	vague := []string{"util", "utils", "common", "helper", "helpers", "type", "types", "misc", "shared"}
	var violations []string
	for _, s := range repo.sources {
		name := strings.TrimSuffix(s.file.Name.Name, "_test")
		if slices.Contains(vague, name) || slices.Contains(vague, path.Base(s.dir())) {
			violations = append(violations, fmt.Sprintf("%s: package %s says nothing about its subject", s.path, name))
		}
	}
	return violations
}

// rootTests keeps the root for the API: only examples and unit tests of the root's own files may stand beside it.
func rootTests(repo repository) []string {
	const most = 12
	var tests []string
	for _, s := range repo.sources {
		if s.dir() == "" && s.isTest() {
			tests = append(tests, s.path)
		}
	}
	if len(tests) <= most {
		return nil
	}
	return []string{fmt.Sprintf("the root has %d test files, at most %d are allowed: tests over the wire belong below test/spec", len(tests), most)}
}

// crowdedPackages bounds the files of a package, so that a reader can survey it: package actors, with all that
// nodes do for each other, is the largest. Variants of a file for one system count once.
func crowdedPackages(repo repository) []string {
	const most = 34
	nouns := map[string]map[string]bool{}
	for _, s := range repo.own() {
		if s.isTest() || s.dir() == "mcp" || within(s.dir(), "examples") || within(s.dir(), "bench") {
			continue
		}
		if nouns[s.dir()] == nil {
			nouns[s.dir()] = map[string]bool{}
		}
		nouns[s.dir()][systemSuffix.ReplaceAllString(path.Base(s.path), ".go")] = true
	}
	var violations []string
	for _, dir := range slices.Sorted(maps.Keys(nouns)) {
		if n := len(nouns[dir]); n > most {
			violations = append(violations, fmt.Sprintf("package %q has %d files, at most %d are allowed: move what stands by itself to a package of its own", dir, n, most))
		}
	}
	return violations
}

var systemSuffix = regexp.MustCompile(`_(linux|unix|windows|darwin|other)\.go$`)

// methodsOfTypes bounds the methods of a type that composes others, so that it does not do their work.
func methodsOfTypes(repo repository) []string {
	const most = 30
	methods := map[string]int{}
	for _, s := range repo.sources {
		if s.isTest() {
			continue
		}
		for _, decl := range s.file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv != nil {
				methods[s.dir()+" "+receiver(f)]++
			}
		}
	}
	var violations []string
	for _, name := range slices.Sorted(maps.Keys(methods)) {
		if n := methods[name]; n > most && composing[name] {
			dir, typ, _ := strings.Cut(name, " ")
			violations = append(violations, fmt.Sprintf("%s: %s has %d methods, at most %d are allowed: give them to what it composes", dir, typ, n, most))
		}
	}
	return violations
}

// composing lists the types that the rule on methods applies to, with their directories.
var composing = map[string]bool{"actors Node": true}

// receiver returns the name of a method's type.
func receiver(f *ast.FuncDecl) string {
	t := f.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	switch g := t.(type) {
	case *ast.IndexExpr:
		t = g.X
	case *ast.IndexListExpr:
		t = g.X
	}
	name, _ := t.(*ast.Ident)
	if name == nil {
		return ""
	}
	return name.Name
}

var toDo, toDoWithIssue = regexp.MustCompile(`\b(TODO|FIXME|XXX)\b`), regexp.MustCompile(`\bTODO\(#\d+\)`)

func looseToDos(repo repository) []string {
	var violations []string
	for _, s := range repo.sources {
		for _, group := range s.file.Comments {
			for _, comment := range group.List {
				if len(toDo.FindAllString(comment.Text, -1)) > len(toDoWithIssue.FindAllString(comment.Text, -1)) {
					violations = append(violations, s.at(comment.Pos())+" leaves work over without the number of its issue")
				}
			}
		}
	}
	return violations
}

// machinePath matches a directory of one machine, but not the same word inside a URL or a relative path.
var machinePath = regexp.MustCompile(`(?:^|[^\w.~*}/-])/(?:work|root|home)/`)

func machinePaths(repo repository) []string {
	var violations []string
	for name, text := range repo.texts {
		for i, line := range bytes.Split(text, []byte("\n")) {
			if machinePath.Match(line) {
				violations = append(violations, fmt.Sprintf("%s:%d names a path of one machine", name, i+1))
			}
		}
	}
	slices.Sort(violations)
	return violations
}

// A layoutCase is a small repository that breaks a rule once, or that the rule must leave alone.
type layoutCase struct {
	name  string
	rule  layoutRule
	files map[string]string
	want  string // a part of the only violation; empty for none
}

func TestLayoutRulesFind(t *testing.T) {
	t.Parallel()
	machine := "/" + "home/somebody/troupe"
	cases := []layoutCase{
		{"broken file", unparsable, map[string]string{"mcp/a.go": "package"}, "mcp/a.go"},
		{"broken fixture", unparsable, map[string]string{"mcp/testdata/a.go": "package"}, ""},
		{"801 lines", overlongFiles, map[string]string{"mcp/a.go": "package mcp" + strings.Repeat("\n", 801)}, "801 lines"},
		{"800 lines", overlongFiles, map[string]string{"mcp/a.go": "package mcp" + strings.Repeat("\n", 800)}, ""},
		{"900 lines of tests", overlongFiles, map[string]string{"mcp/a_test.go": "package mcp" + strings.Repeat("\n", 900)}, ""},
		{"901 lines of tests", overlongFiles, map[string]string{"mcp/a_test.go": "package mcp" + strings.Repeat("\n", 901)}, "901 lines"},
		{"no doc", packageDocs, map[string]string{"mcp/a.go": "package mcp\n"}, "has no doc comment"},
		{"two docs", packageDocs, map[string]string{"mcp/a.go": "// Package mcp is.\npackage mcp\n", "mcp/b.go": "// Package mcp is.\npackage mcp\n"}, "mcp/a.go, mcp/b.go"},
		{"odd doc", packageDocs, map[string]string{"mcp/a.go": "// A thing.\npackage mcp\n"}, "does not begin"},
		{"one doc", packageDocs, map[string]string{"mcp/a.go": "// Package mcp is.\npackage mcp\n", "mcp/a_test.go": "package mcp\n", "cmd/x/main.go": "// Command x is.\npackage main\n"}, ""},
		{"package util", vaguePackages, map[string]string{"mcp/util/a.go": "package mcputil\n"}, "says nothing"},
		{"package types", vaguePackages, map[string]string{"mcp/a.go": "package types\n"}, "says nothing"},
		{"13 tests in the root", rootTests, manyTests(13), "13 test files"},
		{"12 tests in the root", rootTests, manyTests(12), ""},
		{"35 files", crowdedPackages, manyFiles(35), "has 35 files"},
		{"34 files", crowdedPackages, manyFiles(34), ""},
		{"31 methods of a Node", methodsOfTypes, map[string]string{"actors/a.go": "package actors\n" + strings.Repeat("\nfunc (n *Node) x() {}\n", 30), "actors/b.go": "package actors\n\nfunc (Node) y() {}\n"}, "Node has 31 methods"},
		{"30 methods of a Node", methodsOfTypes, map[string]string{"actors/a.go": "package actors\n" + strings.Repeat("\nfunc (n *Node) x() {}\n", 30), "actors/a_test.go": "package actors\n\nfunc (Node) y() {}\n"}, ""},
		{"to do", looseToDos, map[string]string{"mcp/a.go": "package mcp\n\n// TODO: more.\n"}, "mcp/a.go:3"},
		{"to do twice", looseToDos, map[string]string{"mcp/a.go": "package mcp\n\n// TODO(#1): this and TODO: more.\n"}, "mcp/a.go:3"},
		{"to do with its issue", looseToDos, map[string]string{"mcp/a.go": "package mcp\n\n// TODO(#12): more.\nconst s = \"TODO\"\n"}, ""},
		{"machine path", machinePaths, map[string]string{"docs/a.md": "text\ncd " + machine + "\n"}, "docs/a.md:2"},
		{"machine path at the start", machinePaths, map[string]string{".ci/run": machine + "\n"}, ".ci/run:1"},
		{"machine path quoted", machinePaths, map[string]string{"mcp/a.go": "package mcp\nconst dir = \"" + machine + "\"\n"}, "mcp/a.go:2"},
		{"path of a URL", machinePaths, map[string]string{"docs/a.md": "https://troupe.run" + machine + " and .." + machine + "\n"}, ""},
	}
	for _, tt := range slices.Concat(cases, importCases, dependencyCases, apiCases, sleepCases, lockCases, revisionCases, diagramCases, pictureCases, linkCases) {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			files := fstest.MapFS{}
			for name, text := range tt.files {
				files[name] = &fstest.MapFile{Data: []byte(text)}
			}
			repo, err := readRepository(files)
			if err != nil {
				t.Fatal(err)
			}
			got := tt.rule(repo)
			if tt.want == "" && len(got) > 0 {
				t.Errorf("violations are %q, want none", got)
			}
			if tt.want != "" && (len(got) != 1 || !strings.Contains(got[0], tt.want)) {
				t.Errorf("violations are %q, want one with %q", got, tt.want)
			}
		})
	}
}

// manyFiles returns n files of a package, a variant of one and a test.
func manyFiles(n int) map[string]string {
	files := map[string]string{"actors/a0_other.go": "package actors\n", "actors/a_test.go": "package actors\n"}
	for i := range n {
		files[fmt.Sprintf("actors/a%d.go", i)] = "package actors\n"
	}
	return files
}

// manyTests returns n test files of the root, and one below it.
func manyTests(n int) map[string]string {
	files := map[string]string{"mcp/a_test.go": "package mcp\n"}
	for i := range n {
		files[fmt.Sprintf("a%d_test.go", i)] = "package troupe\n"
	}
	return files
}
