package hostfile

import (
	"errors"
	"fmt"
)

// kind is that of a value.
type kind uint8

const (
	odd kind = iota // something of YAML that has no meaning here, such as an alias
	null
	boolean
	number
	text
	list
	mapping
)

// node is a value of a file, whatever the file is written in.
type node struct {
	kind    kind
	line    int    // from 1
	text    string // of a text, a number or a truth value, as the file has it
	items   []*node
	entries []entry
}

// entry is a key with its value.
type entry struct {
	name  string
	line  int
	value *node
	odd   bool // the key is no text
}

// mostLevels bounds how deep values may lie in each other.
const mostLevels = 32

var errTooDeep = fmt.Errorf("more than %d levels", mostLevels)

var (
	errNoText    = errors.New("want a text")
	errNoTexts   = errors.New("want a list of texts")
	errNoMapping = errors.New("want a mapping of keys to values")
	errNoBool    = errors.New("want true or false")
	errNotQuoted = errors.New("want a text: put it in quotes")
)

// find returns the value of a key, or nil.
func (n *node) find(name string) *node {
	for _, e := range n.entries {
		if e.name == name && !e.odd {
			return e.value
		}
	}
	return nil
}

// findIn is find for a node that may not be there.
func (n *node) findIn(name string) *node {
	if n == nil {
		return nil
	}
	return n.find(name)
}

// keyPlace is the place of a key in the mapping at a place.
func keyPlace(at, name string) string {
	if at == "" {
		return name
	}
	return at + "." + name
}

func itemPlace(at string, i int) string { return fmt.Sprintf("%s[%d]", at, i) }
