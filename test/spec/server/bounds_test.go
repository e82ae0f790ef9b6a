package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/troupetest"
)

type trip struct {
	City  string   `json:"city" jsonschema:"where to go" form:"min=2;max=20"`
	Class string   `json:"class" form:"enum=first|second;default=second"`
	Days  *int     `json:"days" form:"min=1;max=30;default=7"`
	Mail  string   `json:"mail,omitempty" form:"format=email"`
	Legs  []tripTo `json:"legs,omitempty" form:"max=2"`
}

type tripTo struct {
	Code string `json:"code" form:"pattern=^[A-Z]{3}$"`
	Bags int    `json:"bags" form:"min=0;default=1"`
}

// TestBoundsOfArguments checks that clients of all revisions see what form tags say, that calls which break it do not reach
// the handler, and that the handler gets the defaults.
func TestBoundsOfArguments(t *testing.T) {
	for _, r := range mcp.Revisions() {
		troupetest.Test(t, func(t *testing.T) {
			srv := troupe.NewServer(mcp.Implementation{Name: "trips", Version: "1"}, nil)
			troupe.AddTool(srv, troupe.Tool{Name: "book"}, func(_ context.Context, _ *troupe.Call, in trip) (string, error) {
				return fmt.Sprint(in.City, in.Class, *in.Days, in.Mail, in.Legs), nil
			})
			c := troupetest.Connect(t, srv, troupetest.Options{Revision: r})
			tools, err := c.Tools(t.Context())
			if err != nil || len(tools) != 1 {
				t.Fatalf("%s: %v, %v", r, tools, err)
			}
			for _, part := range []string{`"minLength":2`, `"maxLength":20`, `"enum":["first","second"]`, `"default":"second"`, `"default":7`, `"maximum":30`,
				`"format":"email"`, `"pattern":"^[A-Z]{3}$"`, `"maxItems":2`, `"required":["city"]`} {
				if !strings.Contains(string(tools[0].InputSchema), part) {
					t.Errorf("%s: clients see %s, without %s", r, tools[0].InputSchema, part)
				}
			}
			for _, tt := range []struct{ args, want string }{
				{`{"city":"Oslo"}`, "Oslosecond7[]"},
				{`{"city":"Oslo","class":"first","days":null,"legs":[{"code":"OSL"},{"code":"BGO","bags":0}]}`, "Oslofirst7[{OSL 1} {BGO 0}]"},
				{`{"city":"Oslo","days":3,"mail":"ada@example.com"}`, "Oslosecond3ada@example.com[]"},
				{`{"city":"O"}`, "at '/city'"},
				{`{"city":"Oslo","class":"third"}`, "at '/class'"},
				{`{"city":"Oslo","days":31}`, "at '/days'"},
				{`{"city":"Oslo","mail":"ada"}`, "at '/mail'"},
				{`{"city":"Oslo","legs":[{"code":"osl"}]}`, "at '/legs/0/code'"},
				{`{"city":"Oslo","legs":[{"code":"OSL"},{"code":"OSL"},{"code":"OSL"}]}`, "at '/legs'"},
			} {
				var got string
				res, err := c.CallTool(t.Context(), "book", json.RawMessage(tt.args))
				if err != nil {
					got = err.Error()
				} else {
					got = troupetest.Text(res)
				}
				if refused := strings.HasPrefix(tt.want, "at "); got != tt.want && !(refused && strings.Contains(got, tt.want)) {
					t.Errorf("%s: %s: got %s, want %s", r, tt.args, got, tt.want)
				}
			}
		})
	}
}

// TestWrongFormTags checks that AddTool names the tool, the field and its tag.
func TestWrongFormTags(t *testing.T) {
	t.Parallel()
	type wrong struct {
		Count int `form:"min=5;max=1"`
	}
	srv := troupe.NewServer(mcp.Implementation{Name: "x", Version: "1"}, nil)
	err := troupe.TryAddTool(srv, troupe.Tool{Name: "count"}, func(context.Context, *troupe.Call, wrong) (string, error) { return "", nil })
	if want := `troupe: tool "count": no schema can be inferred: server_test.wrong.Count: min=5 is above max=1 (form:"min=5;max=1"); give the tool a written one`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestWrittenSchemaBounds checks that a schema that the program writes is all that bounds the arguments.
func TestWrittenSchemaBounds(t *testing.T) {
	t.Parallel()
	schema, err := troupe.InputSchema[trip]()
	if err != nil || !strings.Contains(string(schema), `"maximum":30`) {
		t.Errorf("the schema is %s, %v", schema, err)
	}
	srv := troupe.NewServer(mcp.Implementation{Name: "x", Version: "1"}, nil)
	troupe.AddTool(srv, troupe.Tool{Name: "t", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(_ context.Context, _ *troupe.Call, in tripTo) (string, error) {
		return fmt.Sprint(in), nil
	})
	c := troupetest.Connect(t, srv, troupetest.Options{})
	if got, err := c.CallTool(t.Context(), "t", json.RawMessage(`{"code":"x"}`)); err != nil || troupetest.Text(got) != "{x 0}" {
		t.Errorf("got %v, %v", got, err)
	}
}
