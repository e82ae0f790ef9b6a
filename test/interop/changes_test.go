package interop

import (
	"context"
	"slices"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestTouch changes a resource: its subscribers get an update, and no other client does.
func TestTouch(t *testing.T) {
	t.Parallel()
	const mine, other = "test://template/mine/data", "test://template/other/data"
	c, idle := dial(t, shared, mcp.ClientOptions{}), dial(t, shared, mcp.ClientOptions{})
	touch := func(uri string) {
		t.Helper()
		sameJSON(t, "touch", c.call(t, "touch", map[string]any{"uri": uri}), text("touched "+uri))
	}
	heard := func(c *client, want ...string) func() bool {
		return func() (same bool) {
			c.note(func() { same = slices.Equal(c.updated, want) })
			return same
		}
	}
	for _, s := range []struct {
		c   *client
		uri string
	}{{c, mine}, {idle, other}} {
		if err := s.c.Subscribe(within(t), &mcp.SubscribeParams{URI: s.uri}); err != nil {
			t.Fatal(err)
		}
	}
	touch("test://template/nobody/data")
	touch(mine)
	eventually(t, heard(c, mine), func() string { return "the update does not come" })
	if err := c.Unsubscribe(within(t), &mcp.UnsubscribeParams{URI: mine}); err != nil {
		t.Fatal(err)
	}
	touch(mine)
	touch(other)
	eventually(t, heard(idle, other), func() string { return "the other's update does not come" })
	if !heard(c, mine)() {
		t.Error("updates of other resources, or after the end of the subscription, came as well")
	}
}

// TestChange changes each of the lists twice, and has a client get the notification and read
// the list.
func TestChange(t *testing.T) {
	inBothEras(t, func(t *testing.T, dial dialer) {
		t.Parallel()
		s := start(t, "--memory") // other tests rely on the lists of their server
		told := make(chan string, 100)
		c := dial(t, s, mcp.ClientOptions{
			ToolListChangedHandler:     func(context.Context, *mcp.ToolListChangedRequest) { told <- "tools" },
			PromptListChangedHandler:   func(context.Context, *mcp.PromptListChangedRequest) { told <- "prompts" },
			ResourceListChangedHandler: func(context.Context, *mcp.ResourceListChangedRequest) { told <- "resources" },
		})
		there := map[string]func() bool{
			"tools": func() bool {
				r, err := c.ListTools(within(t), nil)
				return err == nil && slices.ContainsFunc(r.Tools, func(x *mcp.Tool) bool { return x.Name == "extra" })
			},
			"prompts": func() bool {
				r, err := c.ListPrompts(within(t), nil)
				return err == nil && slices.ContainsFunc(r.Prompts, func(x *mcp.Prompt) bool { return x.Name == "extra" })
			},
			"resources": func() bool {
				r, err := c.ListResources(within(t), nil)
				return err == nil && slices.ContainsFunc(r.Resources, func(x *mcp.Resource) bool { return x.Name == "extra" })
			},
			"templates": func() bool {
				r, err := c.ListResourceTemplates(within(t), nil)
				return err == nil && slices.ContainsFunc(r.ResourceTemplates, func(x *mcp.ResourceTemplate) bool { return x.Name == "extra" })
			},
		}
		for what, tells := range map[string]string{"tools": "tools", "prompts": "prompts", "resources": "resources", "templates": "resources"} {
			for _, done := range []string{"added", "removed"} {
				sameJSON(t, "change "+what, c.call(t, "change", map[string]any{"what": what}), text(done))
				if got := receive(t, told); got != tells {
					t.Errorf("after %s were %s the client was told of %s", what, done, got)
				}
				if got := there[what](); got != (done == "added") {
					t.Errorf("after %s were %s the new one is listed: %t", what, done, got)
				}
			}
		}
		if len(told) != 0 {
			t.Errorf("the client was told of a change %d times more", len(told))
		}
	})
}
