package client

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/troupe-run/troupe/mcp"
)

// Tool is a tool as the server describes it.
type Tool struct {
	Name        string          `json:"name"`
	Title       string          `json:"title"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"inputSchema"`

	Raw json.RawMessage `json:"-"` // all of it
}

// mostPages bounds how often a server may say that there is more of a list.
const mostPages = 1000

// Tools lists all tools of the server that the client sees, page by page.
func (c *Client) Tools(ctx context.Context) ([]Tool, error) {
	var all []Tool
	params := map[string]json.RawMessage{}
	for range mostPages {
		result, err := c.sendRepeated(ctx, request{method: mcp.MethodToolsList, params: params, reads: true})
		if err != nil {
			return nil, err
		}
		var page struct {
			Tools []json.RawMessage `json:"tools"`
			Next  string            `json:"nextCursor"`
		}
		if err := json.Unmarshal(result, &page); err != nil {
			return nil, fmt.Errorf("the result of %s: %w", mcp.MethodToolsList, err)
		}
		for _, text := range page.Tools {
			t := Tool{Raw: text}
			if err := json.Unmarshal(text, &t); err != nil {
				return nil, fmt.Errorf("a tool: %w", err)
			}
			all = append(all, t)
		}
		if page.Next == "" {
			return all, nil
		}
		params["cursor"] = encodeRaw(page.Next)
	}
	return nil, fmt.Errorf("the list of tools has more than %d pages", mostPages)
}
