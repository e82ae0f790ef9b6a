// Command mcpgo asks a user twice, with mcp-go. The handler runs once for each answer. Its state goes through the client,
// which could change it, so the handler signs it.
package main

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log"
	"os"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

var key = []byte(rand.Text())

func sign(date string) string {
	m := hmac.New(sha256.New, key)
	m.Write([]byte(date))
	return hex.EncodeToString(m.Sum(nil)) + date
}

func signed(state string) (date string, ok bool) {
	if len(state) < 2*sha256.Size {
		return "", false
	}
	date = state[2*sha256.Size:]
	return date, hmac.Equal([]byte(state), []byte(sign(date)))
}

func form(property string, schema map[string]any) map[string]any {
	return map[string]any{"type": "object", "properties": map[string]any{property: schema}, "required": []string{property}}
}

func ask(question, message, state string, form map[string]any) *mcp.CallToolResult {
	return server.NewInputRequestBuilder(state).
		Elicit(question, mcp.ElicitationParams{Mode: mcp.ElicitationModeForm, Message: message, RequestedSchema: form}).
		ToolResult()
}

func book(_ context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	answers := req.Params.InputResponses
	if who := server.ElicitationResponse(answers, "party"); who != nil {
		date, ok := signed(req.Params.RequestState)
		if !ok {
			return mcp.NewToolResultError("the state is not ours"), nil
		}
		content, _ := who.Content.(map[string]any)
		guests, ok := content["guests"].(float64)
		if who.Action != mcp.ElicitationResponseActionAccept || !ok {
			return mcp.NewToolResultText("not booked"), nil
		}
		return mcp.NewToolResultText(fmt.Sprintf("booked for %g on %s", guests, date)), nil
	}
	if when := server.ElicitationResponse(answers, "day"); when != nil {
		content, _ := when.Content.(map[string]any)
		date, ok := content["date"].(string)
		if when.Action != mcp.ElicitationResponseActionAccept || !ok {
			return mcp.NewToolResultText("not booked"), nil
		}
		return ask("party", "How many guests on "+date+"?", sign(date), form("guests", map[string]any{"type": "integer", "minimum": 1, "maximum": 12})), nil
	}
	return ask("day", "Which day?", "", form("date", map[string]any{"type": "string", "format": "date"})), nil
}

func main() {
	srv := server.NewMCPServer("book", "1.0.0", server.WithToolCapabilities(false), server.WithElicitation())
	srv.AddTool(mcp.NewTool("book", mcp.WithDescription("Books a table.")), book)
	log.Fatal(server.NewStreamableHTTPServer(srv).Start(os.Getenv("LISTEN")))
}
