package configfile

import (
	"cmp"
	"errors"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// Read reads a file, which is YAML: mappings of names to values, each of which its reader reads. An
// error is an [*Error] unless a parser of YAML cannot say where its mistake is.
func Read(data []byte, readers map[string]Reader) error {
	tree, err := parser.ParseBytes(data, 0)
	if err != nil {
		if at, ok := errors.AsType[yaml.Error](err); ok && at.GetToken() != nil {
			return &Error{at.GetToken().Position.Line, errors.New(at.GetMessage())}
		}
		return err
	}
	var mappings []ast.Node
	for _, doc := range tree.Docs {
		switch doc.Body.(type) {
		case nil, *ast.CommentGroupNode:
		default:
			mappings = append(mappings, doc.Body)
		}
	}
	return readMapping(1, "", readers, mappings...)
}

// PassOver reads nothing of a value.
func PassOver(ast.Node, int, string) error { return nil }

// ReadSetting reads the value of a setting of a kind, and gives it to set with the line of the setting:
// the items of a list one after the other. The kinds are bool, size, number, rate, duration, stringArray, which is a list
// of texts, revisions, a list that set gets at once with commas, and string.
func ReadSetting(kind string, set func(text string, line int) error) Reader {
	return func(n ast.Node, line int, at string) error {
		var values []string
		switch kind {
		case "stringArray", "revisions":
			if err := setTexts(&values)(n, line, at); err != nil {
				return err
			}
			if kind == "revisions" {
				values = []string{strings.Join(values, ",")}
			}
		default:
			v, ok := scalar(n, kind)
			if !ok {
				return mistake(line, at, cmp.Or(wanted[kind], errNoText))
			}
			values = []string{v}
		}
		for _, v := range values {
			if err := set(v, line); err != nil {
				return mistake(line, at, err)
			}
		}
		return nil
	}
}

// wanted says what a value of a kind looks like.
var wanted = map[string]error{
	"bool":     errors.New("want true or false"),
	"size":     errors.New("want a size such as 8GiB"),
	"number":   errors.New("want a number"),
	"rate":     errors.New("want a number"),
	"duration": errors.New("want a time with its unit, such as 90s or 72h"),
}

// scalar returns the text of a value of a kind; false if it is of another.
func scalar(n ast.Node, kind string) (string, bool) {
	switch n.(type) {
	case *ast.BoolNode:
		return n.GetToken().Value, kind == "bool"
	case *ast.IntegerNode:
		return n.GetToken().Value, kind == "size" || kind == "number" || kind == "rate"
	case *ast.FloatNode:
		return n.GetToken().Value, kind == "number" || kind == "rate"
	}
	v, err := text(n)
	return v, err == nil && kind != "bool" && kind != "number" && kind != "rate"
}
