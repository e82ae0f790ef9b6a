package interop

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// asked is what is asked of a hosted server, and what comes is compared with what it says directly.
type asked struct {
	tool string
	args map[string]any
}

// TestHostedServers has troupe host servers of npm, and compares each list, prompt, resource, completion and call with what the
// same server says to the same client over its own standard input and output. The client comes in both eras; the servers know
// only the older one.
func TestHostedServers(t *testing.T) {
	t.Parallel()
	modules := nodeModules(t)
	of := func(name string) []string {
		return []string{"node", filepath.Join(modules, "@modelcontextprotocol", "server-"+name, "dist", "index.js")}
	}
	files := t.TempDir()
	if err := os.WriteFile(filepath.Join(files, "play.txt"), []byte("All the world's a stage,\nand all the men and women merely players.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(files, name) }
	entity := map[string]any{"name": "Ada", "entityType": "person", "observations": []string{"writes programs"}}
	for _, backend := range []struct {
		name    string
		command []string
		asked   []asked
	}{
		{"everything", of("everything"), []asked{
			{"echo", map[string]any{"message": "<b>\u2028ä</b>"}},
			{"echo", map[string]any{"message": 1}},
			{"get-sum", map[string]any{"a": 1.5, "b": 2}},
			{"get-tiny-image", nil},
			{"get-structured-content", map[string]any{"location": "Chicago"}},
			{"get-annotated-message", map[string]any{"messageType": "error", "includeImage": true}},
			{"get-resource-links", map[string]any{"count": 3}},
			{"trigger-elicitation-request", nil},
			{"trigger-sampling-request", map[string]any{"prompt": "who are you", "maxTokens": 10}},
			{"trigger-long-running-operation", map[string]any{"duration": 0.1, "steps": 2}},
		}},
		{"filesystem", append(of("filesystem"), files), []asked{
			{"list_allowed_directories", nil},
			{"read_text_file", map[string]any{"path": at("play.txt"), "head": 1}},
			{"read_text_file", map[string]any{"path": "/etc/passwd"}},
			{"write_file", map[string]any{"path": at("new.txt"), "content": "to be"}},
			{"edit_file", map[string]any{"path": at("new.txt"), "edits": []any{map[string]any{"oldText": "to be", "newText": "or not"}}}},
			{"list_directory_with_sizes", map[string]any{"path": files}},
			{"directory_tree", map[string]any{"path": files}},
			{"search_files", map[string]any{"path": files, "pattern": "*.txt"}},
		}},
		{"memory", of("memory"), []asked{
			{"create_entities", map[string]any{"entities": []any{entity}}},
			{"create_relations", map[string]any{"relations": []any{map[string]any{"from": "Ada", "to": "Ada", "relationType": "knows"}}}},
			{"add_observations", map[string]any{"observations": []any{map[string]any{"entityName": "Ada", "contents": []string{"counts"}}}}},
			{"read_graph", nil},
			{"search_nodes", map[string]any{"query": "counts"}},
			{"delete_entities", map[string]any{"entityNames": []string{"Ada"}}},
			{"read_graph", nil},
		}},
	} {
		t.Run(backend.name, func(t *testing.T) {
			t.Parallel()
			words := func() []string { // what server-memory keeps is each time in a file of its own
				return append([]string{"env", "MEMORY_FILE_PATH=" + filepath.Join(t.TempDir(), "memory.jsonl")}, backend.command...)
			}
			direct := words()
			d := connectTo(t, &mcp.CommandTransport{Command: exec.Command(direct[0], direct[1:]...)}, revision)
			want := everythingOf(t, d, backend.asked)
			for _, version := range []string{revision, stateless} {
				t.Run(version, func(t *testing.T) {
					s := start(t, append([]string{"--set", "conformance=false", "--memory", "--"}, words()...)...)
					awaitTools(t, s, version)
					g := connectTo(t, &mcp.StreamableClientTransport{Endpoint: s.endpoint}, version)
					for i, got := range everythingOf(t, g, backend.asked) {
						if diff := cmp.Diff(got.says, want[i].says); diff != "" {
							t.Errorf("%s (-hosted +direct):\n%s", got.of, diff)
						}
					}
				})
			}
		})
	}
}

// awaitTools returns once it is known what a hosted server lists: until then a client waits for a few seconds, and goes on without.
func awaitTools(t *testing.T, s *server, version string) {
	t.Helper()
	c := connectTo(t, &mcp.StreamableClientTransport{Endpoint: s.endpoint}, version)
	eventually(t, func() bool {
		list, err := c.ListTools(within(t), nil)
		return err == nil && len(list.Tools) > 0
	}, func() string { return "the hosted server lists no tools" })
}

// connectTo connects a client that answers questions, and has no roots.
func connectTo(t *testing.T, over mcp.Transport, version string) *mcp.ClientSession {
	t.Helper()
	c, err := mcp.NewClient(&mcp.Implementation{Name: "interop", Version: "1.0.0"}, &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{},
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "Ada", "check": true}}, nil
		},
		CreateMessageHandler: func(_ context.Context, r *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			return &mcp.CreateMessageResult{Role: "assistant", Model: "none", Content: r.Params.Messages[0].Content}, nil
		},
	}).Connect(within(t), over, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// shown is what came of a request.
type shown struct {
	of   string
	says any
}

// everythingOf asks a server for each of its lists, prompts, resources and completions, and for some calls.
func everythingOf(t *testing.T, c *mcp.ClientSession, calls []asked) (all []shown) {
	t.Helper()
	ctx := within(t)
	note := func(of string, result any, err error) {
		if err != nil {
			_, text, _ := strings.Cut(err.Error(), ": ") // the SDK begins with the method
			all = append(all, shown{of, text})
			return
		}
		data, err := json.Marshal(result)
		if err != nil {
			t.Fatal(err)
		}
		var says map[string]any
		if err := json.Unmarshal(data, &says); err != nil {
			t.Fatal(err)
		}
		for _, ofTheEra := range []string{"resultType", "ttlMs", "cacheScope"} {
			delete(says, ofTheEra)
		}
		if meta, ok := says["_meta"].(map[string]any); ok {
			delete(meta, mcp.MetaKeyServerInfo)
			if len(meta) == 0 {
				delete(says, "_meta")
			}
		}
		all = append(all, shown{of, says})
	}
	tools, err := c.ListTools(ctx, nil)
	note("tools", tools, err)
	has := c.InitializeResult().Capabilities
	note("instructions", map[string]any{"instructions": c.InitializeResult().Instructions, "name": c.InitializeResult().ServerInfo.Name}, nil)
	if has.Prompts != nil {
		prompts, err := c.ListPrompts(ctx, nil)
		note("prompts", prompts, err)
		for _, p := range prompts.Prompts {
			got, err := c.GetPrompt(ctx, &mcp.GetPromptParams{Name: p.Name, Arguments: map[string]string{"city": "Paris", "state": "Texas", "department": "Sales", "name": "Bob", "resourceType": "Text", "resourceId": "x"}})
			note("prompt "+p.Name, got, err)
		}
		got, err := c.Complete(ctx, &mcp.CompleteParams{Ref: &mcp.CompleteReference{Type: "ref/prompt", Name: "completable-prompt"}, Argument: mcp.CompleteParamsArgument{Name: "department", Value: "S"}})
		note("completion", got, err)
	}
	if has.Resources != nil {
		templates, err := c.ListResourceTemplates(ctx, nil)
		note("templates", templates, err)
		resources, err := c.ListResources(ctx, nil)
		note("resources", resources, err)
		for _, r := range resources.Resources {
			got, err := c.ReadResource(ctx, &mcp.ReadResourceParams{URI: r.URI})
			note("resource "+r.URI, got, err)
		}
	}
	for _, one := range calls {
		args := one.args
		if args == nil { // a nil map would be null on the wire
			args = map[string]any{}
		}
		got, err := c.CallTool(ctx, &mcp.CallToolParams{Name: one.tool, Arguments: args})
		note("call of "+one.tool, got, err)
	}
	return all
}
