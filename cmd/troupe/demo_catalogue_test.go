package main_test

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestEveryListedItemIsThere reads each resource and gets each prompt that the
// lists name.
func TestEveryListedItemIsThere(t *testing.T) {
	t.Parallel()
	c := connect(t, `{"elicitation":{}}`)
	c.reply = func(string, json.RawMessage) string { return `{"action":"accept","content":{"context":"this"}}` }
	var resources struct {
		Resources []struct{ URI, Name, Description string }
	}
	c.call("resources/list", `{}`, &resources)
	if len(resources.Resources) != 6 {
		t.Errorf("resources are %v, want six", resources)
	}
	for _, r := range resources.Resources {
		var read struct{ Contents []struct{ URI string } }
		c.call("resources/read", `{"uri":"`+r.URI+`"}`, &read)
		described := r.Description != "" || strings.HasPrefix(r.URI, "skill://") // of a skill, SKILL.md is
		if r.Name == "" || !described || len(read.Contents) != 1 || read.Contents[0].URI != r.URI {
			t.Errorf("%+v reads as %+v", r, read)
		}
	}
	var prompts struct {
		Prompts []struct {
			Name, Description string
			Arguments         []struct{ Name string }
		}
	}
	c.call("prompts/list", `{}`, &prompts)
	if len(prompts.Prompts) != 5 {
		t.Errorf("prompts are %v, want five", prompts)
	}
	for _, p := range prompts.Prompts {
		if p.Description == "" {
			t.Errorf("%s has no description", p.Name)
		}
		arguments := map[string]string{}
		for _, a := range p.Arguments {
			arguments[a.Name] = "test://a"
		}
		params, err := json.Marshal(map[string]any{"name": p.Name, "arguments": arguments})
		if err != nil {
			t.Fatal(err)
		}
		var prompt struct{ Messages []json.RawMessage }
		c.call("prompts/get", string(params), &prompt)
		if len(prompt.Messages) == 0 {
			t.Errorf("%s has no messages", p.Name)
		}
	}
}
