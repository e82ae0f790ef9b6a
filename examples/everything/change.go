package everything

import (
	"context"
	"sync"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
)

type touchInput struct {
	URI string `json:"uri" jsonschema:"the resource that has changed"`
}

type changeInput struct {
	What string `json:"what" jsonschema:"the list to change: tools, prompts, resources or templates"`
}

// extra is the name of the items that change adds and removes.
const extra = "extra"

// addChange adds tools that make the server announce changes: updates of resources,
// and lists that grow and shrink. The lists are those of one process, as whatever a program
// adds with AddTool is: one that runs several processes has to change all of them.
func addChange(s *troupe.Server) {
	troupe.AddTool(s, troupe.Tool{
		Name:        "touch",
		Description: "Tells everyone who has subscribed to a resource that it has changed.",
		Rerun:       troupe.Safe,
	}, func(_ context.Context, _ *troupe.Call, in touchInput) (string, error) {
		s.ResourceUpdated(in.URI)
		return "touched " + in.URI, nil
	})

	var mu sync.Mutex // guards there
	there := make(map[string]bool)
	lists := map[string]struct{ add, remove func() }{
		"tools": {func() {
			troupe.AddTool(s, troupe.Tool{Name: extra, Description: "Is here only at times."},
				func(context.Context, *troupe.Call, struct{}) (string, error) { return "extra", nil })
		}, func() { s.RemoveTools(extra) }},
		"prompts": {func() {
			troupe.AddPrompt(s, troupe.Prompt{Name: extra, Description: "Is here only at times."},
				func(context.Context, *troupe.Call, map[string]string) (*mcp.GetPromptResult, error) {
					return &mcp.GetPromptResult{Messages: []mcp.PromptMessage{{Role: mcp.RoleUser, Content: mcp.Text("Extra.")}}}, nil
				})
		}, func() { s.RemovePrompts(extra) }},
		"resources": {func() {
			troupe.AddResource(s, mcp.Resource{URI: "test://extra", Name: extra}, readExtra)
		}, func() { s.RemoveResources("test://extra") }},
		"templates": {func() {
			troupe.AddResourceTemplate(s, mcp.ResourceTemplate{URITemplate: "test://extra/{n}", Name: extra}, readExtra)
		}, func() { s.RemoveResourceTemplates("test://extra/{n}") }},
	}
	troupe.AddTool(s, troupe.Tool{
		Name:        "change",
		Description: "Adds an item to one of the lists of the process that gets the call, or takes it away again. Behind a proxy other processes keep theirs.",
	}, func(_ context.Context, _ *troupe.Call, in changeInput) (string, error) {
		list, ok := lists[in.What]
		if !ok {
			return "", mcp.NewError(mcp.CodeInvalidParams, "what must be tools, prompts, resources or templates")
		}
		mu.Lock()
		defer mu.Unlock()
		if there[in.What] = !there[in.What]; there[in.What] {
			list.add()
			return "added", nil
		}
		list.remove()
		return "removed", nil
	})
}

func readExtra(_ context.Context, _ *troupe.Call, uri string, _ map[string]string) ([]mcp.ResourceContents, error) {
	return []mcp.ResourceContents{mcp.TextResource(uri, typeText, "Extra.")}, nil
}
