package protocol_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/closedschema"
	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/mcp"
)

// projections say how a value decoded from a definition of 2025-11-25 becomes one for a
// peer of another revision, and which definition it must fit there: older revisions
// define whole messages where later ones define params too.
var projections = []struct {
	def     string // of 2025-11-25; the test makes values of it
	message string // method, when the older definition is of a whole message
	older   string // definition of the older revisions, "" if it has the same name
	since   mcp.Revision
	until   mcp.Revision
	project func(v any, r mcp.Revision) (any, error)
}{
	{def: "Implementation", project: by(protocol.ImplementationFor)},
	{def: "Tool", project: by(protocol.ToolFor)},
	{def: "Prompt", project: by(protocol.PromptFor)},
	{def: "Resource", project: by(protocol.ResourceFor)},
	{def: "ResourceTemplate", project: by(protocol.TemplateFor)},
	{def: "ServerCapabilities", project: by(protocol.ServerCapabilitiesFor)},
	{def: "ClientCapabilities", project: by(protocol.ClientCapabilitiesFor)},
	{def: "InitializeResult", until: r11, project: by(protocol.InitializeResultFor)},
	{def: "ReadResourceResult", project: func(v any, r mcp.Revision) (any, error) {
		x := protocol.ReadResultFor(*v.(*mcp.ReadResourceResult), r)
		if r.Stateless() { // that revision requires members that no handler sets
			x.ResultType, x.Cacheable = mcp.ResultComplete, mcp.Cacheable{TTL: new(int64(0)), CacheScope: mcp.CachePrivate}
		}
		return x, nil
	}},
	{def: "CallToolResult", project: func(v any, r mcp.Revision) (any, error) {
		x := *protocol.CallResultFor(v.(*mcp.CallToolResult), r)
		if r.Stateless() {
			x.ResultType = mcp.ResultComplete
		}
		return x, nil
	}},
	{def: "GetPromptResult", project: func(v any, r mcp.Revision) (any, error) {
		x := *protocol.PromptResultFor(v.(*mcp.GetPromptResult), r)
		if r.Stateless() {
			x.ResultType = mcp.ResultComplete
		}
		return x, nil
	}},
	{def: "CreateMessageRequestParams", message: mcp.MethodSamplingCreateMessage, older: "CreateMessageRequest", project: try(protocol.SamplingFor)},
	{def: "ElicitRequestFormParams", message: mcp.MethodElicitationCreate, older: "ElicitRequest", since: mcp.Revision20250618, project: try(protocol.FormQuestionFor)},
	{def: "ElicitRequestURLParams", message: mcp.MethodElicitationCreate, since: mcp.Revision20251125, project: try(protocol.URLQuestionFor)},
}

func by[T any](f func(T, mcp.Revision) T) func(any, mcp.Revision) (any, error) {
	return func(v any, r mcp.Revision) (any, error) { return f(*v.(*T), r), nil }
}

func try[T any](f func(T, mcp.Revision) (T, error)) func(any, mcp.Revision) (any, error) {
	return func(v any, r mcp.Revision) (any, error) { return f(*v.(*T), r) }
}

// strictSchema returns the schema of a revision in which objects have the members that
// it names and no others.
func strictSchema(t testing.TB, revision string) *validator {
	t.Helper()
	_, raw := loadSchema(t, revision)
	defs := make(map[string]json.RawMessage, len(raw))
	for name, def := range raw {
		var v any
		def = bytes.ReplaceAll(def, []byte("#/definitions/"), []byte("#/$defs/"))
		if err := json.Unmarshal(def, &v); err != nil {
			t.Fatal(err)
		}
		closedschema.Close(v)
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		defs[name] = data
	}
	if defs["JSONValue"] != nil { // the generator of the schema lost null and fractions
		defs["JSONValue"] = json.RawMessage(`{}`)
	}
	v, err := newValidator(defs)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestProjectedValuesAreLegal makes values of 2025-11-25 with every member, and random
// ones, and checks them, as peers of other revisions get them, against the schemas of
// those peers. The values themselves must not change.
func TestProjectedValuesAreLegal(t *testing.T) {
	t.Parallel()
	rounds := 100
	if raceEnabled || testing.Short() {
		rounds = 10 // nothing here is shared between goroutines
	}
	defs, _ := loadSchema(t, "2025-11-25")
	full := officialValidator(t, "2025-11-25")
	others := map[mcp.Revision]*validator{}
	for _, r := range mcp.Revisions() {
		if r != r11 {
			others[r] = strictSchema(t, r.String())
		}
	}
	for _, p := range projections {
		legal := map[mcp.Revision]int{}
		for seed := range uint64(rounds) {
			g := generator{rand.New(rand.NewPCG(seed, 20251125)), defs, seed == 0}
			sample := []byte(g.value(defs[p.def], p.def, true, 0))
			v := reflect.New(goTypes[p.def]).Interface()
			if err := codec.Unmarshal(sample, v); err != nil {
				t.Fatalf("%s: %v", p.def, err)
			}
			before, err := codec.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			if err := full.check(p.def, before); err != nil {
				t.Fatalf("%s: %s is not legal to begin with: %v", p.def, before, err)
			}
			for _, r := range mcp.Revisions() {
				if p.until != 0 && r > p.until {
					continue
				}
				got, err := p.project(v, r)
				if errors.Is(err, mcp.ErrInexpressible) {
					continue
				}
				if err != nil {
					t.Fatalf("%s %s: %s: %v", p.def, r, before, err)
				}
				legal[r]++
				data, err := codec.Marshal(got)
				if err != nil {
					t.Fatalf("%s %s: %v", p.def, r, err)
				}
				if after, _ := codec.Marshal(v); !bytes.Equal(before, after) {
					t.Fatalf("%s %s: the input changed\n got %s\nwant %s", p.def, r, after, before)
				}
				if r == mcp.Revision20251125 {
					if !bytes.Equal(data, before) {
						t.Errorf("%s %s: got %s, want %s", p.def, r, data, before)
					}
					continue
				}
				def := p.def
				if p.message != "" && !r.Stateless() {
					def, data = p.older, []byte(`{"method":"`+p.message+`","params":`+string(data)+`}`)
				}
				if err := others[r].check(def, data); err != nil {
					t.Errorf("%s %s: got %s, which is not legal: %v", p.def, r, data, err)
				}
			}
			if t.Failed() {
				return
			}
		}
		for _, r := range mcp.Revisions() {
			has := r >= p.since && (p.until == 0 || r <= p.until)
			if has != (legal[r] > 0) {
				t.Errorf("%s: %d of %d values went to a peer of %s, which has them since %q", p.def, legal[r], rounds, r, p.since)
			}
		}
	}
}

// TestStrictSchemaRefuses checks that the schemas of the test above do not accept
// everything.
func TestStrictSchemaRefuses(t *testing.T) {
	t.Parallel()
	for revision, values := range map[string]map[string]string{
		"2024-11-05": {
			"Tool":           `{"name":"x","inputSchema":{"type":"object"},"annotations":{}}`,
			"CallToolResult": `{"content":[{"type":"audio","data":"","mimeType":"audio/wav"}]}`,
			"TextContent":    `{"type":"text","text":"x","annotations":{"lastModified":"2025-01-12T15:00:58Z"}}`,
		},
		"2025-03-26": {
			"Resource":       `{"uri":"x:","name":"x","title":"x"}`,
			"CallToolResult": `{"content":[],"structuredContent":{}}`,
			"PromptMessage":  `{"role":"user","content":{"type":"resource_link","name":"x","uri":"x:"}}`,
		},
		"2025-06-18": {
			"Prompt":        `{"name":"x","icons":[]}`,
			"StringSchema":  `{"type":"string","default":"x"}`,
			"ElicitRequest": `{"method":"elicitation/create","params":{"mode":"form","message":"x","requestedSchema":{"type":"object","properties":{}}}}`,
		},
		"2026-07-28": {
			"Tool":                   `{"name":"x","inputSchema":{"type":"object"},"execution":{}}`,
			"CallToolResult":         `{"content":[]}`,
			"ReadResourceResult":     `{"resultType":"complete","contents":[]}`,
			"ElicitRequestURLParams": `{"mode":"url","message":"x","url":"x:","elicitationId":"e"}`,
			"ClientCapabilities":     `{"tasks":{}}`,
		},
	} {
		v := strictSchema(t, revision)
		for def, value := range values {
			if v.check(def, []byte(value)) == nil {
				t.Errorf("%s %s: got %s accepted", revision, def, value)
			}
		}
	}
}
