package transports_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

// TestNullIsAbsent checks that an optional member that is null is absent, as the official Ruby client writes it,
// and that an empty cursor is absent, too.
func TestNullIsAbsent(t *testing.T) {
	for _, revision := range troupe.Revisions()[:4] { // those with sessions
		t.Run(revision, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				h := host.New(t, troupe.Options{}, nil)
				c := h.Unchecked().InitializeAs(revision, `{"roots":null,"sampling":null,"experimental":null}`)
				for absent, with := range map[string][]string{
					host.Method("1", "ping", ""):         {host.Method("1", "ping", "null")},
					host.Method("1", "tools/list", `{}`): {host.Method("1", "tools/list", "null"), host.Method("1", "tools/list", `{"cursor":null}`), host.Method("1", "tools/list", `{"cursor":""}`), host.Method("1", "tools/list", `{"_meta":null}`), host.Method("1", "tools/list", `{"_meta":{"progressToken":null}}`)},
					host.Method("1", "tools/call", `{"name":"sleep"}`): {host.Method("1", "tools/call", `{"name":"sleep","arguments":null,"_meta":null}`),
						host.Method("1", "tools/call", `{"name":"sleep","arguments":null,"_meta":{"progressToken":null,"traceparent":null}}`)},
					host.Method("1", "resources/list", `{}`): {host.Method("1", "resources/list", `{"cursor":""}`), host.Method("1", "resources/list", `{"cursor":null,"_meta":null}`)},
					host.Method("1", "completion/complete", `{"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"who","value":""}}`): {
						host.Method("1", "completion/complete", `{"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"who","value":""},"context":null,"_meta":null}`)},
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
				// An id must not be null where there is a response.
				if a := c.Post(host.Method("null", "ping", "")); a.StatusCode != 400 {
					t.Errorf("a null id: %s %s", a.Status, a.Body)
				}
				question := c.Post(host.Call("2", "pingback", `{}`))
				asked := host.NextQuestion(t, question)
				if a := c.Post(`{"jsonrpc":"2.0","id":` + string(asked.ID) + `,"result":{},"error":null}`); a.StatusCode != 202 {
					t.Errorf("an answer with a null error: %s %s", a.Status, a.Body)
				}
				host.Equal(t, "the call", host.Last(t, question), host.TextResult("2", "pong"))
			})
		})
	}
}

// TestIntegersOfArguments checks that integers are accepted in every form that JSON Schema accepts, even if the
// handler's type is a Go integer.
func TestIntegersOfArguments(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		type in struct {
			N     int8   `json:"n,omitempty"`
			Wide  int64  `json:"wide,omitempty"`
			Other *int32 `json:"other,omitempty"`
		}
		troupe.AddTool(h.Server, troupe.Tool{Name: "sum"}, func(_ context.Context, _ *troupe.Call, in in) (string, error) {
			return fmt.Sprint(in.N, in.Wide, in.Other != nil && *in.Other == 7), nil
		})
		c := h.Session()
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
			a := c.Post(host.Call("1", "sum", args))
			switch {
			case want != "":
				host.Equal(t, args, a.Body, host.TextResult("1", want))
			case !strings.Contains(a.Body, `"isError":true`):
				t.Errorf("%s: %s", args, a.Body)
			}
		}
	})
}
