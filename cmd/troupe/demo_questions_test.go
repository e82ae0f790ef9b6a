package main_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestQuestions(t *testing.T) {
	t.Parallel()
	const accept = `{"action":"accept","content":{"answer":"forty-two"}}`
	for _, tt := range []struct {
		tool, arguments string
		method, params  string // of the request that reaches the client
		reply           string
		text            string
		isError         bool
	}{
		{"ask", `{"question":"How much?"}`, "elicitation/create",
			`{"mode":"form","message":"How much?","requestedSchema":{"type":"object","properties":{"answer":{"type":"string","title":"Answer"}},"required":["answer"]}}`,
			accept, "forty-two", false},
		{"ask", `{"question":"How much?"}`, "elicitation/create",
			`{"mode":"form","message":"How much?","requestedSchema":{"type":"object","properties":{"answer":{"type":"string","title":"Answer"}},"required":["answer"]}}`,
			`{"action":"decline"}`, "the user did not answer: decline", true},
		{"ask_once", `{"question":"Now?"}`, "elicitation/create",
			`{"mode":"form","message":"Now?","requestedSchema":{"type":"object","properties":{"answer":{"type":"string","title":"Answer"}},"required":["answer"]}}`,
			accept, "forty-two", false},
		{"test_sampling", `{"prompt":"Say hello"}`, "sampling/createMessage",
			`{"messages":[{"role":"user","content":{"type":"text","text":"Say hello"}}],"maxTokens":100}`,
			`{"role":"assistant","content":{"type":"text","text":"hello"},"model":"m"}`, "LLM response: hello", false},
		{"delegate", `{"prompt":"Who?"}`, "sampling/createMessage",
			`{"messages":[{"role":"user","content":{"type":"text","text":"Who?"}}],"maxTokens":100,"toolChoice":{"mode":"required"},
				"tools":[{"name":"look","description":"Looks something up.","inputSchema":{"type":"object","properties":{"what":{"type":"string"}},"required":["what"]}}]}`,
			`{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"look","input":{"what":"you"}}],"model":"m","stopReason":"toolUse"}`, `look {"what":"you"}`, false},
		{"test_elicitation", `{"message":"Who?"}`, "elicitation/create",
			`{"mode":"form","message":"Who?","requestedSchema":{"type":"object","properties":{"username":{"type":"string","description":"User's response"},"email":{"type":"string","description":"User's email address"}},"required":["username","email"]}}`,
			`{"action":"accept","content":{"username":"u","email":"e"}}`, `User response: action=accept, content={"username":"u","email":"e"}`, false},
		{"test_elicitation_sep1034_defaults", `{}`, "elicitation/create",
			`{"mode":"form","message":"Please review and update the form fields with defaults","requestedSchema":{"type":"object","properties":{
				"name":{"type":"string","description":"User name","default":"John Doe"},
				"age":{"type":"integer","description":"User age","default":30},
				"score":{"type":"number","description":"User score","default":95.5},
				"status":{"type":"string","description":"User status","enum":["active","inactive","pending"],"default":"active"},
				"verified":{"type":"boolean","description":"Verification status","default":true}}}}`,
			`{"action":"cancel"}`, "Elicitation completed: action=cancel, content={}", false},
		{"test_elicitation_sep1330_enums", `{}`, "elicitation/create",
			`{"mode":"form","message":"Please select options from the enum fields","requestedSchema":{"type":"object","properties":{
				"untitledSingle":{"type":"string","description":"One of several","enum":["option1","option2","option3"]},
				"titledSingle":{"type":"string","description":"One of several with titles","oneOf":[{"const":"value1","title":"First Option"},{"const":"value2","title":"Second Option"},{"const":"value3","title":"Third Option"}]},
				"legacyEnum":{"type":"string","description":"One of several with titles, as older clients know it","enum":["opt1","opt2","opt3"],"enumNames":["Option One","Option Two","Option Three"]},
				"untitledMulti":{"type":"array","description":"Any of several","items":{"type":"string","enum":["option1","option2","option3"]}},
				"titledMulti":{"type":"array","description":"Any of several with titles","items":{"anyOf":[{"const":"value1","title":"First Option"},{"const":"value2","title":"Second Option"},{"const":"value3","title":"Third Option"}]}}}}}`,
			`{"action":"decline"}`, "Elicitation completed: action=decline, content={}", false},
	} {
		t.Run(tt.tool, func(t *testing.T) {
			t.Parallel()
			c := connect(t, `{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}}}`)
			asked := 0
			c.reply = func(method string, params json.RawMessage) string {
				asked++
				var got, want any
				if err := json.Unmarshal(params, &got); err != nil {
					t.Error(err)
				}
				if err := json.Unmarshal([]byte(tt.params), &want); err != nil {
					t.Error(err)
				}
				if diff := cmp.Diff(got, want); method != tt.method || diff != "" {
					t.Errorf("asked with %s, want %s; params differ (-got +want):\n%s", method, tt.method, diff)
				}
				return tt.reply
			}
			r := c.tool(tt.tool, tt.arguments)
			if got := r.text(t); got != tt.text || r.IsError != tt.isError {
				t.Errorf("text is %q, error %t; want %q, error %t", got, r.IsError, tt.text, tt.isError)
			}
			if asked != 1 {
				t.Errorf("asked %d times, want once", asked)
			}
		})
	}
}

func TestQuestionsNeedTheirCapability(t *testing.T) {
	t.Parallel()
	c := connect(t, `{}`)
	for tool, want := range map[string]string{"ask": "elicitation", "test_sampling": "sampling", "delegate": "sampling.tools", "test_elicitation": "elicitation",
		"test_elicitation_sep1034_defaults": "elicitation", "test_elicitation_sep1330_enums": "elicitation"} {
		m := c.call("tools/call", `{"name":"`+tool+`","arguments":{}}`, nil)
		if !strings.Contains(string(m.Error), want) {
			t.Errorf("%s is answered with %s%s, want an error that names %s", tool, m.Error, m.Result, want)
		}
	}
}
