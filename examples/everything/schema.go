package everything

import (
	"context"
	"encoding/json"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
)

// contactSchema uses JSON Schema 2020-12 beyond plain types. Clients get it byte for
// byte.
const contactSchema = `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object",` +
	`"$defs":{"address":{"$anchor":"addressDef","type":"object","properties":{"street":{"type":"string"},"city":{"type":"string"}}}},` +
	`"properties":{"name":{"type":"string"},"address":{"$ref":"#/$defs/address"},"contactMethod":{"type":"string","enum":["phone","email"]},"phone":{"type":"string"},"email":{"type":"string"}},` +
	`"allOf":[{"anyOf":[{"required":["phone"]},{"required":["email"]}]}],` +
	`"if":{"properties":{"contactMethod":{"const":"phone"}},"required":["contactMethod"]},"then":{"required":["phone"]},"else":{"required":["email"]},` +
	`"additionalProperties":false}`

func addSchema(s *troupe.Server) {
	troupe.AddRawTool(s, troupe.Tool{
		Name:        "json_schema_2020_12_tool",
		Description: "Takes arguments by a schema with references, conditions and combinations.",
		InputSchema: json.RawMessage(contactSchema),
		Rerun:       troupe.Safe,
	}, func(_ context.Context, _ *troupe.Call, args json.RawMessage) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: mcp.Contents{mcp.Text("JSON Schema 2020-12 tool called with: " + string(args))}}, nil
	})
}
