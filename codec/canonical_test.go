package codec

import "testing"

func TestCanonical(t *testing.T) {
	for _, row := range []struct{ raw, want string }{
		{` {"b": 1, "a" : [ true , null, "\u00e9\/" ], "A":{}}`, `{"A":{},"a":[true,null,"é/"],"b":1}`},
		{`{"\u0061":1,"a":2}`, `{"a":1,"a":2}`},
		{`{"a":2,"\u0061":1}`, `{"a":2,"a":1}`},
		{`[]`, `[]`}, {` 1.50 `, `1.50`}, {`"x"`, `"x"`}, {`{}`, `{}`}, {`[[],{"z":[1]}]`, `[[],{"z":[1]}]`},
		{`{"n":1e2,"m":-0}`, `{"m":-0,"n":1e2}`},
	} {
		if got := string(AppendCanonical([]byte("x"), []byte(row.raw))); got != "x"+row.want {
			t.Errorf("%s: got %s, want x%s", row.raw, got, row.want)
		}
		if again := string(AppendCanonical(nil, []byte(row.want))); again != row.want {
			t.Errorf("%s: not stable: %s", row.want, again)
		}
	}
}
