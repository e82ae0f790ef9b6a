package codec

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

type (
	pointerMarshaler struct{ n int }
	valueMarshaler   string
	textMarshaler    string
	keyMarshaler     struct{ n int }
	embedded         struct {
		Inner string `json:"inner"`
	}
	shape interface{ Area() int }
	rect  struct {
		W int `json:"w"`
	}
	keeper struct{ text string }
	keyed  string
	own    string
)

func (p *pointerMarshaler) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(nil, "{ \"n\" :\n%d }", p.n), nil
}
func (v valueMarshaler) MarshalJSON() ([]byte, error) { return []byte(v), nil }
func (v textMarshaler) MarshalText() ([]byte, error)  { return []byte("<" + v + ">\n"), nil }
func (k keyMarshaler) MarshalText() ([]byte, error)   { return fmt.Appendf(nil, "key-%d", k.n), nil }
func (r rect) Area() int                              { return r.W }
func (k *keeper) UnmarshalJSON(b []byte) error        { k.text = string(b); return nil }
func (k *keyed) UnmarshalText(b []byte) error         { *k = keyed(b); return nil }

func TestMarshal(t *testing.T) {
	t.Parallel()
	five := 5
	for _, tt := range []struct {
		name string
		in   any
		want string
	}{
		{"nil", nil, `null`},
		{"struct", struct {
			embedded
			A int    `json:"a"`
			B string `json:"b,omitempty"`
			C *int   `json:"c"`
			D *int   `json:"d,omitempty"`
			E int    `json:"-"`
			F int64  `json:"f,string"`
			G int    `json:"g,omitzero"`
		}{A: 1, D: &five, F: 7}, `{"inner":"","a":1,"c":null,"d":5,"f":"7"}`},
		{"interface members", []any{nil, 1, "a", true, 1.5, []int{1}, map[string]any{"b": 1, "a": []any{}}, rect{2}, &rect{3}}, `[null,1,"a",true,1.5,[1],{"a":[],"b":1},{"w":2},{"w":3}]`},
		{"non-empty interface", []shape{rect{1}, &rect{2}, nil}, `[{"w":1},{"w":2},null]`},
		{"marshaler by value", struct{ V valueMarshaler }{"[1, 2]"}, `{"V":[1,2]}`},
		{"marshaler by pointer", &struct {
			P pointerMarshaler
			Q *pointerMarshaler
			N *pointerMarshaler
		}{P: pointerMarshaler{1}, Q: &pointerMarshaler{2}}, `{"P":{"n":1},"Q":{"n":2},"N":null}`},
		{"marshaler in an interface", []any{&pointerMarshaler{3}, valueMarshaler(" {} ")}, `[{"n":3},{}]`},
		{"text marshalers", map[keyMarshaler]textMarshaler{{1}: "a"}, `{"key-1":"<a>\n"}`},
		{"sorted map", map[string]int{"b": 2, "a": 1, "c": 3}, `{"a":1,"b":2,"c":3}`},
		{"integer keys", map[int]string{2: "b", 1: "a"}, `{"1":"a","2":"b"}`},
		{"bytes", []byte("hello"), `"aGVsbG8="`},
		{"no bytes", []byte{}, `""`},
		{"64 bits", []any{int64(math.MinInt64), uint64(math.MaxUint64)}, `[-9223372036854775808,18446744073709551615]`},
		{"number", json.Number("12345678901234567890.50"), `12345678901234567890.50`},
		{"time", time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), `"2026-01-02T03:04:05Z"`},
		{"raw", json.RawMessage(`{"a":1}`), `{"a":1}`},
		{"nil raw", struct {
			R json.RawMessage `json:"r"`
			O json.RawMessage `json:"o,omitempty"`
		}{}, `{"r":null}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := Marshal(tt.in)
			if err != nil || string(got) != tt.want {
				t.Errorf("Marshal = %s, %v, want %s", got, err, tt.want)
			}
			got, err = AppendMarshal([]byte("\xff "), tt.in)
			if err != nil || string(got) != "\xff "+tt.want {
				t.Errorf("AppendMarshal = %q, %v, want %q", got, err, "\xff "+tt.want)
			}
		})
	}
}

func TestMarshalErrors(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	for _, tt := range []struct {
		name string
		in   any
	}{
		{"channel", make(chan int)},
		{"function", func() {}},
		{"NaN", math.NaN()},
		{"infinity", []any{math.Inf(1)}},
		{"failing marshaler", failing{boom}},
		{"raw not JSON", json.RawMessage(`nul`)},
		{"raw empty", json.RawMessage{}},
		{"raw of two values", []json.RawMessage{json.RawMessage(`1,2`)}},
		{"raw that closes its parent", []json.RawMessage{json.RawMessage(`1],[2`)}},
		{"raw member injection", struct{ R json.RawMessage }{json.RawMessage(`1,"isError":true`)}},
		{"raw with an open string", struct{ R, S json.RawMessage }{json.RawMessage(`"a`), json.RawMessage(`b"`)}},
		{"raw with a control character", json.RawMessage("\"a\nb\"")},
		{"raw with a bad escape", json.RawMessage(`"\x"`)},
		{"raw with half a surrogate pair", json.RawMessage(`"\ud800"`)},
		{"raw with a leading zero", map[string]any{"a": json.RawMessage(`01`)}},
		{"marshaler returning rubbish", valueMarshaler(`{"a"}`)},
		{"raw too deep", json.RawMessage(strings.Repeat("[", 2000) + strings.Repeat("]", 2000))},
		{"number not a number", json.Number("1x")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got, err := Marshal(tt.in); err == nil {
				t.Errorf("Marshal = %s, want an error", got)
			}
			dst := make([]byte, 3, 64)
			copy(dst, "abc")
			if got, err := AppendMarshal(dst, tt.in); err == nil || string(got) != "abc" {
				t.Errorf("AppendMarshal = %q, %v, want dst and an error", got, err)
			}
		})
	}
	if _, err := Marshal(failing{boom}); !errors.Is(err, boom) {
		t.Errorf("Marshal = %v, want it to wrap the marshaler's error", err)
	}
	func() {
		defer func() {
			if got := recover(); got != any(boom) {
				t.Errorf("recovered %v from a marshaler's panic, want %v", got, boom)
			}
		}()
		_, _ = Marshal([]any{panicking{boom}})
	}()
	if got, err := Marshal([]any{1}); err != nil || string(got) != "[1]" {
		t.Errorf("Marshal after a panic = %s, %v", got, err)
	}
}

type failing struct{ err error }

func (f failing) MarshalJSON() ([]byte, error) { return nil, f.err }

type panicking struct{ err error }

func (p panicking) MarshalJSON() ([]byte, error) { panic(p.err) }

// texts holds strings in every place a decoder can put one.
type texts struct {
	S   string
	R   json.RawMessage
	RP  *json.RawMessage
	M   map[string]string
	MR  map[string]json.RawMessage
	MK  map[keyed]string
	SS  []string
	P   *string
	B   []byte
	K   keeper
	E   embedded
	Str string `json:",string"`
	Arr [2]string
	Esc string
	Own own
	MO  map[own]own
}

// everything holds numbers and interfaces as well.
type everything struct {
	texts
	N    json.Number
	NQ   json.Number
	NP   *json.Number
	NS   []json.Number
	NM   map[string]json.Number
	NStr json.Number `json:",string"`
	A    any
	AS   []any
	MA   map[string]any
	Nest *everything
}

const everythingJSON = `{"S":"string string","N":12345678901234567890.10,"NQ":"1234567.125","NP":987654321.5,"NS":[111.5,222.5],"NM":{"nm nm":333.25},
"R":{"raw":"raw raw"},"RP":[1,"raw"],"A":{"key key":["str str",12345678901234567890,{"d":1.50}]},"AS":["as as",444.125,null],"M":{"mk mk":"mv mv"},
"MA":{"ma ma":555.5},"MR":{"mr mr":[1, 2]},"MK":{"mk mk":"v v"},"SS":["one one","tw\u006f\ntwo"],"P":"pointer","B":"aGVsbG8=","K":{"keep":1},
"E":{"inner":"inner inner"},"Str":"\"quoted quoted\"","Arr":["a a","b b"],"Esc":"esc\u0061ped \ud83d\ude00","Own":"own own","MO":{"mo mo":"mo mo"},"NStr":"123456.5","Nest":{"A":666.75,"N":777.5}}`

func TestTrap1RawMessageIsCompacted(t *testing.T) {
	t.Parallel()
	pretty := "{\n  \"a b\": [\n    1,\r\n    2\t],\n  \"c\": \"x  y\\n\"\n}\n"
	for _, v := range []any{
		json.RawMessage(pretty),
		struct{ R json.RawMessage }{json.RawMessage(pretty)},
		&struct{ R *json.RawMessage }{(*json.RawMessage)(&[]byte{' ', '1', '\n'})},
		map[string]any{"r": []any{json.RawMessage(pretty)}},
		[]valueMarshaler{valueMarshaler(pretty)},
	} {
		got, err := Marshal(v)
		if err != nil || strings.ContainsAny(string(got), "\n\r\t") || string(AppendCompact(nil, got)) != string(got) {
			t.Errorf("Marshal(%T) = %q, %v, want compact JSON", v, got, err)
		}
	}
	if got, _ := Marshal(json.RawMessage(pretty)); string(got) != `{"a b":[1,2],"c":"x  y\n"}` {
		t.Errorf("Marshal = %s", got)
	}
}

func TestTrap2NumbersKeepTheirDigits(t *testing.T) {
	t.Parallel()
	const in = `[12345678901234567890,9007199254740993,-0,1.50,1e400,0.1000]`
	var v any
	if err := Unmarshal([]byte(in), &v); err != nil {
		t.Fatal(err)
	}
	if _, ok := v.([]any)[0].(json.Number); !ok {
		t.Errorf("a number in any is a %T, want json.Number", v.([]any)[0])
	}
	if got, err := Marshal(v); err != nil || string(got) != in {
		t.Errorf("Marshal after Unmarshal = %s, %v, want %s", got, err, in)
	}
}

func TestTrap3ZeroIsNotAbsent(t *testing.T) {
	t.Parallel()
	type progress struct {
		Token    json.RawMessage `json:"progressToken,omitempty"`
		Progress float64         `json:"progress"`
		Total    *float64        `json:"total,omitempty"`
		IsError  *bool           `json:"isError,omitempty"`
	}
	for _, in := range []string{`{"progressToken":0,"progress":0,"total":0,"isError":false}`, `{"progressToken":"","progress":0}`} {
		var v progress
		if err := Unmarshal([]byte(in), &v); err != nil {
			t.Fatal(err)
		}
		if got, err := Marshal(v); err != nil || string(got) != in {
			t.Errorf("Marshal after Unmarshal = %s, %v, want %s", got, err, in)
		}
	}
}

func TestTrap4NilSlicesAreEmptyArrays(t *testing.T) {
	t.Parallel()
	type list struct {
		Tools  []string         `json:"tools"`
		Nested [][]int          `json:"nested"`
		Maps   map[string][]any `json:"maps"`
		TTL    *int             `json:"ttl"`
		Left   []string         `json:"left,omitempty"`
		Any    any              `json:"any"`
	}
	for _, tt := range []struct {
		in   any
		want string
	}{
		{list{}, `{"tools":[],"nested":[],"maps":{},"ttl":null,"any":null}`},
		{&list{Nested: [][]int{nil}, Maps: map[string][]any{"a": nil}, Any: []int(nil)}, `{"tools":[],"nested":[[]],"maps":{"a":[]},"ttl":null,"any":[]}`},
		{[]string(nil), `[]`},
		{[]byte(nil), `""`},
		{any([]any{[]byte(nil)}), nilBytesInAny("[%s]")},
	} {
		if got, err := Marshal(tt.in); err != nil || string(got) != tt.want {
			t.Errorf("Marshal(%#v) = %s, %v, want %s", tt.in, got, err, tt.want)
		}
	}
}

// nilBytesInAny is the JSON in which %s stands for a nil []byte in an interface. Marshal documents the difference: there
// it looks to sonic like other nil slices.
func nilBytesInAny(format string) string {
	if Native {
		return fmt.Sprintf(format, "[]")
	}
	return fmt.Sprintf(format, `""`)
}

func TestTrap5EmptyResultIsAnObject(t *testing.T) {
	t.Parallel()
	for _, v := range []any{struct{}{}, &struct{}{}, map[string]any{}, map[string]any(nil)} {
		if got, err := Marshal(v); err != nil || string(got) != `{}` {
			t.Errorf("Marshal(%#v) = %s, %v, want {}", v, got, err)
		}
	}
	if got := string(AppendResult(nil, []byte("1"), nil)); got != `{"jsonrpc":"2.0","id":1,"result":{}}` {
		t.Errorf("AppendResult = %s", got)
	}
}

func TestTrap6SchemasPassThrough(t *testing.T) {
	t.Parallel()
	const in = `{"$schema":"https://json-schema.org/draft/2020-12/schema","id":"urn:jsonschema:x","properties":{"z":{"minimum":1.0},"a":{"pattern":"<&>\u0041"}},"z":1,"a":2}`
	type tool struct {
		InputSchema json.RawMessage `json:"inputSchema"`
	}
	var v tool
	if err := Unmarshal([]byte(`{"inputSchema":`+in+`}`), &v); err != nil {
		t.Fatal(err)
	}
	if got, err := Marshal(v); err != nil || string(got) != `{"inputSchema":`+in+`}` {
		t.Errorf("Marshal after Unmarshal = %s, %v, want %s", got, err, in)
	}
}

func TestTrap7UnknownMembersAreTolerated(t *testing.T) {
	t.Parallel()
	v := struct {
		A int `json:"a"`
	}{}
	if err := Unmarshal([]byte(`{"x":{"a":[1,"\u0061"]},"a":1,"y":null}`), &v); err != nil || v.A != 1 {
		t.Errorf("Unmarshal = %v with %+v", err, v)
	}
}

func TestTrap8UTF8(t *testing.T) {
	t.Parallel()
	const chinese = "工具输出：游标\u2028<b>&</b>😀"
	got, err := Marshal(map[string]string{"text": chinese})
	if want := `{"text":"` + chinese + `"}`; err != nil || string(got) != want {
		t.Errorf("Marshal = %s, %v, want %s", got, err, want)
	}
	for _, v := range []any{"a\xffb", map[string]any{"a\xffb": "\xe4\xbd"}, []any{"\xff", json.RawMessage("\"\xff\"")}, struct{ S string }{"\xff\xfe"}} {
		got, err := Marshal(v)
		if err != nil || !Valid(got) || !strings.Contains(string(got), "\ufffd") {
			t.Errorf("Marshal(%q) = %q, %v, want valid JSON with U+FFFD", v, got, err)
		}
	}
	for _, in := range []string{"\"\xff\"", "{\"\xff\":1}", "\"a\x00b\"", "\"\n\"", `"\ud800"`, `{"unknown":"\udc00"}`} {
		var v any
		if err := Unmarshal([]byte(in), &v); !errors.Is(err, ErrSyntax) {
			t.Errorf("Unmarshal(%q) = %v, want %v", in, err, ErrSyntax)
		}
	}
}

func TestTrap8NothingAliasesTheInput(t *testing.T) {
	t.Parallel()
	decode := func(in []byte, v any) string {
		if err := UnmarshalValid(in, v); err != nil {
			t.Fatal(err)
		}
		before := fmt.Sprint(dump(reflect.ValueOf(v)))
		for i := range in {
			in[i] = '?'
		}
		after := fmt.Sprint(dump(reflect.ValueOf(v)))
		if strings.Contains(before, "?") || len(before) < 10 {
			t.Fatalf("bad dump: %s", before)
		}
		if before != after {
			t.Errorf("%T changed with its input:\n%s\n%s", v, before, after)
		}
		return before
	}
	got := decode([]byte(everythingJSON), new(everything))
	for _, want := range []string{"12345678901234567890.10", "string string", "raw raw", "666.75", "555.5", "two", "1234567.125"} {
		if !strings.Contains(got, want) {
			t.Errorf("the dump lacks %q: %s", want, got)
		}
	}
	decode([]byte(everythingJSON), new(texts))
	decode([]byte(everythingJSON), new(any))
	decode([]byte(everythingJSON), new(map[string]any))
	decode([]byte(everythingJSON), new(map[string]json.RawMessage))
	decode([]byte(`[1234567890.5,"abcdefgh"]`), new([]any))
	decode([]byte(`1234567890.5`), new(json.Number))
	decode([]byte(`"1234567890.5"`), new(json.Number))
	decode([]byte(`{"1234567890":"abcdefgh"}`), new(map[json.Number]string))
	decode([]byte(`{"abcdefgh":"abcdefgh"}`), new(map[own]own))
	decode([]byte(`["abcdefgh","ijklmnop"]`), new([2]own))
	decode([]byte(`{"abcdefgh":{"ijklmnop":"qrstuvwx"}}`), new(map[string]any))
	inner := new(everything)
	decode([]byte(everythingJSON), &[]any{inner}[0])
	var held any = new(everything)
	decode([]byte(everythingJSON), &held)
	decode([]byte(everythingJSON), held)
}

// dump renders a value with everything it points to.
func dump(v reflect.Value) any {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return nil
		}
		return dump(v.Elem())
	case reflect.Struct:
		var out []any
		for i := range v.NumField() {
			out = append(out, dump(v.Field(i)))
		}
		return out
	case reflect.Slice, reflect.Array:
		if v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8 {
			return string(v.Bytes())
		}
		var out []any
		for i := range v.Len() {
			out = append(out, dump(v.Index(i)))
		}
		return out
	case reflect.Map:
		out := map[string]any{}
		for iter := v.MapRange(); iter.Next(); {
			out[iter.Key().String()] = dump(iter.Value())
		}
		return out
	}
	return fmt.Sprint(v)
}

func TestTrap8ErrorsDoNotQuoteTheInput(t *testing.T) {
	t.Parallel()
	v := struct {
		A int   `json:"a"`
		B uint8 `json:"b"`
		C bool  `json:"c"`
	}{}
	err := Unmarshal([]byte(`{"secret":"hunter2","a":"hunter2"}`), &v)
	var wrong *DecodeError
	if !errors.As(err, &wrong) {
		t.Fatalf("Unmarshal = %v, want a DecodeError", err)
	}
	got := err.Error()
	if portable {
		got = strings.Replace(got, "value at offset 25", "string at offset 24", 1)
	}
	if diff := cmp.Diff("codec: string at offset 24 does not fit int64", got); diff != "" {
		t.Errorf("Error() (-want +got):\n%s", diff)
	}
	for _, in := range []string{`{"b":256}`, `{"b":-1}`, `{"a":1.5}`, `{"a":9223372036854775808}`, `{"a":[1]}`, `{"a":{}}`, `{"a":true}`, `{"c":{}}`, `[]`, `"x"`, `1`} {
		err := Unmarshal([]byte(in), &v)
		if !errors.As(err, &wrong) || strings.ContainsAny(err.Error(), "\n\"") {
			t.Errorf("Unmarshal(%s) = %v, want a DecodeError on one line", in, err)
		}
	}
	boom := errors.New("boom")
	if err := Unmarshal([]byte(`{}`), &refuser{boom}); !errors.Is(err, boom) {
		t.Errorf("Unmarshal = %v, want the error of UnmarshalJSON", err)
	}
	for _, v := range []any{nil, v, (*int)(nil)} {
		if err := Unmarshal([]byte(`{"a":1}`), v); err == nil {
			t.Errorf("Unmarshal into %T succeeded", v)
		}
	}
}

type refuser struct{ err error }

func (r *refuser) UnmarshalJSON([]byte) error { return r.err }

func TestTrap8KeysAreCaseSensitive(t *testing.T) {
	t.Parallel()
	v := struct {
		Method string `json:"method"`
		ID     int    `json:"id"`
	}{}
	if err := Unmarshal([]byte(`{"Method":"a","METHOD":"b","ID":1,"Id":2,"m\u0065thod":"c"}`), &v); err != nil || v.Method != "c" || v.ID != 0 {
		t.Errorf("Unmarshal = %v with %+v, want method c and id 0", err, v)
	}
}

func TestTrap9AbsentEmptyAndNull(t *testing.T) {
	t.Parallel()
	type params struct {
		Arguments json.RawMessage `json:"arguments,omitempty"`
		Cursor    *string         `json:"cursor,omitempty"`
	}
	for _, tt := range []struct{ in, arguments string }{
		{`{}`, "-"}, {`{"arguments":{}}`, "{}"}, {`{"arguments":null}`, "null"},
	} {
		var v params
		if err := Unmarshal([]byte(tt.in), &v); err != nil || text(v.Arguments) != tt.arguments {
			t.Errorf("Unmarshal(%s) = %v with arguments %s, want %s", tt.in, err, text(v.Arguments), tt.arguments)
		}
		if got := text(Field([]byte(tt.in), "arguments")); got != tt.arguments {
			t.Errorf("Field(%s) = %s, want %s", tt.in, got, tt.arguments)
		}
	}
}

func TestTrap10DuplicatesDepthAndHugeNumbers(t *testing.T) {
	t.Parallel()
	const twice = `{"a":1,"b":0,"\u0061":2}`
	v := struct {
		A int `json:"a"`
	}{}
	var m map[string]any
	if err := Unmarshal([]byte(twice), &m); err != nil {
		t.Fatal(err)
	}
	if field := string(Field([]byte(twice), "a")); m["a"] != json.Number("2") || field != "2" {
		t.Errorf("map %v, Field %s: the last duplicate must count everywhere", m["a"], field)
	}
	if err := Unmarshal([]byte(twice), &v); Native && (err != nil || v.A != 2) || !Native && (!errors.Is(err, ErrDuplicate) || v.A != 0) {
		t.Errorf("struct %d, %v: to sonic the last duplicate must count, and json/v2 must refuse both", v.A, err)
	}
	var a any
	if err := Unmarshal([]byte(strings.Repeat("[", 1024)+strings.Repeat("]", 1024)), &a); err != nil {
		t.Errorf("Unmarshal 1024 deep = %v", err)
	}
	if err := Unmarshal([]byte(strings.Repeat("[", 1025)+strings.Repeat("]", 1025)), &a); !errors.Is(err, ErrSyntax) {
		t.Errorf("Unmarshal 1025 deep = %v, want %v", err, ErrSyntax)
	}
	var f float64
	if err := Unmarshal([]byte(`1e400`), &f); err == nil {
		t.Errorf("1e400 became the float64 %v", f)
	}
	digits := strings.Repeat("9", 10000)
	if err := Unmarshal([]byte(digits), &a); err != nil || a != json.Number(digits) {
		t.Errorf("Unmarshal of 10000 digits = %v", err)
	}
}

func TestPretouch(t *testing.T) {
	t.Parallel()
	type node struct {
		Name  string           `json:"name"`
		Nodes []*node          `json:"nodes"`
		By    map[string]*node `json:"by,omitempty"`
	}
	for _, typ := range []reflect.Type{nil, reflect.TypeFor[node](), reflect.TypeFor[*node](), reflect.TypeFor[any](), reflect.TypeFor[map[string]any](), reflect.TypeFor[int](), reflect.TypeFor[everything]()} {
		if err := Pretouch(typ); err != nil {
			t.Errorf("Pretouch(%v) = %v", typ, err)
		}
	}
	const in = `{"name":"a","nodes":[{"name":"b","nodes":[]}]}`
	var v node
	if err := Unmarshal([]byte(in), &v); err != nil {
		t.Fatal(err)
	}
	if got, err := Marshal(&v); err != nil || string(got) != in {
		t.Errorf("Marshal = %s, %v, want %s", got, err, in)
	}
}

func TestPlans(t *testing.T) {
	t.Parallel()
	type recursive struct {
		Next *recursive
		N    int
	}
	for _, tt := range []struct {
		typ  reflect.Type
		want plan
	}{
		{nil, 0},
		{reflect.TypeFor[string](), 0},
		{reflect.TypeFor[*recursive](), 0},
		{reflect.TypeFor[any](), holdsAny | holdsRaw},
		{reflect.TypeFor[struct{ a []map[string]*[2]any }](), holdsAny | holdsRaw},
		{reflect.TypeFor[json.RawMessage](), holdsRaw},
		{reflect.TypeFor[struct{ P pointerMarshaler }](), holdsRaw},
		{reflect.TypeFor[map[keyed]string](), 0},
		{reflect.TypeFor[map[json.Number]*int](), holdsNumber},
		{reflect.TypeFor[map[string][][]byteKind](), holdsBytes},
		{reflect.TypeFor[[]textByte](), 0},
		{reflect.TypeFor[*net.IP](), 0},
		{reflect.TypeFor[[4]byte](), 0},
		{reflect.TypeFor[[]byteText](), 0},
		{reflect.TypeFor[texts](), holdsRaw | holdsBytes},
		{reflect.TypeFor[struct{ M map[string][]*big.Int }](), holdsRaw | holdsBig},
		{reflect.TypeFor[everything](), holdsAny | holdsNumber | holdsRaw | holdsBytes},
	} {
		if got := planOf(tt.typ); got != tt.want {
			t.Errorf("planOf(%v) = %b, want %b", tt.typ, got, tt.want)
		}
	}
}
