package server_test

import (
	"context"
	"testing"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

// TestWhatCouldNotBeAddedIsNotDeclared tries to add tools and a page under names that are taken: the server declares nothing that it does not have.
func TestWhatCouldNotBeAddedIsNotDeclared(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		say := func(context.Context, *troupe.Call, struct{}) (string, error) { return "x", nil }
		troupe.AddTool(h.Server, troupe.Tool{Name: "taken", Rerun: troupe.Never}, say)
		troupe.AddResource(h.Server, mcp.Resource{URI: "ui://taken", Name: "taken"}, func(context.Context, *troupe.Call, string, map[string]string) ([]mcp.ResourceContents, error) {
			return nil, nil
		})
		c := h.Stateless(`{}`)
		discover := func() string {
			request := c.Body("1", "server/discover", `{}`, "")
			return c.Client.Post(request, c.Header("server/discover", request)...).Body
		}
		before := discover()
		for what, err := range map[string]error{
			"safe":     troupe.TryAddTool(h.Server, troupe.Tool{Name: "taken", Rerun: troupe.Safe}, say),
			"optional": troupe.TryAddTool(h.Server, troupe.Tool{Name: "taken", Task: troupe.TaskOptional}, say),
			"tied":     troupe.TryAddTool(h.Server, troupe.Tool{Name: "taken", UI: troupe.UI{Page: "ui://taken"}}, say),
			"page":     troupe.TryAddPage(h.Server, troupe.Page{URI: "ui://taken", Name: "taken", HTML: "<p>"}),
		} {
			if err == nil {
				t.Errorf("%s: it was added", what)
			}
		}
		host.Equal(t, "what the server declares", discover(), before)
	})
}
