package unknown

import (
	"encoding/json"
	"testing"
)

type record struct {
	A    int            `json:"a"`
	B    map[string]int `json:"b,omitempty"`
	None int            `json:"-"`
	Bare string
}

func TestMembers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ object, want string }{
		{`{}`, ``},
		{`{"a":1,"b":{"x":1},"Bare":"y"}`, ``},
		{`{"a":1,"c":[1,{"a":2}],"b":{"new":1},"d":"e\"}"}`, `"c":[1,{"a":2}],"d":"e\"}"`},
		{`{"None":1,"-":2}`, `"None":1,"-":2`},
		{`{ "z" : null }`, `"z":null`},
	} {
		got := Of[record]([]byte(c.object))
		if string(got) != c.want {
			t.Errorf("%s has %s, want %s", c.object, got, c.want)
		}
		for _, into := range []string{`{}`, `{"a":5}`} {
			out := got.Append([]byte(into))
			if !json.Valid(out) {
				t.Errorf("%s with %s is %s", into, got, out)
			}
			if again := Of[record](out); again != got {
				t.Errorf("%s has %s when it is read again, want %s", out, again, got)
			}
		}
	}
}
