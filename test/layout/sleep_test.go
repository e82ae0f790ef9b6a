package layout

import (
	"go/ast"
	"slices"
	"strings"
)

// sleepingTests keeps tests from waiting for time that really passes. They may sleep where time is virtual: in a file
// that imports testing/synctest, and in a function that kit.Bubble or BubbleNATS, or another helper, runs in a bubble. Tests of
// real processes may sleep too, since they have nothing else to wait for; the names of their files end in
// _process_test.go.
func sleepingTests(repo repository) []string {
	bubbles := map[string][]string{}
	var violations []string
	for _, s := range repo.sources {
		imports := s.imports()
		clock, timed := imports["time"]
		_, synctest := imports["testing/synctest"]
		_, bubble := imports[rootModule+"/internal/bubble"]
		if !timed || synctest || bubble || !s.isTest() || strings.HasSuffix(s.path, "_process_test.go") {
			continue
		}
		if _, known := bubbles[s.dir()]; !known {
			bubbles[s.dir()] = bubbleHelpers(repo, s.dir())
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if called, ok := n.Fun.(*ast.Ident); ok && slices.Contains(bubbles[s.dir()], called.Name) {
					return false
				}
				if called, ok := n.Fun.(*ast.SelectorExpr); ok && (isSelector(called, "bubble", "Test") || isSelector(called, "kit", "Bubble") || isSelector(called, "kit", "BubbleNATS")) {
					return false
				}
			case *ast.SelectorExpr:
				if isSelector(n, clock, "Sleep") {
					violations = append(violations, s.at(n.Pos())+" sleeps: use testing/synctest or wait for a signal")
				}
			}
			return true
		})
	}
	return violations
}

// bubbleHelpers returns the functions of a directory's tests that call synctest.Test, themselves or through others.
func bubbleHelpers(repo repository, dir string) []string {
	var helpers []string
	for {
		before := len(helpers)
		for _, s := range repo.sources {
			if s.dir() != dir || !s.isTest() {
				continue
			}
			synctest := s.imports()["testing/synctest"]
			for _, decl := range s.file.Decls {
				f, ok := decl.(*ast.FuncDecl)
				if !ok || f.Recv != nil || f.Body == nil || slices.Contains(helpers, f.Name.Name) {
					continue
				}
				ast.Inspect(f.Body, func(n ast.Node) bool {
					call, ok := n.(*ast.CallExpr)
					if !ok {
						return true
					}
					sel, _ := call.Fun.(*ast.SelectorExpr)
					called, _ := call.Fun.(*ast.Ident)
					if sel != nil && (isSelector(sel, "bubble", "Test") || synctest != "" && isSelector(sel, synctest, "Test")) || called != nil && slices.Contains(helpers, called.Name) {
						helpers = append(helpers, f.Name.Name)
						return false
					}
					return true
				})
			}
		}
		if len(helpers) == before {
			return helpers
		}
	}
}

func isSelector(sel *ast.SelectorExpr, of, name string) bool {
	x, ok := sel.X.(*ast.Ident)
	return ok && x.Name == of && sel.Sel.Name == name
}

var sleepCases = []layoutCase{
	{"sleep", sleepingTests, map[string]string{"mcp/a_test.go": "package mcp\nimport \"time\"\nfunc f() { time.Sleep(1) }\n"}, "mcp/a_test.go:3"},
	{"sleep under another name", sleepingTests, map[string]string{"mcp/a_test.go": "package mcp\nimport clock \"time\"\nvar f = clock.Sleep\n"}, "mcp/a_test.go:3"},
	{"sleep in code", sleepingTests, map[string]string{"mcp/a.go": "package mcp\nimport \"time\"\nfunc f() { time.Sleep(1) }\n"}, ""},
	{"sleep in a file of bubbles", sleepingTests, map[string]string{"mcp/a_test.go": "package mcp\nimport (_ \"testing/synctest\"; \"time\")\nvar f = time.Sleep\n"}, ""},
	{"sleep of a process", sleepingTests, map[string]string{"mcp/a_process_test.go": "package mcp\nimport \"time\"\nfunc f() { time.Sleep(1) }\n"}, ""},
	{"sleep in a helper's bubble", sleepingTests, map[string]string{
		"mcp/a_test.go":    "package mcp\nimport \"time\"\nfunc f() { each(func() { bubble(func() { time.Sleep(1) }) }) }\nfunc g() { twice(func() { time.Sleep(1) }) }\n",
		"mcp/main_test.go": "package mcp\nimport \"testing/synctest\"\nfunc twice(f func()) { bubble(f) }\nfunc bubble(f func()) { synctest.Test(nil, f) }\nfunc each(f func()) { f() }\n",
	}, ""},
	{"sleep beside a helper's bubble", sleepingTests, map[string]string{
		"mcp/a_test.go":    "package mcp\nimport \"time\"\nfunc f() { bubble(func() {})\ntime.Sleep(1) }\n",
		"mcp/main_test.go": "package mcp\nimport \"testing/synctest\"\nfunc bubble(f func()) { synctest.Test(nil, f) }\n",
	}, "mcp/a_test.go:4"},
	{"sleep beside a server in a bubble", sleepingTests, map[string]string{
		"mcp/a_test.go": "package mcp\nimport \"time\"\nfunc f() { kit.BubbleNATS(func() { time.Sleep(1) })\ntime.Sleep(1) }\n",
	}, "mcp/a_test.go:4"},
	{"sleep in another package's bubble", sleepingTests, map[string]string{
		"mcp/a_test.go":      "package mcp\nimport \"time\"\nfunc f() { bubble(func() { time.Sleep(1) }) }\n",
		"codec/main_test.go": "package codec\nimport \"testing/synctest\"\nfunc bubble(f func()) { synctest.Test(nil, f) }\n",
	}, "mcp/a_test.go:3"},
}
