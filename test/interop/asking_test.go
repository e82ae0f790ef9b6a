package interop

import (
	"context"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// user answers forms, and keeps the questions.
type user struct {
	answer func(context.Context) (*mcp.ElicitResult, error)

	mu    sync.Mutex // guards asked
	asked []*mcp.ElicitParams
}

func (u *user) elicit(ctx context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
	u.mu.Lock()
	u.asked = append(u.asked, r.Params)
	u.mu.Unlock()
	return u.answer(ctx)
}

// answers returns a user who always gives the same answer.
func answers(action string, content map[string]any) *user {
	return &user{answer: func(context.Context) (*mcp.ElicitResult, error) {
		return &mcp.ElicitResult{Action: action, Content: content}, nil
	}}
}

func TestElicitation(t *testing.T) {
	inBothEras(t, func(t *testing.T, dial dialer) {
		t.Parallel()
		const (
			message  = `"message":"Who are you?"`
			contacts = `{"mode":"form",` + message + `,"requestedSchema":{"type":"object","properties":{
			"username":{"type":"string","description":"User's response"},
			"email":{"type":"string","description":"User's email address"}},"required":["username","email"]}}`
			question = `{"mode":"form",` + message + `,"requestedSchema":{"type":"object","properties":{
			"answer":{"type":"string","title":"Answer"}},"required":["answer"]}}`
			defaults = `{"mode":"form","message":"Please review and update the form fields with defaults","requestedSchema":{"type":"object","properties":{
			"name":{"type":"string","description":"User name","default":"John Doe"},
			"age":{"type":"integer","description":"User age","default":30},
			"score":{"type":"number","description":"User score","default":95.5},
			"status":{"type":"string","description":"User status","enum":["active","inactive","pending"],"default":"active"},
			"verified":{"type":"boolean","description":"Verification status","default":true}}}}`
			enums = `{"mode":"form","message":"Please select options from the enum fields","requestedSchema":{"type":"object","properties":{
			"untitledSingle":{"type":"string","description":"One of several","enum":["option1","option2","option3"]},
			"titledSingle":{"type":"string","description":"One of several with titles","oneOf":[
				{"const":"value1","title":"First Option"},{"const":"value2","title":"Second Option"},{"const":"value3","title":"Third Option"}]},
			"legacyEnum":{"type":"string","description":"One of several with titles, as older clients know it",
				"enum":["opt1","opt2","opt3"],"enumNames":["Option One","Option Two","Option Three"]},
			"untitledMulti":{"type":"array","description":"Any of several","items":{"type":"string","enum":["option1","option2","option3"]}},
			"titledMulti":{"type":"array","description":"Any of several with titles","items":{"anyOf":[
				{"const":"value1","title":"First Option"},{"const":"value2","title":"Second Option"},{"const":"value3","title":"Third Option"}]}}}}}`
		)
		ask := map[string]any{"question": "Who are you?"}
		tell := map[string]any{"message": "Who are you?"}
		for _, tt := range []struct {
			name   string
			tool   string
			args   any
			user   *user
			asked  string
			result string
		}{
			{"accept", "ask", ask, answers("accept", map[string]any{"answer": "Grace \"amazing\" Hopper"}), question, text("Grace \"amazing\" Hopper")},
			{"accept", "ask_once", ask, answers("accept", map[string]any{"answer": "yes"}), question, text("yes")},
			{"decline", "ask", ask, answers("decline", nil), question, failed("the user did not answer: decline")},
			{"cancel", "ask", ask, answers("cancel", nil), question, failed("the user did not answer: cancel")},
			{"accept", "test_elicitation", tell, answers("accept", map[string]any{"username": "ada", "email": "a@example.com"}), contacts,
				text(`User response: action=accept, content={"email":"a@example.com","username":"ada"}`)},
			{"decline", "test_elicitation", tell, answers("decline", nil), contacts, text("User response: action=decline, content={}")},
			{"cancel", "test_elicitation", tell, answers("cancel", nil), contacts, text("User response: action=cancel, content={}")},
			// The SDK fills in the fields that the user does not change.
			{"all defaults", "test_elicitation_sep1034_defaults", nil, answers("accept", map[string]any{}), defaults,
				text(`Elicitation completed: action=accept, content={"age":30,"name":"John Doe","score":95.5,"status":"active","verified":true}`)},
			{"some defaults", "test_elicitation_sep1034_defaults", nil,
				answers("accept", map[string]any{"age": 31, "status": "pending", "verified": false}), defaults,
				text(`Elicitation completed: action=accept, content={"age":31,"name":"John Doe","score":95.5,"status":"pending","verified":false}`)},
			{"decline", "test_elicitation_sep1034_defaults", nil, answers("decline", nil), defaults, text("Elicitation completed: action=decline, content={}")},
			{"every choice", "test_elicitation_sep1330_enums", nil,
				answers("accept", map[string]any{"untitledSingle": "option2", "titledSingle": "value3", "legacyEnum": "opt1", "untitledMulti": []string{"option1", "option3"}, "titledMulti": []string{"value2"}}), enums,
				text(`Elicitation completed: action=accept, content={"legacyEnum":"opt1","titledMulti":["value2"],"titledSingle":"value3","untitledMulti":["option1","option3"],"untitledSingle":"option2"}`)},
			{"no choice", "test_elicitation_sep1330_enums", nil, answers("accept", map[string]any{"untitledMulti": []string{}}), enums,
				text(`Elicitation completed: action=accept, content={"untitledMulti":[]}`)},
			{"cancel", "test_elicitation_sep1330_enums", nil, answers("cancel", nil), enums, text("Elicitation completed: action=cancel, content={}")},
		} {
			t.Run(tt.tool+" "+tt.name, func(t *testing.T) {
				t.Parallel()
				c := dial(t, shared, mcp.ClientOptions{ElicitationHandler: tt.user.elicit})
				sameJSON(t, "result", c.call(t, tt.tool, tt.args), tt.result)
				if len(tt.user.asked) != 1 {
					t.Fatalf("the user was asked %d times, want once", len(tt.user.asked))
				}
				sameJSON(t, "question", tt.user.asked[0], tt.asked)
			})
		}
	})
}

// TestElicitationFails has the client answer with an error.
func TestElicitationFails(t *testing.T) {
	t.Parallel()
	u := &user{answer: func(context.Context) (*mcp.ElicitResult, error) {
		return nil, &jsonrpc.Error{Code: -31999, Message: "the user has left"}
	}}
	c := dial(t, shared, mcp.ClientOptions{ElicitationHandler: u.elicit})
	_, err := c.CallTool(within(t), &mcp.CallToolParams{Name: "ask", Arguments: map[string]any{"question": "?"}})
	refused(t, "a question that the client fails to answer", err, -31999, "the user has left")
	sameJSON(t, "echo", c.call(t, "echo", map[string]any{"text": "still here"}), text("still here"))
}

func TestSampling(t *testing.T) {
	inBothEras(t, func(t *testing.T, dial dialer) {
		t.Parallel()
		asked := make(chan *mcp.CreateMessageParams, 1)
		c := dial(t, shared, mcp.ClientOptions{CreateMessageHandler: func(_ context.Context, r *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			asked <- r.Params
			return &mcp.CreateMessageResult{Model: "parrot", Role: "assistant", StopReason: "endTurn", Content: &mcp.TextContent{Text: "I say so too."}}, nil
		}})
		sameJSON(t, "result", c.call(t, "test_sampling", map[string]any{"prompt": "Is it so?"}), text("LLM response: I say so too."))
		sameJSON(t, "question", <-asked, `{"maxTokens":100,"messages":[{"role":"user","content":{"type":"text","text":"Is it so?"}}]}`)
	})
}

func TestDelegate(t *testing.T) {
	inBothEras(t, func(t *testing.T, dial dialer) {
		t.Parallel()
		asked := make(chan *mcp.CreateMessageWithToolsParams, 1)
		c := dial(t, shared, mcp.ClientOptions{CreateMessageWithToolsHandler: func(_ context.Context, r *mcp.CreateMessageWithToolsRequest) (*mcp.CreateMessageWithToolsResult, error) {
			asked <- r.Params
			return &mcp.CreateMessageWithToolsResult{Model: "parrot", Role: "assistant", StopReason: "toolUse",
				Content: []mcp.Content{&mcp.ToolUseContent{ID: "1", Name: "look", Input: map[string]any{"what": "it"}}}}, nil
		}})
		sameJSON(t, "result", c.call(t, "delegate", map[string]any{"prompt": "What is it?"}), text(`look {"what":"it"}`))
		sameJSON(t, "question", <-asked, `{"maxTokens":100,"messages":[{"role":"user","content":{"type":"text","text":"What is it?"}}],"toolChoice":{"mode":"required"},
		"tools":[{"name":"look","description":"Looks something up.","inputSchema":{"type":"object","properties":{"what":{"type":"string"}},"required":["what"]}}]}`)
	})
}

// TestUndeclared calls tools that ask, as a client that has not declared the
// capability.
func TestUndeclared(t *testing.T) {
	t.Parallel()
	c := dial(t, shared, mcp.ClientOptions{})
	for tool, needs := range map[string]string{
		"ask": "elicitation.form", "ask_once": "elicitation.form", "test_elicitation": "elicitation.form", "test_elicitation_sep1034_defaults": "elicitation.form",
		"test_elicitation_sep1330_enums": "elicitation.form", "test_sampling": "sampling", "delegate": "sampling.tools",
	} {
		_, err := c.CallTool(within(t), &mcp.CallToolParams{Name: tool, Arguments: map[string]any{}})
		refused(t, tool, err, jsonrpc.CodeInvalidRequest, "the client must declare: "+needs)
	}
}
