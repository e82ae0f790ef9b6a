package troupe_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/troupe-run/troupe/internal/testkit"
)

// resultTypes names the definition of each method's result in the official
// schema.
var resultTypes = map[string]string{
	"initialize":               "InitializeResult",
	"ping":                     "EmptyResult",
	"tools/list":               "ListToolsResult",
	"tools/call":               "CallToolResult",
	"prompts/list":             "ListPromptsResult",
	"prompts/get":              "GetPromptResult",
	"resources/list":           "ListResourcesResult",
	"resources/templates/list": "ListResourceTemplatesResult",
	"resources/read":           "ReadResourceResult",
	"resources/subscribe":      "EmptyResult",
	"resources/unsubscribe":    "EmptyResult",
	"completion/complete":      "CompleteResult",
	"logging/setLevel":         "EmptyResult",
}

// officialSchema holds the compiled definitions of 2025-11-25 by name.
type officialSchema map[string]*jsonschema.Schema

// official is the schema in the directory TROUPE_SPEC_DIR, nil when there is
// none.
var official = sync.OnceValues(func() (officialSchema, error) {
	dir := os.Getenv("TROUPE_SPEC_DIR")
	if dir == "" {
		dir = "../shared/spec"
	}
	f, err := os.Open(filepath.Join(dir, "2025-11-25", "schema.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	doc, err := jsonschema.UnmarshalJSON(f)
	if err != nil {
		return nil, err
	}
	const url = "https://spec.invalid/schema.json"
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource(url, doc); err != nil {
		return nil, err
	}
	s := officialSchema{}
	for name := range doc.(map[string]any)["$defs"].(map[string]any) {
		if s[name], err = c.Compile(url + "#/$defs/" + name); err != nil {
			return nil, err
		}
	}
	return s, nil
})

// check holds a server's message against the definitions that fit it. methods
// are those of the requests with its id.
func (s officialSchema) check(message string, methods []string) error {
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(message))
	if err != nil {
		return err
	}
	m, ok := v.(map[string]any)
	if !ok {
		return errors.New("no object")
	}
	has := func(name string) bool { _, ok := m[name]; return ok }
	switch {
	case has("method") && has("id"):
		return s["ServerRequest"].Validate(v)
	case has("method"):
		return s["ServerNotification"].Validate(v)
	case has("error"):
		if e, ok := m["error"].(map[string]any); ok && e["code"] == json.Number("-32042") {
			return s["URLElicitationRequiredError"].Validate(v)
		}
		return s["JSONRPCErrorResponse"].Validate(v)
	}
	if err := s["JSONRPCResultResponse"].Validate(v); err != nil {
		return err
	}
	err = errors.New("an answer to nothing that was asked")
	for _, method := range methods {
		def, ok := s[resultTypes[method]]
		if !ok {
			continue // it has no result
		}
		if err = def.Validate(m["result"]); err == nil {
			return nil
		}
	}
	return err
}

// conform makes c report every message that is not legal by the official schema,
// where that is there.
func conform(c *testkit.Client) {
	spec, err := official()
	if err != nil {
		c.T.Errorf("official schema: %v", err)
	}
	if spec == nil {
		return
	}
	var mu sync.Mutex // guards asked
	asked := map[string][]string{}
	c.Sent = func(message string) {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		if json.Unmarshal([]byte(message), &m) == nil && m.Method != "" && m.ID != nil {
			mu.Lock()
			asked[string(m.ID)] = append(asked[string(m.ID)], m.Method)
			mu.Unlock()
		}
	}
	c.Received = func(message string) {
		var m struct{ ID json.RawMessage }
		_ = json.Unmarshal([]byte(message), &m) // check reports what is no object
		mu.Lock()
		methods := asked[string(m.ID)]
		mu.Unlock()
		if err := spec.check(message, methods); err != nil {
			c.T.Errorf("not legal by the official schema: %.2000s\n%v", message, err)
		}
	}
}

// TestConformanceIsChecked guards the other tests against a check that accepts
// all.
func TestConformanceIsChecked(t *testing.T) {
	t.Parallel()
	spec, err := official()
	if err != nil {
		t.Fatal(err)
	}
	if spec == nil {
		t.Skip("the official schema is not here (set TROUPE_SPEC_DIR)")
	}
	call := []string{"ping", "tools/call"}
	for message, ok := range map[string]bool{
		`{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`:                                                   true,
		`{"jsonrpc":"2.0","id":1,"result":{"content":null}}`:                                                 true, // as that of ping
		`{"jsonrpc":"2.0","id":1,"result":null}`:                                                             false,
		`{"jsonrpc":"2.0","id":null,"result":{}}`:                                                            false,
		`{"id":1,"result":{}}`:                                                                               false,
		`{"jsonrpc":"2.0","error":{"code":-32700,"message":"x"}}`:                                            true,
		`{"jsonrpc":"2.0","id":1,"error":{"code":"x","message":"x"}}`:                                        false,
		`{"jsonrpc":"2.0","id":1,"error":{"code":-32042,"message":"x","data":{}}}`:                           false,
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1.5,"progress":1}}`:    false,
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"","progress":0.5}}`:   true,
		`{"jsonrpc":"2.0","method":"notifications/nothing"}`:                                                 false,
		`{"jsonrpc":"2.0","id":"x","method":"roots/list"}`:                                                   true,
		`{"jsonrpc":"2.0","id":"x","method":"elicitation/create","params":{"mode":"url","message":"x"}}`:     false,
		`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"loud","data":1}}`:              false,
		`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"no uri"}}`:             false,
		`[{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"","progress":0.5}}]`: false,
	} {
		if err := spec.check(message, call); (err == nil) != ok {
			t.Errorf("%s: legal %v, want %v: %v", message, err == nil, ok, err)
		}
	}
	if err := spec.check(`{"jsonrpc":"2.0","id":1,"result":{"content":null}}`, call[1:]); err == nil {
		t.Error("a tool's result without content is accepted")
	}
}
