package troupe

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/mcp"
)

// TestWhatMayRunAgain checks who decides whether a request may run a second time: the table of
// methods, and the program for what is its own.
func TestWhatMayRunAgain(t *testing.T) {
	t.Parallel()
	srv := NewServer(mcp.Implementation{Name: "t", Version: "1"}, nil)
	s := &service{srv: srv}
	s.hosting = hostedCalls{&serviceHosting{service: s}}
	s.bindParts()
	for name, rerun := range map[string]Rerun{"never": Never, "safe": Safe} {
		AddRawTool(srv, Tool{Name: name, Rerun: rerun, InputSchema: json.RawMessage(`{"type":"object"}`)},
			func(context.Context, *Call, json.RawMessage) (*mcp.CallToolResult, error) { return nil, nil })
		AddMethod(srv, Method{Name: "x/" + name, Rerun: rerun}, func(context.Context, *Call, struct{}) (struct{}, error) { return struct{}{}, nil })
	}
	for _, tt := range []struct {
		method, name string
		want         bool
	}{
		{mcp.MethodToolsList, "", true}, {mcp.MethodLoggingSetLevel, "", false},
		{mcp.MethodToolsCall, "safe", true}, {mcp.MethodToolsCall, "never", false}, {mcp.MethodToolsCall, "none", false},
		{"x/safe", "", true}, {"x/never", "", false}, {"x/none", "", true},
	} {
		if got := s.Safe([]byte(tt.method), strconv.AppendQuote(nil, tt.name)); got != tt.want {
			t.Errorf("%s %s may run again: %v, want %v", tt.method, tt.name, got, tt.want)
		}
	}
}

// TestHeadersOfRequests checks which headers fit the arguments of a request.
func TestHeadersOfRequests(t *testing.T) {
	t.Parallel()
	const schema = `{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}`
	srv := NewServer(mcp.Implementation{Name: "t", Version: "1"}, nil)
	for _, name := range []string{"t", "ü"} {
		AddRawTool(srv, Tool{Name: name, InputSchema: json.RawMessage(schema)},
			func(context.Context, *Call, json.RawMessage) (*mcp.CallToolResult, error) { return nil, nil })
	}
	s := &service{srv: srv}
	s.hosting = hostedCalls{&serviceHosting{service: s}}
	s.bindParts()
	for _, tt := range []struct {
		method, params, region string
		ok                     bool
	}{
		{"tools/call", `{"name":"t","arguments":{"region":"x"}}`, "x", true},
		{"tools/call", `{"name":"t","arguments":{"region":"x"}}`, "y", false},
		{"tools/call", `{"name":"t"}`, "", true},
		{"tools/call", `{"name":"t"}`, "x", false},
		{"tools/call", `{"name":"t","arguments":[]}`, "", true},
		{"tools/call", `{"name":"\u00fc","arguments":{"region":"x"}}`, "x", true},
		{"tools/call", `{"name":"ü","arguments":{"region":"x"},"requestState":"s","inputResponses":{}}`, "y", false},
		{"tools/call", `{"name":"none","arguments":{"region":"x"}}`, "y", true},
		{"tools/call", `{"arguments":{"region":"x"}}`, "y", true},
		{"prompts/get", `{"name":"t","arguments":{"region":"x"}}`, "y", true},
	} {
		header := map[string][]string{}
		if tt.region != "" {
			header["Mcp-Param-Region"] = []string{tt.region}
		}
		var m codec.Message
		if err := codec.Scan([]byte(`{"jsonrpc":"2.0","id":1,"method":"`+tt.method+`","params":`+tt.params+`}`), &m, codec.Limits{}); err != nil {
			t.Fatal(err)
		}
		if err := s.tools.checkHeaders(&m, nil, header); (err == nil) != tt.ok {
			t.Errorf("%s %s with %q: got %v, want it to pass %v", tt.method, tt.params, tt.region, err, tt.ok)
		}
	}
}

// TestRefusedSchemas checks the panics of AddTool for schemas that it refuses.
func TestRefusedSchemas(t *testing.T) {
	t.Parallel()
	add := func(tool Tool) (refused any) {
		defer func() { refused = recover() }()
		AddRawTool(NewServer(mcp.Implementation{Name: "t", Version: "1"}, nil), tool,
			func(context.Context, *Call, json.RawMessage) (*mcp.CallToolResult, error) { return nil, nil })
		return nil
	}
	object := json.RawMessage(`{"type":"object"}`)
	if refused := add(Tool{Name: "t", InputSchema: object, OutputSchema: object}); refused != nil {
		t.Errorf("sound schemas: %v", refused)
	}
	for want, tool := range map[string]Tool{
		`troupe: tool "t": input schema: its type must be "object"`: {Name: "t", InputSchema: json.RawMessage(`{"type":"array"}`)},
		`troupe: tool "t": input schema: x-mcp-header 1: want`:      {Name: "t", InputSchema: json.RawMessage(`{"type":"object","properties":{"a":{"x-mcp-header":1}}}`)},
		`troupe: tool "t": output schema: `:                         {Name: "t", InputSchema: object, OutputSchema: json.RawMessage(`{"type":1}`)},
	} {
		if refused := fmt.Sprint(add(tool)); !strings.HasPrefix(refused, want) {
			t.Errorf("got %s, want %s", refused, want)
		}
	}
	inferring := func(add func(*Server)) (refused any) {
		defer func() { refused = recover() }()
		add(NewServer(mcp.Implementation{Name: "t", Version: "1"}, nil))
		return nil
	}
	for want, add := range map[string]func(*Server){
		`troupe: tool "t": string is no object, as arguments must be`: func(s *Server) {
			AddTool(s, Tool{Name: "t"}, func(context.Context, *Call, string) (string, error) { return "", nil })
		},
		`troupe: tool "t": no schema can be inferred: `: func(s *Server) {
			AddTool(s, Tool{Name: "t"}, func(context.Context, *Call, struct{}) (chan int, error) { return nil, nil })
		},
	} {
		if refused := fmt.Sprint(inferring(add)); !strings.HasPrefix(refused, want) {
			t.Errorf("got %s, want %s", refused, want)
		}
	}
}

func TestCheckNeeds(t *testing.T) {
	t.Parallel()
	for needs, want := range map[mcp.Capability]string{
		0: "", mcp.CapClientElicitationForm | mcp.CapClientElicitationURL | mcp.CapClientSampling | mcp.CapClientSamplingTools | mcp.CapClientRoots: "",
		mcp.CapClientRoots | mcp.CapClientRootsListChanged: `troupe: tool "t": field Needs has roots.listChanged, which no question to a client needs`,
		mcp.CapClientElicitation:                           `troupe: tool "t": field Needs has elicitation, which no question to a client needs`,
		1 << 31:                                            `troupe: tool "t": field Needs has 0x80000000, which no question to a client needs`,
	} {
		err := TryAddTool(NewServer(mcp.Implementation{}, nil), Tool{Name: "t", Needs: needs},
			func(context.Context, *Call, struct{}) (string, error) { return "", nil })
		if got := fmt.Sprint(err); err == nil && want != "" || err != nil && got != want {
			t.Errorf("%v: %s, want %s", needs, got, want)
		}
	}
}

func TestCheckName(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"get_weather", "weiter/über 天气", " ", strings.Repeat("n", 1024)} {
		if err := checkName("tool", name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for name, want := range map[string]string{
		"":                        "troupe: a prompt needs a name",
		"a\xff":                   `troupe: the name "a\xff" of a prompt is not UTF-8`,
		strings.Repeat("n", 1025): "has 1025 bytes: at most 1024 fit",
	} {
		if err := checkName("prompt", name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v, want %s", name, err, want)
		}
	}
}
