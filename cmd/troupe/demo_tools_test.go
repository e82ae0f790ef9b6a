package main_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/examples/everything"
)

// contactSchema is the schema of json_schema_2020_12_tool. Clients get it byte for byte.
const contactSchema = `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object",` +
	`"$defs":{"address":{"$anchor":"addressDef","type":"object","properties":{"street":{"type":"string"},"city":{"type":"string"}}}},` +
	`"properties":{"name":{"type":"string"},"address":{"$ref":"#/$defs/address"},"contactMethod":{"type":"string","enum":["phone","email"]},"phone":{"type":"string"},"email":{"type":"string"}},` +
	`"allOf":[{"anyOf":[{"required":["phone"]},{"required":["email"]}]}],` +
	`"if":{"properties":{"contactMethod":{"const":"phone"}},"required":["contactMethod"]},"then":{"required":["phone"]},"else":{"required":["email"]},` +
	`"additionalProperties":false}`

// listed returns the tools of tools.txt: those of the demo, and all.
func listed(t *testing.T) (demo, all []string) {
	text, err := os.ReadFile("../../examples/everything/tools.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		name, only, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name == "" || name == "#" {
			continue
		}
		if all = append(all, name); only == "" {
			demo = append(demo, name)
		}
	}
	return demo, all
}

func TestToolList(t *testing.T) {
	t.Parallel()
	demo, all := listed(t)
	for _, tt := range []struct {
		server *troupe.Server
		want   []string
	}{{everything.New(), demo}, {everything.NewConformance(troupe.ServerOptions{}), all}} {
		c := connectTo(t, tt.server, `{}`)
		var list struct {
			Tools []struct {
				Name        string
				Description string
				InputSchema json.RawMessage
			}
		}
		c.call("tools/list", `{}`, &list)
		var names []string
		for _, tool := range list.Tools {
			names = append(names, tool.Name)
			if tool.Description == "" {
				t.Errorf("%s has no description", tool.Name)
			}
			if tool.Name == "json_schema_2020_12_tool" && string(tool.InputSchema) != contactSchema {
				t.Errorf("its schema is listed as %s, want %s", tool.InputSchema, contactSchema)
			}
		}
		slices.Sort(names)
		if diff := cmp.Diff(names, tt.want); diff != "" {
			t.Errorf("tools differ (-got +want):\n%s", diff)
		}
	}
}

func TestArgumentsThatDoNotFit(t *testing.T) {
	t.Parallel()
	c := connect(t, `{}`)
	for _, tt := range []struct{ tool, arguments string }{
		{"echo", `{}`}, {"echo", `{"text":1}`}, {"echo", `{"text":"","more":1}`},
		{"count", `{}`}, {"count", `{"to":-1}`}, {"count", `{"to":1e9}`}, {"count", `{"to":1,"delay_ms":-1}`}, {"count", `{"to":1.5}`},
		{"sleep", `{"ms":-1}`}, {"sleep", `{"ms":1e12}`}, {"tick", `{"n":-1}`},
		{"json_schema_2020_12_tool", `{}`}, {"json_schema_2020_12_tool", `{"contactMethod":"phone","email":"a"}`},
		{"test_simple_text", `{"more":1}`},
	} {
		if r := c.tool(tt.tool, tt.arguments); !r.IsError {
			t.Errorf("%s %s gives %s, want an error in the result", tt.tool, tt.arguments, r.Content)
		}
	}
}
