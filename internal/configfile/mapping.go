package configfile

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/goccy/go-yaml/ast"
)

// A Reader reads the value of a key, which stands in a line. at is its place in the file, for errors.
type Reader func(n ast.Node, line int, at string) error

// entry is a key with its value.
type entry struct {
	name  string
	line  int
	value ast.Node
}

// entries are those of mappings, which count as one. No name comes twice.
func entries(line int, at string, mappings ...ast.Node) (all []entry, err error) {
	seen := make(map[string]bool)
	for _, n := range mappings {
		var values []*ast.MappingValueNode
		switch n := n.(type) {
		case *ast.MappingNode:
			values = n.Values
		case *ast.MappingValueNode:
			values = []*ast.MappingValueNode{n}
		default:
			return nil, mistake(lineOf(n, line), at, errNoMapping)
		}
		for _, v := range values {
			line := lineOf(v.Key, line)
			name, err := text(v.Key)
			switch {
			case err != nil:
				return nil, mistake(line, at, errors.New("a key must be a text"))
			case seen[name]:
				return nil, mistake(line, below(at, name), errors.New("set twice"))
			}
			seen[name] = true
			all = append(all, entry{name, line, v.Value})
		}
	}
	return all, nil
}

// readMapping has the value of each key read by the reader of its name. One without a reader is an error.
func readMapping(line int, at string, readers map[string]Reader, mappings ...ast.Node) error {
	all, err := entries(line, at, mappings...)
	if err != nil {
		return err
	}
	for _, e := range all {
		read, known := readers[e.name]
		if !known {
			nearest := Nearest(e.name, slices.Sorted(maps.Keys(readers)))
			return mistake(e.line, below(at, e.name), errors.New("there is no such setting"+nearest))
		}
		if err := read(e.value, e.line, below(at, e.name)); err != nil {
			return err
		}
	}
	return nil
}

// below is the place of a key in the mapping at a place.
func below(at, name string) string {
	if at == "" {
		return name
	}
	return at + "." + name
}

// readList has each item of a list read.
func readList(n ast.Node, line int, at string, read Reader) error {
	list, ok := n.(*ast.SequenceNode)
	if !ok {
		return mistake(lineOf(n, line), at, errors.New("want a list"))
	}
	for i, item := range list.Values {
		if err := read(item, lineOf(item, line), fmt.Sprintf("%s[%d]", at, i)); err != nil {
			return err
		}
	}
	return nil
}
