package troupe_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/internal/testkit"
)

// A member that a client may leave out is absent if it is null, as the official Ruby client writes it, and so is an
// empty cursor.
func TestNullIsAbsent(t *testing.T) {
	for _, revision := range troupe.Revisions()[:4] { // those with sessions
		t.Run(revision, func(t *testing.T) {
			testkit.Bubble(t, func(t *testing.T) {
				h := newHost(t, troupe.Options{}, nil)
				c := h.unchecked().InitializeAs(revision, `{"roots":null,"sampling":null,"experimental":null}`)
				for absent, with := range map[string][]string{
					method("1", "ping", ""):         {method("1", "ping", "null")},
					method("1", "tools/list", `{}`): {method("1", "tools/list", "null"), method("1", "tools/list", `{"cursor":null}`), method("1", "tools/list", `{"cursor":""}`), method("1", "tools/list", `{"_meta":null}`), method("1", "tools/list", `{"_meta":{"progressToken":null}}`)},
					method("1", "tools/call", `{"name":"sleep"}`): {method("1", "tools/call", `{"name":"sleep","arguments":null,"_meta":null}`),
						method("1", "tools/call", `{"name":"sleep","arguments":null,"_meta":{"progressToken":null,"traceparent":null}}`)},
					method("1", "resources/list", `{}`): {method("1", "resources/list", `{"cursor":""}`), method("1", "resources/list", `{"cursor":null,"_meta":null}`)},
					method("1", "completion/complete", `{"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"who","value":""}}`): {
						method("1", "completion/complete", `{"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"who","value":""},"context":null,"_meta":null}`)},
				} {
					want := c.Post(absent)
					for _, body := range with {
						if a := c.Post(body); a.StatusCode != want.StatusCode || a.Body != want.Body {
							t.Errorf("%s: %s %s, want what it is without: %s", body, a.Status, a.Body, want.Body)
						}
					}
				}
				if a := c.Post(`{"jsonrpc":"2.0","method":"notifications/initialized","params":null}`); a.StatusCode != 202 {
					t.Errorf("a notification: %s %s", a.Status, a.Body)
				}
				// An id may not be left out where there is an answer.
				if a := c.Post(method("null", "ping", "")); a.StatusCode != 400 {
					t.Errorf("a null id: %s %s", a.Status, a.Body)
				}
				question := c.Post(call("2", "pingback", `{}`))
				asked := nextQuestion(t, question)
				if a := c.Post(`{"jsonrpc":"2.0","id":` + string(asked.ID) + `,"result":{},"error":null}`); a.StatusCode != 202 {
					t.Errorf("an answer with a null error: %s %s", a.Status, a.Body)
				}
				equal(t, "the call", last(t, question), textResult("2", "pong"))
			})
		})
	}
}

// Integers are integers in every form that JSON Schema takes for one, also where the handler's type is one of Go's.
func TestIntegersOfArguments(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		h := newHost(t, troupe.Options{}, nil)
		type in struct {
			N     int8   `json:"n,omitempty"`
			Wide  int64  `json:"wide,omitempty"`
			Other *int32 `json:"other,omitempty"`
		}
		troupe.AddTool(h.srv, troupe.Tool{Name: "sum"}, func(_ context.Context, _ *troupe.Call, in in) (string, error) {
			return fmt.Sprint(in.N, in.Wide, in.Other != nil && *in.Other == 7), nil
		})
		c := h.session()
		for args, want := range map[string]string{
			`{"n":3.0}`:                            "3 0 false",
			`{"n":1e2}`:                            "100 0 false",
			`{"n":12e-1}`:                          "",
			`{"n":1e3}`:                            "",
			`{"wide":9.007199254740993e15}`:        "0 9007199254740993 false",
			`{"wide":9223372036854775807.0}`:       "0 9223372036854775807 false",
			`{"wide":1e19}`:                        "",
			`{"other":0.7e1,"wide":-2.0,"n":-1e0}`: "-1 -2 true",
		} {
			a := c.Post(call("1", "sum", args))
			switch {
			case want != "":
				equal(t, args, a.Body, textResult("1", want))
			case !strings.Contains(a.Body, `"isError":true`):
				t.Errorf("%s: %s", args, a.Body)
			}
		}
	})
}
