package mcpgo_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/adapters/mcpgo"
	"github.com/troupe-run/troupe/host"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/troupetest"
)

// TestBackend has the tool of the server ask a client by way of Troupe.
func TestBackend(t *testing.T) {
	srv := troupe.NewServer(mcp.Implementation{Name: "gateway", Version: "1.0.0"}, nil)
	troupe.AddBackend(srv, "greeter", mcpgo.Server("greeter", newServer()), host.Options{})
	c := troupetest.Connect(t, srv, troupetest.Options{Revision: mcp.Revision20251125, Elicit: func(context.Context, mcp.ElicitParams) (mcp.ElicitResult, error) {
		return mcp.ElicitResult{Action: mcp.ElicitAccept, Content: json.RawMessage(`{"name":"Ada"}`)}, nil
	}})
	got, err := c.CallTool(t.Context(), "greeter__greet", nil)
	if err != nil || troupetest.Text(got) != "Hello, map[name:Ada]!" {
		t.Errorf("greeted with %v, %v", got, err)
	}
}
