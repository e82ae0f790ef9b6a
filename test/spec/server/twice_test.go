package server_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/when"
	"github.com/troupe-run/troupe/test/spec/host"
)

// part and whole are arguments with every kind of Go type that a decoder merges or uses again when a member comes twice.
type (
	part struct {
		N    int            `json:"n,omitempty"`
		Role string         `json:"role,omitempty"`
		P    *part          `json:"p,omitempty"`
		M    map[string]int `json:"m,omitempty"`
		L    []part         `json:"l,omitempty"`
		A    any            `json:"a,omitempty"`
	}
	whole struct {
		O part            `json:"o,omitzero"`
		P *part           `json:"p,omitempty"`
		M map[string]part `json:"m,omitempty"`
		L []part          `json:"l,omitempty"`
		F [2]part         `json:"f,omitzero"`
		R json.RawMessage `json:"r,omitempty"`
		A any             `json:"a,omitempty"`
	}
)

// wholeSchema allows of each part only n >= 0 and the role "user". Its references leave it to the validator; the tools "open" and
// "inferred" have schemas that are checked in place.
const wholeSchema = `{"type":"object","$defs":{"part":{"type":"object","properties":{"n":{"type":"integer","minimum":0},"role":{"enum":["user"]},"p":{"$ref":"#/$defs/part"},
	"m":{"type":"object","additionalProperties":{"minimum":0}},"l":{"type":"array","items":{"$ref":"#/$defs/part"}},"a":{}},"additionalProperties":false}},
	"properties":{"o":{"$ref":"#/$defs/part"},"p":{"$ref":"#/$defs/part"},"m":{"type":"object","additionalProperties":{"$ref":"#/$defs/part"}},
	"l":{"type":"array","items":{"$ref":"#/$defs/part"}},"f":{"type":"array","items":{"$ref":"#/$defs/part"}}}}`

// TestArgumentsThatComeTwice checks that no handler runs for arguments in which a member comes twice: of these a decoder makes other
// values than the ones that were checked.
func TestArgumentsThatComeTwice(t *testing.T) {
	when.Unraced(t, "one goroutine does all of it")
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		ran := ""
		troupe.AddTool(h.Server, troupe.Tool{Name: "written", InputSchema: json.RawMessage(wholeSchema)}, func(_ context.Context, _ *troupe.Call, in whole) (string, error) {
			got, _ := json.Marshal(in)
			ran = string(got)
			return "", nil
		})
		troupe.AddTool(h.Server, troupe.Tool{Name: "open", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(_ context.Context, _ *troupe.Call, in map[string]any) (string, error) {
			got, _ := json.Marshal(in)
			ran = string(got)
			return "", nil
		})
		troupe.AddTool(h.Server, troupe.Tool{Name: "inferred"}, func(_ context.Context, _ *troupe.Call, in struct {
			O struct{ N int }
			M map[string]map[string]int
			L []struct{ A any }
		}) (string, error) {
			got, _ := json.Marshal(in)
			ran = string(got)
			return "", nil
		})
		troupe.AddRawTool(h.Server, troupe.Tool{Name: "raw", InputSchema: json.RawMessage(wholeSchema)}, func(_ context.Context, _ *troupe.Call, args json.RawMessage) (*mcp.CallToolResult, error) {
			ran = string(args)
			return &mcp.CallToolResult{Content: mcp.Contents{mcp.Text("")}}, nil
		})
		session, m := h.Session(), h.Stateless(`{}`)
		wide := `"k0":0`
		for i := range 40 {
			wide += `,"k` + strings.Repeat("x", i) + `":0`
		}
		forms := map[string]string{ // the arguments, by the member that comes twice
			`{"o":{"n":-5},"o":{}}`:                                                 "o",
			`{"o":{"role":"admin"},"o":{"n":1}}`:                                    "o",
			`{"p":{"role":"admin"},"p":{"n":1}}`:                                    "p",
			`{"o":{"p":{"n":-1}},"o":{"p":{"role":"user"}}}`:                        "o",
			`{"m":{"x":{"role":"admin"}},"m":{"y":{"n":1}}}`:                        "m",
			`{"m":{"x":{"role":"admin"},"x":{"n":1}}}`:                              "x",
			`{"o":{"m":{"a":-1}},"o":{"m":{"b":1}}}`:                                "o",
			`{"l":[{"role":"admin"},{"n":-7}],"l":[{}]}`:                            "l",
			`{"l":[{"role":"admin"},{"n":-7}],"l":[{},{"n":3}]}`:                    "l",
			`{"l":[{"n":1,"n":1}]}`:                                                 "n",
			`{"f":[{"role":"admin"},{"n":-7}],"f":[{}]}`:                            "f",
			`{"f":[{"role":"admin"}],"f":[]}`:                                       "f",
			`{"p":{"role":"admin"},"p":null}`:                                       "p",
			`{"o":{"role":"admin"},"o":null}`:                                       "o",
			`{"m":{"x":{"n":-1}},"m":null}`:                                         "m",
			`{"o":{"n":-5,"n":1}}`:                                                  "n",
			`{"o":{"n":1,"n":null}}`:                                                "n",
			`{"\u006f":{"n":-5},"o":{}}`:                                            "o",
			`{"o":{"n":-5},"\u006f":{}}`:                                            "o",
			`{"r":{"\u00e9":1},"r":{"y":2}}`:                                        "r",
			`{"r":{"é":1,"\u00e9":2}}`:                                              "é",
			`{"a":{"x":1},"a":{"y":2}}`:                                             "a",
			`{"a":[0,[{"x":{"y":{"z":1,"z":1}}}]]}`:                                 "z",
			`{"o":{"a":{"x":1}},"o":{"a":{"y":2}}}`:                                 "o",
			`{"o":{"p":{"role":"admin"},"p":{}}}`:                                   "p",
			`{"p":{"p":{"role":"admin"}},"p":{"p":{"n":1}}}`:                        "p",
			`{"x":1,"x":1}`:                                                         "x",
			`{"a":{` + wide + `,"kxxxxxxxxxxxxxxxxxxxx":0}}`:                        "kxxxxxxxxxxxxxxxxxxxx",
			`{"a":{` + wide + `,"b":{"k0":0}},"b":{` + wide + `},"k0":0,"":1,"":2}`: "",
		}
		for args, twice := range forms {
			want := host.ToolFault("1", `invalid arguments: the member "`+twice+`" comes twice`)
			for _, tool := range []string{"written", "open", "raw"} {
				host.Equal(t, tool+" "+args, session.Post(host.Call("1", tool, args)).Body, want)
				a, id := m.Tool(tool, args)
				host.Equal(t, "stateless "+tool+" "+args, m.Done(a, id), `invalid arguments: the member "`+twice+`" comes twice`)
			}
			if ran != "" {
				t.Errorf("%s: a handler got %s", args, ran)
				ran = ""
			}
		}
		for args, twice := range map[string]string{
			`{"O":{"N":1},"O":{"N":2},"M":{},"L":[]}`:          "O",
			`{"O":{"N":1},"M":{"x":{"a":1,"a":2}},"L":[]}`:     "a",
			`{"O":{"N":1},"M":{"x":{},"x":{}},"L":[]}`:         "x",
			`{"O":{"N":1},"M":{},"L":[{"A":{"b":1,"b":2}}]}`:   "b",
			`{"O":{"N":1},"M":{},"L":[{"A":1},{"A":2,"A":3}]}`: "A",
		} {
			host.Equal(t, "inferred "+args, session.Post(host.Call("1", "inferred", args)).Body, host.ToolFault("1", `invalid arguments: the member "`+twice+`" comes twice`))
		}
		if ran != "" {
			t.Errorf("a handler got %s", ran)
		}
		// Members that are called the same in different objects, or that differ by case, are not the same.
		for _, args := range []string{`{"o":{"n":1,"p":{"n":1}},"p":{"n":1},"l":[{"n":1},{"n":1}]}`, `{"a":{"n":1,"N":2,"nn":3},"A":{"n":1},"":{"":0}}`, `{"a":{` + wide + `,"b":{` + wide + `}}}`} {
			for _, tool := range []string{"written", "open", "raw"} {
				host.Contains(t, args, session.Post(host.Call("1", tool, args)).Body, `"result":{"content":`)
				if ran == "" {
					t.Errorf("%s: the handler of %s did not run", args, tool)
				}
				ran = ""
			}
		}
	})
}

// TestAnswersThatComeTwice checks the same of what a user enters into a form.
func TestAnswersThatComeTwice(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		h.AddTool("ask", mcp.CapClientElicitationForm, func(ctx context.Context, call *troupe.Call) (string, error) {
			v, _, err := troupe.ElicitAs[struct {
				N int `json:"n" jsonschema:"a number"`
			}](ctx, call, "?")
			got, _ := json.Marshal(v)
			return string(got), err
		})
		m := h.Stateless(host.EveryCapability)
		asked, id := m.Tool("ask", `{}`)
		a, id := m.Tool("ask", `{}`, m.Parked(asked, id, "elicit"), `"inputResponses":{"elicit":{"action":"accept","content":{"n":1,"n":2}}}`)
		host.Contains(t, "answer", m.Done(a, id), `the member "n" comes twice`)
	})
}
