//go:build full

package cost

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/troupe-run/troupe/codec"
)

// node is a JSON value that can be changed in ways that a decoder would not keep: names occur twice, and scalars are
// written in any form.
type node struct {
	open byte     // '{', '[', or 0 for a scalar
	raw  string   // of a scalar
	keys []string // of an object, as they are written, without the quotes
	kids []*node
}

// parse reads valid JSON.
func parse(raw []byte) *node {
	raw = bytes.TrimSpace(raw)
	n := &node{}
	switch raw[0] {
	case '{':
		n.open = '{'
		for key, value := range codec.Members(raw) {
			n.keys, n.kids = append(n.keys, string(key)), append(n.kids, parse(value))
		}
	case '[':
		n.open = '['
		for value := range codec.Elements(raw) {
			n.kids = append(n.kids, parse(value))
		}
	default:
		n.raw = string(raw)
	}
	return n
}

// write appends the JSON of n.
func (n *node) write(dst []byte) []byte {
	if n.open == 0 {
		return append(dst, n.raw...)
	}
	dst = append(dst, n.open)
	for i, kid := range n.kids {
		if i > 0 {
			dst = append(dst, ',')
		}
		if n.open == '{' {
			dst = append(append(append(dst, '"'), n.keys[i]...), '"', ':')
		}
		dst = kid.write(dst)
	}
	return append(dst, n.open+2) // ']' and '}' follow their openings after two
}

func (n *node) clone() *node {
	c := &node{open: n.open, raw: n.raw, keys: slices.Clone(n.keys), kids: make([]*node, len(n.kids))}
	for i, kid := range n.kids {
		c.kids[i] = kid.clone()
	}
	return c
}

// all appends n and the nodes below it.
func (n *node) all(to []*node) []*node {
	to = append(to, n)
	for _, kid := range n.kids {
		to = kid.all(to)
	}
	return to
}

// words are values that were dear somewhere: short ones that make much, and long ones of characters with escapes.
var words = []string{
	"{}", "[]", "[[]]", "[{}]", `{"a":1}`, `{"a":{}}`, "0", "1e2", "3.0", "-0.0", "1e308", "1e999", "0.1e1", "12345678901234567890",
	strings.Repeat("9", 900), `""`, `"a"`, `"\u0061"`, `"\n"`, `"\ud83d\ude00"`, `"` + strings.Repeat("a", 500) + `!"`,
	`"` + strings.Repeat(`\u0000`, 100) + `"`, `"` + strings.Repeat(`\"`, 200) + `"`, `"` + strings.Repeat("ü", 200) + `"`, "null", "true",
	`{"kids":[{"kids":[]}]}`, `{"kind":"a"}`, `{"x1":1,"x2":2}`, `["a","b"]`, `[1,1.0,1e0]`,
}

// names are those of members that mean something to the tools, or to the protocol.
var names = []string{
	"a", "b", "items", "kids", "kind", "map", "x1", "x2", "y", "text", "any", "note", "name", "title", "version", "experimental", "extensions",
	"sampling", "elicitation", "_meta", "content", "action", "arguments", "context", `\u0061`, `\u006bids`, "", "0", "z\\n",
}

// mutate changes n, which stays valid JSON, below its top.
func mutate(rnd *rand.Rand, n *node, most int) {
	nodes := n.all(nil)
	if len(nodes) < 2 {
		return
	}
	x := nodes[1+rnd.IntN(len(nodes)-1)]
	word := func() *node { return parse([]byte(words[rnd.IntN(len(words))])) }
	switch op := rnd.IntN(10); {
	case op == 0:
		*x = *word()
	case op == 1: // a copy of another part
		*x = *nodes[rnd.IntN(len(nodes))].clone()
	case op == 2: // deeper
		for range 1 << rnd.IntN(7) {
			inner := *x
			*x = node{open: '[', kids: []*node{&inner}}
			if rnd.IntN(2) == 0 {
				x.open, x.keys = '{', []string{names[rnd.IntN(len(names))]}
			}
		}
	case op == 3 && x.open == '{' && len(x.keys) > 0:
		x.keys[rnd.IntN(len(x.keys))] = names[rnd.IntN(len(names))]
	case op == 4 && len(x.kids) > 0: // less
		i := rnd.IntN(len(x.kids))
		x.kids = slices.Delete(x.kids, i, i+1)
		if x.open == '{' {
			x.keys = slices.Delete(x.keys, i, i+1)
		}
	case op == 5 && x.open == 0 && len(x.raw) > 2 && x.raw[0] == '"': // a longer string
		unit := []string{"a", `\n`, `\u00e9`, "é", "%41", "a/", "a,", `\u0000`, "\\\\"}[rnd.IntN(9)]
		x.raw = x.raw[:len(x.raw)-1] + strings.Repeat(unit, 1<<rnd.IntN(12)) + `"`
	case x.open != 0: // more members, in the end as many as fit
		room := most - len(n.write(nil))
		one := word()
		if len(x.kids) > 0 && rnd.IntN(3) > 0 {
			one = x.kids[rnd.IntN(len(x.kids))].clone()
		}
		key := names[rnd.IntN(len(names))]
		different := rnd.IntN(2) == 0
		times := 1 << rnd.IntN(14)
		for i := range times {
			k := key
			if different {
				k += base36(i)
			}
			if room -= len(one.write(nil)) + 1 + len(k) + 3; room < 0 {
				return
			}
			if x.open == '{' {
				x.keys = append(x.keys, k)
			}
			x.kids = append(x.kids, one.clone())
		}
	default:
		*x = *word()
	}
}

func base36(i int) string {
	const digits = "0123456789abcdefghijklmnopqrstuvwxyz"
	if i < 36 {
		return digits[i : i+1]
	}
	return base36(i/36) + digits[i%36:i%36+1]
}
