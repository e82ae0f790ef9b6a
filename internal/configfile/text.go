package configfile

import (
	"errors"
	"fmt"

	"github.com/goccy/go-yaml/ast"
)

// Error is a mistake in a configuration file.
type Error struct {
	Line int // from 1
	Err  error
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// mistake is an Error about what stands at a place of the section.
func mistake(line int, at string, err error) error {
	return &Error{line, fmt.Errorf("%s: %w", at, err)}
}

var (
	errNoText    = errors.New("want a text")
	errNoTexts   = errors.New("want a list of texts")
	errNoMapping = errors.New("want a mapping of keys to values")
)

// Text returns the text of a node. Numbers, truth values, aliases and tags are no texts.
func Text(n ast.Node) (string, error) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, nil
	case *ast.LiteralNode:
		return n.Value.Value, nil
	}
	return "", errNoText
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

// reader reads the value of a key, which stands in a line. at says where, for errors.
type reader func(n ast.Node, line int, at string) error

// setText stores a text.
func setText(into *string) reader {
	return func(n ast.Node, line int, at string) error {
		text, err := Text(n)
		if err != nil {
			return mistake(lineOf(n, line), at, err)
		}
		*into = text
		return nil
	}
}

// setTexts stores a list of texts.
func setTexts(into *[]string) reader {
	return func(n ast.Node, line int, at string) error {
		list, ok := n.(*ast.SequenceNode)
		if !ok {
			return mistake(lineOf(n, line), at, errNoTexts)
		}
		for i, item := range list.Values {
			text, err := Text(item)
			if err != nil {
				return mistake(lineOf(item, line), fmt.Sprintf("%s[%d]", at, i), err)
			}
			*into = append(*into, text)
		}
		return nil
	}
}
