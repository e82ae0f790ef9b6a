package hostfile

import (
	"github.com/goccy/go-yaml/ast"
)

// treeOf makes a tree of a value of YAML that begins in a line. Anchors, aliases, tags and merge keys have no meaning: they
// are odd, which nobody wants.
func treeOf(n ast.Node, line, level int) (*node, error) {
	made := &node{line: lineOf(n, line)}
	if level > mostLevels {
		return nil, &lineError{made.line, errTooDeep}
	}
	var values []*ast.MappingValueNode
	switch n := n.(type) {
	case *ast.NullNode, nil:
		made.kind = null
	case *ast.BoolNode:
		made.kind, made.text = boolean, "false"
		if n.Value {
			made.text = "true"
		}
	case *ast.IntegerNode, *ast.FloatNode:
		made.kind, made.text = number, n.GetToken().Value
	case *ast.StringNode:
		made.kind, made.text = text, n.Value
	case *ast.LiteralNode:
		made.kind, made.text = text, n.Value.Value
	case *ast.SequenceNode:
		made.kind = list
		for _, v := range n.Values {
			item, err := treeOf(v, made.line, level+1)
			if err != nil {
				return nil, err
			}
			made.items = append(made.items, item)
		}
	case *ast.MappingNode:
		made.kind, values = mapping, n.Values
	case *ast.MappingValueNode:
		made.kind, values = mapping, []*ast.MappingValueNode{n}
	}
	for _, v := range values {
		e := entry{line: lineOf(v.Key, made.line)}
		switch key := v.Key.(type) {
		case *ast.StringNode:
			e.name = key.Value
		default:
			e.odd = true
		}
		var err error
		if e.value, err = treeOf(v.Value, e.line, level+1); err != nil {
			return nil, err
		}
		made.entries = append(made.entries, e)
	}
	return made, nil
}

// lineOf is the line of a node, or that of what it belongs to if the node has none of its own.
func lineOf(n ast.Node, of int) int {
	if n == nil {
		return of
	}
	if t := n.GetToken(); t != nil && t.Position != nil && t.Position.Line > 0 {
		return t.Position.Line
	}
	return of
}
