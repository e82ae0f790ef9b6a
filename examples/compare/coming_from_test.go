package compare

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestComingFrom compares docs/coming-from.md with the program that it shows, and its table with the names that there are.
func TestComingFrom(t *testing.T) {
	page := readDoc(t, "coming-from.md")
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(page, -1)
	if len(blocks) != 1 {
		t.Fatalf("%d programs", len(blocks))
	}
	text, err := os.ReadFile(filepath.Join("first", "troupe", "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	if blocks[0][1] != string(text) {
		t.Error("the page does not have first/troupe/main.go as it is")
	}
	names := []map[string]bool{
		exported(t, "github.com/modelcontextprotocol/go-sdk", "mcp", "auth", "jsonrpc"),
		exported(t, "github.com/mark3labs/mcp-go", "mcp", "server", "mcptest"),
		exported(t, "github.com/troupe-run/troupe", ".", "mcp", "troupetest"),
	}
	for name := range exported(t, "github.com/google/jsonschema-go", "jsonschema") {
		names[0][name] = true
	}
	seen := 0
	for line := range strings.Lines(page) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if !strings.HasPrefix(line, "| ") || len(cells) != 4 {
			continue
		}
		for i, cell := range cells[1:] {
			for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cell, -1) {
				seen++
				if !names[i][m[1]] {
					t.Errorf("%s: there is no %s", strings.TrimSpace(cells[0]), m[1])
				}
			}
		}
	}
	if seen < 100 {
		t.Errorf("%d names found in the table: the test looks at the wrong place", seen)
	}
}

// readDoc reads a document of the repository.
func readDoc(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// exported returns what packages of a module export: functions and types as package.Name, and fields and methods as Type.Name.
func exported(t *testing.T, module string, dirs ...string) map[string]bool {
	t.Helper()
	root, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, dir := range dirs {
		files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(root)), dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s of %s: %d files, %v", dir, module, len(files), err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			collect(names, f)
		}
	}
	return names
}

// collect adds what a file declares.
func collect(names map[string]bool, f *ast.File) {
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				names[f.Name.Name+"."+d.Name.Name] = true
			} else {
				names[receiver(d.Recv.List[0].Type)+"."+d.Name.Name] = true
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.ValueSpec:
					for _, n := range s.Names {
						names[f.Name.Name+"."+n.Name] = true
					}
				case *ast.TypeSpec:
					names[f.Name.Name+"."+s.Name.Name] = true
					for _, n := range members(s.Type) {
						names[s.Name.Name+"."+n] = true
					}
				}
			}
		}
	}
}

// members returns the names of a struct's fields, or of an interface's methods.
func members(e ast.Expr) (names []string) {
	var list *ast.FieldList
	switch e := e.(type) {
	case *ast.StructType:
		list = e.Fields
	case *ast.InterfaceType:
		list = e.Methods
	default:
		return nil
	}
	for _, field := range list.List {
		for _, n := range field.Names {
			names = append(names, n.Name)
		}
	}
	return names
}

// receiver returns the name of a method's type.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}
