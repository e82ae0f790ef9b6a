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

// mistake is an Error about what stands at a place of the file, which is "" for the file itself.
func mistake(line int, at string, err error) error {
	if at == "" {
		return &Error{line, err}
	}
	return &Error{line, fmt.Errorf("%s: %w", at, err)}
}

var (
	errNoText    = errors.New("want a text")
	errNoTexts   = errors.New("want a list of texts")
	errNoMapping = errors.New("want a mapping of keys to values")
)

// text returns the text of a node. Numbers, truth values, aliases and tags are no texts.
func text(n ast.Node) (string, error) {
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

// setText stores a text.
func setText(into *string) Reader {
	return func(n ast.Node, line int, at string) error {
		v, err := text(n)
		if err != nil {
			return mistake(lineOf(n, line), at, err)
		}
		*into = v
		return nil
	}
}

// setTexts stores a list of texts.
func setTexts(into *[]string) Reader {
	return func(n ast.Node, line int, at string) error {
		list, ok := n.(*ast.SequenceNode)
		if !ok {
			return mistake(lineOf(n, line), at, errNoTexts)
		}
		for i, item := range list.Values {
			v, err := text(item)
			if err != nil {
				return mistake(lineOf(item, line), fmt.Sprintf("%s[%d]", at, i), err)
			}
			*into = append(*into, v)
		}
		return nil
	}
}
