package gosdk_test

import (
	"testing"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/adapters/gosdk"
	"github.com/troupe-run/troupe/host"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/troupetest"
)

// TestBackend has clients of two eras call the tool of the server by way of Troupe.
func TestBackend(t *testing.T) {
	for _, revision := range []mcp.Revision{mcp.Revision20251125, mcp.Revision20260728} {
		srv := troupe.NewServer(mcp.Implementation{Name: "gateway", Version: "1.0.0"}, nil)
		troupe.AddBackend(srv, "greeter", gosdk.Server("greeter", newServer()), host.Options{})
		c := troupetest.Connect(t, srv, troupetest.Options{Revision: revision})
		got, err := c.CallTool(t.Context(), "greeter__greet", map[string]any{"name": "Ada"})
		if err != nil || troupetest.Text(got) != "Hello, Ada!" {
			t.Errorf("%v: greeted with %v, %v", revision, got, err)
		}
	}
}
