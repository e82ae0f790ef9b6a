package hosting

import (
	"fmt"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/mcp"
)

// TestDeclarations reads what clients declare as their revisions have it, remembers few of many and none that is long, and reads a known one without an
// allocation.
func TestDeclarations(t *testing.T) { // not parallel, as it counts allocations
	var d Declarations
	c := &Caller{}
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
				d.FillCaller(c, []byte(row.raw))
				if string(c.Capabilities) != row.told || c.Declared.Has(mcp.CapClientElicitation) != row.elicits {
					t.Fatalf("round %d, %s %s: told %s, %+v", round, row.revision, row.raw, c.Capabilities, c.Declared)
				}
				if n := len(*d.known.Load()); n > mostDeclared {
					t.Fatalf("%d are remembered", n)
				}
			}
		}
	}
	long := `{"roots":{},"experimental":{"x":{"y":"` + strings.Repeat("x", longestDeclared) + `"}}}`
	if d.FillCaller(c, []byte(long)); (*d.known.Load())[declaration{c.Revision, long}] != nil || string(c.Capabilities) != `{"roots":{}}` {
		t.Errorf("a long one is remembered, or told as %s", c.Capabilities)
	}
	raw := []byte(`{"roots":{"listChanged":true}}`)
	d.FillCaller(c, raw)
	if n := testing.AllocsPerRun(100, func() { d.FillCaller(c, raw) }); n != 0 {
		t.Errorf("%v allocations for what is known", n)
	}
}
