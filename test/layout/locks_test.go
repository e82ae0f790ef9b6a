package layout

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strings"
)

// locksDocument has a row for each mutex, which begins with its name and its file.
const locksDocument = "docs/locks.md"

var (
	lockRow    = regexp.MustCompile("(?m)^\\| `([^`]+)`, `([^`]+\\.go)`")
	lockOrder  = regexp.MustCompile("(?s)\n## Order\n.*?```\n(.*?)```")
	lockInLine = regexp.MustCompile(`[\w.\[\]]+\.\w+`)
)

// undocumentedLocks compares docs/locks.md with the code: a mutex has one row, a row has a mutex, and the order names
// mutexes that have rows. It skips the programs below bench and the packages for tests, as the document says.
func undocumentedLocks(repo repository) []string {
	document := string(repo.texts[locksDocument])
	var violations []string
	rows := map[string]string{} // file by name
	for _, m := range lockRow.FindAllStringSubmatch(document, -1) {
		if rows[m[1]] != "" {
			violations = append(violations, fmt.Sprintf("%s has two rows for %s", locksDocument, m[1]))
		}
		rows[m[1]] = m[2]
	}
	if order := lockOrder.FindStringSubmatch(document); order != nil {
		for _, name := range lockInLine.FindAllString(order[1], -1) {
			if rows[name] == "" {
				violations = append(violations, fmt.Sprintf("%s orders %s, which has no row", locksDocument, name))
			}
		}
	}
	for _, l := range locks(repo) {
		switch file := rows[l.name]; {
		case file == "":
			violations = append(violations, fmt.Sprintf("%s: %s has no row in %s", l.at, l.name, locksDocument))
		case file != l.file:
			violations = append(violations, fmt.Sprintf("%s: the row of %s in %s names %s", l.at, l.name, locksDocument, file))
		}
		delete(rows, l.name)
	}
	for name, file := range rows {
		violations = append(violations, fmt.Sprintf("%s has a row for %s, %s, which is no mutex there", locksDocument, name, file))
	}
	slices.Sort(violations)
	return violations
}

// A lock is a mutex by its name: Type.field, variable, or function.variable.
type lock struct{ name, file, at string }

// locks finds the mutexes outside of tests. They are fields and variables whose type is of sync, or of their own
// package, and has a name that ends with Mutex. A mutex without a name, such as one made with new, is found as "?".
func locks(repo repository) []lock {
	var found []lock
	for _, s := range repo.own() {
		if s.isTest() || within(s.dir(), "bench") || slices.ContainsFunc(testPackages, func(p string) bool { return within(s.dir(), p) }) {
			continue
		}
		f := lockFinder{s: s, seen: map[token.Pos]bool{}}
		for _, decl := range s.file.Decls {
			f.declaration("", decl)
		}
		f.unnamed()
		found = append(found, f.found...)
	}
	return found
}

// A lockFinder collects the mutexes of a file.
type lockFinder struct {
	s     source
	seen  map[token.Pos]bool // the mentions of types that have been found by name
	found []lock
}

func (f *lockFinder) declaration(prefix string, decl ast.Decl) {
	switch decl := decl.(type) {
	case *ast.GenDecl:
		for _, spec := range decl.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				f.inside(prefix+spec.Name.Name, spec.Type)
			case *ast.ValueSpec:
				for i, name := range spec.Names {
					f.of(prefix+name.Name, spec.Type)
					if i < len(spec.Values) {
						f.value(prefix+name.Name, spec.Values[i])
					}
				}
			}
		}
	case *ast.FuncDecl:
		name := decl.Name.Name + "."
		if decl.Recv != nil {
			name = receiverName(decl) + "." + name
		}
		if decl.Body == nil {
			return
		}
		ast.Inspect(decl.Body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.DeclStmt:
				f.declaration(prefix+name, n.Decl)
			case *ast.AssignStmt:
				for i, left := range n.Lhs {
					if x, ok := left.(*ast.Ident); ok && i < len(n.Rhs) && n.Tok == token.DEFINE {
						f.value(prefix+name+x.Name, n.Rhs[i])
					}
				}
			}
			return true
		})
	}
}

// value checks a literal of a mutex, or of a struct that is declared on the spot.
func (f *lockFinder) value(name string, value ast.Expr) {
	if literal, ok := value.(*ast.CompositeLit); ok {
		f.of(name, literal.Type)
	}
}

// of notes name if its type is a mutex, and otherwise the mutexes inside the type.
func (f *lockFinder) of(name string, kind ast.Expr) {
	if f.isMutex(kind) {
		f.found = append(f.found, lock{name, f.s.path, f.s.at(kind.Pos())})
		return
	}
	f.inside(name, kind)
}

// inside notes the mutexes among the fields of a type.
func (f *lockFinder) inside(name string, kind ast.Expr) {
	switch kind := kind.(type) {
	case *ast.ArrayType:
		f.of(name+"[i]", kind.Elt)
	case *ast.MapType:
		f.of(name+"[i]", kind.Value)
	case *ast.StarExpr:
		f.of(name, kind.X)
	case *ast.StructType:
		for _, field := range kind.Fields.List {
			for _, n := range field.Names {
				f.of(name+"."+n.Name, field.Type)
			}
			if len(field.Names) == 0 {
				f.of(name+"."+embedded(field.Type), field.Type)
			}
		}
	}
}

func (f *lockFinder) isMutex(kind ast.Expr) bool {
	switch kind := kind.(type) {
	case *ast.StarExpr:
		return f.isMutex(kind.X)
	case *ast.SelectorExpr:
		x, ok := kind.X.(*ast.Ident)
		if !ok || !strings.HasSuffix(kind.Sel.Name, "Mutex") {
			return false
		}
		if x.Name != f.s.imports()["sync"] && !f.ours(x.Name) {
			return false
		}
		f.seen[kind.Pos()] = true
		return true
	case *ast.Ident:
		return strings.HasSuffix(kind.Name, "Mutex")
	}
	return false
}

// ours reports whether a name is that of an imported package of the root module.
func (f *lockFinder) ours(name string) bool {
	for target, as := range f.s.imports() {
		if as == name && within(target, rootModule) {
			return true
		}
	}
	return false
}

// unnamed notes the mentions of a mutex of sync for which no name was found. It skips parameters: those mutexes belong
// to the caller.
func (f *lockFinder) unnamed() {
	ast.Inspect(f.s.file, func(n ast.Node) bool {
		if _, ok := n.(*ast.FuncType); ok {
			return false
		}
		if kind, ok := n.(*ast.SelectorExpr); ok && !f.seen[kind.Pos()] && f.isMutex(kind) {
			f.found = append(f.found, lock{"?", f.s.path, f.s.at(kind.Pos())})
		}
		return true
	})
}

// embedded returns the name of an embedded field.
func embedded(kind ast.Expr) string {
	switch kind := kind.(type) {
	case *ast.StarExpr:
		return embedded(kind.X)
	case *ast.SelectorExpr:
		return kind.Sel.Name
	case *ast.Ident:
		return kind.Name
	case *ast.IndexExpr:
		return embedded(kind.X)
	}
	return "?"
}

var lockCases = []layoutCase{
	{"mutex with a row", undocumentedLocks, withLock("type T struct { mu sync.Mutex }", "T.mu"), ""},
	{"mutex without a row", undocumentedLocks, withLock("type T struct { a, b sync.RWMutex }", "T.a"), "T.b has no row"},
	{"row without a mutex", undocumentedLocks, withLock("type T struct { mu int }", "T.mu"), "a row for T.mu"},
	{"row with another file", undocumentedLocks, map[string]string{
		"mcp/b.go": "package mcp\nimport \"sync\"\ntype T struct { mu sync.Mutex }\n", locksDocument: "| `T.mu`, `mcp/a.go` | all | nothing |\n",
	}, "names mcp/a.go"},
	{"two rows", undocumentedLocks, withLock("type T struct { mu sync.Mutex }", "T.mu", "T.mu"), "two rows for T.mu"},
	{"mutex in a part of a struct", undocumentedLocks, withLock("type T struct { parts [4]struct { mu sync.Mutex } }", "T.parts[i].mu"), ""},
	{"embedded mutex", undocumentedLocks, withLock("type T struct { sync.Mutex }", "T.Mutex"), ""},
	{"mutex of our own", undocumentedLocks, withLock("type T struct { mu keyMutex }", "T.mu"), ""},
	{"mutex of the package", undocumentedLocks, withLock("var mu sync.Mutex", "mu"), ""},
	{"mutex of a function", undocumentedLocks, withLock("func f() { var mu sync.Mutex }\nfunc (t *T) g() { mu := sync.Mutex{} }", "f.mu", "T.g.mu"), ""},
	{"mutex of somebody else", undocumentedLocks, withLock("func f(mu *sync.Mutex) {}"), ""},
	{"mutex without a name", undocumentedLocks, withLock("func f() { g(new(sync.Mutex)) }"), "? has no row"},
	{"order of what has no row", undocumentedLocks, map[string]string{locksDocument: "\n## Order\n\n```\nT.mu -> that of a bucket\n```\n"}, "orders T.mu"},
	{"mutex of a test", undocumentedLocks, map[string]string{"mcp/a_test.go": "package mcp\nimport \"sync\"\nvar mu sync.Mutex\n"}, ""},
	{"mutex of a program under bench", undocumentedLocks, map[string]string{"bench/lab/a.go": "package lab\nimport \"sync\"\nvar mu sync.Mutex\n"}, ""},
}

// withLock returns a file with decls, and rows for the named mutexes of it.
func withLock(decls string, rows ...string) map[string]string {
	document := "| mutex | guards | held over |\n|---|---|---|\n"
	for _, name := range rows {
		document += "| `" + name + "`, `mcp/a.go` | all | nothing |\n"
	}
	return map[string]string{"mcp/a.go": "package mcp\nimport \"sync\"\n" + decls + "\n", locksDocument: document}
}
