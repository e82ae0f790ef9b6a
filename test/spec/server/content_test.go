package server_test

import (
	"context"
	"testing"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

// tagged is a content block of a program's own type.
type tagged struct {
	*mcp.TextContent
	Tags []string `json:"tags"`
}

// TestContentOfOwnType has a tool and a prompt return blocks of a type of the program's own, which embeds one of package mcp and cannot be
// compared, to clients of each revision.
func TestContentOfOwnType(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		block := tagged{mcp.Text("x"), []string{"y"}}
		troupe.AddTool(h.Server, troupe.Tool{Name: "tagged", Description: "d"}, func(context.Context, *troupe.Call, struct{}) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: mcp.Contents{block}}, nil
		})
		troupe.AddPrompt(h.Server, troupe.Prompt{Name: "tagged"}, func(context.Context, *troupe.Call, map[string]string) (*mcp.GetPromptResult, error) {
			return &mcp.GetPromptResult{Messages: []mcp.PromptMessage{{Role: mcp.RoleUser, Content: block}}}, nil
		})
		const want = `{"type":"text","text":"x","tags":["y"]}`
		for _, r := range []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"} {
			c := h.Unchecked().InitializeAs(r, `{}`)
			host.Contains(t, r, c.Post(host.Call("1", "tagged", `{}`)).Body, want)
			host.Contains(t, r, c.Post(host.Method("2", "prompts/get", `{"name":"tagged"}`)).Body, want)
		}
	})
}
