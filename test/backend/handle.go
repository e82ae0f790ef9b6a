//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// params are those of all methods.
type params struct {
	Name, URI, Cursor, Level string
	Arguments                arguments
	Capabilities             struct{ Elicitation, Sampling, Roots json.RawMessage }
	RequestID                json.RawMessage
	Argument                 struct{ Name, Value string }
	RequestState             string
	InputResponses           map[string]json.RawMessage
	Notifications            listener
	Meta                     struct {
		ProgressToken json.RawMessage
		Level         string                                                 `json:"io.modelcontextprotocol/logLevel"`
		Capabilities  struct{ Elicitation, Sampling, Roots json.RawMessage } `json:"io.modelcontextprotocol/clientCapabilities"`
	} `json:"_meta"`
}

// A listener is what a request subscriptions/listen wants to hear of.
type listener struct {
	ToolsListChanged      bool
	ResourceSubscriptions []string
}

const info = `{"name":"backend","title":"A backend of tests","version":"1.2.3"}`

// handle does what a good server does with a message.
func (s *server) handle(m message) {
	var p params
	if m.Params != nil && json.Unmarshal(m.Params, &p) != nil && m.ID != nil {
		refuse(m.ID, -32602, "the params are of another kind")
		return
	}
	if m.Method == "" { // an answer
		if then := s.asked[string(m.ID)]; then != nil {
			delete(s.asked, string(m.ID))
			then(m)
		}
		return
	}
	if s.modern && s.handleModern(m, p) || !s.modern && s.handleLegacy(m, p) {
		return
	}
	switch m.Method {
	case "tools/list":
		s.list(m, "tools", s.tools(), p.Cursor)
	case "prompts/list":
		s.list(m, "prompts", prompts, p.Cursor)
	case "resources/list":
		s.list(m, "resources", resources, p.Cursor)
	case "resources/templates/list":
		s.list(m, "resourceTemplates", templates, p.Cursor)
	case "tools/call":
		s.call(m, p)
	case "prompts/get":
		if p.Name != "greet" {
			refuse(m.ID, -32602, "there is no prompt "+p.Name)
			return
		}
		s.answer(m.ID, fmt.Sprintf(`"description":"A greeting.","messages":[{"role":"user","content":{"type":"text","text":%s}}]`, quote("Say hello to "+p.Arguments.Name+".")))
	case "resources/read":
		s.readResource(m, p.URI)
	case "completion/complete":
		var found []string
		for _, name := range []string{"Ada", "Alan", "Grace"} {
			if strings.HasPrefix(name, p.Argument.Value) {
				found = append(found, quote(name))
			}
		}
		s.answer(m.ID, fmt.Sprintf(`"completion":{"values":[%s],"total":%d,"hasMore":false}`, strings.Join(found, ","), len(found)))
	case "notifications/cancelled":
		if c := s.running[string(p.RequestID)]; c != nil {
			delete(s.running, string(p.RequestID))
			close(c.cancelled)
		}
		delete(s.listeners, string(p.RequestID))
	default:
		if m.ID != nil {
			refuse(m.ID, -32601, "there is no method "+m.Method)
		}
	}
}

// handleLegacy handles what revisions with sessions have alone, and reports whether it was that.
func (s *server) handleLegacy(m message, p params) bool {
	switch m.Method {
	case "initialize":
		s.capabilities = p.Capabilities
		s.answer(m.ID, `"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true},"prompts":{},"resources":{"subscribe":true},"completions":{},"logging":{}},`+
			`"serverInfo":`+info+`,"instructions":"Call echo."`)
	case "ping":
		s.answer(m.ID, "")
	case "logging/setLevel":
		s.level = p.Level
		s.answer(m.ID, "")
	case "resources/subscribe":
		s.subscribed[p.URI] = true
		s.answer(m.ID, "")
	case "resources/unsubscribe":
		delete(s.subscribed, p.URI)
		s.answer(m.ID, "")
	default:
		return false
	}
	return true
}

// handleModern handles what 2026-07-28 has alone, and reports whether it was that.
func (s *server) handleModern(m message, p params) bool {
	s.capabilities, s.level = p.Meta.Capabilities, p.Meta.Level
	switch m.Method {
	case "server/discover":
		s.answerCacheable(m.ID, `"supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true},"prompts":{},"resources":{"subscribe":true},"completions":{},"logging":{}},`+
			`"instructions":"Call echo.","_meta":{"io.modelcontextprotocol/serverInfo":`+info+`}`)
	case "subscriptions/listen":
		s.listeners[string(m.ID)] = p.Notifications
		filter, err := json.Marshal(map[string]any{"toolsListChanged": p.Notifications.ToolsListChanged, "resourceSubscriptions": p.Notifications.ResourceSubscriptions})
		if err != nil {
			panic(err)
		}
		notify("notifications/subscriptions/acknowledged", subscriptionOf(string(m.ID))+`,"notifications":`+string(filter))
	default:
		return false
	}
	return true
}

func subscriptionOf(id string) string {
	return `"_meta":{"io.modelcontextprotocol/subscriptionId":` + id + `}`
}

// pageSize is how many items are on a page of a list: few, so that each list of some length has several.
const pageSize = 5

// list answers with a page of a list. A cursor is the name of its member behind the number of the first item.
func (s *server) list(m message, member string, items []string, cursor string) {
	first := 0
	if cursor != "" {
		if n, err := fmt.Sscanf(cursor, "%d-"+member, &first); n != 1 || err != nil || first > len(items) {
			refuse(m.ID, -32602, "there is no such cursor")
			return
		}
	}
	page := items[first:min(first+pageSize, len(items))]
	members := fmt.Sprintf(`"%s":[%s]`, member, strings.Join(page, ","))
	if next := first + len(page); next < len(items) {
		members += fmt.Sprintf(`,"nextCursor":"%d-%s"`, next, member)
	}
	s.answerCacheable(m.ID, members)
}

func (s *server) readResource(m message, uri string) {
	item, isItem := strings.CutPrefix(uri, "test://item/")
	switch {
	case uri == "test://note":
		s.answerCacheable(m.ID, fmt.Sprintf(`"contents":[{"uri":"test://note","mimeType":"text/plain","text":"touched %d times","_meta":{"kept":1.50}}]`, s.touches[uri]))
	case uri == "test://blob":
		s.answerCacheable(m.ID, `"contents":[{"uri":"test://blob","mimeType":"application/octet-stream","blob":"AAEC"}]`)
	case isItem:
		s.answerCacheable(m.ID, fmt.Sprintf(`"contents":[{"uri":%s,"text":%s}]`, quote(uri), quote("item "+item)))
	default:
		refuse(m.ID, -32002, "there is no resource "+uri)
	}
}

// touch says that a resource is another one.
func (s *server) touch(uri string) {
	s.touches[uri]++
	if s.subscribed[uri] {
		notify("notifications/resources/updated", `"uri":`+quote(uri))
	}
	for id, l := range s.listeners {
		if slices.Contains(l.ResourceSubscriptions, uri) {
			notify("notifications/resources/updated", subscriptionOf(id)+`,"uri":`+quote(uri))
		}
	}
}

// change adds the tool extra, or takes it away.
func (s *server) change() {
	s.extra = !s.extra
	if !s.modern {
		say(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
	}
	for id, l := range s.listeners {
		if l.ToolsListChanged {
			notify("notifications/tools/list_changed", subscriptionOf(id))
		}
	}
}
