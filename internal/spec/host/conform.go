package host

import (
	"encoding/json"
	"errors"
	"fmt"
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

// newest is the default revision of a session.
const newest = "2025-11-25"

// officialSchema holds the compiled definitions of a revision by name.
type officialSchema map[string]*jsonschema.Schema

// schemas returns the schema of a revision, compiled at its first use.
var schemas = func() map[string]func() (officialSchema, error) {
	all := map[string]func() (officialSchema, error){}
	for _, revision := range []string{R20241105, R20250326, R20250618, R20251125, R20260728} {
		all[revision] = sync.OnceValues(func() (officialSchema, error) { return readOfficial(revision) })
	}
	return all
}()

// official returns the schema of the newest revision in the directory TROUPE_SPEC_DIR, or nil if there is none.
func official() (officialSchema, error) { return schemas[newest]() }

// schemaDir returns the directory of the official schemas: TROUPE_SPEC_DIR, or shared/spec beside the repository.
func schemaDir() string {
	if dir := os.Getenv("TROUPE_SPEC_DIR"); dir != "" {
		return dir
	}
	root := "."
	for range 10 { // tests run in the directories of their packages
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
			break
		}
		root = filepath.Join("..", root)
	}
	return filepath.Join(root, "..", "shared", "spec")
}

func readOfficial(revision string) (officialSchema, error) {
	dir := schemaDir()
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
	if revision == R20260728 { // its generator lost null and fractions
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
		// Two definitions check one message, one the envelope and one the content: the definition of a kind of message
		// does not name the envelope's members.
		s["JSONRPCErrorResponse"], s["JSONRPCResultResponse"] = s["JSONRPCError"], s["JSONRPCResponse"]
	}
	return s, nil
}

// bare returns a message without the members of its envelope. Older schemas do not name those where they define a kind
// of message.
func (s officialSchema) bare(m map[string]any) any {
	if s["URLElicitationRequiredError"] != nil || s.stateless() {
		return m
	}
	m = maps.Clone(m)
	delete(m, "jsonrpc")
	delete(m, "id")
	return m
}

// check checks a server's message against the definitions that fit it. methods are those of the requests with its id.
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
	if s.stateless() {
		return s.checkStateless(m, has, methods)
	}
	switch {
	case has("method") && has("id"):
		return s["ServerRequest"].Validate(s.bare(m))
	case has("method"):
		return s["ServerNotification"].Validate(s.bare(m))
	case has("error") && !has("id") && s["URLElicitationRequiredError"] == nil:
		return nil // the body of an HTTP error, for which older revisions have no definition
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

// conform makes c report every message that is not legal by the official schema of its session's revision, if that is
// there. A member that only later revisions have is not legal either.
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
		_ = json.Unmarshal([]byte(message), &m) // check reports a message that is no object
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

// stateless reports whether the schema is of the era without sessions.
func (s officialSchema) stateless() bool { return s["DiscoverResult"] != nil }

// statelessErrors names the definitions of errors that have one; "" stands for a code that servers may no longer send.
var statelessErrors = map[json.Number]string{
	"-32020": "HeaderMismatchError", "-32021": "MissingRequiredClientCapabilityError", "-32022": "UnsupportedProtocolVersionError",
	"-32002": "", "-32042": "",
}

// checkStateless is check for a schema without sessions. There a server's requests are not legal, and a result has a
// type.
func (s officialSchema) checkStateless(m map[string]any, has func(string) bool, methods []string) error {
	switch {
	case has("method") && has("id"):
		return errors.New("the revision has no requests of servers")
	case has("method"):
		return s["ServerNotification"].Validate(m)
	case has("error"):
		def := "JSONRPCErrorResponse"
		if e, ok := m["error"].(map[string]any); ok {
			if code, ok := e["code"].(json.Number); ok {
				if name, ok := statelessErrors[code]; ok {
					def = name
				}
			}
		}
		if def == "" {
			return errors.New("the revision has taken this code back")
		}
		return s[def].Validate(m)
	}
	if err := s["JSONRPCResultResponse"].Validate(m); err != nil {
		return err
	}
	result := m["result"].(map[string]any)
	if result["resultType"] == "input_required" {
		if !slices.ContainsFunc(methods, func(m string) bool {
			return m == "tools/call" || m == "prompts/get" || m == "resources/read"
		}) {
			return fmt.Errorf("no request of %v may be answered with questions", methods)
		}
		if result["inputRequests"] == nil && result["requestState"] == nil {
			return errors.New("neither questions nor a state")
		}
		return s["InputRequiredResult"].Validate(result)
	}
	if result["resultType"] != "complete" {
		return fmt.Errorf("results of type %v are unknown", result["resultType"])
	}
	err := errors.New("an answer to nothing that was asked")
	for _, method := range methods {
		if def, ok := s[resultTypes[method]]; ok {
			if err = def.Validate(result); err == nil {
				return nil
			}
		}
	}
	return err
}

// Legal checks a message of a server against the official schema of 2026-07-28, if that is there.
func Legal(t *testing.T, message, method string) {
	t.Helper()
	spec, err := schemas[R20260728]()
	if err != nil {
		t.Fatalf("official schema: %v", err)
	}
	if spec == nil {
		return
	}
	if err := spec.check(message, []string{method}); err != nil {
		t.Errorf("not legal by the official schema: %.2000s\n%v", message, err)
	}
}
