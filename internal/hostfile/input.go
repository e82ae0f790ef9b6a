package hostfile

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/troupe-run/troupe/internal/configfile"
)

// input is a value for which the client of a file asks its user. Here a variable of the environment has it.
type input struct {
	id           string
	defaultValue *string  // nil for none
	options      []string // nil for any text
}

// inputVariable is the name of the variable with the value of an input.
func inputVariable(id string) string {
	return "INPUT_" + strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, id)
}

// resolveInput returns the value of an input.
func (x *expander) resolveInput(id string) (string, error) {
	in, ok := x.inputs[id]
	if !ok {
		return "", fmt.Errorf("the input %q is not among the inputs of the file%s", id, configfile.Nearest(id, slices.Sorted(maps.Keys(x.inputs))))
	}
	name := inputVariable(id)
	value, ok := x.Lookup(name)
	switch {
	case !ok && in.defaultValue == nil:
		return "", unsetErrorf("the input %q has no value: set the variable %s", id, name)
	case !ok:
		value = *in.defaultValue
	}
	if in.options != nil && !slices.Contains(in.options, value) {
		return "", unsetErrorf("the value of the input %q is none of its options: set the variable %s to one of them", id, name)
	}
	return value, nil
}

// readInputs reads the list inputs of VS Code. What is wrong with one is a note: it is an error of the backends that use it.
func (f *File) readInputs(n *node) map[string]*input {
	inputs := make(map[string]*input)
	if n == nil {
		return inputs
	}
	if n.kind != list {
		f.note(n.line, "inputs", "want a list")
	}
	for i, v := range n.items {
		at := itemPlace("inputs", i)
		if v.kind != mapping {
			f.note(v.line, at, errNoMapping.Error())
			continue
		}
		in, err := readInput(v)
		if err != nil {
			f.note(v.line, at, err.Error())
			continue
		}
		if inputs[in.id] != nil {
			f.note(v.line, at, fmt.Sprintf("the input %q comes twice: the first one counts", in.id))
			continue
		}
		inputs[in.id] = in
	}
	return inputs
}

func readInput(n *node) (*input, error) {
	in := new(input)
	for _, e := range n.entries {
		switch v := e.value; {
		case e.name == "id" && v.kind == text:
			in.id = v.text
		case e.name == "default" && v.kind == text:
			in.defaultValue = &v.text
		case e.name == "options" && v.kind == list:
			in.options = []string{}
			for _, o := range v.items {
				if o.kind == mapping {
					if o = o.find("value"); o == nil {
						continue
					}
				}
				in.options = append(in.options, o.text)
			}
		}
	}
	if in.id == "" {
		return nil, errors.New("an input has no id")
	}
	return in, nil
}
