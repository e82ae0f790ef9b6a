package codec

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// spans is a Message as text, "-" for an absent part.
type spans struct {
	Kind                                   Kind
	N                                      int
	ID, Method, Params, Result, Err, Token string
	Name, URI, Arguments, Meta, Cursor     string
	Revision                               string
}

func text(b []byte) string {
	if b == nil {
		return "-"
	}
	return string(b)
}

func spansOf(m *Message) spans {
	return spans{
		Kind: m.Kind, N: m.N, ID: text(m.ID), Method: text(m.Method), Params: text(m.Params), Result: text(m.Result),
		Err: text(m.Err), Token: text(m.ProgressToken), Name: text(m.Name), URI: text(m.URI),
		Arguments: text(m.Arguments), Meta: text(m.Meta), Cursor: text(m.Cursor), Revision: text(m.ProtocolVersion),
	}
}

// escapes writes every character of a key as an escape, the longest way to write it.
func escapes(key string) string {
	out := `"`
	for _, c := range []byte(key) {
		out += fmt.Sprintf(`\u%04x`, c)
	}
	return out + `"`
}

func TestScanAccepts(t *testing.T) {
	t.Parallel()
	absent := spansOf(&Message{})
	with := func(change func(*spans)) spans { s := absent; change(&s); return s }
	for _, tt := range []struct {
		name, in string
		want     spans
	}{
		{"request", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, with(func(s *spans) { s.Kind, s.ID, s.Method = Request, "1", "ping" })},
		{"members in any order", `{"method":"ping","id":1,"jsonrpc":"2.0"}`, with(func(s *spans) { s.Kind, s.ID, s.Method = Request, "1", "ping" })},
		{"white space", " \t\r\n{ \"jsonrpc\" : \"2.0\" ,\n\"id\"\t:\r1 , \"method\" : \"ping\" }\n ", with(func(s *spans) { s.Kind, s.ID, s.Method = Request, "1", "ping" })},
		{"string id", `{"jsonrpc":"2.0","id":"1","method":"ping"}`, with(func(s *spans) { s.Kind, s.ID, s.Method = Request, `"1"`, "ping" })},
		{"empty string id", `{"jsonrpc":"2.0","id":"","method":"ping"}`, with(func(s *spans) { s.Kind, s.ID, s.Method = Request, `""`, "ping" })},
		{"escaped id as sent", `{"jsonrpc":"2.0","id":"\u0061","method":"ping"}`, with(func(s *spans) { s.Kind, s.ID, s.Method = Request, `"\u0061"`, "ping" })},
		{"id 0", `{"jsonrpc":"2.0","id":0,"method":"ping"}`, with(func(s *spans) { s.Kind, s.ID, s.Method = Request, "0", "ping" })},
		{"negative id", `{"jsonrpc":"2.0","id":-3,"method":"ping"}`, with(func(s *spans) { s.Kind, s.ID, s.Method = Request, "-3", "ping" })},
		{"id beyond 64 bits", `{"jsonrpc":"2.0","id":12345678901234567890,"method":"ping"}`, with(func(s *spans) { s.Kind, s.ID, s.Method = Request, "12345678901234567890", "ping" })},
		{"notification", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, with(func(s *spans) { s.Kind, s.Method = Notification, "notifications/initialized" })},
		{"result", `{"jsonrpc":"2.0","id":1,"result":{}}`, with(func(s *spans) { s.Kind, s.ID, s.Result = Result, "1", "{}" })},
		{"params null", `{"jsonrpc":"2.0","id":"a","method":"m","params":null,"result":null,"error":null}`, with(func(s *spans) { s.Kind, s.ID, s.Method = Request, `"a"`, "m" })},
		{"null in params", `{"jsonrpc":"2.0","method":"m","params":{"name":null,"uri":null,"arguments":null,"cursor":null,"_meta":null,"requestState":null,"inputResponses":null}}`, with(func(s *spans) {
			s.Kind, s.Method = Notification, "m"
			s.Params = `{"name":null,"uri":null,"arguments":null,"cursor":null,"_meta":null,"requestState":null,"inputResponses":null}`
		})},
		{"empty cursor", `{"jsonrpc":"2.0","method":"m","params":{"cursor":""}}`, with(func(s *spans) { s.Kind, s.Method, s.Params = Notification, "m", `{"cursor":""}` })},
		{"progress token null", `{"jsonrpc":"2.0","method":"m","params":{"_meta":{"progressToken":null}}}`, with(func(s *spans) {
			s.Kind, s.Method, s.Meta, s.Params = Notification, "m", `{"progressToken":null}`, `{"_meta":{"progressToken":null}}`
		})},
		{"null error beside a result", `{"jsonrpc":"2.0","id":1,"result":{},"error":null}`, with(func(s *spans) { s.Kind, s.ID, s.Result = Result, "1", "{}" })},
		{"null result beside an error", `{"jsonrpc":"2.0","id":1,"result":null,"error":{"code":1,"message":""}}`, with(func(s *spans) { s.Kind, s.ID, s.Err = ErrorResponse, "1", `{"code":1,"message":""}` })},
		{"null result", `{"jsonrpc":"2.0","id":1,"result":null}`, with(func(s *spans) { s.Kind, s.ID, s.Result = Result, "1", "null" })},
		{"error", `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no","data":[1]}}`, with(func(s *spans) {
			s.Kind, s.ID, s.Err = ErrorResponse, "1", `{"code":-32601,"message":"no","data":[1]}`
		})},
		{"error without id", `{"jsonrpc":"2.0","error":{"message":"no","code":0}}`, with(func(s *spans) { s.Kind, s.Err = ErrorResponse, `{"message":"no","code":0}` })},
		{"error with escaped members", `{"jsonrpc":"2.0","error":{"mess\u0061ge":"no","\u0063ode":0}}`, with(func(s *spans) { s.Kind, s.Err = ErrorResponse, `{"mess\u0061ge":"no","\u0063ode":0}` })},
		{"params", `{"jsonrpc":"2.0","id":1,"method":"m","params":{"name":"n","uri":"file:///a","arguments":{"a":1},"cursor":"c","other":2}}`, with(func(s *spans) {
			s.Kind, s.ID, s.Method, s.Params = Request, "1", "m", `{"name":"n","uri":"file:///a","arguments":{"a":1},"cursor":"c","other":2}`
			s.Name, s.URI, s.Arguments, s.Cursor = `"n"`, `"file:///a"`, `{"a":1}`, `"c"`
		})},
		{"empty params", `{"jsonrpc":"2.0","id":1,"method":"m","params":{ }}`, with(func(s *spans) { s.Kind, s.ID, s.Method, s.Params = Request, "1", "m", "{ }" })},
		{"progress token 0", `{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{"progressToken":0}}}`, with(func(s *spans) {
			s.Kind, s.ID, s.Method, s.Params, s.Meta, s.Token = Request, "1", "m", `{"_meta":{"progressToken":0}}`, `{"progressToken":0}`, "0"
		})},
		{"empty progress token", `{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{"x":{},"progressToken":""}}}`, with(func(s *spans) {
			s.Kind, s.ID, s.Method, s.Params, s.Meta, s.Token = Request, "1", "m", `{"_meta":{"x":{},"progressToken":""}}`, `{"x":{},"progressToken":""}`, `""`
		})},
		{"revision", `{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`, with(func(s *spans) {
			s.Kind, s.ID, s.Method, s.Meta = Request, "1", "m", `{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`
			s.Params, s.Revision = `{"_meta":`+s.Meta+`}`, `"2026-07-28"`
		})},
		{"revision of another type", `{"jsonrpc":"2.0","method":"m","params":{"_meta":{"io.modelcontextprotocol\/protocolVersion":null}}}`, with(func(s *spans) {
			s.Kind, s.Method, s.Meta = Notification, "m", `{"io.modelcontextprotocol\/protocolVersion":null}`
			s.Params, s.Revision = `{"_meta":`+s.Meta+`}`, `null`
		})},
		{"revision in escapes", `{"jsonrpc":"2.0","method":"m","params":{"_meta":{` + escapes("io.modelcontextprotocol/protocolVersion") + `:1}}}`, with(func(s *spans) {
			s.Kind, s.Method, s.Meta = Notification, "m", `{`+escapes("io.modelcontextprotocol/protocolVersion")+`:1}`
			s.Params, s.Revision = `{"_meta":`+s.Meta+`}`, `1`
		})},
		{"revision elsewhere", `{"jsonrpc":"2.0","method":"m","params":{"io.modelcontextprotocol/protocolVersion":"a","arguments":{"_meta":{"io.modelcontextprotocol/protocolVersion":"b"}}}}`, with(func(s *spans) {
			s.Kind, s.Method, s.Arguments = Notification, "m", `{"_meta":{"io.modelcontextprotocol/protocolVersion":"b"}}`
			s.Params = `{"io.modelcontextprotocol/protocolVersion":"a","arguments":` + s.Arguments + `}`
		})},
		{"progress token elsewhere", `{"jsonrpc":"2.0","id":1,"method":"m","params":{"progressToken":null,"arguments":{"_meta":{"progressToken":1.5}}}}`, with(func(s *spans) {
			s.Kind, s.ID, s.Method, s.Params = Request, "1", "m", `{"progressToken":null,"arguments":{"_meta":{"progressToken":1.5}}}`
			s.Arguments = `{"_meta":{"progressToken":1.5}}`
		})},
		{"members of other types", `{"jsonrpc":"2.0","id":1,"method":"m","params":{"name":1,"uri":null,"arguments":[],"cursor":true,"_meta":null}}`, with(func(s *spans) {
			s.Kind, s.ID, s.Method, s.Params = Request, "1", "m", `{"name":1,"uri":null,"arguments":[],"cursor":true,"_meta":null}`
			s.Name, s.Arguments, s.Cursor = "1", "[]", "true"
		})},
		{"escaped keys", `{"jsonrpc":"2\u002e0","\u0069d":1,"m\u0065thod":"m","par\u0061ms":{"_m\u0065ta":{"progress\u0054oken":5},"n\u0061me":"n"}}`, with(func(s *spans) {
			s.Kind, s.ID, s.Method, s.Params = Request, "1", "m", `{"_m\u0065ta":{"progress\u0054oken":5},"n\u0061me":"n"}`
			s.Meta, s.Token, s.Name = `{"progress\u0054oken":5}`, "5", `"n"`
		})},
		{"escaped method", `{"jsonrpc":"2.0","method":"tools\/c\u0061ll\ud83d\ude00"}`, with(func(s *spans) { s.Kind, s.Method = Notification, "tools/call😀" })},
		{"empty method", `{"jsonrpc":"2.0","method":""}`, with(func(s *spans) { s.Kind, s.Method = Notification, "" })},
		{"case-sensitive keys", `{"jsonrpc":"2.0","method":"m","ID":null,"Method":3,"PARAMS":[],"Result":1,"eRror":2}`, with(func(s *spans) { s.Kind, s.Method = Notification, "m" })},
		{"key of an escaped backslash", `{"jsonrpc":"2.0","method":"m","\\u0069d":null}`, with(func(s *spans) { s.Kind, s.Method = Notification, "m" })},
		{"unknown members, twice", `{"jsonrpc":"2.0","method":"m","x":1,"x":{"id":null},"":0}`, with(func(s *spans) { s.Kind, s.Method = Notification, "m" })},
		{"duplicates in arguments", `{"jsonrpc":"2.0","method":"m","params":{"arguments":{"a":1,"a":2}}}`, with(func(s *spans) {
			s.Kind, s.Method, s.Params, s.Arguments = Notification, "m", `{"arguments":{"a":1,"a":2}}`, `{"a":1,"a":2}`
		})},
		{"chinese", `{"jsonrpc":"2.0","id":"编号","method":"工具/调用","params":{"cursor":"游标","name":"名称"}}`, with(func(s *spans) {
			s.Kind, s.ID, s.Method, s.Params, s.Cursor, s.Name = Request, `"编号"`, "工具/调用", `{"cursor":"游标","name":"名称"}`, `"游标"`, `"名称"`
		})},
		{"batch", ` [ {"jsonrpc":"2.0","method":"m"} , 1,{}] `, with(func(s *spans) { s.Kind, s.N = Batch, 3 })},
		{"depth at its limit", `{"jsonrpc":"2.0","method":"m","params":{"a":` + strings.Repeat("[", 126) + strings.Repeat("]", 126) + `}}`, with(func(s *spans) {
			s.Kind, s.Method, s.Params = Notification, "m", `{"a":`+strings.Repeat("[", 126)+strings.Repeat("]", 126)+`}`
		})},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := Message{Kind: Batch, N: 7, Cursor: []byte("stale")}
			if err := Scan([]byte(tt.in), &m, Limits{}); err != nil {
				t.Fatalf("Scan(%s) = %v", tt.in, err)
			}
			if diff := cmp.Diff(tt.want, spansOf(&m)); diff != "" {
				t.Errorf("Scan(%s) (-want +got):\n%s", tt.in, diff)
			}
		})
	}
}

// note wraps a raw value into the params of a notification.
func note(raw string) string { return `{"jsonrpc":"2.0","method":"m","params":{"a":` + raw + `}}` }

func TestScanRefuses(t *testing.T) {
	t.Parallel()
	const at = len(`{"jsonrpc":"2.0","method":"m","params":{"a":`)
	for _, tt := range []struct {
		name, in string
		want     ScanError
		id       string
	}{
		{"empty", "", ScanError{Code: codeParse, Reason: reasonEmpty}, "-"},
		{"white space only", " \n", ScanError{Code: codeParse, Reason: reasonEmpty, Offset: 2}, "-"},
		{"not JSON", "hello", ScanError{Code: codeParse, Reason: reasonValue}, "-"},
		{"byte order mark", "\ufeff{}", ScanError{Code: codeParse, Reason: reasonValue}, "-"},
		{"form feed", "\f{}", ScanError{Code: codeParse, Reason: reasonValue}, "-"},
		{"NUL after the message", "{}\x00", ScanError{Code: codeParse, Reason: reasonTrailing, Offset: 2}, "-"},
		{"two messages", `{"jsonrpc":"2.0","id":1,"method":"m"}{}`, ScanError{Code: codeParse, Reason: reasonTrailing, Offset: 37}, "1"},
		{"open object", `{"jsonrpc":"2.0","id":1`, ScanError{Code: codeParse, Reason: reasonEnd, Offset: 23}, "1"},
		{"brace only", `{`, ScanError{Code: codeParse, Reason: reasonEnd, Offset: 1}, "-"},
		{"open key", `{"id`, ScanError{Code: codeParse, Reason: reasonEnd, Offset: 4}, "-"},
		{"no value", `{"id":`, ScanError{Code: codeParse, Reason: reasonEnd, Offset: 6}, "-"},
		{"no colon", `{"id" 1}`, ScanError{Code: codeParse, Reason: reasonColon, Offset: 6}, "-"},
		{"comma at the end", `{"id":1,}`, ScanError{Code: codeParse, Reason: reasonKey, Offset: 8}, "1"},
		{"comma at the start", `{,"id":1}`, ScanError{Code: codeParse, Reason: reasonKey, Offset: 1}, "-"},
		{"no comma", `{"id":1 "method":"m"}`, ScanError{Code: codeParse, Reason: reasonComma, Offset: 8}, "1"},
		{"wrong end", `{"id":1]`, ScanError{Code: codeParse, Reason: reasonComma, Offset: 7}, "1"},
		{"unquoted key", `{id:1}`, ScanError{Code: codeParse, Reason: reasonKey, Offset: 1}, "-"},
		{"array with comma at the end", note(`[1,]`), ScanError{Code: codeParse, Reason: reasonValue, Offset: at + 3}, "-"},
		{"array closed by a brace", note(`[1}`), ScanError{Code: codeParse, Reason: reasonComma, Offset: at + 2}, "-"},
		{"object closed by a bracket", note(`{"b":1]`), ScanError{Code: codeParse, Reason: reasonComma, Offset: at + 6}, "-"},
		{"object without colon", note(`{"b"}`), ScanError{Code: codeParse, Reason: reasonColon, Offset: at + 4}, "-"},
		{"object with a number for key", note(`{1:2}`), ScanError{Code: codeParse, Reason: reasonKey, Offset: at + 1}, "-"},
		{"open array", `[1`, ScanError{Code: codeParse, Reason: reasonEnd, Offset: 2}, "-"},
		{"bracket only", `[`, ScanError{Code: codeParse, Reason: reasonEnd, Offset: 1}, "-"},
		{"batch with comma at the end", `[1,]`, ScanError{Code: codeParse, Reason: reasonValue, Offset: 3}, "-"},
		{"batch with comma at the start", `[,1]`, ScanError{Code: codeParse, Reason: reasonValue, Offset: 1}, "-"},
		{"batch without comma", `[1 2]`, ScanError{Code: codeParse, Reason: reasonComma, Offset: 3}, "-"},
		{"broken message in a batch", `[{"jsonrpc":"2.0","id":1,"method":"m"},{"a":tru}]`, ScanError{Code: codeParse, Reason: reasonLiteral, Offset: 44}, "-"},
		{"invalid UTF-8", note("\"abcdefgh\xff\""), ScanError{Code: codeParse, Reason: reasonUTF8, Offset: at + 9}, "-"},
		{"overlong UTF-8", note("\"\xc0\x80\""), ScanError{Code: codeParse, Reason: reasonUTF8, Offset: at + 1}, "-"},
		{"overlong three bytes", note("\"\xe0\x80\x80\""), ScanError{Code: codeParse, Reason: reasonUTF8, Offset: at + 1}, "-"},
		{"surrogate in UTF-8", note("\"\xed\xa0\x80\""), ScanError{Code: codeParse, Reason: reasonUTF8, Offset: at + 1}, "-"},
		{"beyond Unicode", note("\"\xf4\x90\x80\x80\""), ScanError{Code: codeParse, Reason: reasonUTF8, Offset: at + 1}, "-"},
		{"UTF-8 cut short", note("\"\xe4\xbd\""), ScanError{Code: codeParse, Reason: reasonUTF8, Offset: at + 1}, "-"},
		{"invalid UTF-8 in a key", "{\"\xff\":1}", ScanError{Code: codeParse, Reason: reasonUTF8, Offset: 2}, "-"},
		{"invalid UTF-8 outside", "{\xc3\xa9:1}", ScanError{Code: codeParse, Reason: reasonKey, Offset: 1}, "-"},
		{"unknown escape", note(`"\x"`), ScanError{Code: codeParse, Reason: reasonEscape, Offset: at + 1}, "-"},
		{"short unicode escape", note(`"\u12"`), ScanError{Code: codeParse, Reason: reasonEscape, Offset: at + 1}, "-"},
		{"unicode escape without hex", note(`"\u12G4"`), ScanError{Code: codeParse, Reason: reasonEscape, Offset: at + 1}, "-"},
		{"upper-case U", note(`"\U1234"`), ScanError{Code: codeParse, Reason: reasonEscape, Offset: at + 1}, "-"},
		{"escape at the end", `{"a":"\`, ScanError{Code: codeParse, Reason: reasonEnd, Offset: 7}, "-"},
		{"high surrogate alone", note(`"\ud800"`), ScanError{Code: codeParse, Reason: reasonSurrogate, Offset: at + 1}, "-"},
		{"low surrogate alone", note(`"\udc00"`), ScanError{Code: codeParse, Reason: reasonSurrogate, Offset: at + 1}, "-"},
		{"two high surrogates", note(`"\ud800\ud800"`), ScanError{Code: codeParse, Reason: reasonSurrogate, Offset: at + 1}, "-"},
		{"control character", note("\"a\nb\""), ScanError{Code: codeParse, Reason: reasonControl, Offset: at + 2}, "-"},
		{"NUL in a string", note("\"\x00\""), ScanError{Code: codeParse, Reason: reasonControl, Offset: at + 1}, "-"},
		{"leading zero", note("01"), ScanError{Code: codeParse, Reason: reasonNumber, Offset: at + 1}, "-"},
		{"negative leading zero", note("-01"), ScanError{Code: codeParse, Reason: reasonNumber, Offset: at + 2}, "-"},
		{"no fraction", note("1."), ScanError{Code: codeParse, Reason: reasonNumber, Offset: at + 2}, "-"},
		{"no integer", note(".5"), ScanError{Code: codeParse, Reason: reasonValue, Offset: at}, "-"},
		{"plus", note("+1"), ScanError{Code: codeParse, Reason: reasonValue, Offset: at}, "-"},
		{"minus only", note("-"), ScanError{Code: codeParse, Reason: reasonNumber, Offset: at + 1}, "-"},
		{"no exponent", note("1e"), ScanError{Code: codeParse, Reason: reasonNumber, Offset: at + 2}, "-"},
		{"no exponent after its sign", note("1e+"), ScanError{Code: codeParse, Reason: reasonNumber, Offset: at + 3}, "-"},
		{"hexadecimal", note("0x1"), ScanError{Code: codeParse, Reason: reasonComma, Offset: at + 1}, "-"},
		{"NaN", note("NaN"), ScanError{Code: codeParse, Reason: reasonValue, Offset: at}, "-"},
		{"half a literal", note("nul"), ScanError{Code: codeParse, Reason: reasonLiteral, Offset: at}, "-"},
		{"literal in capitals", note("True"), ScanError{Code: codeParse, Reason: reasonValue, Offset: at}, "-"},
		{"literal with a tail", note("nullx"), ScanError{Code: codeParse, Reason: reasonComma, Offset: at + 4}, "-"},
		{"comment", note("1/**/"), ScanError{Code: codeParse, Reason: reasonComma, Offset: at + 1}, "-"},
		{"single quotes", note("'a'"), ScanError{Code: codeParse, Reason: reasonValue, Offset: at}, "-"},
		{"too deep", note(strings.Repeat("[", 127) + strings.Repeat("]", 127)), ScanError{Code: codeParse, Reason: reasonDepth, Offset: at + 126}, "-"},
		{"syntax outranks meaning", `{"jsonrpc":"1.0","id":1,"method":"m","params":01}`, ScanError{Code: codeParse, Reason: reasonNumber, Offset: 47}, "1"},

		{"string", `"abc"`, ScanError{Code: codeInvalid, Reason: reasonTop}, "-"},
		{"number", ` 12`, ScanError{Code: codeInvalid, Reason: reasonTop, Offset: 1}, "-"},
		{"null", `null`, ScanError{Code: codeInvalid, Reason: reasonTop}, "-"},
		{"empty object", `{}`, ScanError{Code: codeInvalid, Reason: reasonNoVersion}, "-"},
		{"no version", `{"id":1,"method":"m"}`, ScanError{Code: codeInvalid, Reason: reasonNoVersion}, "1"},
		{"version 1.0", `{"jsonrpc":"1.0","id":1,"method":"m"}`, ScanError{Code: codeInvalid, Reason: reasonVersion, Offset: 11}, "1"},
		{"version as a number", `{"jsonrpc":2.0,"id":1,"method":"m"}`, ScanError{Code: codeInvalid, Reason: reasonVersion, Offset: 11}, "1"},
		{"version null", `{"jsonrpc":null,"id":1,"method":"m"}`, ScanError{Code: codeInvalid, Reason: reasonVersion, Offset: 11}, "1"},
		{"version in capitals", `{"JSONRPC":"2.0","id":1,"method":"m"}`, ScanError{Code: codeInvalid, Reason: reasonNoVersion}, "1"},
		{"id null", `{"jsonrpc":"2.0","id":null,"method":"m"}`, ScanError{Code: codeInvalid, Reason: reasonID, Offset: 22}, "-"},
		{"id true", `{"jsonrpc":"2.0","id":true,"method":"m"}`, ScanError{Code: codeInvalid, Reason: reasonID, Offset: 22}, "-"},
		{"id object", `{"jsonrpc":"2.0","id":{},"method":"m"}`, ScanError{Code: codeInvalid, Reason: reasonID, Offset: 22}, "-"},
		{"id array", `{"jsonrpc":"2.0","id":[1],"method":"m"}`, ScanError{Code: codeInvalid, Reason: reasonID, Offset: 22}, "-"},
		{"id 1.5", `{"jsonrpc":"2.0","id":1.5,"method":"m"}`, ScanError{Code: codeInvalid, Reason: reasonID, Offset: 22}, "-"},
		{"id 1.0", `{"jsonrpc":"2.0","id":1.0,"method":"m"}`, ScanError{Code: codeInvalid, Reason: reasonID, Offset: 22}, "-"},
		{"id 1e3", `{"jsonrpc":"2.0","id":1e3,"method":"m"}`, ScanError{Code: codeInvalid, Reason: reasonID, Offset: 22}, "-"},
		{"error with id null", `{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":""}}`, ScanError{Code: codeInvalid, Reason: reasonID, Offset: 22}, "-"},
		{"method number", `{"jsonrpc":"2.0","id":1,"method":1}`, ScanError{Code: codeInvalid, Reason: reasonMethod, Offset: 33}, "1"},
		{"method null", `{"jsonrpc":"2.0","id":1,"method":null}`, ScanError{Code: codeInvalid, Reason: reasonMethod, Offset: 33}, "1"},
		{"params array", `{"jsonrpc":"2.0","id":1,"method":"m","params":[]}`, ScanError{Code: codeInvalid, Reason: reasonParams, Offset: 46}, "1"},
		{"params string", `{"jsonrpc":"2.0","id":1,"method":"m","params":"{}"}`, ScanError{Code: codeInvalid, Reason: reasonParams, Offset: 46}, "1"},
		{"result and error", `{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}`, ScanError{Code: codeInvalid, Reason: reasonBoth}, "1"},
		{"neither", `{"jsonrpc":"2.0","id":1}`, ScanError{Code: codeInvalid, Reason: reasonNeither}, "1"},
		{"method and result", `{"jsonrpc":"2.0","id":1,"method":"m","result":{}}`, ScanError{Code: codeInvalid, Reason: reasonMixed}, "1"},
		{"method and error", `{"jsonrpc":"2.0","id":1,"method":"m","error":{"code":1,"message":""}}`, ScanError{Code: codeInvalid, Reason: reasonMixed}, "1"},
		{"result without id", `{"jsonrpc":"2.0","result":{}}`, ScanError{Code: codeInvalid, Reason: reasonNoID}, "-"},
		{"error string", `{"jsonrpc":"2.0","id":1,"error":"x"}`, ScanError{Code: codeInvalid, Reason: reasonError, Offset: 32}, "1"},
		{"error null", `{"jsonrpc":"2.0","id":1,"error":null}`, ScanError{Code: codeInvalid, Reason: reasonNeither}, "1"},
		{"error empty", `{"jsonrpc":"2.0","id":1,"error":{}}`, ScanError{Code: codeInvalid, Reason: reasonError, Offset: 32}, "1"},
		{"error without code", `{"jsonrpc":"2.0","id":1,"error":{"message":""}}`, ScanError{Code: codeInvalid, Reason: reasonError, Offset: 32}, "1"},
		{"error without message", `{"jsonrpc":"2.0","id":1,"error":{"code":1}}`, ScanError{Code: codeInvalid, Reason: reasonError, Offset: 32}, "1"},
		{"error code string", `{"jsonrpc":"2.0","id":1,"error":{"code":"1","message":""}}`, ScanError{Code: codeInvalid, Reason: reasonError, Offset: 40}, "1"},
		{"error code 1.0", `{"jsonrpc":"2.0","id":1,"error":{"code":1.0,"message":""}}`, ScanError{Code: codeInvalid, Reason: reasonError, Offset: 40}, "1"},
		{"error message null", `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":null}}`, ScanError{Code: codeInvalid, Reason: reasonError, Offset: 52}, "1"},
		{"duplicate version", `{"jsonrpc":"2.0","jsonrpc":"2.0","id":1,"method":"m"}`, ScanError{Code: codeInvalid, Reason: reasonDuplicate, Offset: 27}, "1"},
		{"duplicate id", `{"jsonrpc":"2.0","id":1,"id":1,"method":"m"}`, ScanError{Code: codeInvalid, Reason: reasonDuplicate, Offset: 29}, "-"},
		{"duplicate method", `{"jsonrpc":"2.0","method":"m","method":"m"}`, ScanError{Code: codeInvalid, Reason: reasonDuplicate, Offset: 39}, "-"},
		{"duplicate method by escape", `{"jsonrpc":"2.0","method":"m","m\u0065thod":"m"}`, ScanError{Code: codeInvalid, Reason: reasonDuplicate, Offset: 44}, "-"},
		{"duplicate params", `{"jsonrpc":"2.0","method":"m","params":{},"params":{"name":1}}`, ScanError{Code: codeInvalid, Reason: reasonDuplicate, Offset: 51}, "-"},
		{"duplicate result", `{"jsonrpc":"2.0","id":1,"result":{},"result":{}}`, ScanError{Code: codeInvalid, Reason: reasonDuplicate, Offset: 45}, "1"},
		{"duplicate error", `{"jsonrpc":"2.0","error":{"code":1,"message":""},"error":{"code":1,"message":""}}`, ScanError{Code: codeInvalid, Reason: reasonDuplicate, Offset: 57}, "-"},
		{"duplicate name", `{"jsonrpc":"2.0","method":"m","params":{"name":1,"name":1}}`, ScanError{Code: codeInvalid, Reason: reasonDupParam, Offset: 56}, "-"},
		{"duplicate uri", `{"jsonrpc":"2.0","method":"m","params":{"uri":1,"uri":1}}`, ScanError{Code: codeInvalid, Reason: reasonDupParam, Offset: 54}, "-"},
		{"duplicate arguments", `{"jsonrpc":"2.0","method":"m","params":{"arguments":{},"arguments":{}}}`, ScanError{Code: codeInvalid, Reason: reasonDupParam, Offset: 67}, "-"},
		{"duplicate cursor", `{"jsonrpc":"2.0","method":"m","params":{"cursor":1,"cursor":1}}`, ScanError{Code: codeInvalid, Reason: reasonDupParam, Offset: 60}, "-"},
		{"duplicate _meta", `{"jsonrpc":"2.0","method":"m","params":{"_meta":{},"_meta":{}}}`, ScanError{Code: codeInvalid, Reason: reasonDupParam, Offset: 59}, "-"},
		{"duplicate progress token", `{"jsonrpc":"2.0","method":"m","params":{"_meta":{"progressToken":1,"progressToken":1}}}`, ScanError{Code: codeInvalid, Reason: reasonDupToken, Offset: 83}, "-"},
		{"duplicate revision", `{"jsonrpc":"2.0","method":"m","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":1,"io.modelcontextprotocol/protocolVersion":1}}}`, ScanError{Code: codeInvalid, Reason: reasonDupMeta, Offset: 135}, "-"},
		{"progress token 1.5", `{"jsonrpc":"2.0","id":9,"method":"m","params":{"_meta":{"progressToken":1.5}}}`, ScanError{Code: codeInvalid, Reason: reasonToken, Offset: 72}, "9"},
		{"progress token object", `{"jsonrpc":"2.0","id":9,"method":"m","params":{"_meta":{"progressToken":{}}}}`, ScanError{Code: codeInvalid, Reason: reasonToken, Offset: 72}, "9"},
		{"empty batch", `[ ]`, ScanError{Code: codeInvalid, Reason: reasonBatchEmpty}, "-"},
		{"batch over the limit", `[` + strings.Repeat("1,", 100) + `1]`, ScanError{Code: codeInvalid, Reason: reasonBatchTooLong, Offset: 201}, "-"},
		{"batch in a batch", `[1,[2]]`, ScanError{Code: codeInvalid, Reason: reasonBatchNested, Offset: 3}, "-"},
		{"empty batch in a batch", `[[]]`, ScanError{Code: codeInvalid, Reason: reasonBatchNested, Offset: 1}, "-"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var m Message
			err := Scan([]byte(tt.in), &m, Limits{})
			if err == nil {
				t.Fatalf("Scan(%s) accepted it as %v", tt.in, m.Kind)
			}
			if err.Code != tt.want.Code || err.Reason != tt.want.Reason || err.Offset != tt.want.Offset || text(err.ID) != tt.id {
				t.Errorf("Scan(%s) = %d %q at %d id %s, want %d %q at %d id %s", tt.in,
					err.Code, err.Reason, err.Offset, text(err.ID), tt.want.Code, tt.want.Reason, tt.want.Offset, tt.id)
			}
			if m.Kind != Invalid || m.N != 0 {
				t.Errorf("Scan(%s) left kind %v and N %d", tt.in, m.Kind, m.N)
			}
			if err.Code == codeParse && m.Params != nil {
				t.Errorf("Scan(%s) left spans after a syntax error", tt.in)
			}
		})
	}
}

func TestScanLimits(t *testing.T) {
	t.Parallel()
	deep := func(n int) []byte {
		return []byte("[" + strings.Repeat(`{"a":`, n-1) + "1" + strings.Repeat("}", n-1) + "]")
	}
	for _, tt := range []struct {
		name   string
		in     []byte
		lim    Limits
		reason string
	}{
		{"depth 3 of 3", deep(3), Limits{MaxDepth: 3}, ""},
		{"depth 4 of 3", deep(4), Limits{MaxDepth: 3}, reasonDepth},
		{"depth 1024 of 5000", deep(1024), Limits{MaxDepth: 5000}, ""},
		{"depth 1025 of 5000", deep(1025), Limits{MaxDepth: 5000}, reasonDepth},
		{"a negative limit is the default", deep(128), Limits{MaxDepth: -1, MaxBatch: -1}, ""},
		{"params at depth 2 of 1", []byte(`{"jsonrpc":"2.0","method":"m","params":{}}`), Limits{MaxDepth: 1}, reasonDepth},
		{"meta at depth 3 of 2", []byte(`{"jsonrpc":"2.0","method":"m","params":{"_meta":{}}}`), Limits{MaxDepth: 2}, reasonDepth},
		{"error at depth 2 of 1", []byte(`{"jsonrpc":"2.0","error":{"code":1,"message":""}}`), Limits{MaxDepth: 1}, reasonDepth},
		{"batch 2 of 2", []byte(`[1,2]`), Limits{MaxBatch: 2}, ""},
		{"batch 3 of 2", []byte(`[1,2,3]`), Limits{MaxBatch: 2}, reasonBatchTooLong},
		{"a batch of 3 values in all", []byte(`[1,{"a":2}]`), Limits{MaxValues: 3}, ""},
		{"a batch of 4 values in all", []byte(`[1,{"a":2},3]`), Limits{MaxValues: 3}, reasonValues},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var m Message
			got := ""
			if err := Scan(tt.in, &m, tt.lim); err != nil {
				got = err.Reason
			}
			if got != tt.reason {
				t.Errorf("Scan = %q, want %q", got, tt.reason)
			}
		})
	}
}

func TestScanKeepsWhatItSaw(t *testing.T) {
	t.Parallel()
	var m Message
	err := Scan([]byte(`{"jsonrpc":"2.0","id":1,"result":{"a":1},"error":{"code":1,"message":"no"}}`), &m, Limits{})
	if err == nil || text(m.ID) != "1" || text(m.Result) != `{"a":1}` || text(m.Err) != `{"code":1,"message":"no"}` {
		t.Errorf("Scan = %v with %+v, want the members of the refused message", err, spansOf(&m))
	}
	if got, want := err.Error(), "codec: a message cannot have both a result and an error at offset 0"; got != want {
		t.Errorf("Error() = %q, want %q", got, want)
	}
}

func TestSpansCannotGrowIntoTheInput(t *testing.T) {
	t.Parallel()
	in := []byte(`{"jsonrpc":"2.0","id":1,"method":"m","params":{"name":"n"}}`)
	before := string(in)
	var m Message
	if err := Scan(in, &m, Limits{}); err != nil {
		t.Fatal(err)
	}
	for _, span := range [][]byte{m.ID, m.Method, m.Params, m.Name} {
		_ = append(span, "XXXX"...)
	}
	if string(in) != before {
		t.Errorf("appending to a span wrote into the input: %s", in)
	}
}

func TestKindString(t *testing.T) {
	t.Parallel()
	got := []string{Invalid.String(), Request.String(), Notification.String(), Result.String(), ErrorResponse.String(), Batch.String(), Kind(99).String()}
	want := []string{"invalid", "request", "notification", "result", "error response", "batch", "invalid"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}

// TestValues counts what decoding a message makes, wherever in it that lies.
func TestValues(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]int{
		`{"jsonrpc":"2.0","id":1,"method":"m"}`:                                                               3,
		`{"jsonrpc":"2.0","id":1,"method":"m","params":{"arguments":{}}}`:                                     4,
		`{"jsonrpc":"2.0","id":1,"method":"m","params":{"arguments":{"a":[1,2,{"b":null}]}}}`:                 9,
		`{"jsonrpc":"2.0","id":1,"method":"m","params":{"other":[{},{}],"_meta":{"x":[1]}}}`:                  8,
		`{"jsonrpc":"2.0","id":1,"method":"m","other":["a","b"]}`:                                             6,
		`{"jsonrpc":"2.0","id":1,"result":{"a":1}}`:                                                           4,
		`[{"jsonrpc":"2.0","id":1,"method":"m"}]`:                                                             4,
		`{"jsonrpc":"2.0","id":1,"method":"m","params":{"inputResponses":{"a":{},"b":{}},"requestState":""}}`: 7,
	} {
		var m Message
		if err := Scan([]byte(in), &m, Limits{}); err != nil || m.Values != want {
			t.Errorf("%s: got %d values and %v, want %d", in, m.Values, err, want)
		}
	}
}
