// Command gosdk asks a user twice, with the official Go SDK. The handler runs once for each answer. Its state
// goes through the client, which could change it, so the handler signs it.
package main

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

var (
	key     = []byte(rand.Text())
	dayForm = &jsonschema.Schema{Type: "object", Required: []string{"date"},
		Properties: map[string]*jsonschema.Schema{"date": {Type: "string", Format: "date"}}}
	partyForm = &jsonschema.Schema{Type: "object", Required: []string{"guests"},
		Properties: map[string]*jsonschema.Schema{"guests": {Type: "integer", Minimum: jsonschema.Ptr(1.0), Maximum: jsonschema.Ptr(12.0)}}}
)

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

func text(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}

func ask(question, message, state string, form *jsonschema.Schema) *mcp.CallToolResult {
	return &mcp.CallToolResult{RequestState: state, InputRequests: mcp.InputRequestMap{
		question: &mcp.ElicitParams{Mode: "form", Message: message, RequestedSchema: form},
	}}
}

func book(_ context.Context, req *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
	answers := req.Params.InputResponses
	if who, ok := answers["party"].(*mcp.ElicitResult); ok {
		date, ok := signed(req.Params.RequestState)
		if !ok {
			return nil, nil, errors.New("the state is not ours")
		}
		guests, ok := who.Content["guests"].(float64)
		if who.Action != "accept" || !ok {
			return text("not booked"), nil, nil
		}
		return text(fmt.Sprintf("booked for %g on %s", guests, date)), nil, nil
	}
	if when, ok := answers["day"].(*mcp.ElicitResult); ok {
		date, ok := when.Content["date"].(string)
		if when.Action != "accept" || !ok {
			return text("not booked"), nil, nil
		}
		return ask("party", "How many guests on "+date+"?", sign(date), partyForm), nil, nil
	}
	return ask("day", "Which day?", "", dayForm), nil, nil
}

func main() {
	srv := mcp.NewServer(&mcp.Implementation{Name: "book", Version: "1.0.0"}, nil)
	mcp.AddTool(srv, &mcp.Tool{Name: "book", Description: "Books a table."}, book)
	http.Handle("/mcp", mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return srv }, nil))
	log.Fatal(http.ListenAndServe(os.Getenv("LISTEN"), nil))
}
