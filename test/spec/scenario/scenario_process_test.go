package scenario_test

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/host"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/troupetest"
)

var revision = flag.String("revision", mcp.Latest.String(), "that the client speaks, whatever the scenario's server does")

// scenarios are those of the suite that are not about authorization. Each asks more of a client than that it connects.
var scenarios = map[string]func(p *player){
	"initialize":                          (*player).knock,
	"request-metadata":                    (*player).knock,
	"tools_call":                          (*player).add,
	"elicitation-sep1034-client-defaults": (*player).acceptDefaults,
	"sse-retry":                           (*player).waitForAnswer,
	"sep-2322-client-request-state":       (*player).answerAndCallAgain,
	"http-standard-headers":               (*player).useAll,
	"http-custom-headers":                 (*player).callAsTold,
	"http-invalid-tool-headers":           (*player).callAllTools,
	"json-schema-ref-no-deref":            (*player).listTools,
	"json-schema-2020-12-preservation":    (*player).returnSchema,
	"sep-2640-client-no-prefetch":         (*player).listSkills,
	"sep-2640-client-verify-digest":       (*player).loadSkill,
	"sep-2640-client-verify-size":         (*player).loadSkill,
	"sep-2640-client-verify-frontmatter":  (*player).loadSkill,
}

// TestScenario does what the scenario in the environment asks, with the server at the URL that is the argument.
func TestScenario(t *testing.T) {
	name := os.Getenv("MCP_CONFORMANCE_SCENARIO")
	if name == "" {
		t.Skip("the official suite runs it: .ci/conformance/clients")
	}
	play, url := scenarios[name], flag.Arg(0)
	if play == nil || url == "" {
		t.Fatalf("want a URL, and a scenario that is known: %q is none", name)
	}
	spoken, ok := mcp.ParseRevision(*revision)
	if !ok {
		t.Fatalf("there is no revision %q", *revision)
	}
	srv := troupe.NewServer(mcp.Implementation{Name: "gateway", Version: "1.0.0"}, nil)
	troupe.AddBackend(srv, "scenario", host.URL(url), host.Options{Prefix: host.NoPrefix, Roots: host.Roots{Forward: true}})
	p := &player{T: t, modern: spoken.Stateless()}
	p.client = troupetest.Connect(t, srv, troupetest.Options{
		Revision: spoken, Principal: troupe.Principal{Issuer: "https://id.example.com", Subject: "ada"}, Elicit: accept,
		Sample: func(context.Context, mcp.CreateMessageParams) (mcp.CreateMessageResult, error) {
			return mcp.CreateMessageResult{}, mcp.NewError(mcp.CodeInternalError, "no scenario asks for sampling")
		},
		Roots: func(context.Context) ([]mcp.Root, error) { return nil, nil },
	})
	play(p)
}

// accept answers a form with its defaults, and yes where there is none.
func accept(_ context.Context, q mcp.ElicitParams) (mcp.ElicitResult, error) {
	var schema struct {
		Properties map[string]struct {
			Default json.RawMessage `json:"default"`
		} `json:"properties"`
	}
	if err := json.Unmarshal(q.RequestedSchema, &schema); err != nil {
		return mcp.ElicitResult{}, err
	}
	values := make(map[string]json.RawMessage)
	for name, property := range schema.Properties {
		if values[name] = property.Default; property.Default == nil {
			values[name] = json.RawMessage("true")
		}
	}
	content, err := json.Marshal(values)
	return mcp.ElicitResult{Action: mcp.ElicitAccept, Content: content}, err
}

// player is who plays a scenario.
type player struct {
	*testing.T
	client *troupetest.Client
	modern bool // it speaks 2026-07-28
}

// do sends a request that must be answered with a result.
func (p *player) do(method string, params, result any) {
	p.Helper()
	if err := p.client.Do(p.Context(), method, params, result); err != nil {
		p.Fatalf("%s: %v", method, err)
	}
}

// call calls a tool, and returns the texts of its result.
func (p *player) call(name string, arguments any) string {
	p.Helper()
	r, err := p.client.CallTool(p.Context(), name, arguments)
	if err != nil {
		p.Fatalf("%s: %v", name, err)
	}
	return troupetest.Text(r)
}

// must fails the test unless a tool says what it should.
func (p *player) must(name, says, want string) {
	p.Helper()
	if says != want {
		p.Errorf("%s says %q, want %q", name, says, want)
	}
}

// item is what has to be known of a tool, a prompt or a resource.
type item struct {
	Name        string          `json:"name"`
	URI         string          `json:"uri"`
	InputSchema json.RawMessage `json:"inputSchema"`
}

// list lists all items of a kind, in pages.
func (p *player) list(method, member string) (all []item) {
	p.Helper()
	params := map[string]string{}
	for {
		var page map[string]json.RawMessage
		p.do(method, params, &page)
		var items []item
		if err := json.Unmarshal(page[member], &items); err != nil {
			p.Fatalf("%s: %v", method, err)
		}
		var next string
		if cursor := page["nextCursor"]; cursor != nil {
			if err := json.Unmarshal(cursor, &next); err != nil {
				p.Fatalf("%s: %v", method, err)
			}
		}
		if all = append(all, items...); next == "" {
			return all
		}
		params["cursor"] = next
	}
}

// knock asks for nothing but what the server is.
func (p *player) knock() {
	if p.modern { // else initialize has been asked
		p.do(mcp.MethodServerDiscover, nil, nil)
	}
}

func (p *player) add() {
	p.tools()
	p.must("add_numbers", p.call("add_numbers", map[string]int{"a": 5, "b": 3}), "The sum of 5 and 3 is 8")
}

// listPatience is for how long a list may be empty: of a backend that is slow to start, nothing is known at first.
const listPatience = 20 * time.Second

// tools lists the tools, of which there must be some.
func (p *player) tools() []item {
	p.Helper()
	for end := time.Now().Add(listPatience); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if tools := p.list(mcp.MethodToolsList, "tools"); len(tools) > 0 {
			return tools
		}
	}
	p.Fatal("no tool is listed")
	return nil
}

func (p *player) listTools() { p.tools() }

func (p *player) acceptDefaults() {
	const name = "test_client_elicitation_defaults"
	if says := p.call(name, map[string]any{}); !strings.HasPrefix(says, "Elicitation completed: ") {
		p.Errorf("%s says %q", name, says)
	}
}

func (p *player) waitForAnswer() {
	p.must("test_reconnection", p.call("test_reconnection", map[string]any{}), "Reconnection test completed successfully")
}

func (p *player) answerAndCallAgain() {
	for _, tt := range []struct{ name, want string }{
		{"test_mrtr_echo_state", "echo-state-ok"},
		{"test_mrtr_no_state", "no-state-ok"},
		{"test_mrtr_unrelated", "unrelated-ok"},
		{"test_mrtr_no_result_type", "no-result-type-test-ok"},
	} {
		p.must(tt.name, p.call(tt.name, map[string]any{}), tt.want)
	}
}

// useAll uses everything that is listed.
func (p *player) useAll() {
	p.callAllTools()
	for _, r := range p.list(mcp.MethodResourcesList, "resources") {
		p.do(mcp.MethodResourcesRead, map[string]string{"uri": r.URI}, nil)
	}
	for _, prompt := range p.list(mcp.MethodPromptsList, "prompts") {
		p.do(mcp.MethodPromptsGet, map[string]string{"name": prompt.Name}, nil)
	}
}

// callAllTools calls all tools that are listed, which is nobody's duty, so that those that are not listed are those that are not called.
func (p *player) callAllTools() {
	for _, tool := range p.tools() {
		p.call(tool.Name, map[string]string{"region": "us-west1"})
	}
}

// callAsTold makes the calls that the suite tells.
func (p *player) callAsTold() {
	var told struct {
		ToolCalls []struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		} `json:"toolCalls"`
	}
	if err := json.Unmarshal([]byte(os.Getenv("MCP_CONFORMANCE_CONTEXT")), &told); err != nil || len(told.ToolCalls) == 0 {
		p.Fatalf("the suite tells no calls: %v", err)
	}
	p.tools()
	for _, c := range told.ToolCalls {
		p.call(c.Name, c.Arguments)
	}
}

// returnSchema sends the schema of one tool to the other.
func (p *player) returnSchema() {
	for _, tool := range p.tools() {
		if tool.Name == "json_schema_2020_12_tool" {
			p.call("json_schema_echo", map[string]json.RawMessage{"schema": tool.InputSchema})
			return
		}
	}
	p.Error("json_schema_2020_12_tool is not listed")
}

// skills lists the skills.
func (p *player) skills() []mcp.Skill {
	var r struct {
		Skills []mcp.Skill `json:"skills"`
	}
	if p.do(mcp.MethodSkillsList, map[string]any{}, &r); len(r.Skills) == 0 {
		p.Fatal("no skill is listed")
	}
	return r.Skills
}

// listSkills loads none of the skills that it lists.
func (p *player) listSkills() { p.skills() }

// loadSkill reads the files of a skill one after the other, for as long as each is what was listed.
func (p *player) loadSkill() {
	skill := p.skills()[0]
	for _, file := range skill.Resources {
		var r mcp.ReadResourceResult
		p.do(mcp.MethodResourcesRead, map[string]string{"uri": file.URI}, &r)
		if len(r.Contents) != 1 || r.Contents[0].Text == nil {
			p.Fatalf("%s has %d contents, or one that is no text", file.URI, len(r.Contents))
		}
		text := *r.Contents[0].Text
		sum := sha256.Sum256([]byte(text))
		var fault string
		if file.URI == skill.URI {
			fault = differingFrontmatter(skill.Frontmatter, text)
		}
		switch {
		case int64(len(text)) != file.Size:
			fault = "it has another size"
		case "sha256:"+hex.EncodeToString(sum[:]) != file.Digest:
			fault = "it has another digest"
		}
		if fault != "" {
			p.Logf("the skill is not loaded: of %s, %s", file.URI, fault)
			return
		}
	}
	p.Error("the skill was loaded, though it is not what was listed")
}

// differingFrontmatter says in what the frontmatter of a file, of lines with a name and a text, is not what was listed; "" for nothing.
func differingFrontmatter(listed mcp.Object, text string) string {
	var want map[string]string
	if err := json.Unmarshal(listed, &want); err != nil {
		return "what is listed cannot be read: " + err.Error()
	}
	front, _, _ := strings.Cut(strings.TrimPrefix(text, "---\n"), "---\n")
	for line := range strings.Lines(front) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if want[name] != value {
			return "the frontmatter says otherwise what " + cmp.Or(name, "it") + " is"
		}
		delete(want, name)
	}
	if len(want) > 0 {
		return "the frontmatter lacks something"
	}
	return ""
}
