package codec

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTree decodes what needs more than one of the pieces of memory that a tree uses again, twice, so that the second has what the first left. sonic,
// which decodes values inside of structs, must find the same.
func TestTree(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("z", 2*maxScratch)
	for name, data := range map[string]string{
		"keys":            `[{"a":1,"b":2,"\u0063":3,"` + long + `":4,"":5},{"a":6,"b":null}]`,
		"a key twice":     `{"a":7,"\u0061":8}`,
		"keys alike":      `{"abcd":1,"acbd":2,"abbd":3}`,
		"digits":          `[` + strings.Repeat(`-12345678901234567890.5e+3,`, 100) + `0,` + strings.Repeat("9", 200) + `]`,
		"nested":          `[[],[[1],[2,[3]]],{},{"a":[{"b":[4,5]},6]},7]`,
		"spaced":          " [ 1 , \t{ \"a\" :\n[ true , false , null ] }\r\n] ",
		"long text":       `"` + long + `\n"`,
		"many escapes":    `"` + strings.Repeat(`\u00e9\"\\\ud83d\ude00`, maxScratch) + `"`,
		"elements":        `[` + strings.Repeat(`"x",`, keptStack) + `{}]`,
		"short":           `true`,
		"nothing":         `null`,
		"an empty object": `{}`,
	} {
		var want struct{ V any }
		if err := UnmarshalValid([]byte(`{"V":`+data+`}`), &want); !Native && name == "a key twice" && errors.Is(err, ErrDuplicate) {
			continue
		} else if err != nil {
			t.Fatal(name, err)
		}
		for range 2 {
			var got any
			if err := UnmarshalValid([]byte(data), &got); err != nil {
				t.Errorf("%s: %v", name, err)
			} else if diff := cmp.Diff(got, want.V); diff != "" {
				t.Errorf("%s: got, want:\n%s", name, diff)
			}
		}
	}
}

// TestTree_invalid decodes what nobody has scanned. It may fail or not, but it must end without a panic.
func TestTree_invalid(t *testing.T) {
	t.Parallel()
	whole := `{"a":[1,"b\n",{"c":null}],"d":true,"e":-1.5e3}`
	for i := range whole {
		for _, data := range []string{whole[:i], whole[i:], whole[:i] + "\\" + whole[i:], whole[:i] + "\"" + whole[i:], whole[:i] + "," + whole[i:]} {
			var v any
			_ = UnmarshalValid([]byte(data), &v)
		}
	}
	var v any
	if err := UnmarshalValid([]byte(strings.Repeat("[", 1<<20)), &v); err == nil {
		t.Error("a million arrays were decoded")
	}
}

// TestTree_kept decodes into values that are not empty, as encoding/json does.
func TestTree_kept(t *testing.T) {
	t.Parallel()
	m := map[string]any{"a": "old", "b": "kept"}
	if err := UnmarshalValid([]byte(`{"a":1}`), &m); err != nil || m["b"] != "kept" || m["a"] != json.Number("1") {
		t.Errorf("a map with members became %v, %v", m, err)
	}
	m = nil
	if err := UnmarshalValid([]byte(`[1]`), &m); err == nil {
		t.Error("an array fits a map")
	}
	if err := UnmarshalValid([]byte(`null`), &m); err != nil || m != nil {
		t.Errorf("null made %v, %v of a map", m, err)
	}
	var n int
	var v any = &n
	if err := UnmarshalValid([]byte(`7`), &v); err != nil || n != 7 {
		t.Errorf("a number behind an interface is %d, %v", n, err)
	}
}

// TestUniqueTree checks which objects have a member twice, and that a tree in which none has is that of Unmarshal.
func TestUniqueTree(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]string{
		`{"a":1,"a":1}`:                      "a",
		`{"a":1,"\u0061":2}`:                 "a",
		`{"a\n":1,"b":{},"a\u000a":2}`:       "a\n",
		`[0,{"x":{"y":[{"é":1,"é":null}]}}]`: "é",
		`{"":1,"":2}`:                        "",
	} {
		_, err := UniqueTree([]byte(data))
		if twice, ok := errors.AsType[*RepeatedError](err); !ok || twice.Member != want {
			t.Errorf("%s: %v, want %q", data, err, want)
		}
		var v any // Unmarshal takes the last one
		if err := UnmarshalValid([]byte(data), &v); err != nil {
			t.Errorf("%s: %v", data, err)
		}
	}
	for _, data := range []string{`{}`, `null`, `{"a":{"a":1},"A":[{"a":1},{"a":1}],"aa":1}`} {
		var want any
		if err := UnmarshalValid([]byte(data), &want); err != nil {
			t.Fatal(err)
		}
		if got, err := UniqueTree([]byte(data)); err != nil || !cmp.Equal(got, want) {
			t.Errorf("%s: got %v, %v, want %v", data, got, err, want)
		}
	}
	if _, err := UniqueTree([]byte(`{"a":`)); err != ErrSyntax {
		t.Errorf("half an object: %v", err)
	}
	long := `"` + strings.Repeat("n", 1<<20) + `":0`
	if _, err := UniqueTree([]byte("{" + long + "," + long + "}")); err == nil || len(err.Error()) > 200 {
		t.Errorf("a long name: %.300v", err)
	}
}
