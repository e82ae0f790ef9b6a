package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// stateless is the revision whose requests need no session: each names the client, in
// its params and its headers.
const stateless = "2026-07-28"

// standing sends a stateless request. If the response asks for input, standing sends the
// request again with the answers.
func (c *client) standing(method, params string) {
	members := make(map[string]json.RawMessage)
	if err := json.Unmarshal([]byte(params), &members); err != nil {
		log.Fatalf("the params of %s: %v", method, err)
	}
	members["_meta"] = fmt.Appendf(nil, `{"io.modelcontextprotocol/protocolVersion":%q,"io.modelcontextprotocol/clientInfo":{"name":"try","version":"1"},`+
		`"io.modelcontextprotocol/clientCapabilities":%s}`, stateless, c.capabilities)
	header := http.Header{"Mcp-Protocol-Version": {stateless}, "Mcp-Method": {method}}
	var name string
	if json.Unmarshal([]byte(cmp.Or(string(members["name"]), string(members["uri"]))), &name) == nil {
		header.Set("Mcp-Name", name)
	}
	for {
		c.id++
		whole, err := json.Marshal(members)
		if err != nil {
			log.Fatal(err)
		}
		needed := c.answerTo(c.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, c.id, method, whole), header))
		if needed == nil {
			return
		}
		answers := make(map[string]json.RawMessage)
		for _, key := range slices.Sorted(maps.Keys(needed.InputRequests)) {
			q := needed.InputRequests[key]
			fmt.Println(q.Method, string(q.Params))
			answers[key] = json.RawMessage(c.answer)
		}
		if members["inputResponses"], err = json.Marshal(answers); err != nil {
			log.Fatal(err)
		}
		members["requestState"] = needed.RequestState
	}
}

// A need is a result that asks for input.
type need struct {
	ResultType    string
	InputRequests map[string]message
	RequestState  json.RawMessage
}

// answerTo prints the response to a request, and returns its need, if it has one.
func (c *client) answerTo(res *http.Response) (needed *need) {
	defer res.Body.Close()
	take := func(m message) bool {
		var n need
		if json.Unmarshal(m.Result, &n) == nil && n.ResultType == "input_required" {
			needed = &n
			return false
		}
		c.handle(m)
		return m.Method != ""
	}
	if strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		events(res.Body, take)
		return needed
	}
	body, err := io.ReadAll(res.Body)
	var m message
	if err != nil || json.Unmarshal(body, &m) != nil {
		log.Fatalf("%s %s %v", res.Status, body, err)
	}
	if res.StatusCode != http.StatusOK {
		fmt.Print(res.StatusCode, " ")
	}
	take(m)
	return needed
}
