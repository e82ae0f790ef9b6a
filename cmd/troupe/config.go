package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/spf13/cobra"

	"github.com/troupe-run/troupe/internal/configfile"
)

// readConfig sets the flags of cmd that the command line leaves out to what the
// YAML file says. The file is one mapping whose keys are names of flags, and auth, which is section; where that is nil there is none.
// An unknown or repeated key and a value of the wrong kind are errors that name the key and
// its line.
func readConfig(cmd *cobra.Command, file string, section *configfile.Auth) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("config: %w", err)
	}
	tree, err := parser.ParseBytes(data, 0)
	if err != nil {
		if at, ok := errors.AsType[yaml.Error](err); ok && at.GetToken() != nil {
			return fmt.Errorf("config %s:%d: %s", file, at.GetToken().Position.Line, at.GetMessage())
		}
		return fmt.Errorf("config %s: %w", file, err)
	}
	var entries []*ast.MappingValueNode
	for _, doc := range tree.Docs {
		switch body := doc.Body.(type) {
		case nil, *ast.CommentGroupNode:
		case *ast.MappingNode:
			entries = append(entries, body.Values...)
		case *ast.MappingValueNode:
			entries = append(entries, body)
		default:
			return fmt.Errorf("config %s:%d: want a mapping of settings to values", file, body.GetToken().Position.Line)
		}
	}
	seen := make(map[string]bool)
	for _, entry := range entries {
		line := entry.Key.GetToken().Position.Line
		err := setEntry(cmd, entry, seen, section)
		if at, ok := errors.AsType[*configfile.Error](err); ok {
			line = at.Line
		}
		if err != nil {
			return fmt.Errorf("config %s:%d: %w", file, line, err)
		}
	}
	return nil
}

func setEntry(cmd *cobra.Command, entry *ast.MappingValueNode, seen map[string]bool, section *configfile.Auth) error {
	name, err := configfile.Text(entry.Key)
	if err != nil {
		return errors.New("a key must be the name of a setting")
	}
	flag := cmd.Flags().Lookup(name)
	if name == "auth" && section != nil {
		if seen[name] {
			return errors.New("auth: set twice")
		}
		seen[name] = true
		*section, err = configfile.ReadAuth(entry.Value, entry.Key.GetToken().Position.Line, os.ReadFile)
		return err
	}
	if flag == nil || name == "config" || name == "help" {
		return fmt.Errorf("%s: there is no such setting", name)
	}
	if seen[name] {
		return fmt.Errorf("%s: set twice", name)
	}
	seen[name] = true
	values, err := valuesOf(entry.Value, flag.Value.Type())
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if cmd.Flags().Changed(name) {
		return nil
	}
	for _, v := range values {
		if err := flag.Value.Set(v); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// valuesOf returns the texts with which to set a flag of the kind, one after the other.
func valuesOf(n ast.Node, kind string) ([]string, error) {
	switch kind {
	case "revisions":
		list, err := valuesOf(n, "stringArray")
		return []string{strings.Join(list, ",")}, err
	case "stringArray":
		list, ok := n.(*ast.SequenceNode)
		if !ok {
			return nil, errors.New("want a list")
		}
		var values []string
		for _, item := range list.Values {
			v, err := configfile.Text(item)
			if err != nil {
				return nil, fmt.Errorf("want a list of texts: %w", err)
			}
			values = append(values, v)
		}
		return values, nil
	case "bool":
		b, ok := n.(*ast.BoolNode)
		if !ok {
			return nil, errors.New("want true or false")
		}
		return []string{fmt.Sprint(b.Value)}, nil
	case "size":
		if i, ok := n.(*ast.IntegerNode); ok {
			return []string{i.GetToken().Value}, nil
		}
		v, err := configfile.Text(n)
		if err != nil {
			return nil, errors.New("want a size such as 8GiB")
		}
		return []string{v}, nil
	case "number", "rate":
		switch n := n.(type) {
		case *ast.IntegerNode:
			return []string{n.GetToken().Value}, nil
		case *ast.FloatNode:
			return []string{n.GetToken().Value}, nil
		}
		return nil, errors.New("want a number")
	case "duration":
		v, err := configfile.Text(n)
		if err != nil {
			return nil, errors.New("want a time with its unit, such as 90s or 72h")
		}
		return []string{v}, nil
	}
	v, err := configfile.Text(n)
	return []string{v}, err
}
