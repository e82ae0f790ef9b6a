package main_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// answering returns a client that can answer everything: it answers questions for the
// user by their message, and requests for sampling and roots always alike.
func answering(t *testing.T, forms map[string]string) (c *client, asked *[]string) {
	c = connect(t, `{"elicitation":{},"sampling":{},"roots":{}}`)
	asked = new([]string)
	c.reply = func(method string, params json.RawMessage) string {
		*asked = append(*asked, method)
		switch method {
		case "sampling/createMessage":
			return `{"role":"assistant","content":{"type":"text","text":"Paris"},"model":"m"}`
		case "roots/list":
			return `{"roots":[{"uri":"file:///a"},{"uri":"file:///b"}]}`
		}
		var form struct{ Message string }
		if err := json.Unmarshal(params, &form); err != nil {
			t.Error(err)
		}
		return forms[form.Message]
	}
	return c, asked
}

func TestInputs(t *testing.T) {
	t.Parallel()
	const elicit, sample, roots = "elicitation/create", "sampling/createMessage", "roots/list"
	forms := map[string]string{
		"What is your name?":                     `{"action":"accept","content":{"name":"Ada"}}`,
		"Please confirm":                         `{"action":"accept","content":{"ok":true}}`,
		"Step 1: What is your name?":             `{"action":"accept","content":{"name":"Grace"}}`,
		"Step 2: What is your favorite color?":   `{"action":"accept","content":{"color":"blue"}}`,
		"What context should the prompt use?":    `{"action":"accept","content":{"context":"the war"}}`,
		"something that nobody of this asks for": `{}`,
	}
	c, asked := answering(t, forms)
	for _, tt := range []struct {
		tool, text string
		asked      []string
	}{
		{"elicitation", "Hello, Ada!", []string{elicit}},
		{"sampling", "Paris", []string{sample}},
		{"list_roots", "file:///a, file:///b", []string{roots}},
		{"request_state", "state-ok: the user said true", []string{elicit}},
		{"tampered_state", "state-ok: the user said true", []string{elicit}},
		{"multiple_inputs", "Paris Ada works in file:///a, file:///b", []string{elicit, roots, sample}},
		{"multi_round", "Grace likes blue", []string{elicit, elicit}},
		{"capabilities", "asked 3 questions", []string{elicit, roots, sample}},
	} {
		*asked = nil
		r := c.tool("test_input_required_result_"+tt.tool, `{}`)
		slices.Sort(*asked)
		if got := r.text(t); got != tt.text || r.IsError || !slices.Equal(*asked, tt.asked) {
			t.Errorf("%s: text is %q, error %t, after %q; want %q after %q", tt.tool, got, r.IsError, *asked, tt.text, tt.asked)
		}
	}
	m := c.call("prompts/get", `{"name":"test_input_required_result_prompt"}`, nil)
	if want := `"text":"Use this context: the war"`; !strings.Contains(string(m.Result), want) {
		t.Errorf("the prompt is %s%s, want %s in it", m.Result, m.Error, want)
	}
}

// TestInputsThatAreNotGiven checks what a model reads when the user does not answer,
// and what a client gets that cannot be asked.
func TestInputsThatAreNotGiven(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{`{"action":"decline"}`, `{"action":"cancel"}`, `{"action":"accept","content":{}}`} {
		c, _ := answering(t, map[string]string{"What is your name?": answer, "What context should the prompt use?": answer})
		if r := c.tool("test_input_required_result_elicitation", `{}`); !r.IsError {
			t.Errorf("%s: the result is %s, want an error", answer, r.Content)
		}
		if m := c.call("prompts/get", `{"name":"test_input_required_result_prompt"}`, nil); m.Error == nil {
			t.Errorf("%s: the prompt is %s, want an error", answer, m.Result)
		}
	}
	c := connect(t, `{}`)
	if got, want := c.tool("test_input_required_result_capabilities", `{}`).text(t), "the client can answer nothing"; got != want {
		t.Errorf("text is %q, want %q", got, want)
	}
	for tool, want := range map[string]string{
		"test_input_required_result_elicitation": "elicitation.form", "test_input_required_result_sampling": "sampling",
		"test_input_required_result_list_roots": "roots", "test_input_required_result_multiple_inputs": "elicitation.form, sampling, roots",
		"test_missing_capability": "sampling",
	} {
		m := c.call("tools/call", fmt.Sprintf(`{"name":%q}`, tool), nil)
		if !strings.Contains(string(m.Error), "the client must declare: "+want) {
			t.Errorf("%s is answered with %s%s, want an error that names %s", tool, m.Error, m.Result, want)
		}
	}
}

func TestRequests(t *testing.T) {
	t.Parallel()
	c, _ := answering(t, nil)
	for _, tt := range []struct{ tool, arguments, want string }{
		{"test_missing_capability", `{}`, "the client declares sampling"},
		{"test_streaming_elicitation", `{}`, "streamed"},
		{"test_logging_tool", `{}`, "logged"},
		{"test_x_mcp_header", `{}`, "region: "},
		{"test_x_mcp_header", `{"region":"us-west1"}`, "region: us-west1"},
	} {
		if got := c.tool(tt.tool, tt.arguments).text(t); got != tt.want {
			t.Errorf("%s: text is %q, want %q", tt.tool, got, tt.want)
		}
	}
	if got := c.notified("notifications/progress"); len(got) != 1 {
		t.Errorf("progress is %s, want it once", got)
	}
	// In a session, messages from level info on are logged.
	if got := c.notified("notifications/message"); len(got) != 1 {
		t.Errorf("log messages are %s, want one", got)
	}
}

// TestTriggers checks that clients learn of a list that was changed and changed back,
// and that the list is as before.
func TestTriggers(t *testing.T) {
	t.Parallel()
	c := connect(t, `{}`)
	for what, list := range map[string]string{"tool": "tools", "prompt": "prompts"} {
		before := string(c.call(list+"/list", `{}`, nil).Result)
		// A busy machine may see both changes as one, which is no change.
		for len(c.notified("notifications/"+list+"/list_changed")) == 0 {
			if got, want := c.tool("test_trigger_"+what+"_change", `{}`).text(t), "changed, and changed back"; got != want {
				t.Errorf("text is %q, want %q", got, want)
			}
			if after := string(c.call(list+"/list", `{}`, nil).Result); after != before || strings.Contains(after, "test_transient") {
				t.Errorf("%s are %s, want them as they were", list, after)
			}
			<-time.After(50 * time.Millisecond)
		}
	}
}
