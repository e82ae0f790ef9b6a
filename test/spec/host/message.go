package host

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/test/kit"
)

// The revisions of the specification. The last one has no sessions.
const (
	R20241105 = "2024-11-05"
	R20250326 = "2025-03-26"
	R20250618 = "2025-06-18"
	R20251125 = "2025-11-25"
	R20260728 = "2026-07-28"
)

// Codes of JSON-RPC errors, and the message of a refused Last-Event-ID.
const (
	Invalid      = -32600
	NoMethod     = -32601
	BadParam     = -32602
	Internal     = -32603
	BadJSON      = -32700
	BadEventText = "the event id cannot be resumed from"
)

// Call returns a tools/call request.
func Call(id, tool, args string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + tool + `","arguments":` + args + `}}`
}

// CallWith is [Call] with a progress token.
func CallWith(id, tool, args, token string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + tool + `","arguments":` + args + `,"_meta":{"progressToken":` + token + `}}}`
}

// Method returns a request with params; "" leaves them out.
func Method(id, name, params string) string {
	if params != "" {
		params = `,"params":` + params
	}
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"` + name + `"` + params + `}`
}

// Note returns a notification with params; "" leaves them out.
func Note(name, params string) string {
	if params != "" {
		params = `,"params":` + params
	}
	return `{"jsonrpc":"2.0","method":"` + name + `"` + params + `}`
}

// Initialize is an initialize request.
func Initialize(id, params string) string { return Method(id, "initialize", params) }

// InitializeRequest is a complete initialize request of a client without capabilities.
const InitializeRequest = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`

// Batch is a JSON-RPC batch of messages.
func Batch(messages ...string) string { return "[" + strings.Join(messages, ",") + "]" }

// Cancel is the notification that cancels a request.
func Cancel(id string) string {
	return `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`
}

// AnswerTo is the response to a request of the server.
func AnswerTo(request, result string) string {
	_, rest, _ := strings.Cut(request, `"id":`)
	id, _, _ := strings.Cut(rest, ",")
	return `{"jsonrpc":"2.0","id":` + id + `,"result":` + result + `}`
}

// TextResult returns the response of a tool that returns text. text stands between the quotes as it is.
func TextResult(id, text string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"result":{"content":[{"type":"text","text":"` + text + `"}]}}`
}

// ToolText is [TextResult] for text that must be quoted.
func ToolText(id, text string) string {
	return strings.Replace(ToolFault(id, text), `,"isError":true`, "", 1)
}

// ToolFault is a result with isError.
func ToolFault(id, text string) string {
	quoted, _ := json.Marshal(text) // a string
	return `{"jsonrpc":"2.0","id":` + id + `,"result":{"content":[{"type":"text","text":` + string(quoted) + `}],"isError":true}}`
}

// Fault returns an error response; an empty id or data is left out.
func Fault(id string, code int, message, data string) string {
	if id != "" {
		id = `,"id":` + id
	}
	if data != "" {
		data = `,"data":` + data
	}
	quoted, _ := json.Marshal(message) // a string
	return fmt.Sprintf(`{"jsonrpc":"2.0"%s,"error":{"code":%d,"message":%s%s}}`, id, code, quoted, data)
}

// UpdateNote is the notification that a resource has changed.
func UpdateNote(uri string) string {
	return Note("notifications/resources/updated", `{"uri":"`+uri+`"}`)
}

// Elements returns the messages of a JSON array in the order of their text.
func Elements(t *testing.T, body string) []string {
	t.Helper()
	var raw []json.RawMessage
	if err := json.Unmarshal([]byte(body), &raw); err != nil {
		t.Fatalf("no array: %v: %s", err, body)
	}
	var all []string
	for _, r := range raw {
		all = append(all, string(r))
	}
	slices.Sort(all)
	return all
}

// Payloads returns the data of events, without priming events.
func Payloads(events []kit.Event) []string {
	var all []string
	for _, e := range events {
		if e.Data != "" {
			all = append(all, e.Data)
		}
	}
	return all
}

// A subscription to the resource test://one, the notification of its change, and that of a changed list.
var (
	SubscribeOne   = Method("1", "resources/subscribe", `{"uri":"test://one"}`)
	OneUpdated     = Note("notifications/resources/updated", `{"uri":"test://one"}`)
	PromptsChanged = Note("notifications/prompts/list_changed", "")
)
