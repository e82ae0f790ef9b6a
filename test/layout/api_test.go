package layout

import (
	"fmt"
	"go/ast"
	"maps"
	"slices"
)

// foreignTypesInAPI requires that the root package exports only types of the standard library, of this module and of
// the OpenTelemetry API. It reads syntax alone: for a variable without a written type it takes the initial value as the
// type.
func foreignTypesInAPI(repo repository) []string {
	api := publicAPI{types: map[string]declaredType{}, methods: map[string][]declaredMethod{}, reached: map[string]bool{}}
	var roots []string
	for _, s := range repo.own() {
		if s.dir() == "" && !s.isTest() {
			roots = append(roots, api.declare(s)...)
		}
	}
	for _, name := range roots {
		api.reach(name)
	}
	slices.Sort(api.violations)
	return slices.Compact(api.violations)
}

// A publicAPI follows the exported declarations of one package through the types they show.
type publicAPI struct {
	types      map[string]declaredType
	methods    map[string][]declaredMethod // by receiver
	reached    map[string]bool             // local types that are shown, exported or not
	violations []string
}

type declaredType struct {
	s    source
	spec *ast.TypeSpec
}

type declaredMethod struct {
	s    source
	decl *ast.FuncDecl
}

// declare notes the types and methods of a file. It checks what else the file exports, and returns the local names in
// it, which are followed when all files have been read.
func (api *publicAPI) declare(s source) []string {
	var roots []string
	for _, decl := range s.file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			switch {
			case !decl.Name.IsExported():
			case decl.Recv != nil:
				receiver := receiverName(decl)
				api.methods[receiver] = append(api.methods[receiver], declaredMethod{s, decl})
			default:
				roots = append(roots, api.show(s, decl.Type)...)
			}
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					api.types[spec.Name.Name] = declaredType{s, spec}
					if spec.Name.IsExported() {
						roots = append(roots, spec.Name.Name)
					}
				case *ast.ValueSpec:
					roots = append(roots, api.showValues(s, spec)...)
				}
			}
		}
	}
	return roots
}

func (api *publicAPI) showValues(s source, spec *ast.ValueSpec) []string {
	var shown []string
	for i, name := range spec.Names {
		switch {
		case !name.IsExported():
		case spec.Type != nil:
			shown = append(shown, api.show(s, spec.Type)...)
		case i < len(spec.Values):
			shown = append(shown, api.show(s, spec.Values[i])...)
		}
	}
	return shown
}

// reach follows a local type that the API shows: its definition and its exported methods.
func (api *publicAPI) reach(name string) {
	declared, ok := api.types[name]
	if !ok || api.reached[name] {
		return
	}
	api.reached[name] = true
	shown := api.show(declared.s, declared.spec.Type)
	if declared.spec.TypeParams != nil {
		shown = append(shown, api.show(declared.s, declared.spec.TypeParams)...)
	}
	for _, method := range api.methods[name] {
		shown = append(shown, api.show(method.s, method.decl.Type)...)
	}
	for _, next := range shown {
		api.reach(next)
	}
}

// show records the foreign packages that a type or value mentions and returns the local names in it. The API does not
// show unexported fields and methods, function bodies, arguments and elements.
func (api *publicAPI) show(s source, node ast.Node) []string {
	packages := map[string]string{}
	imports := s.imports()
	for _, target := range slices.Sorted(maps.Keys(imports)) {
		packages[imports[target]] = target
	}
	var local []string
	ast.Inspect(node, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok {
				if target := packages[x.Name]; target != "" && !mayShow(target) {
					api.violations = append(api.violations, fmt.Sprintf("%s: the public API shows %s of %s", s.at(n.Pos()), n.Sel.Name, target))
				}
			}
			return false
		case *ast.Field: // of parameters, whose names are no types
			local = append(local, api.show(s, n.Type)...)
			return false
		case *ast.StructType:
			local = append(local, api.showFields(s, n.Fields)...)
			return false
		case *ast.InterfaceType:
			local = append(local, api.showFields(s, n.Methods)...)
			return false
		case *ast.CompositeLit:
			if n.Type != nil {
				local = append(local, api.show(s, n.Type)...)
			}
			return false
		case *ast.CallExpr:
			local = append(local, api.show(s, n.Fun)...)
			return false
		case *ast.BlockStmt:
			return false
		case *ast.Ident:
			local = append(local, n.Name)
		}
		return true
	})
	return local
}

// showFields shows the exported and the embedded members of a struct or an interface.
func (api *publicAPI) showFields(s source, fields *ast.FieldList) []string {
	var local []string
	for _, field := range fields.List {
		exported := func(name *ast.Ident) bool { return name.IsExported() }
		if len(field.Names) == 0 || slices.ContainsFunc(field.Names, exported) {
			local = append(local, api.show(s, field.Type)...)
		}
	}
	return local
}

func mayShow(target string) bool {
	_, own := dirOf(target)
	return own || isStd(target) ||
		within(target, "go.opentelemetry.io/otel") &&
			!within(target, "go.opentelemetry.io/otel/sdk") && !within(target, "go.opentelemetry.io/otel/exporters")
}

func receiverName(decl *ast.FuncDecl) string {
	expr := decl.Recv.List[0].Type
	for {
		switch x := expr.(type) {
		case *ast.StarExpr:
			expr = x.X
		case *ast.ParenExpr:
			expr = x.X
		case *ast.IndexExpr:
			expr = x.X
		case *ast.IndexListExpr:
			expr = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

var apiCases = []layoutCase{
	{"parameter", foreignTypesInAPI, foreignAPI("func F(n *nats.Conn) {}"), "Conn of github.com/nats-io/nats.go"},
	{"result of a generic function", foreignTypesInAPI, foreignAPI("func F[T nats.Handler]() []T { return nil }"), "Handler"},
	{"field", foreignTypesInAPI, foreignAPI("type T struct { A int; C map[string]*nats.Conn }"), "Conn"},
	{"embedded field", foreignTypesInAPI, foreignAPI("type T struct { *nats.Conn }"), "Conn"},
	{"alias", foreignTypesInAPI, foreignAPI("type T = nats.Conn"), "Conn"},
	{"method", foreignTypesInAPI, foreignAPI("type T[X any] int\nfunc (t *T[X]) Conn() (*nats.Conn, error) { return nil, nil }"), "Conn"},
	{"method of an interface", foreignTypesInAPI, foreignAPI("type T interface { Conn() *nats.Conn }"), "Conn"},
	{"variable without a written type", foreignTypesInAPI, foreignAPI("var V = nats.NewInbox()"), "NewInbox"},
	{"unexported type that is embedded", foreignTypesInAPI, foreignAPI("type T struct { inner }\ntype inner struct { C nats.Conn }"), "Conn"},
	{"unexported type that is returned", foreignTypesInAPI, foreignAPI("func F() inner { return inner{} }\ntype inner int\nfunc (inner) C() nats.Conn { panic(0) }"), "Conn"},
	{"what is not exported", foreignTypesInAPI, foreignAPI("type T struct { c *nats.Conn }\nfunc f(*nats.Conn) {}\nvar v nats.Conn\nfunc (T) m() *nats.Conn { return nil }\nfunc (t) M() *nats.Conn { return nil }\ntype t int"), ""},
	{"inside a body", foreignTypesInAPI, foreignAPI("func F() { nats.NewInbox() }\nvar V = func() { nats.NewInbox() }"), ""},
	{"below the root", foreignTypesInAPI, map[string]string{"cluster/a.go": "package cluster\nimport \"github.com/nats-io/nats.go\"\ntype T = nats.Conn\n"}, ""},
	{"std, the module and the OTel API", foreignTypesInAPI, map[string]string{"a.go": "package troupe\nimport (\"net/http\"; \"" + rootModule + "/mcp\"; \"go.opentelemetry.io/otel/metric\")\ntype T struct { H http.Handler; I mcp.Implementation; M metric.MeterProvider }\n"}, ""},
	{"the OTel SDK", foreignTypesInAPI, map[string]string{"a.go": "package troupe\nimport \"go.opentelemetry.io/otel/sdk/metric\"\ntype T = metric.MeterProvider\n"}, "sdk/metric"},
}

func foreignAPI(decls string) map[string]string {
	return map[string]string{"a.go": "package troupe\nimport \"github.com/nats-io/nats.go\"\n" + decls + "\n"}
}
