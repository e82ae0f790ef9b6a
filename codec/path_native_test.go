//go:build (amd64 || arm64) && !go1.28 && !troupe_nosonic

//lint:file-ignore SA5008 the tags are wrong so that the tests see what encoding/json makes of them

package codec

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/troupe-run/troupe/internal/jsonv2"
)

// other is the path of builds without sonic, beside the one of this build.
var other = jsonv2.New(decodeTree)

// marshalOther is Marshal over the other path.
func marshalOther(v any) ([]byte, error) {
	out, err := other.Append(nil, v)
	if err != nil {
		return nil, err
	}
	return finishUTF8(out, 0, planOf(reflect.TypeOf(v))&holdsRaw != 0)
}

// odd has members for which JSON packages have different rules.
type odd struct {
	Zero     int            `json:"zero,omitempty"`
	Empty    struct{}       `json:"empty,omitempty"`
	EmptyMap map[string]int `json:"emptyMap,omitempty"`
	ZeroTime time.Time      `json:"zeroTime,omitzero"`
	Duration time.Duration  `json:"duration"`
	Bytes    [3]byte        `json:"bytes"`
	Quoted   int64          `json:"quoted,string"`
	Unsigned *uint64        `json:"unsigned,string"`
	Truth    bool           `json:"truth,string"`
	Text     string         `json:"text,string"`
	List     []int          `json:"list,string"`
	Dash     int            `json:"-,"`
	Big      *big.Int       `json:"big"`
	Addr     netip.Addr     `json:"addr"`
	Pointer  pointerMarshaler
	Keys     map[keyMarshaler]int
	Small    float32
	Silent   struct{ private int }
	shown    int //lint:ignore U1000 it is there to be left out
	embedded
}

// TestPathsEncodeAlike encodes values over both paths, so that a build without sonic writes what one with it does.
func TestPathsEncodeAlike(t *testing.T) {
	t.Parallel()
	if portable {
		t.Skip("sonic's portable paths have rare differences of their own, such as the sign of -0.0")
	}
	huge := uint64(math.MaxUint64)
	var filled everything
	if err := Unmarshal([]byte(everythingJSON), &filled); err != nil {
		t.Fatal(err)
	}
	for name, v := range map[string]any{
		"odd":               &odd{},
		"odd by value":      odd{},
		"odd and full":      &odd{Zero: 1, Duration: time.Second, Unsigned: &huge, Quoted: -7, Truth: true, Text: "a\"b", Big: new(big.Int).Lsh(big.NewInt(1), 100), Pointer: pointerMarshaler{3}, Keys: map[keyMarshaler]int{{2}: 1, {10}: 2}, Small: 0.1, ZeroTime: time.Unix(1e9, 5).UTC()},
		"everything":        &filled,
		"nothing":           &everything{Nest: new(everything)},
		"floats":            []float64{0, math.Copysign(0, -1), 1, 1e20, 1e21, 1.5e-6, 1e-7, math.MaxFloat64, math.SmallestNonzeroFloat64, 100, 123456789.125},
		"small floats":      []float32{0.1, 1e20, 1e21, 1e-6, 1e-7, math.MaxFloat32, 16777216},
		"integers":          []any{int8(-128), uint8(255), int64(math.MinInt64), huge},
		"characters":        "\x00\x01\b\f\n\r\t\x1f\"\\/<>&\x7f\u2028\u2029\u00e9\U0001F600",
		"bad UTF-8":         []any{"a\xffb", map[string]any{"a\xc3": "\xe4\xbd"}, json.RawMessage("\"\xff\"")},
		"keys":              map[string]int{"b": 1, "a": 2, "": 3, "\u00e9": 4, "\uffee": 5, "\U0001F600": 6, "a\n": 7},
		"integer keys":      map[int]string{10: "a", 9: "b", -1: "c"},
		"raw":               map[string]json.RawMessage{"a": json.RawMessage(" { \"x\" : [ 1.0 , \"\\u0061\\/\" ] } "), "nil": nil},
		"raw with two":      json.RawMessage(`{"a":1,"a":2}`),
		"numbers":           []json.Number{"1.50", "-0", "1e400", "12345678901234567890", ""},
		"keys of numbers":   map[json.Number]json.Number{"1.0": "2"},
		"text":              []any{textMarshaler("a"), map[keyMarshaler]int{{2}: 1}},
		"nil":               []any{nil, (*int)(nil), []int(nil), map[string]int(nil), (*pointerMarshaler)(nil), json.RawMessage(nil)},
		"methods":           []any{pointerMarshaler{1}, &pointerMarshaler{2}, []pointerMarshaler{{3}}, map[string]pointerMarshaler{"a": {4}}},
		"no exported field": struct{ private int }{1},
	} {
		want, err := Marshal(v)
		if err != nil {
			t.Errorf("%s: Marshal: %v", name, err)
			continue
		}
		got, err := marshalOther(v)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if diff := cmp.Diff(string(want), string(canonicalEscapes(got))); diff != "" {
			t.Errorf("%s (-sonic +json/v2):\n%s", name, diff)
		}
	}
	// What the comments of the package, of Marshal and of Native say of the differences:
	for _, tt := range []struct {
		v                 any
		byNative, byOther string
	}{
		{[]any{[]byte(nil)}, `[[]]`, `[""]`},
	} {
		byNative, err := Marshal(tt.v)
		byOther, otherErr := marshalOther(tt.v)
		if string(byNative) != tt.byNative || string(byOther) != tt.byOther {
			t.Errorf("%T: sonic gives %s, %v, json/v2 %s, %v", tt.v, byNative, err, byOther, otherErr)
		}
	}
	boom := errors.New("boom")
	for name, v := range map[string]any{
		"channel": make(chan int), "function": func() {}, "NaN": math.NaN(), "failing": failing{boom}, "no JSON": json.RawMessage(`{"a":}`), "two values": json.RawMessage("1 2"),
		"half of a pair": json.RawMessage(`"\ud800"`), "no number": json.Number("1x"), "nor a number": json.Number(`"1"`), "deep": json.RawMessage(strings.Repeat("[", 2000) + strings.Repeat("]", 2000)),
	} {
		_, wantErr := Marshal(v)
		if got, err := marshalOther(v); err == nil || wantErr == nil {
			t.Errorf("%s: json/v2 gives %s, %v, and sonic %v", name, got, err, wantErr)
		} else if errors.Is(wantErr, boom) != errors.Is(err, boom) {
			t.Errorf("%s: json/v2 gives %v, and sonic %v", name, err, wantErr)
		}
	}
}

// canonicalEscapes returns what json/v2 wrote with the two escapes that sonic writes in another form.
func canonicalEscapes(out []byte) []byte {
	return []byte(strings.NewReplacer(`\\`, `\\`, `\b`, `\u0008`, `\f`, `\u000c`).Replace(string(out)))
}

// TestPathsDecodeAlike decodes random and broken data over both paths.
func TestPathsDecodeAlike(t *testing.T) {
	t.Parallel()
	if portable {
		t.Skip("sonic's portable paths have rare differences of their own, such as the sign of -0.0")
	}
	for _, tt := range []struct {
		in string
		v  func() any
	}{
		{everythingJSON, func() any { return new(everything) }},
		{everythingJSON, func() any { return new(texts) }},
		{`{"METHOD":1,"Method":2,"method":3}`, func() any { return new(map[string]int) }},
		{`{"ID":1,"id":2,"Id":3}`, func() any { return new(typed) }},
		{`{"zero":1,"empty":{},"duration":5,"bytes":[1,2,3],"quoted":"-7","unsigned":"18446744073709551615","truth":"true","text":"\"a\"","-":3,"big":1267650600228229401496703205376,"addr":"::1","Small":0.1,"zeroTime":"2026-01-02T03:04:05Z"}`, func() any { return new(odd) }},
		{`{"bytes":[1],"duration":null,"big":null,"list":null,"Small":null}`, func() any { return &odd{Bytes: [3]byte{7, 8, 9}, Duration: 4, Small: 2} }},
		{`{"bytes":[1,2,3,4]}`, func() any { return new(odd) }},
		{`[1,"12.5",null]`, func() any { return &[]json.Number{"7", "8", "9"} }},
		{`["abc"]`, func() any { return new([]json.Number) }},
		{`[true]`, func() any { return new([]json.Number) }},
		{`{"NStr":5}`, func() any { return new(everything) }},
		{`{"1e2":1}`, func() any { return new(map[json.Number]int) }},
		{`{"x":1}`, func() any { return new(map[json.Number]int) }},
		{`{"a":[1,{"b":1e400}],"c":null}`, func() any { return new(map[string]any) }},
		{`{"name":"n","id":5}`, func() any { var held any = new(typed); return &held }},
		{`null`, func() any { var held any = new(typed); return &held }},
		{`[1,2]`, func() any { var held any = 7; return &held }},
		{`{"a":1}`, func() any { return new(shape) }},
		{`"x"`, func() any { return new(keyed) }},
		{`{"k":1}`, func() any { return new(map[keyed]int) }},
		{`"2026"`, func() any { return new(time.Time) }},
		{`"::x"`, func() any { return new(netip.Addr) }},
		{`"aGk="`, func() any { return new([]byte) }},
		{`[1,2]`, func() any { return new([]byte) }},
		{`{"b":256}`, func() any { return new(map[string]uint8) }},
		{`[-1]`, func() any { return new([]uint) }},
		{`[9223372036854775808]`, func() any { return new([]int) }},
		{`[1.5]`, func() any { return new([]int) }},
		{` [ "x" ] `, func() any { return new([]int) }},
		{`[ [1] ]`, func() any { return new([]int) }},
		{`[ {"a":[]} ]`, func() any { return new([]int) }},
		{`[true, null]`, func() any { return new([]string) }},
		{`1e400`, func() any { return new(float64) }},
		{`1e39`, func() any { return new(float32) }},
		{`{}`, func() any { return &refuser{errors.New("boom")} }},
		{`{"a":1}`, func() any { return new([]int) }},
		{`[]`, func() any { return new(typed) }},
		{`{"message":{}}`, func() any { return new(typed) }},
	} {
		err, wantErr := checkAlike(t, []byte(tt.in), tt.v)
		if err != nil && wantErr.Type != nil && describeType(err.Type) != describeType(wantErr.Type) {
			t.Errorf("%s: json/v2 says %v, sonic %v", tt.in, err, wantErr)
		}
	}
	rounds := 20000
	if testing.Short() || raceEnabled {
		rounds = 2000
	}
	for i := range rounds {
		r := randomJSON{Rand: rand.New(rand.NewPCG(11, uint64(i))), spaced: i%2 == 0}
		r.object(3, 1+r.IntN(3))
		checkAlike(t, r.out, func() any { return new(typed) })
		checkAlike(t, r.out, func() any { return new(struct{ Params, Result any }) })
		if t.Failed() {
			return
		}
	}
}

// checkAlike decodes data into a new v over both paths. They must fill it alike, or refuse it alike. Of several values
// that do not fit, each path names one.
func checkAlike(t *testing.T, data []byte, v func() any) (wrong, wantWrong *DecodeError) {
	t.Helper()
	want, got := v(), v()
	wantErr, err := decodeValue(data, want), other.Decode(bytes.Clone(data), got)
	if std, ok := wantErr.(*json.UnmarshalTypeError); ok { // as UnmarshalValid does
		wantErr = &DecodeError{Offset: -1, Type: std.Type}
	}
	if !jsontextUnique(data) && (errors.Is(err, jsonv2.ErrDuplicate) || err != nil && wantErr != nil) {
		return nil, nil
	}
	if wrong, ok := err.(*jsonv2.Mismatch); ok {
		err = &DecodeError{Offset: wrong.Offset, Value: kindAt(data, wrong.Offset), Type: wrong.Type}
		if kindAt(data, wrong.Offset) == "" {
			t.Errorf("%s into %T: no value starts where json/v2 says: %v", data, want, err)
		}
	}
	switch {
	case (err == nil) != (wantErr == nil):
		t.Errorf("%s into %T: json/v2 gives %v and %v, sonic %v and %v", data, want, got, err, want, wantErr)
	case err == nil && !reflect.DeepEqual(got, want):
		t.Errorf("%s into %T: json/v2 gives %+v, sonic %+v", data, want, got, want)
	case errors.As(err, &wrong) != errors.As(wantErr, &wantWrong):
		t.Errorf("%s into %T: json/v2 says %v, sonic %v", data, want, err, wantErr)
	}
	return wrong, wantWrong
}
