package codec

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestField(t *testing.T) {
	t.Parallel()
	const object = ` { "a" : 1 , "b":"x\"}" ,"c":{"a":2,"d":[1,"]",{"e":"}"}]}, "n":null,"f\u0069eld":-1.5e3 ,"":true,"\\u0061":"no", "dup":1,"dup":2,"long\\":"` + `a long string of more than thirty-two bytes \\` + `","last":[ ] } `
	for _, tt := range []struct{ name, want string }{
		{"a", "1"},
		{"b", `"x\"}"`},
		{"c", `{"a":2,"d":[1,"]",{"e":"}"}]}`},
		{"d", "-"},
		{"n", "null"},
		{"field", "-1.5e3"},
		{`f\u0069eld`, "-1.5e3"},
		{"", "true"},
		{"A", "-"},
		{`\u0061`, `"no"`},
		{"dup", "2"},
		{`long\`, `"a long string of more than thirty-two bytes \\"`},
		{"last", "[ ]"},
	} {
		if got := text(Field([]byte(object), tt.name)); got != tt.want {
			t.Errorf("Field(%q) = %s, want %s", tt.name, got, tt.want)
		}
		var both [2][]byte
		both[0] = []byte("left over")
		if Fields([]byte(object), []string{tt.name, "c"}, both[:]); text(both[0]) != tt.want || text(both[1]) != `{"a":2,"d":[1,"]",{"e":"}"}]}` {
			t.Errorf("Fields(%q, c) = %s, %s, want %s and c", tt.name, both[0], both[1], tt.want)
		}
		want := tt.want
		if want == "null" {
			want = "-"
		}
		if got := text(Optional([]byte(object), tt.name)); got != want {
			t.Errorf("Optional(%q) = %s, want %s", tt.name, got, want)
		}
	}
	const plain = `{"a":1,"of":{"b":2},"c":"b"}` // nothing in it is escaped
	for name, want := range map[string]string{"a": "1", "b": "-", "of": `{"b":2}`, "c": `"b"`, "d": "-"} {
		if got := text(Optional([]byte(plain), name)); got != want {
			t.Errorf("Optional(%q) = %s, want %s", name, got, want)
		}
	}
	for _, in := range []string{"", " ", "null", "1", `"a"`, `["a",1]`, "{}", "{ }"} {
		if got := Field([]byte(in), "a"); got != nil {
			t.Errorf("Field(%q) = %s, want nil", in, got)
		}
	}
	for n := range 70 { // the fast search of a key's end goes by words
		key := strings.Repeat("k", n)
		if got := text(Field([]byte(`{"`+key+`":1,"a":"`+key+`\\","b":2}`), "b")); got != "2" {
			t.Errorf("Field after a key of %d bytes = %s, want 2", n, got)
		}
	}
	long := strings.Repeat("k", 200)
	if got := text(Field([]byte(`{"`+strings.Repeat(`\u006b`, 200)+`":1}`), long)); got != "1" {
		t.Errorf("Field of a long escaped key = %s, want 1", got)
	}
}

func TestMembers(t *testing.T) {
	t.Parallel()
	var got []string
	for key, value := range Members([]byte(`{"a":1, "b\"":[1,2] ,"a":{"c":"d"}}`)) {
		got = append(got, string(key), string(value))
	}
	if diff := cmp.Diff([]string{"a", "1", `b\"`, "[1,2]", "a", `{"c":"d"}`}, got); diff != "" {
		t.Errorf("Members (-want +got):\n%s", diff)
	}
	for key := range Members([]byte(`{"a":1,"b":2}`)) {
		if string(key) != "a" {
			t.Errorf("Members went on to %s after a break", key)
		}
		break
	}
	for range Members([]byte(`[1]`)) {
		t.Error("an array has members")
	}
}

func TestElements(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		in   string
		want []string
	}{
		{`[]`, nil},
		{` [ ] `, nil},
		{`[1]`, []string{"1"}},
		{` [ {"a":[1,2]} , "x,]" ,null,-1.5 ] `, []string{`{"a":[1,2]}`, `"x,]"`, "null", "-1.5"}},
		{`{"a":1}`, nil},
		{`1`, nil},
		{``, nil},
	} {
		var got []string
		for raw := range Elements([]byte(tt.in)) {
			got = append(got, string(raw))
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("Elements(%s) = %q, want %q", tt.in, got, tt.want)
		}
	}
	for raw := range Elements([]byte(`[1,2]`)) {
		if string(raw) != "1" {
			t.Errorf("Elements went on to %s after a break", raw)
		}
		break
	}
}

// TestElementsCount checks that Scan's N is the number of elements that Elements yields, for messages of
// every kind of first byte.
func TestElementsCount(t *testing.T) {
	t.Parallel()
	in := []byte(` [{"jsonrpc":"2.0","id":1,"method":"a"} ,{} , 1,"s",null,{"a":[[],[]]}]`)
	var m Message
	if err := Scan(in, &m, Limits{}); err != nil {
		t.Fatal(err)
	}
	n := 0
	for range Elements(in) {
		n++
	}
	if n != m.N || n != 6 {
		t.Errorf("Elements yields %d, Scan counted %d, want 6", n, m.N)
	}
}

// TestWalkOfGarbage checks that the walkers end and stay inside their argument for any input.
func TestWalkOfGarbage(t *testing.T) {
	t.Parallel()
	for _, in := range []string{`{`, `{"`, `{"a`, `{"a"`, `{"a":`, `{"a":"`, `{"a":{`, `{a:1}`, `[`, `[,`, `[[`, `["`, `["\`, `{"a":}`, `{"a" 1`, `{]`, `[}`, `[}1`, `{"a":]}`, `{"":"\`} {
		Field([]byte(in), "a")
		for range Members([]byte(in)) {
		}
		for range Elements([]byte(in)) {
		}
		AppendCompact(nil, []byte(in))
	}
}
