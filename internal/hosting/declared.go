package hosting

import (
	"maps"
	"sync/atomic"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/mcp"
)

// Declarations are what clients have declared lately, as it was read: most of them declare the same, and each call asks. The zero value has none.
// Any goroutine may use them.
type Declarations struct {
	known atomic.Pointer[map[declaration]*declared]
}

// A declaration is what decides how capabilities are read.
type declaration struct {
	revision mcp.Revision
	raw      string
}

type declared struct {
	counts mcp.ClientCapabilities
	told   []byte
}

// Of all that clients declare so many are known, of so many bytes at most. Others are read by each call.
const (
	mostDeclared    = 64
	longestDeclared = 1 << 10
)

// FillCaller sets what the caller's client declares, of raw capabilities: as far as it counts in the caller's revision, and what backends are told of it.
// Nobody may change what is set.
func (d *Declarations) FillCaller(c *Caller, raw []byte) {
	all := d.known.Load()
	if all != nil {
		if of := (*all)[declaration{c.Revision, string(raw)}]; of != nil {
			c.Declared, c.Capabilities = of.counts, of.told
			return
		}
	}
	of := new(declared)
	_ = codec.Unmarshal(raw, &of.counts) // what cannot be read was refused before
	of.counts = protocol.ClientCapabilitiesFor(of.counts, c.Revision)
	of.told = Told(&of.counts)
	c.Declared, c.Capabilities = of.counts, of.told
	if len(raw) > longestDeclared {
		return
	}
	next := make(map[declaration]*declared)
	if all != nil && len(*all) < mostDeclared {
		maps.Copy(next, *all)
	}
	next[declaration{c.Revision, string(raw)}] = of
	d.known.CompareAndSwap(all, &next) // whoever was faster has it know another one
}
