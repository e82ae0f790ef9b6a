package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/troupe-run/troupe/mcp"
)

// parseAnswer reads the answer to a question as a user writes it: what to do, or what the form has.
func parseAnswer(text string) (mcp.ElicitResult, error) {
	switch action := mcp.ElicitAction(text); action {
	case mcp.ElicitAccept, mcp.ElicitDecline, mcp.ElicitCancel:
		return mcp.ElicitResult{Action: action}, nil
	}
	if !isObject(text) {
		return mcp.ElicitResult{}, fmt.Errorf(`answer is %q: want accept, decline, cancel, or what the form has, such as {"name":"Ada"}`, text)
	}
	return mcp.ElicitResult{Action: mcp.ElicitAccept, Content: json.RawMessage(text)}, nil
}

// isObject reports whether text is a JSON object.
func isObject(text string) bool {
	var members map[string]json.RawMessage
	return json.Unmarshal([]byte(text), &members) == nil && members != nil
}

// asked is what a server asks its user.
type asked struct {
	Message string
	URL     string
	Schema  struct {
		Properties map[string]json.RawMessage
	} `json:"requestedSchema"`
}

// questionText is a question of the server as a line of text.
func questionText(params json.RawMessage) string {
	var q asked
	if json.Unmarshal(params, &q) != nil {
		return "the server asks what cannot be read"
	}
	if q.URL != "" {
		return fmt.Sprintf("the server asks: %s: open %s", q.Message, q.URL)
	}
	return fmt.Sprintf("the server asks: %s (%s)", q.Message, strings.Join(slices.Sorted(maps.Keys(q.Schema.Properties)), ", "))
}

// answerInTurn returns a function that gives the answers in turn. The questions after these are cancelled, and unanswered counts them.
func answerInTurn(answers []mcp.ElicitResult, unanswered *int) func(string, json.RawMessage) mcp.ElicitResult {
	return func(string, json.RawMessage) mcp.ElicitResult {
		if len(answers) == 0 {
			*unanswered++
			return mcp.ElicitResult{Action: mcp.ElicitCancel}
		}
		next := answers[0]
		answers = answers[1:]
		return next
	}
}
