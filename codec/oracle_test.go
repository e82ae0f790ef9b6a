package codec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

// The oracle gives the same results as this package in the plainest way, over another parser.

var lenient = jsontext.AllowDuplicateNames(true)

func oracleValid(data []byte) bool { return jsontext.Value(data).IsValid(lenient) }

// depthOf counts how deep valid JSON nests.
func depthOf(data []byte) int {
	deepest := 0
	for d := jsontext.NewDecoder(bytes.NewReader(data), lenient); ; {
		if _, err := d.ReadToken(); err != nil {
			return deepest
		}
		deepest = max(deepest, d.StackDepth())
	}
}

type oracleMember struct {
	name string
	raw  string
}

// oracleMembers reads the members of a valid object.
func oracleMembers(object string) []oracleMember {
	d := jsontext.NewDecoder(strings.NewReader(object), lenient)
	var out []oracleMember
	if token, err := d.ReadToken(); err != nil || token.Kind() != '{' {
		return nil
	}
	for d.PeekKind() == '"' {
		token, _ := d.ReadToken()
		name := token.String()
		raw, _ := d.ReadValue()
		out = append(out, oracleMember{name, string(raw)})
	}
	return out
}

func pick(members []oracleMember, name string) (raw string, n int) {
	raw = "-"
	for _, m := range members {
		if m.name == name {
			if n == 0 {
				raw = m.raw
			}
			n++
		}
	}
	return raw, n
}

func oracleUnquote(raw string) string {
	s, err := jsontext.AppendUnquote(nil, raw)
	if err != nil {
		return "-"
	}
	return string(s)
}

func oracleID(raw string) bool {
	return raw[0] == '"' || (raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9') && !strings.ContainsAny(raw, ".eE")
}

// oraclePresent leaves out the named members that are null, and an empty cursor.
func oraclePresent(members []oracleMember, names ...string) (present []oracleMember) {
	for _, m := range members {
		if slices.Contains(names, m.name) && (m.raw == "null" || m.name == "cursor" && m.raw == `""`) {
			continue
		}
		present = append(present, m)
	}
	return present
}

// oracleScan returns the code of the refusal, or 0 and what Scan must find.
func oracleScan(data []byte, lim Limits) (int, spans) {
	none := spansOf(&Message{})
	if !oracleValid(data) || depthOf(data) > lim.depth() {
		return codeParse, none
	}
	trimmed := strings.Trim(string(data), " \t\r\n")
	if trimmed[0] == '[' {
		d := jsontext.NewDecoder(strings.NewReader(trimmed), lenient)
		_, _ = d.ReadToken()
		n := 0
		for ; d.PeekKind() != ']'; n++ {
			if d.PeekKind() == '[' {
				return codeInvalid, none
			}
			_ = d.SkipValue()
		}
		if n == 0 || n > lim.batch() {
			return codeInvalid, none
		}
		none.Kind, none.N = Batch, n
		return 0, none
	}
	if trimmed[0] != '{' {
		return codeInvalid, none
	}
	got := none
	bad := false
	members := oraclePresent(oracleMembers(trimmed), "params", "error")
	one := func(from []oracleMember, name string) string {
		raw, n := pick(from, name)
		bad = bad || n > 1
		return raw
	}
	version, method := one(members, "jsonrpc"), one(members, "method")
	got.ID, got.Params, got.Result, got.Err = one(members, "id"), one(members, "params"), one(members, "result"), one(members, "error")
	bad = bad || oracleUnquote(version) != "2.0"
	bad = bad || got.ID != "-" && !oracleID(got.ID)
	if method != "-" {
		got.Method = oracleUnquote(method)
		bad = bad || method[0] != '"'
	}
	if got.Params != "-" {
		bad = bad || got.Params[0] != '{'
		params := oraclePresent(oracleMembers(got.Params), "name", "uri", "arguments", "cursor", "_meta")
		got.Name, got.URI, got.Arguments = one(params, "name"), one(params, "uri"), one(params, "arguments")
		got.Cursor, got.Meta = one(params, "cursor"), one(params, "_meta")
		meta := oraclePresent(oracleMembers(got.Meta), "progressToken")
		got.Token, got.Revision = one(meta, "progressToken"), one(meta, keyRevision)
		bad = bad || got.Token != "-" && !oracleID(got.Token)
	}
	if got.Err != "-" {
		fields := oracleMembers(got.Err)
		_, codes := pick(fields, "code")
		_, messages := pick(fields, "message")
		bad = bad || got.Err[0] != '{' || codes == 0 || messages == 0
		for _, f := range fields {
			bad = bad || f.name == "code" && (f.raw[0] == '"' || !oracleID(f.raw)) || f.name == "message" && f.raw[0] != '"'
		}
	}
	if got.Result == "null" && (method != "-" || got.Err != "-") {
		got.Result = "-"
	}
	answer := got.Result != "-" || got.Err != "-"
	switch {
	case bad, method != "-" && answer, got.Result != "-" && got.Err != "-":
		return codeInvalid, none
	case method != "-" && got.ID != "-":
		got.Kind = Request
	case method != "-":
		got.Kind = Notification
	case got.Err != "-":
		got.Kind = ErrorResponse
	case got.Result != "-" && got.ID != "-":
		got.Kind = Result
	default:
		return codeInvalid, none
	}
	return 0, got
}

// oracleAny decodes valid JSON as Unmarshal does into any.
func oracleAny(data []byte) any {
	d := jsontext.NewDecoder(bytes.NewReader(data), lenient)
	var read func() any
	read = func() any {
		token, err := d.ReadToken()
		if err != nil {
			panic(err)
		}
		switch token.Kind() {
		case '{':
			out := map[string]any{}
			for d.PeekKind() != '}' {
				name, _ := d.ReadToken()
				key := name.String()
				out[key] = read()
			}
			_, _ = d.ReadToken()
			return out
		case '[':
			out := []any{}
			for d.PeekKind() != ']' {
				out = append(out, read())
			}
			_, _ = d.ReadToken()
			return out
		case '"':
			return token.String()
		case '0':
			return json.Number(token.String())
		case 'n':
			return nil
		}
		return token.Bool()
	}
	return read()
}

func inside(span, data []byte) bool {
	if len(span) == 0 {
		return true
	}
	start := uintptr(unsafe.Pointer(unsafe.SliceData(data)))
	at := uintptr(unsafe.Pointer(unsafe.SliceData(span)))
	return at >= start && at+uintptr(len(span)) <= start+uintptr(len(data))
}

// checkScan compares Scan with the oracle.
func checkScan(t *testing.T, data []byte, lim Limits) {
	t.Helper()
	before := string(data)
	var m Message
	err := Scan(data, &m, lim)
	code, want := oracleScan(data, lim)
	switch {
	case err == nil && code != 0, err != nil && err.Code != code:
		t.Fatalf("Scan(%q) = %v with kind %v, want code %d", data, err, m.Kind, code)
	case err != nil:
		if err.Offset < 0 || err.Offset > len(data) || err.Reason == "" || m.Kind != Invalid {
			t.Fatalf("Scan(%q) = %+v with kind %v", data, err, m.Kind)
		}
		if err.ID != nil && (!inside(err.ID, data) || !Valid(err.ID) || !oracleID(string(err.ID))) {
			t.Fatalf("Scan(%q) gave the id %q", data, err.ID)
		}
	default:
		if diff := cmp.Diff(want, spansOf(&m)); diff != "" {
			t.Fatalf("Scan(%q) (-want +got):\n%s", data, diff)
		}
		for _, span := range [][]byte{m.ID, m.Params, m.Result, m.Err, m.ProgressToken, m.Name, m.URI, m.Arguments, m.Meta, m.Cursor, m.ProtocolVersion} {
			if !inside(span, data) || span != nil && !Valid(span) {
				t.Fatalf("Scan(%q) gave the span %q", data, span)
			}
		}
		if m.Kind == Batch {
			n := 0
			for raw := range Elements(data) {
				if n++; !inside(raw, data) || !oracleValid(raw) {
					t.Fatalf("Elements(%q) yielded %q", data, raw)
				}
			}
			if n != m.N {
				t.Fatalf("Elements(%q) yielded %d, want %d", data, n, m.N)
			}
		}
	}
	if string(data) != before {
		t.Fatalf("Scan changed its input to %q", data)
	}
	checkWalk(t, data)
}

// checkWalk compares Valid, Members and Field with the oracle, and checks that they survive input that is
// not JSON.
func checkWalk(t *testing.T, data []byte) {
	t.Helper()
	valid := oracleValid(data) && depthOf(data) <= maxDepth
	if got := Valid(data); got != valid {
		t.Fatalf("Valid(%q) = %v, want %v", data, got, valid)
	}
	var got []oracleMember
	for key, value := range Members(data) {
		if !inside(key, data) || !inside(value, data) {
			t.Fatalf("Members(%q) left its argument", data)
		}
		if valid {
			name, ok := Str([]byte(`"` + string(key) + `"`))
			if !ok {
				t.Fatalf("Members(%q) yielded the key %q", data, key)
			}
			got = append(got, oracleMember{name, string(value)})
		}
	}
	field := Field(data, "a")
	if !valid {
		return
	}
	want := oracleMembers(string(data))
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(oracleMember{})); diff != "" {
		t.Fatalf("Members(%q) (-want +got):\n%s", data, diff)
	}
	last := "-"
	for _, m := range want {
		if m.name == "a" {
			last = m.raw
		}
	}
	if text(field) != last {
		t.Fatalf("Field(%q, a) = %s, want %s", data, text(field), last)
	}
}

func checkCompact(t *testing.T, data []byte) {
	t.Helper()
	got := AppendCompact(nil, data)
	if !oracleValid(data) || depthOf(data) > maxDepth {
		return
	}
	want := jsontext.Value(bytes.Clone(data))
	if err := want.Compact(); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Fatalf("AppendCompact(%q) = %q, want %q", data, got, want)
	}
	in := bytes.Clone(data)
	if got := AppendCompact(in[:0], in); !bytes.Equal(got, want) {
		t.Fatalf("AppendCompact(%q) in place = %q, want %q", data, got, want)
	}
	if got, err := Marshal(struct{ R json.RawMessage }{data}); err != nil || string(got) != `{"R":`+string(want)+`}` {
		t.Fatalf("Marshal of raw %q = %q, %v, want %q", data, got, err, want)
	}
}

func checkStr(t *testing.T, data []byte) {
	t.Helper()
	got, ok := Str(data)
	want, err := jsontext.AppendUnquote(nil, data)
	if ok != (err == nil && len(data) > 0) || ok && got != string(want) {
		t.Fatalf("Str(%q) = %q, %v, want %q, %v", data, got, ok, want, err)
	}
	quoted := AppendString(nil, string(data))
	back, err := jsontext.AppendUnquote(nil, quoted)
	if err != nil || string(back) != string([]rune(string(data))) {
		t.Fatalf("AppendString(%q) = %s, which stands for %q, %v", data, quoted, back, err)
	}
}

func checkUnmarshal(t *testing.T, data []byte) {
	t.Helper()
	in := bytes.Clone(data)
	var got any
	err := Unmarshal(in, &got)
	var typed everything
	var words texts
	_ = Unmarshal(in, &words)
	typedErr := Unmarshal(in, &typed)
	shown := fmt.Sprint(dump(reflect.ValueOf(&typed)), dump(reflect.ValueOf(&words)))
	for i := range in {
		in[i] = '?'
	}
	if after := fmt.Sprint(dump(reflect.ValueOf(&typed)), dump(reflect.ValueOf(&words))); after != shown {
		t.Fatalf("Unmarshal(%q) refers to its input: %s became %s", data, shown, after)
	}
	if !oracleValid(data) || depthOf(data) > maxDepth {
		if !errors.Is(err, ErrSyntax) || !errors.Is(typedErr, ErrSyntax) {
			t.Fatalf("Unmarshal(%q) = %v and %v, want %v", data, err, typedErr, ErrSyntax)
		}
		return
	}
	want := oracleAny(data)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("Unmarshal(%q) = %#v, %v, want %#v", data, got, err, want)
	}
	out, err := Marshal(got)
	if err != nil || !oracleValid(out) || !reflect.DeepEqual(oracleAny(out), want) {
		t.Fatalf("Marshal of %q = %q, %v", data, out, err)
	}
}

// randomJSON writes a random value, with random white space if spaced.
type randomJSON struct {
	*rand.Rand
	out    []byte
	spaced bool
}

func (r *randomJSON) space() {
	for r.spaced && r.IntN(4) == 0 {
		r.out = append(r.out, " \n\t\r"[r.IntN(4)])
	}
}

func (r *randomJSON) str() {
	pieces := []string{"a", "id", "method", "name", "hello world, this is longer than a word", `\n`, `\"`, `\\`, `\/`, `\u0061`, `\u4e2d`, `\ud83d\ude00`, "é", "工具", "😀", "\u2028", "<&>", "\x7f", "{", "]", ",", ":"}
	r.out = append(r.out, '"')
	for range r.IntN(4) {
		r.out = append(r.out, pieces[r.IntN(len(pieces))]...)
	}
	r.out = append(r.out, '"')
}

func (r *randomJSON) key() {
	keys := []string{"jsonrpc", "id", "method", "params", "result", "error", "_meta", "progressToken", keyRevision, "name", "uri", "arguments", "cursor", "code", "message", "a", `\u0061`, `i\u0064`}
	if r.IntN(5) == 0 {
		r.str()
		return
	}
	r.out = append(append(append(r.out, '"'), keys[r.IntN(len(keys))]...), '"')
}

func (r *randomJSON) value(depth int) {
	r.space()
	kind := r.IntN(9)
	if depth <= 0 {
		kind = r.IntN(6)
	}
	switch kind {
	case 0:
		r.out = append(r.out, "null"...)
	case 1:
		r.out = strconv.AppendBool(r.out, r.IntN(2) == 0)
	case 2:
		r.out = strconv.AppendInt(r.out, r.Int64()>>r.IntN(64)-5, 10)
	case 3:
		numbers := []string{"0", "-0", "0.5", "1e3", "1E+2", "-1.25e-7", "12345678901234567890", "1.0"}
		r.out = append(r.out, numbers[r.IntN(len(numbers))]...)
	case 4, 5:
		r.str()
	case 6:
		r.out = append(r.out, '[')
		for i := range r.IntN(4) {
			if i > 0 {
				r.out = append(r.out, ',')
			}
			r.value(depth - 1)
		}
		r.space()
		r.out = append(r.out, ']')
	default:
		r.object(depth, r.IntN(5))
	}
	r.space()
}

func (r *randomJSON) object(depth, members int) {
	r.out = append(r.out, '{')
	for i := range members {
		if i > 0 {
			r.out = append(r.out, ',')
		}
		r.space()
		r.key()
		r.space()
		r.out = append(r.out, ':')
		r.value(depth - 1)
	}
	r.space()
	r.out = append(r.out, '}')
}

// id writes an id, mostly a legal one.
func (r *randomJSON) id() {
	switch r.IntN(8) {
	case 0:
		r.value(0)
	case 1, 2, 3:
		r.str()
	default:
		r.out = strconv.AppendInt(r.out, int64(r.IntN(100)-10), 10)
	}
}

// message writes something close to a JSON-RPC message: a legal one, sometimes with a member too many.
func (r *randomJSON) message() {
	put := func(s string) { r.out = append(r.out, s...) }
	version := func() { put(`"jsonrpc":"2.0"`) }
	id := func() { put(`"id":`); r.id() }
	method := func() { put(`"method":`); r.str() }
	params := func() { put(`"params":`); r.object(3, r.IntN(4)) }
	token := func() { put(`"params":{"_meta":{"progressToken":`); r.id(); put("}}") }
	result := func() { put(`"result":`); r.value(2) }
	fault := func() { put(`"error":{"code":`); r.id(); put(`,"message":`); r.str(); put("}") }
	other := func() { r.key(); put(":"); r.value(2) }
	shapes := [][]func(){
		{version, id, method}, {version, id, method, params}, {version, id, method, token}, {version, method, token},
		{version, method, params}, {version, id, result}, {version, id, fault}, {version, fault},
	}
	members := append([]func(){}, shapes[r.IntN(len(shapes))]...)
	if r.IntN(3) == 0 {
		members = append(members, []func(){version, id, method, params, token, result, fault, other, other, other}[r.IntN(10)])
	}
	r.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	put("{")
	for i, member := range members {
		if i > 0 {
			put(",")
		}
		r.space()
		member()
		r.space()
	}
	put("}")
}

// spoil changes a few bytes.
func (r *randomJSON) spoil() {
	for range 1 + r.IntN(3) {
		at := r.IntN(len(r.out) + 1)
		switch r.IntN(4) {
		case 0:
			r.out = r.out[:at]
		case 1:
			r.out = append(r.out[:at:at], append([]byte{byte(r.IntN(256))}, r.out[at:]...)...)
		case 2:
			const nasty = "\"\\{}[],:0123.eE+-tfn \n\x00\x80\xed\xff"
			r.out = append(r.out[:at:at], append([]byte{nasty[r.IntN(len(nasty))]}, r.out[at:]...)...)
		default:
			if at < len(r.out) {
				r.out = append(r.out[:at:at], r.out[at+1:]...)
			}
		}
	}
}

// TestAgainstOracle compares everything with the oracle on random input, some of it spoilt.
func TestAgainstOracle(t *testing.T) {
	t.Parallel()
	rounds := 30000
	switch {
	case testing.Short():
		rounds = 1000
	case raceEnabled:
		rounds = 3000
	}
	const seed = 20261121
	kinds := map[Kind]int{}
	for i := range rounds {
		r := randomJSON{Rand: rand.New(rand.NewPCG(seed, uint64(i))), spaced: i%2 == 0}
		switch i % 5 {
		case 0:
			r.value(4)
		case 1:
			r.out = append(r.out, '[')
			r.message()
			r.out = append(r.out, ',')
			r.value(1)
			r.out = append(r.out, ']')
		case 2:
			r.str()
		default:
			r.message()
		}
		if i%3 == 0 {
			r.spoil()
		}
		var m Message
		_ = Scan(r.out, &m, Limits{})
		kinds[m.Kind]++
		checkScan(t, r.out, Limits{MaxDepth: 1 + r.IntN(8), MaxBatch: 1 + r.IntN(4)})
		checkScan(t, r.out, Limits{})
		checkCompact(t, r.out)
		checkStr(t, r.out)
		checkUnmarshal(t, r.out)
	}
	for kind := Invalid; kind <= Batch; kind++ {
		if kinds[kind] < rounds/200 {
			t.Errorf("only %d of %d inputs were of kind %v: %v", kinds[kind], rounds, kind, kinds)
		}
	}
}

// seeds are inputs that every fuzz target starts from.
var seeds = []string{
	``, ` `, `{}`, `[]`, `null`, `"a"`, `-0.5e-3`, "\ufeff{}", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","_meta":{"progressToken":0},"arguments":{"a":[1,"\u0061",null]}}}`,
	`{"jsonrpc":"2.0","id":"a","result":{"content":[]}}`, `{"jsonrpc":"2.0","error":{"code":-32700,"message":"工具"}}`, `[{"jsonrpc":"2.0","method":"a"},[1]]`,
	`{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{"io.modelcontextprotocol\/protocolVersion":"2026-07-28"}}}`, `{"jsonrpc":"2.0","m\u0065thod":"a","method":"b"}`, `"\ud83d\ude00\ud800"`, "\"\xff\"", "\"\x00\"", "{\n \"a\" : [ 1 , 2 ] }", `[01]`, `{"a":1,"a":2}`, `[[[[[[[[[[]]]]]]]]]]`,
	everythingJSON,
}

func fuzz(f *testing.F, check func(t *testing.T, data []byte)) {
	for _, seed := range seeds {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) { check(t, data) })
}

func FuzzScan(f *testing.F) {
	fuzz(f, func(t *testing.T, data []byte) {
		checkScan(t, data, Limits{})
		checkScan(t, data, Limits{MaxDepth: 3, MaxBatch: 2})
	})
}

func FuzzCompact(f *testing.F) { fuzz(f, checkCompact) }

func FuzzStr(f *testing.F) { fuzz(f, checkStr) }

func FuzzUnmarshal(f *testing.F) { fuzz(f, checkUnmarshal) }

func jsontextUnique(data []byte) bool { return jsontext.Value(data).IsValid() }
