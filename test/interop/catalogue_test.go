package interop

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func TestPrompts(t *testing.T) {
	inBothEras(t, func(t *testing.T, dial dialer) {
		t.Parallel()
		c := dial(t, shared, mcp.ClientOptions{})
		var list []*mcp.Prompt
		for p, err := range c.Prompts(within(t), nil) {
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, p)
		}
		slices.SortFunc(list, func(a, b *mcp.Prompt) int { return strings.Compare(a.Name, b.Name) })
		sameJSON(t, "prompts", list, `[
		{"name":"test_input_required_result_prompt","title":"Prompt with input","description":"Asks the user what it is about."},
		{"name":"test_prompt_with_arguments","title":"Prompt with arguments","description":"A prompt that repeats its arguments.","arguments":[
			{"name":"arg1","description":"The first argument","required":true},
			{"name":"arg2","description":"The second argument","required":true}]},
		{"name":"test_prompt_with_embedded_resource","title":"Prompt with a resource","description":"A prompt that carries a resource.","arguments":[
			{"name":"resourceUri","description":"The URI of the resource","required":true}]},
		{"name":"test_prompt_with_image","title":"Prompt with an image","description":"A prompt that carries an image."},
		{"name":"test_simple_prompt","title":"Simple prompt","description":"A prompt without arguments."}]`)

		for _, tt := range []struct {
			name string
			args map[string]string
			want string
		}{
			{"test_simple_prompt", nil, `{"description":"A prompt without arguments.","messages":[
			{"role":"user","content":{"type":"text","text":"This is a simple prompt for testing."}}]}`},
			{"test_prompt_with_arguments", map[string]string{"arg1": "one", "arg2": "\"two\""}, `{"description":"A prompt that repeats its arguments.","messages":[
			{"role":"user","content":{"type":"text","text":"Prompt with arguments: arg1='one', arg2='\"two\"'"}}]}`},
			{"test_prompt_with_embedded_resource", map[string]string{"resourceUri": "test://mine"}, `{"description":"A prompt that carries a resource.","messages":[
			{"role":"user","content":{"type":"resource","resource":{"uri":"test://mine","mimeType":"text/plain","text":"Embedded resource content for testing."}}},
			{"role":"user","content":{"type":"text","text":"Please process the embedded resource above."}}]}`},
			{"test_prompt_with_image", nil, `{"description":"A prompt that carries an image.","messages":[
			{"role":"user","content":{"type":"image","data":"` + redPixel + `","mimeType":"image/png"}},
			{"role":"user","content":{"type":"text","text":"Please analyze the image above."}}]}`},
		} {
			r, err := c.GetPrompt(within(t), &mcp.GetPromptParams{Name: tt.name, Arguments: tt.args})
			if err != nil {
				t.Errorf("%s: %v", tt.name, err)
				continue
			}
			sameJSON(t, tt.name, r, tt.want)
		}
	})
}

func TestResources(t *testing.T) {
	inBothEras(t, func(t *testing.T, dial dialer) {
		t.Parallel()
		c := dial(t, shared, mcp.ClientOptions{})
		var list []*mcp.Resource
		for r, err := range c.Resources(within(t), nil) {
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, r)
		}
		slices.SortFunc(list, func(a, b *mcp.Resource) int { return strings.Compare(a.URI, b.URI) })
		for _, r := range list {
			r.Size = 0 // of files that people write
		}
		sameJSON(t, "resources", list, `[
		{"uri":"skill://tour/SKILL.md","name":"tour","description":"Shows somebody around this demo server. Use it when they ask what the server can do, or want to try a feature of MCP.","mimeType":"text/markdown"},
		{"uri":"skill://tour/references/features.md","name":"features.md","mimeType":"text/markdown"},
		{"uri":"test://static-binary","name":"static-binary","title":"Static image","description":"An image that never changes.","mimeType":"image/png"},
		{"uri":"test://static-text","name":"static-text","title":"Static text","description":"A text that never changes.","mimeType":"text/plain"},
		{"uri":"test://watched-resource","name":"watched-resource","title":"Watched resource","description":"A resource to subscribe to.","mimeType":"text/plain"},
		{"uri":"ui://everything/measure","name":"measure","title":"Measures of a text","description":"Shows what the tool measure counts.","mimeType":"text/html;profile=mcp-app",
			"_meta":{"ui":{"prefersBorder":true}}}]`)
		var templates []*mcp.ResourceTemplate
		for r, err := range c.ResourceTemplates(within(t), nil) {
			if err != nil {
				t.Fatal(err)
			}
			templates = append(templates, r)
		}
		sameJSON(t, "templates", templates, `[
		{"uriTemplate":"test://template/{id}/data","name":"template-data","title":"Data by id","description":"A resource for each id.","mimeType":"application/json"}]`)

		for uri, want := range map[string]string{
			"test://static-text":      `[{"uri":"test://static-text","mimeType":"text/plain","text":"This is the content of the static text resource."}]`,
			"test://static-binary":    `[{"uri":"test://static-binary","mimeType":"image/png","blob":"` + redPixel + `"}]`,
			"test://watched-resource": `[{"uri":"test://watched-resource","mimeType":"text/plain","text":"Watched resource content."}]`,
			"test://template/a%20b/data": `[{"uri":"test://template/a%20b/data","mimeType":"application/json",
			"text":"{\"id\":\"a b\",\"templateTest\":true,\"data\":\"Data for ID: a b\"}"}]`,
		} {
			r, err := c.ReadResource(within(t), &mcp.ReadResourceParams{URI: uri})
			if err != nil {
				t.Errorf("%s: %v", uri, err)
				continue
			}
			sameJSON(t, uri, r.Contents, want)
		}
	})
}

func TestSubscribe(t *testing.T) {
	t.Parallel()
	c := dial(t, shared, mcp.ClientOptions{})
	ctx := within(t)
	const uri = "test://watched-resource"
	for range 2 { // a second time changes nothing
		if err := c.Subscribe(ctx, &mcp.SubscribeParams{URI: uri}); err != nil {
			t.Fatalf("subscribe: %v", err)
		}
	}
	for range 2 {
		if err := c.Unsubscribe(ctx, &mcp.UnsubscribeParams{URI: uri}); err != nil {
			t.Fatalf("unsubscribe: %v", err)
		}
	}
	refused(t, "a subscription to a relative URI", c.Subscribe(ctx, &mcp.SubscribeParams{URI: "nothing"}), jsonrpc.CodeInvalidParams, "uri must be an absolute URI")
}

func TestComplete(t *testing.T) {
	inBothEras(t, func(t *testing.T, dial dialer) {
		t.Parallel()
		c := dial(t, shared, mcp.ClientOptions{})
		prompt := &mcp.CompleteReference{Type: "ref/prompt", Name: "test_prompt_with_arguments"}
		for _, tt := range []struct {
			ref   *mcp.CompleteReference
			typed string
			want  []string
		}{
			{prompt, "par", []string{"paris", "park", "party"}},
			{prompt, "test", []string{"testing", "test value 1", "test value 2"}},
			{prompt, "", []string{"testing", "test value 1", "test value 2", "paris", "park", "party"}},
			{prompt, "none", []string{}},
			{&mcp.CompleteReference{Type: "ref/prompt", Name: "test_simple_prompt"}, "par", []string{}},
			{&mcp.CompleteReference{Type: "ref/resource", URI: "test://template/{id}/data"}, "par", []string{}},
		} {
			r, err := c.Complete(within(t), &mcp.CompleteParams{Ref: tt.ref, Argument: mcp.CompleteParamsArgument{Name: "arg1", Value: tt.typed}})
			if err != nil {
				t.Errorf("complete %q: %v", tt.typed, err)
				continue
			}
			if diff := cmp.Diff(r.Completion.Values, tt.want); diff != "" || r.Completion.HasMore || r.Completion.Total != len(tt.want) {
				t.Errorf("completions of %q are %+v, want all of %q", tt.typed, r.Completion, tt.want)
			}
		}
		r, err := c.Complete(within(t), &mcp.CompleteParams{Ref: prompt, Argument: mcp.CompleteParamsArgument{Name: "arg2", Value: "par"},
			Context: &mcp.CompleteContext{Arguments: map[string]string{"arg1": "paris"}}})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(r.Completion.Values, []string{"park", "party"}); diff != "" {
			t.Errorf("completions beside another argument (-got +want):\n%s", diff)
		}
		_, err = c.Complete(within(t), &mcp.CompleteParams{Ref: &mcp.CompleteReference{Type: "ref/prompt", Name: "nothing"}, Argument: mcp.CompleteParamsArgument{Name: "arg1"}})
		refused(t, "completion for an unknown prompt", err, jsonrpc.CodeInvalidParams, "Unknown prompt: nothing")
	})
}
