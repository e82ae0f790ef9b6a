package layout

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// TestWhoWaitsIsRefused requires that each message whose sender waits, which has a kernel.Reply in it, has a method Refused: an actor that stops with it in
// its mailbox calls that, and otherwise nobody ever ends the wait.
func TestWhoWaitsIsRefused(t *testing.T) {
	t.Parallel()
	waits, refused := map[string]bool{}, map[string]bool{} // by directory and type
	for _, room := range []string{"actors", "internal", "cluster"} {
		err := filepath.WalkDir(filepath.Join(root, room), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			dir := filepath.Dir(path) + " "
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.TypeSpec:
					if s, ok := n.Type.(*ast.StructType); ok && hasReply(s) {
						waits[dir+n.Name.Name] = true
					}
				case *ast.FuncDecl:
					if n.Recv != nil && n.Name.Name == "Refused" {
						of := n.Recv.List[0].Type
						if pointer, ok := of.(*ast.StarExpr); ok {
							of = pointer.X
						}
						if name, ok := of.(*ast.Ident); ok {
							refused[dir+name.Name] = true
						}
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(waits) < 15 {
		t.Errorf("only %d messages are found whose senders wait", len(waits))
	}
	for name := range waits {
		if !refused[name] {
			t.Errorf("%s has no method Refused: who sends it to an actor that stops waits for ever", name)
		}
	}
}

// hasReply reports whether a struct embeds kernel.Reply.
func hasReply(s *ast.StructType) bool {
	for _, f := range s.Fields.List {
		if of, ok := f.Type.(*ast.SelectorExpr); ok && len(f.Names) == 0 && of.Sel.Name == "Reply" {
			if pack, ok := of.X.(*ast.Ident); ok && pack.Name == "kernel" {
				return true
			}
		}
	}
	return false
}
