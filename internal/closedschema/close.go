package closedschema

import "strings"

// Close changes a decoded official schema, in place, so that objects have the members
// that it names and no others: a member that only later revisions have is then a
// fault. Schemas of tools, `_meta` and what the schema itself leaves open stay open.
func Close(schema any) {
	switch s := schema.(type) {
	case map[string]any:
		props, _ := s["properties"].(map[string]any)
		_, open := s["additionalProperties"]
		for name := range props {
			open = open || strings.HasPrefix(name, "io.modelcontextprotocol/") // it describes a `_meta`
		}
		if len(props) > 0 && !open {
			s["additionalProperties"] = false
		}
		for name, p := range props {
			switch p, _ := p.(map[string]any); {
			case p == nil:
			case name == "inputSchema", name == "outputSchema":
				props[name] = map[string]any{"type": "object"}
			case name == "params": // of which the base of all messages has _meta
				if members, ok := p["properties"].(map[string]any); ok {
					members["_meta"] = map[string]any{"type": "object"}
				}
			case name == "minimum", name == "maximum":
				// The generator of the older schemas took every number for an integer.
				p["type"] = "number"
			}
		}
		for keyword, e := range s {
			if parts, ok := e.([]any); ok && keyword == "allOf" {
				for _, part := range parts { // each names only some of the members
					if part, ok := part.(map[string]any); ok {
						Close(part["properties"])
					}
				}
				continue
			}
			Close(e)
		}
	case []any:
		for _, e := range s {
			Close(e)
		}
	}
}
