package troupe_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/troupe-run/troupe/internal/closedschema"
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
	"server/discover":          "DiscoverResult",
	"subscriptions/listen":     "SubscriptionsListenResult",
}

// newest is the revision that a session has where nothing else is said.
const newest = "2025-11-25"

// officialSchema holds the compiled definitions of a revision by name.
type officialSchema map[string]*jsonschema.Schema

// schemas are those of the revisions, compiled when they are first used.
var schemas = func() map[string]func() (officialSchema, error) {
	all := map[string]func() (officialSchema, error){}
	for _, revision := range []string{r24, r03, r06, r11, r28} {
		all[revision] = sync.OnceValues(func() (officialSchema, error) { return readOfficial(revision) })
	}
	return all
}()

// official is the schema of the newest revision in the directory TROUPE_SPEC_DIR,
// nil when there is none.
func official() (officialSchema, error) { return schemas[newest]() }

func readOfficial(revision string) (officialSchema, error) {
	dir := os.Getenv("TROUPE_SPEC_DIR")
	if dir == "" {
		dir = "../shared/spec"
	}
	f, err := os.Open(filepath.Join(dir, revision, "schema.json"))
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
	defs := "$defs"
	if revision < newest {
		defs = "definitions"
	}
	if revision != newest {
		closedschema.Close(doc)
	}
	if revision == r28 { // whose generator lost null and fractions
		doc.(map[string]any)[defs].(map[string]any)["JSONValue"] = map[string]any{}
	}
	const url = "https://spec.invalid/schema.json"
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource(url, doc); err != nil {
		return nil, err
	}
	s := officialSchema{}
	for name := range doc.(map[string]any)[defs].(map[string]any) {
		if s[name], err = c.Compile(url + "#/" + defs + "/" + name); err != nil {
			return nil, err
		}
	}
	if revision < newest {
		// One message is checked by two definitions, of the envelope and of what is in
		// it: the one of a kind of message does not name the envelope's members.
		s["JSONRPCErrorResponse"], s["JSONRPCResultResponse"] = s["JSONRPCError"], s["JSONRPCResponse"]
	}
	return s, nil
}

// bare is a message without the members of its envelope, which older schemas do not
// name where they define a kind of message.
func (s officialSchema) bare(m map[string]any) any {
	if s["URLElicitationRequiredError"] != nil || s.modern() {
		return m
	}
	m = maps.Clone(m)
	delete(m, "jsonrpc")
	delete(m, "id")
	return m
}

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
	if s.modern() {
		return s.checkModern(m, has, methods)
	}
	switch {
	case has("method") && has("id"):
		return s["ServerRequest"].Validate(s.bare(m))
	case has("method"):
		return s["ServerNotification"].Validate(s.bare(m))
	case has("error") && !has("id") && s["URLElicitationRequiredError"] == nil:
		return nil // the body of an HTTP error, which no definition of an older revision is for
	case has("error"):
		if e, ok := m["error"].(map[string]any); ok && e["code"] == json.Number("-32042") {
			if s["URLElicitationRequiredError"] == nil {
				return errors.New("the revision has no elicitation by URL")
			}
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

// conform makes c report every message that is not legal by the official schema of
// its session's revision, where that is there. In an older revision a member that
// only later ones have is not legal either.
func conform(c *testkit.Client) { conformTo(c, newest) }

// conformTo is conform for a client that begins with another revision.
func conformTo(c *testkit.Client, revision string) {
	spec, err := schemas[revision]()
	if err != nil {
		c.T.Errorf("official schema: %v", err)
	}
	if spec == nil {
		return
	}
	var mu sync.Mutex // guards asked and spec
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
		if slices.Contains(methods, "initialize") {
			var settled struct {
				Result struct{ ProtocolVersion string }
			}
			_ = json.Unmarshal([]byte(message), &settled)
			if schema, ok := schemas[settled.Result.ProtocolVersion]; ok {
				if spec, err = schema(); err != nil {
					c.T.Errorf("official schema: %v", err)
				}
			}
		}
		spec := spec
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
	for _, row := range []struct {
		revision, message string
		ok                bool
	}{
		{"2025-06-18", `{"jsonrpc":"2.0","id":1,"result":{"content":[],"structuredContent":{}}}`, true},
		{"2025-03-26", `{"jsonrpc":"2.0","id":1,"result":{"content":[],"structuredContent":{}}}`, false},
		{"2024-11-05", `{"jsonrpc":"2.0","id":1,"result":{"content":[],"_meta":{}}}`, true},
		{"2024-11-05", `{"jsonrpc":"2.0","error":{"code":-32600,"message":"x"}}`, true},
		{"2024-11-05", `{"jsonrpc":"2.0","id":1,"error":{"code":"x","message":"x"}}`, false},
		{"2025-06-18", `{"jsonrpc":"2.0","id":1,"error":{"code":-32042,"message":"x","data":{"elicitations":[]}}}`, false},
		{"2025-03-26", `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1,"message":"x"}}`, true},
		{"2024-11-05", `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1,"message":"x"}}`, false},
		{"2025-03-26", `{"jsonrpc":"2.0","id":"x","method":"elicitation/create","params":{"message":"x","requestedSchema":{"type":"object","properties":{}}}}`, false},
		{"2025-06-18", `{"jsonrpc":"2.0","id":"x","method":"elicitation/create","params":{"message":"x","requestedSchema":{"type":"object","properties":{}}}}`, true},
	} {
		spec, err := schemas[row.revision]()
		if err != nil {
			t.Fatal(err)
		}
		if err := spec.check(row.message, call[1:]); (err == nil) != row.ok {
			t.Errorf("%s: %s: legal %v, want %v: %v", row.revision, row.message, err == nil, row.ok, err)
		}
	}
}
