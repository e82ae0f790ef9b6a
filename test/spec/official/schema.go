package official

import (
	"maps"
	"os"
	"path/filepath"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/troupe-run/troupe/internal/closedschema"
)

// newest is the newest revision with sessions, and sessionless the first without.
const (
	newest      = "2025-11-25"
	sessionless = "2026-07-28"
)

// A Schema is the official one of a revision: it holds the compiled definitions of a revision by name.
type Schema map[string]*jsonschema.Schema

// schemas returns the schema of a revision, compiled at its first use.
var schemas = func() map[string]func() (Schema, error) {
	all := map[string]func() (Schema, error){}
	for _, revision := range []string{"2024-11-05", "2025-03-26", "2025-06-18", newest, sessionless} {
		all[revision] = sync.OnceValues(func() (Schema, error) { return read(revision) })
	}
	return all
}()

// Of returns the schema of a revision. It is nil where TROUPE_SPEC_DIR is not set, and for a revision that the package does not know. The caller
// may not change it; goroutines may share it.
func Of(revision string) (Schema, error) {
	if compiled, ok := schemas[revision]; ok {
		return compiled()
	}
	return nil, nil
}

// read compiles the schema of a revision. Without TROUPE_SPEC_DIR there is none.
func read(revision string) (Schema, error) {
	dir := os.Getenv("TROUPE_SPEC_DIR")
	if dir == "" {
		return nil, nil
	}
	f, err := os.Open(filepath.Join(dir, revision, "schema.json"))
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
	if revision == sessionless { // its generator lost null and fractions
		doc.(map[string]any)[defs].(map[string]any)["JSONValue"] = map[string]any{}
	}
	const url = "https://spec.invalid/schema.json"
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource(url, doc); err != nil {
		return nil, err
	}
	s := Schema{}
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
func (s Schema) bare(m map[string]any) any {
	if s["URLElicitationRequiredError"] != nil || s.stateless() {
		return m
	}
	m = maps.Clone(m)
	delete(m, "jsonrpc")
	delete(m, "id")
	return m
}

// stateless reports whether the schema is of the era without sessions.
func (s Schema) stateless() bool { return s["DiscoverResult"] != nil }
