package layout

import (
	"fmt"
	"go/ast"
	"go/token"
	"reflect"
	"regexp"
	"strconv"
	"strings"
)

// diagrams is the document with the diagrams of the code.
const diagrams = "docs/architecture.md"

// namesInDiagrams keeps the diagrams from naming functions, types and members that the code does not have. It checks
// the names of a diagram that can only be the code's: those with a dot, those with parentheses, and those in camel case.
func namesInDiagrams(repo repository) []string {
	var violations []string
	var d *declarations
	inside := false
	for i, line := range strings.Split(string(repo.texts[diagrams]), "\n") {
		if strings.HasPrefix(line, "```") {
			inside = !inside
			continue
		}
		if !inside {
			continue
		}
		if d == nil {
			d = declared(repo)
		}
		for _, word := range diagramWord.FindAllString(line, -1) {
			name, calls := strings.CutSuffix(word, "(")
			if name = strings.TrimRight(name, ".-"); diagramName.MatchString(name) && !d.has(name, calls) {
				violations = append(violations, fmt.Sprintf("%s:%d names %s, which the code does not have", diagrams, i+1, name))
			}
		}
	}
	return violations
}

// diagramWord matches a word of a diagram with the parenthesis behind it, and diagramName one that is no path and no
// number.
var (
	diagramWord = regexp.MustCompile(`[\w./-]+\(?`)
	diagramName = regexp.MustCompile(`^[A-Za-z]\w*(\.[A-Za-z]\w*)*$`)
)

// camelCase matches a name that no English word looks like.
var camelCase = regexp.MustCompile(`^[a-z]+[A-Z]`)

// declarations are the names that the code declares outside of tests.
type declarations struct {
	top     map[string]bool // "package.name"
	members map[string]bool // "type.name": methods and fields
	names   map[string]bool // all of them, the packages, and the names of members in JSON
	types   map[string]bool // names of types and packages
}

func declared(repo repository) *declarations {
	d := &declarations{map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}}
	for _, s := range repo.own() {
		if s.isTest() {
			continue
		}
		pkg := s.file.Name.Name
		d.types[pkg] = true
		top := func(name string) { d.top[pkg+"."+name], d.names[name] = true, true }
		for _, decl := range s.file.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				if decl.Recv == nil {
					top(decl.Name.Name)
				} else {
					d.member(receiver(decl), decl.Name.Name)
				}
			case *ast.GenDecl:
				for _, spec := range decl.Specs {
					switch spec := spec.(type) {
					case *ast.TypeSpec:
						top(spec.Name.Name)
						d.types[spec.Name.Name] = true
						d.inside(spec.Name.Name, spec.Type)
					case *ast.ValueSpec:
						for _, name := range spec.Names {
							top(name.Name)
						}
					}
				}
			}
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING { // names on the wire
				if text, err := strconv.Unquote(lit.Value); err == nil && camelCase.MatchString(text) {
					d.names[text] = true
				}
			}
			return true
		})
	}
	return d
}

func (d *declarations) member(of, name string) { d.members[of+"."+name], d.names[name] = true, true }

// inside collects the fields of a struct and the methods of an interface.
func (d *declarations) inside(of string, kind ast.Expr) {
	var fields *ast.FieldList
	switch kind := kind.(type) {
	case *ast.StructType:
		fields = kind.Fields
	case *ast.InterfaceType:
		fields = kind.Methods
	default:
		return
	}
	for _, field := range fields.List {
		for _, name := range field.Names {
			d.member(of, name.Name)
		}
		if field.Tag != nil {
			if tag, err := strconv.Unquote(field.Tag.Value); err == nil {
				name, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
				d.names[name] = true
			}
		}
	}
}

// has reports whether the code has a name of a diagram. calls says that the name has a parenthesis behind it.
func (d *declarations) has(name string, calls bool) bool {
	parts := strings.Split(name, ".")
	last := parts[len(parts)-1]
	if len(parts) == 1 {
		return !calls && !camelCase.MatchString(name) || d.names[name]
	}
	of := parts[len(parts)-2]
	switch qualified := of + "." + last; {
	case d.top[qualified], d.members[qualified], last == "go", last == "json":
		return true
	case d.types[of] && !ast.IsExported(last):
		return false
	}
	return !ast.IsExported(of) && d.names[last] // of a variable, or promoted
}

var diagramCases = []layoutCase{
	{"no diagram", namesInDiagrams, map[string]string{diagrams: "text noSuchName\n"}, ""},
	{"all names are there", namesInDiagrams, inDiagram("t.run -> x.T.run -> run(y) -> v.Run -> field, wireName (a.go, c/b.go) net/http 1.5 s.1.2\n"), ""},
	{"no such function", namesInDiagrams, inDiagram("a -> walk(x)\n"), ":2 names walk,"},
	{"no such name in camel case", namesInDiagrams, inDiagram("a -> walkOn -> b\n"), ":2 names walkOn,"},
	{"no such method", namesInDiagrams, inDiagram("T.walk\n"), ":2 names T.walk,"},
	{"no such name in a package", namesInDiagrams, inDiagram("x.walk\n"), ":2 names x.walk,"},
	{"another type's method", namesInDiagrams, inDiagram("U.run\n"), ":2 names U.run,"},
	{"a method of nothing", namesInDiagrams, inDiagram("v.Walk\n"), ":2 names v.Walk,"},
}

// inDiagram returns a repository with a diagram, and code that has a few names.
func inDiagram(text string) map[string]string {
	return map[string]string{diagrams: "```\n" + text + "```\n", "x/a.go": "// Package x is.\npackage x\n\ntype T struct { field int `json:\"wireName\"` }\n\n" +
		"type U int\n\nfunc (t *T) run() {}\nfunc (T) Run() {}\nfunc run() {}\n"}
}
