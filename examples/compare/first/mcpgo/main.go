// Command mcpgo is a server of one tool with mcp-go, which docs/coming-from.md compares.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

type order struct {
	City  string `json:"city"`
	Items int    `json:"items"`
}

var form = map[string]any{"type": "object", "required": []string{"ok"}, "properties": map[string]any{"ok": map[string]any{"type": "boolean"}}}

func ship(ctx context.Context, req mcp.CallToolRequest, in order) (*mcp.CallToolResult, error) {
	if in.City == "Atlantis" {
		return mcp.NewToolResultErrorf("nothing ships to %s", in.City), nil
	}
	said := server.ElicitationResponse(req.Params.InputResponses, "ok")
	if said == nil {
		if m := req.Params.Meta; m != nil && m.ProgressToken != nil {
			_ = server.ServerFromContext(ctx).SendNotificationToClient(ctx, "notifications/progress",
				map[string]any{"progressToken": m.ProgressToken, "progress": 1, "total": 2, "message": "weighed"})
		}
		return server.NewInputRequestBuilder("").Elicit("ok", mcp.ElicitationParams{Mode: mcp.ElicitationModeForm,
			Message: fmt.Sprintf("Ship %d to %s?", in.Items, in.City), RequestedSchema: form}).ToolResult(), nil
	}
	if content, ok := said.Content.(map[string]any); said.Action != mcp.ElicitationResponseActionAccept || !ok || content["ok"] != true {
		return mcp.NewToolResultText("not shipped"), nil
	}
	return mcp.NewToolResultText(fmt.Sprintf("shipped %d to %s", in.Items, in.City)), nil
}

func main() {
	srv := server.NewMCPServer("shop", "1.0.0", server.WithElicitation(), server.WithInputSchemaValidation())
	srv.AddTool(mcp.NewTool("ship", mcp.WithDescription("Ships goods."), mcp.WithIdempotentHintAnnotation(true),
		mcp.WithString("city", mcp.Required(), mcp.Description("where to")),
		mcp.WithInteger("items", mcp.Required(), mcp.Min(1), mcp.Max(20))), mcp.NewTypedToolHandler(ship))
	log.Fatal(server.NewStreamableHTTPServer(srv).Start(os.Getenv("LISTEN")))
}
