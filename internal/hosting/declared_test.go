package hosting_test

import (
	"fmt"
	"testing"

	"github.com/troupe-run/troupe/internal/hosting"
	"github.com/troupe-run/troupe/mcp"
)

// TestDeclarations reads what clients declare as their revisions have it, many more than are remembered, and a known one without an allocation.
func TestDeclarations(t *testing.T) { // not parallel, as it counts allocations
	var d hosting.Declarations
	c := &hosting.Caller{}
	for round := range 2 {
		for n := range 200 {
			for _, row := range []struct {
				revision mcp.Revision
				raw      string
				told     string
				elicits  bool
			}{
				{mcp.Revision20251125, fmt.Sprintf(`{"elicitation":{"form":{}},"experimental":{"x%d":{}}}`, n), `{"elicitation":{"form":{}}}`, true},
				{mcp.Revision20250326, fmt.Sprintf(`{"elicitation":{"form":{}},"experimental":{"x%d":{}}}`, n), `{}`, false},
			} {
				c.Revision = row.revision
				d.Tell(c, []byte(row.raw))
				if string(c.Capabilities) != row.told || c.Declared.Has(mcp.CapClientElicitation) != row.elicits {
					t.Fatalf("round %d, %s %s: told %s, %+v", round, row.revision, row.raw, c.Capabilities, c.Declared)
				}
			}
		}
	}
	raw := []byte(`{"roots":{"listChanged":true}}`)
	d.Tell(c, raw)
	if n := testing.AllocsPerRun(100, func() { d.Tell(c, raw) }); n != 0 {
		t.Errorf("%v allocations for what is known", n)
	}
}
