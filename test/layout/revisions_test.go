package layout

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strings"
)

// revisionTable is the file that says what each revision of the protocol has.
const revisionTable = "mcp/revision.go"

var revisionDate = regexp.MustCompile(`^"20\d\d-\d\d-\d\d"$`)

// revisionsCompared keeps the features of revisions in their table: no other code names a revision by its date, or
// compares two revisions. Clients and examples speak one revision, and tests name them.
func revisionsCompared(repo repository) []string {
	var violations []string
	for _, s := range repo.own() {
		isTestPackage := slices.ContainsFunc(testPackages, func(p string) bool { return within(s.dir(), p) })
		if s.path == revisionTable || s.isTest() || isTestPackage || within(s.dir(), "bench") || within(s.dir(), "examples") {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BasicLit:
				if n.Kind == token.STRING && revisionDate.MatchString(n.Value) {
					violations = append(violations, fmt.Sprintf("%s names the revision %s: ask for a feature of %s", s.at(n.Pos()), n.Value, revisionTable))
				}
			case *ast.BinaryExpr:
				ordered := n.Op == token.LSS || n.Op == token.LEQ || n.Op == token.GTR || n.Op == token.GEQ
				if ordered && (isRevision(n.X) || isRevision(n.Y)) {
					violations = append(violations, fmt.Sprintf("%s compares revisions: ask for a feature of %s", s.at(n.Pos()), revisionTable))
				}
			}
			return true
		})
	}
	return violations
}

// isRevision reports whether an expression names a revision of package mcp.
func isRevision(x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.SelectorExpr:
		return isRevision(x.Sel)
	case *ast.Ident:
		return strings.HasPrefix(x.Name, "Revision20")
	}
	return false
}

var revisionCases = []layoutCase{
	{"a date", revisionsCompared, map[string]string{"actors/a.go": "package actors\nconst since = \"2025-11-25\"\n"}, "actors/a.go:2"},
	{"a comparison", revisionsCompared, map[string]string{"actors/a.go": "package actors\nimport \"" + rootModule + "/mcp\"\nfunc f(r mcp.Revision) bool { return r >= mcp.Revision20251125 }\n"}, "compares revisions"},
	{"a comparison in mcp", revisionsCompared, map[string]string{"mcp/a.go": "package mcp\nfunc f(r Revision) bool { return Revision20251125 < r }\n"}, "mcp/a.go:2"},
	{"the table", revisionsCompared, map[string]string{revisionTable: "package mcp\nvar since = \"2025-11-25\"\n"}, ""},
	{"a list of revisions", revisionsCompared, map[string]string{"a.go": "package troupe\nimport \"" + rootModule + "/mcp\"\nvar all = []mcp.Revision{mcp.Revision20251125}\n"}, ""},
	{"a date in a test", revisionsCompared, map[string]string{"actors/a_test.go": "package actors\nconst since = \"2025-11-25\"\n"}, ""},
	{"a date in a text", revisionsCompared, map[string]string{"actors/a.go": "package actors\nconst since = \"since 2025-11-25\"\n"}, ""},
}
