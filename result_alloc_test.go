//go:build !race

package troupe

import (
	"testing"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/mcp"
)

// TestResultHeadAllocatesNothing checks that a result for 2026-07-28 costs as much as one
// for a session.
func TestResultHeadAllocatesNothing(t *testing.T) {
	h := newResultHead(mcp.Implementation{Name: "s", Version: "1"})
	result, buf := &mcp.CallToolResult{Content: mcp.Contents{mcp.Text("hello, world")}}, make([]byte, 0, 1024)
	plain := testing.AllocsPerRun(100, func() {
		if _, err := codec.AppendMarshal(buf, result); err != nil {
			t.Error(err)
		}
	})
	headed := testing.AllocsPerRun(100, func() {
		if _, err := h.append(buf, nil, nil, result); err != nil {
			t.Error(err)
		}
	})
	if headed > plain {
		t.Errorf("got %v allocations, %v without a head", headed, plain)
	}
}
