package codecs

import "strings"

// A fault is a message that no dispatcher should act on.
type fault struct {
	name, body string
}

// within returns a call with the arguments, whatever they are.
func within(args string) string {
	return `{"jsonrpc":"2.0","id":12,"method":"tools/call","params":{"name":"store","arguments":` + args + `}}`
}

var faults = []fault{
	{"the message ends early", strings.TrimSuffix(within(`{"text":"a"}`), "}")},
	{"bytes after the message", within(`{"text":"a"}`) + "x"},
	{"a comma too many in the arguments", within(`{"text":"a",}`)},
	{"a comma missing", within(`{"text":"a" "b":1}`)},
	{"a colon missing", within(`{"text" "a"}`)},
	{"an array that ends as an object", within(`{"text":"a","b":[1}}`)},
	{"a literal cut short", within(`{"text":"a","b":nul}`)},
	{"a number with a leading zero", within(`{"text":"a","b":01}`)},
	{"a number without its fraction", within(`{"text":"a","b":1.}`)},
	{"an unknown escape", within(`{"text":"\x"}`)},
	{"an escape that is half a pair", within(`{"text":"\ud800"}`)},
	{"a line break in a string", within("{\"text\":\"a\nb\"}")},
	{"a NUL in a string", within("{\"text\":\"a\x00b\"}")},
	{"bytes that are not UTF-8", within("{\"text\":\"a\xff\"}")},
	{"the method twice", `{"jsonrpc":"2.0","id":12,"method":"ping","method":"tools/call","params":{"name":"store","arguments":{}}}`},
	{"a second METHOD that counts", `{"jsonrpc":"2.0","id":12,"method":"ping","METHOD":"tools/call","params":{"name":"store","arguments":{}}}`},
}

// An encounter says what comes of a fault.
type encounter string

const (
	refused encounter = "refused" // before the method is known
	late    encounter = "late"    // only where the arguments are read
	passed  encounter = "passed"  // it reaches the tool
)

// meets tells what a contestant does with a fault. The arguments are decoded into a map, as a tool without types does.
func (c contestant) meets(f fault) encounter {
	p, err := c.envelope([]byte(f.body))
	if err != nil || string(p.method) == "ping" { // the second member did not count
		return refused
	}
	_, _, args, err := c.call([]byte(f.body))
	if err == nil {
		var v map[string]any
		err = c.decode(args, &v)
	}
	if err != nil {
		return late
	}
	return passed
}
