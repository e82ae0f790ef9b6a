package configfile

import (
	"errors"
	"fmt"

	"github.com/goccy/go-yaml/ast"
)

// entry is a key with its value.
type entry struct {
	name  string
	line  int
	value ast.Node
}

// entries are those of a mapping. No name comes twice.
func entries(n ast.Node, line int, at string) (all []entry, err error) {
	var values []*ast.MappingValueNode
	switch n := n.(type) {
	case *ast.MappingNode:
		values = n.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{n}
	default:
		return nil, mistake(lineOf(n, line), at, errNoMapping)
	}
	seen := make(map[string]bool)
	for _, v := range values {
		line := lineOf(v.Key, line)
		name, err := Text(v.Key)
		switch {
		case err != nil:
			return nil, mistake(line, at, errors.New("a key must be a text"))
		case seen[name]:
			return nil, mistake(line, at+"."+name, errors.New("set twice"))
		}
		seen[name] = true
		all = append(all, entry{name, line, v.Value})
	}
	return all, nil
}

// readMapping has the value of each key read by the reader of its name. One without a reader is an error.
func readMapping(n ast.Node, line int, at string, readers map[string]reader) error {
	all, err := entries(n, line, at)
	for _, e := range all {
		read, known := readers[e.name]
		if !known {
			return mistake(e.line, at+"."+e.name, errors.New("there is no such setting"))
		}
		if err := read(e.value, e.line, at+"."+e.name); err != nil {
			return err
		}
	}
	return err
}

// readList has each item of a list read.
func readList(n ast.Node, line int, at string, read reader) error {
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
