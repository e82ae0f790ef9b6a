package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit/when"
)

type (
	boxed[T any] struct {
		V T `json:"v"`
	}
	digest   []byte
	byteLike byte
	// shade has methods of both a value and a pointer, tint only of pointers.
	shade struct{ name string }
	tint  struct{ name string }
	port  int
	base  struct {
		ID   string `json:"id"`
		Note string `json:"note,omitempty"`
	}
	derived struct {
		base
		*Extra
		*time.Location `json:"-"`
		Name           string `json:"name"`
	}
	Extra struct {
		More int `json:"more"`
	}
	quoted struct {
		N int64   `json:"n,string"`
		F float64 `json:"f,string"`
		B bool    `json:"b,string,omitempty"`
		P *uint   `json:"p,string"`
	}
	shadowed struct {
		base
		ID int `json:"id"`
	}
	named struct {
		Base base `json:"base"`
		base `json:"other"`
	}
	onlyEncodes   struct{ A int }
	onlyDecodes   struct{ A int }
	decodesItself struct{ A int }
	encodesItself struct{ A int }
	recursive     struct{ Next *recursive }
	stamped       struct {
		time.Time
		By string
	}
	hidden  struct{ A int }
	pointed struct{ *hidden }
)

func (s shade) MarshalText() ([]byte, error)     { return []byte("shade " + s.name), nil }
func (s *shade) UnmarshalText(text []byte) error { return cutName(&s.name, text, "shade ") }
func (s *tint) MarshalText() ([]byte, error)     { return []byte("tint " + s.name), nil }
func (s *tint) UnmarshalText(text []byte) error  { return cutName(&s.name, text, "tint ") }
func (p port) MarshalText() ([]byte, error)      { return fmt.Appendf(nil, ":%d", p), nil }
func (p *port) UnmarshalText(text []byte) error {
	_, err := fmt.Sscanf(string(text), ":%d", p)
	return err
}
func (onlyEncodes) MarshalText() ([]byte, error)    { return []byte("text"), nil }
func (o *onlyDecodes) UnmarshalText(b []byte) error { o.A = len(b); return nil }
func (*decodesItself) UnmarshalJSON([]byte) error   { return nil }
func (encodesItself) MarshalJSON() ([]byte, error)  { return []byte("[]"), nil }

func cutName(name *string, text []byte, prefix string) error {
	rest, ok := strings.CutPrefix(string(text), prefix)
	if !ok {
		return fmt.Errorf("no %s", strings.TrimSpace(prefix))
	}
	*name = rest
	return nil
}

// A goType is a type of a field, with the schemas that its member has in arguments and in results, values that come back
// as they were sent, and some refused values.
type goType struct {
	add      func(srv *troupe.Server, name string)
	schema   string // in arguments
	result   string
	same     []string
	rewrites map[string]string // by the value that is sent
	bad      []string
}

// oneOf makes a goType of T: a tool that returns its argument, and one that returns the zero value.
func oneOf[T any](schema string, same ...string) goType {
	return goType{schema: schema, result: schema, same: same, add: func(srv *troupe.Server, name string) {
		troupe.AddTool(srv, troupe.Tool{Name: name}, func(_ context.Context, _ *troupe.Call, in boxed[T]) (boxed[T], error) { return in, nil })
		troupe.AddTool(srv, troupe.Tool{Name: name + " zero"}, func(context.Context, *troupe.Call, struct{}) (boxed[T], error) { return boxed[T]{}, nil })
	}}
}

// returning sets the schema in results, where it differs.
func (g goType) returning(schema string) goType { g.result = schema; return g }

func (g goType) refuses(bad ...string) goType { g.bad = bad; return g }

func (g goType) rewriting(sent, got string) goType {
	g.rewrites = map[string]string{sent: got}
	return g
}

const (
	text     = `{"type":"string"}`
	orNone   = `{"type":["null","string"]}`
	base64   = `{"type":"string","contentEncoding":"base64"}`
	encoded  = `{"type":"string","description":"in base64"}`
	anything = `{"description":"any JSON value"}`
)

var goTypes = map[string]goType{
	"bytes":            oneOf[[]byte](encoded, `"aGk="`, `""`).returning(base64).rewriting(`null`, `""`).refuses(`"!"`, `[104,105]`, `1`),
	"named bytes":      oneOf[digest](encoded, `"aGk="`).returning(base64).refuses(`[104]`),
	"bytes by kind":    oneOf[[]byteLike](encoded, `"aGk="`).returning(base64),
	"pointer to bytes": oneOf[*[]byte](encoded, `"aGk="`, `null`).returning(`{"type":["null","string"],"contentEncoding":"base64"}`),
	"list of bytes":    oneOf[[][]byte](`{"type":"array","items":`+encoded+`}`, `["aGk=",""]`).returning(`{"type":"array","items":`+base64+`}`).rewriting(`null`, `[]`),
	"map of bytes":     oneOf[map[string][]byte](`{"type":"object","properties":{},"additionalProperties":`+encoded+`}`, `{"a":"aGk="}`).returning(`{"type":"object","additionalProperties":`+base64+`}`).rewriting(`null`, `{}`),
	"array of bytes":   oneOf[[2]byte](`{"type":"array","items":{"type":"integer","minimum":0,"maximum":255},"minItems":2,"maxItems":2}`, `[104,105]`).refuses(`"aGk="`, `[1]`, `[1,256]`),
	"raw":              oneOf[json.RawMessage](anything, `{"a":[1.0,"x",null]}`, `null`, `"x"`).returning(`true`),
	"list of raw":      oneOf[[]json.RawMessage](`{"type":"array","items":`+anything+`}`, `[1.0,{}]`).returning(`{"type":"array","items":true}`),
	"number":           oneOf[json.Number](`{"type":"number"}`, `1.50`, `12345678901234567890123`).refuses(`"1.5"`, `null`),
	"IP":               oneOf[net.IP](text, `"192.0.2.1"`, `"2001:db8::1"`).refuses(`"here"`, `[192,0,2,1]`),
	"mask":             oneOf[net.IPMask](encoded, `"/wAAAA=="`).returning(base64),
	"address":          oneOf[netip.Addr](text, `"192.0.2.1"`, `""`).refuses(`"here"`),
	"prefix":           oneOf[*netip.Prefix](text, `"192.0.2.0/24"`, `null`).returning(orNone),
	"time":             oneOf[time.Time](`{"type":"string","format":"date-time"}`, `"2026-07-28T12:00:00.5+02:00"`).refuses(`"yesterday"`, `0`),
	"pointer to time":  oneOf[*time.Time](`{"type":"string","format":"date-time"}`, `"2026-07-28T12:00:00Z"`, `null`).returning(`{"type":["null","string"],"format":"date-time"}`),
	"duration":         oneOf[time.Duration](`{"type":"integer"}`, `5000`).refuses(`"5s"`),
	"large integer":    oneOf[big.Int](`{"type":"integer"}`, `123456789012345678901234567890`).rewriting(`5e0`, `5`).refuses(`"1"`, `1.5`),
	"integer or none":  oneOf[*big.Int](`{"type":"integer"}`, `-5`, `null`).returning(`{"type":["null","integer"]}`).rewriting(`123456789012345678901234567890.0`, `123456789012345678901234567890`),
	"fraction":         oneOf[big.Rat](text, `"1/3"`).refuses(`"x"`, `1`),
	"large float":      oneOf[*big.Float](text, `"1.5"`, `null`).returning(orNone),
	"level":            oneOf[slog.Level](text, `"WARN"`),
	"URL":              oneOf[*url.URL](`{"type":"object","properties":{"Scheme":{"type":"string"},"Opaque":{"type":"string"},"User":{"type":"object","properties":{},"additionalProperties":false},"Host":{"type":"string"},"Path":{"type":"string"},"Fragment":{"type":"string"},"RawQuery":{"type":"string"},"RawPath":{"type":"string"},"RawFragment":{"type":"string"},"ForceQuery":{"type":"boolean"},"OmitHost":{"type":"boolean"}},"required":["Scheme","Opaque","Host","Path","Fragment","RawQuery","RawPath","RawFragment","ForceQuery","OmitHost"],"additionalProperties":false}`, `null`).returning(`{"type":["null","object"],"properties":{"Scheme":{"type":"string"},"Opaque":{"type":"string"},"User":{"type":["null","object"],"properties":{},"additionalProperties":false},"Host":{"type":"string"},"Path":{"type":"string"},"Fragment":{"type":"string"},"RawQuery":{"type":"string"},"RawPath":{"type":"string"},"RawFragment":{"type":"string"},"ForceQuery":{"type":"boolean"},"OmitHost":{"type":"boolean"}},"required":["Scheme","Opaque","User","Host","Path","Fragment","RawQuery","RawPath","RawFragment","ForceQuery","OmitHost"],"additionalProperties":false}`),
	"text":             oneOf[shade](text, `"shade of grey"`).refuses(`"grey"`, `{}`),
	"text by pointer":  oneOf[tint](text, `"tint of grey"`).refuses(`"grey"`),
	"list of texts":    oneOf[[]tint](`{"type":"array","items":`+text+`}`, `["tint of grey"]`),
	"map of texts":     oneOf[map[string]*tint](`{"type":"object","properties":{},"additionalProperties":`+text+`}`, `{"a":"tint of grey","b":null}`).returning(`{"type":"object","additionalProperties":` + orNone + `}`),
	"keys as texts":    oneOf[map[port]int](`{"type":"object","properties":{},"additionalProperties":{"type":"integer"}}`, `{":80":1}`).returning(`{"type":"object","additionalProperties":{"type":"integer"}}`).refuses(`{"x":1}`),
	"integer":          oneOf[int8](`{"type":"integer","minimum":-128,"maximum":127}`, `-128`).rewriting(`1.0e2`, `100`).refuses(`128`, `1.5`),
	"anything":         oneOf[any](anything, `{"a":[1,null]}`, `null`).returning(`true`),
	"embedded":         oneOf[derived](`{"type":"object","properties":{"id":{"type":"string"},"note":{"type":"string"},"more":{"type":"integer"},"name":{"type":"string"}},"required":["id","name"],"additionalProperties":false}`, `{"id":"1","name":"n"}`, `{"id":"1","note":"x","more":2,"name":"n"}`),
	"quoted":           oneOf[quoted](`{"type":"object","properties":{"n":{"type":"string"},"f":{"type":"string"},"b":{"type":"string"},"p":{"type":"string"}},"required":["n","f"],"additionalProperties":false}`, `{"n":"-5","f":"1.5","b":"true","p":"7"}`, `{"n":"0","f":"0","p":null}`).returning(`{"type":"object","properties":{"n":{"type":"string"},"f":{"type":"string"},"b":{"type":"string"},"p":{"type":["null","string"]}},"required":["n","f","p"],"additionalProperties":false}`).rewriting(`{"n":"0","f":"0"}`, `{"n":"0","f":"0","p":null}`).refuses(`{"n":1,"f":"0","p":null}`, `{"n":"x","f":"0","p":null}`),
	"shadowed":         oneOf[shadowed](`{"type":"object","properties":{"note":{"type":"string"},"id":{"type":"integer"}},"required":["id"],"additionalProperties":false}`, `{"id":1}`),
	"named":            oneOf[named](`{"type":"object","properties":{"base":{"type":"object","properties":{"id":{"type":"string"},"note":{"type":"string"}},"required":["id"],"additionalProperties":false},"other":{"type":"object","properties":{"id":{"type":"string"},"note":{"type":"string"}},"required":["id"],"additionalProperties":false}},"required":["base","other"],"additionalProperties":false}`, `{"base":{"id":"1"},"other":{"id":"2"}}`),
}

// stateless sends one request of 2026-07-28 and returns its result.
func stateless(t *testing.T, url, method, name, params string) (result string) {
	t.Helper()
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
	body := `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params + meta + `}}`
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for key, value := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Mcp-Name": name} {
		if value != "" {
			req.Header.Set(key, value)
		}
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	var message struct{ Result, Error json.RawMessage }
	if err := json.Unmarshal(answer, &message); err != nil || message.Error != nil {
		t.Fatalf("%s: got %s, %v", body, answer, err)
	}
	return string(message.Result)
}

// member returns a member of a JSON object as it was written.
func member(t *testing.T, object string, path ...string) string {
	t.Helper()
	for _, name := range path {
		var members map[string]json.RawMessage
		if err := json.Unmarshal([]byte(object), &members); err != nil {
			t.Fatalf("%s: %v", object, err)
		}
		object = string(members[name])
	}
	return object
}

// serveTypes serves what add registers until the test ends, and returns the URL.
func serveTypes(t *testing.T, add func(*troupe.Server)) string {
	t.Helper()
	rt, err := troupe.New(troupe.Options{})
	if err != nil {
		t.Fatal(err)
	}
	srv := troupe.NewServer(mcp.Implementation{Name: "t", Version: "1"}, &troupe.ServerOptions{Limits: troupe.Limits{PageSize: 1000}})
	add(srv)
	rt.Mount("/mcp", srv)
	web := httptest.NewServer(rt)
	t.Cleanup(func() {
		if err := rt.Close(context.Background()); err != nil {
			t.Error(err)
		}
		web.Close()
		http.DefaultClient.CloseIdleConnections()
	})
	return web.URL + "/mcp"
}

// TestSchemasMeanWhatGoEncodes registers a tool with a field of each type, and checks that its schemas fit the JSON
// that the tool reads and writes.
func TestSchemasMeanWhatGoEncodes(t *testing.T) {
	when.Unraced(t, "one goroutine does all of it")
	url := serveTypes(t, func(srv *troupe.Server) {
		for name, g := range goTypes {
			g.add(srv, name)
		}
	})
	var listed struct {
		Tools []struct {
			Name                      string
			InputSchema, OutputSchema json.RawMessage
		}
	}
	if err := json.Unmarshal([]byte(stateless(t, url, "tools/list", "", "")), &listed); err != nil {
		t.Fatal(err)
	}
	for _, tool := range listed.Tools {
		g, ok := goTypes[tool.Name]
		if !ok {
			continue
		}
		if got := member(t, string(tool.InputSchema), "properties", "v"); got != g.schema {
			t.Errorf("%s: the argument's schema is %s, want %s", tool.Name, got, g.schema)
		}
		if got := member(t, string(tool.OutputSchema), "properties", "v"); got != g.result {
			t.Errorf("%s: the result's schema is %s, want %s", tool.Name, got, g.result)
		}
	}
	invoke := func(name, args string) string {
		return stateless(t, url, "tools/call", name, `"name":"`+name+`","arguments":`+args+`,`)
	}
	for name, g := range goTypes {
		for _, v := range g.same {
			if got := member(t, invoke(name, `{"v":`+v+`}`), "structuredContent", "v"); got != v {
				t.Errorf("%s: sent %s, got %s", name, v, got)
			}
		}
		for v, want := range g.rewrites {
			if got := member(t, invoke(name, `{"v":`+v+`}`), "structuredContent", "v"); got != want {
				t.Errorf("%s: sent %s, got %s, want %s", name, v, got, want)
			}
		}
		for _, v := range g.bad {
			if got := invoke(name, `{"v":`+v+`}`); member(t, got, "isError") != "true" || !strings.Contains(got, "invalid arguments: ") {
				t.Errorf("%s: sent %s, got %s, want it refused", name, v, got)
			}
		}
		if got := member(t, invoke(name+" zero", `{}`), "structuredContent", "v"); got == "" {
			t.Errorf("%s: the zero value has no structured content", name)
		}
	}
}

// TestTypesThatDifferByDirection checks that arguments have the schema of the type that is decoded, and results that of
// the type that is encoded.
func TestTypesThatDifferByDirection(t *testing.T) {
	url := serveTypes(t, func(srv *troupe.Server) {
		troupe.AddTool(srv, troupe.Tool{Name: "encodes"}, func(_ context.Context, _ *troupe.Call, in boxed[onlyEncodes]) (boxed[onlyEncodes], error) {
			return in, nil
		})
		troupe.AddTool(srv, troupe.Tool{Name: "decodes"}, func(_ context.Context, _ *troupe.Call, in boxed[onlyDecodes]) (boxed[onlyDecodes], error) {
			return in, nil
		})
		troupe.AddTool(srv, troupe.Tool{Name: "raises"}, func(_ context.Context, _ *troupe.Call, in boxed[encodesItself]) (boxed[decodesItself], error) {
			return boxed[decodesItself]{decodesItself(in.V)}, nil
		})
	})
	for _, row := range []struct{ tool, args, want string }{
		{"encodes", `{"v":{"A":1}}`, `{"v":"text"}`},
		{"decodes", `{"v":"text"}`, `{"v":{"A":4}}`},
		{"raises", `{"v":{"A":1}}`, `{"v":{"A":1}}`},
	} {
		got := stateless(t, url, "tools/call", row.tool, `"name":"`+row.tool+`","arguments":`+row.args+`,`)
		if content := member(t, got, "structuredContent"); content != row.want {
			t.Errorf("%s: got %s, want %s", row.tool, got, row.want)
		}
	}
}

// TestArgumentsByPointer checks that a handler may take a pointer to its arguments.
func TestArgumentsByPointer(t *testing.T) {
	url := serveTypes(t, func(srv *troupe.Server) {
		troupe.AddTool(srv, troupe.Tool{Name: "t"}, func(_ context.Context, _ *troupe.Call, in *boxed[int]) (string, error) {
			return fmt.Sprint(in.V), nil
		})
		troupe.AddTool(srv, troupe.Tool{Name: "none"}, func(_ context.Context, _ *troupe.Call, in *struct{}) (string, error) {
			return fmt.Sprint(in != nil), nil
		})
	})
	schemas := stateless(t, url, "tools/list", "", "")
	for _, want := range []string{`{"type":"object","properties":{"v":{"type":"integer"}},"required":["v"],"additionalProperties":false}`, `{"type":"object","properties":{},"additionalProperties":false}`} {
		if !strings.Contains(schemas, `"inputSchema":`+want) {
			t.Errorf("got %s, want a tool with %s", schemas, want)
		}
	}
	if got := stateless(t, url, "tools/call", "t", `"name":"t","arguments":{"v":1e3},`); !strings.Contains(got, `"text":"1000"`) {
		t.Errorf("got %s", got)
	}
	if got := stateless(t, url, "tools/call", "none", `"name":"none",`); !strings.Contains(got, `"text":"true"`) {
		t.Errorf("got %s", got)
	}
}

// TestTypesWithoutASchema checks that a type whose JSON cannot be known is refused when its tool is registered, and
// that the message says where it is and why.
func TestTypesWithoutASchema(t *testing.T) {
	t.Parallel()
	for want, add := range map[string]func(*troupe.Server){
		"boxed[github.com/troupe-run/troupe/test/spec/server_test.decodesItself].V: server_test.decodesItself has a method UnmarshalJSON": takes[boxed[decodesItself]],
		"boxed[github.com/troupe-run/troupe/test/spec/server_test.encodesItself].V: server_test.encodesItself has a method MarshalJSON":   returns[boxed[encodesItself]],
		"server_test.stamped has a method MarshalJSON": returns[stamped],
		"V: server_test.tint encodes itself only by a pointer, and a map has no pointers to its values: use *server_test.tint": returns[boxed[map[string]tint]],
		"V: big.Int encodes itself only by a pointer":                                                                    returns[boxed[map[string]struct{ V big.Int }]],
		"V: map[int]int has keys that are neither strings nor texts":                                                     takes[boxed[map[int]int]],
		"V: fmt.Stringer has methods, and nothing can be decoded into it":                                                takes[boxed[fmt.Stringer]],
		"server_test.pointed.A: it lies in an embedded pointer to an unexported type, which nothing can be decoded into": takes[pointed],
		"V: server_test.recursive.Next: server_test.recursive holds itself":                                              takes[boxed[recursive]],
		"V: chan int has no form in JSON":                                                                                takes[boxed[chan int]],
		"string is no object, as arguments must be":                                                                      takes[*string],
		"give the tool a written one":                                                                                    returns[func()],
	} {
		func() {
			defer func() {
				if r := fmt.Sprint(recover()); !strings.HasPrefix(r, `troupe: tool "t": `) || !strings.Contains(r, want) {
					t.Errorf("got %s, want %s", r, want)
				}
			}()
			add(troupe.NewServer(mcp.Implementation{Name: "t", Version: "1"}, nil))
		}()
	}
	// A type that cannot be decoded can be returned, and the other way round.
	returns[pointed](troupe.NewServer(mcp.Implementation{Name: "t", Version: "1"}, nil))
	takes[boxed[map[string]tint]](troupe.NewServer(mcp.Implementation{Name: "t", Version: "1"}, nil))
}

func takes[T any](s *troupe.Server) {
	troupe.AddTool(s, troupe.Tool{Name: "t"}, func(context.Context, *troupe.Call, T) (string, error) { return "", nil })
}

func returns[T any](s *troupe.Server) {
	troupe.AddTool(s, troupe.Tool{Name: "t"}, func(context.Context, *troupe.Call, struct{}) (out T, err error) { return out, nil })
}
