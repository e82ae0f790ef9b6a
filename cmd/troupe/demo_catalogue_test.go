package main_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestAnswers compares whole responses of lists, reads, prompts and completions.
func TestAnswers(t *testing.T) {
	t.Parallel()
	c := connect(t, `{}`)
	for _, tt := range []struct{ method, params, want string }{
		{"resources/read", `{"uri":"test://static-text"}`,
			`{"contents":[{"uri":"test://static-text","mimeType":"text/plain","text":"This is the content of the static text resource."}]}`},
		{"resources/read", `{"uri":"test://static-binary"}`,
			`{"contents":[{"uri":"test://static-binary","mimeType":"image/png","blob":"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="}]}`},
		{"resources/read", `{"uri":"test://watched-resource"}`,
			`{"contents":[{"uri":"test://watched-resource","mimeType":"text/plain","text":"Watched resource content."}]}`},
		{"resources/read", `{"uri":"test://template/123/data"}`,
			`{"contents":[{"uri":"test://template/123/data","mimeType":"application/json","text":"{\"id\":\"123\",\"templateTest\":true,\"data\":\"Data for ID: 123\"}"}]}`},
		{"resources/templates/list", `{}`,
			`{"resourceTemplates":[{"uriTemplate":"test://template/{id}/data","name":"template-data","title":"Data by id","description":"A resource for each id.","mimeType":"application/json"}]}`},
		{"resources/subscribe", `{"uri":"test://watched-resource"}`, `{}`},
		{"resources/unsubscribe", `{"uri":"test://watched-resource"}`, `{}`},
		{"prompts/get", `{"name":"test_simple_prompt"}`,
			`{"description":"A prompt without arguments.","messages":[{"role":"user","content":{"type":"text","text":"This is a simple prompt for testing."}}]}`},
		{"prompts/get", `{"name":"test_prompt_with_arguments","arguments":{"arg1":"hello","arg2":"world"}}`,
			`{"description":"A prompt that repeats its arguments.","messages":[{"role":"user","content":{"type":"text","text":"Prompt with arguments: arg1='hello', arg2='world'"}}]}`},
		{"prompts/get", `{"name":"test_prompt_with_embedded_resource","arguments":{"resourceUri":"test://example-resource"}}`,
			`{"description":"A prompt that carries a resource.","messages":[
				{"role":"user","content":{"type":"resource","resource":{"uri":"test://example-resource","mimeType":"text/plain","text":"Embedded resource content for testing."}}},
				{"role":"user","content":{"type":"text","text":"Please process the embedded resource above."}}]}`},
		{"prompts/get", `{"name":"test_prompt_with_image"}`,
			`{"description":"A prompt that carries an image.","messages":[
				{"role":"user","content":{"type":"image","data":"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==","mimeType":"image/png"}},
				{"role":"user","content":{"type":"text","text":"Please analyze the image above."}}]}`},
		{"completion/complete", `{"ref":{"type":"ref/prompt","name":"test_prompt_with_arguments"},"argument":{"name":"arg1","value":"test"}}`,
			`{"completion":{"values":["testing","test value 1","test value 2"],"total":3,"hasMore":false}}`},
		{"completion/complete", `{"ref":{"type":"ref/prompt","name":"test_prompt_with_arguments"},"argument":{"name":"arg2","value":"par"},"context":{"arguments":{"arg1":"paris","arg2":"park"}}}`,
			`{"completion":{"values":["park","party"],"total":2,"hasMore":false}}`},
		{"completion/complete", `{"ref":{"type":"ref/prompt","name":"test_simple_prompt"},"argument":{"name":"a","value":""}}`,
			`{"completion":{"values":[],"total":0,"hasMore":false}}`},
	} {
		var got, want any
		c.call(tt.method, tt.params, &got)
		if err := json.Unmarshal([]byte(tt.want), &want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(got, want); diff != "" {
			t.Errorf("%s %s differs (-got +want):\n%s", tt.method, tt.params, diff)
		}
	}
}

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
