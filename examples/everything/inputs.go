package everything

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
)

// addInputs adds tools that need input from the client before they can answer. They are
// written once: a client with a session gets requests, and a client of 2026-07-28 gets
// the questions in a result and calls again with the answers.
func addInputs(s *troupe.Server) {
	add := func(name, description string, needs mcp.Capability, ask func(ctx context.Context, call *troupe.Call) (string, error)) {
		troupe.AddTool(s, troupe.Tool{Name: "test_input_required_result_" + name, Description: description, Needs: needs, Rerun: troupe.Safe},
			func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) { return ask(ctx, call) })
	}
	add("elicitation", "Asks the user for a name, and greets.", mcp.CapClientElicitationForm, func(ctx context.Context, call *troupe.Call) (string, error) {
		name, err := filledIn(ctx, call, "user_name", "What is your name?", "name", &mcp.StringSchema{})
		return fmt.Sprintf("Hello, %s!", name), err
	})
	add("sampling", "Asks the client's model for a capital.", mcp.CapClientSampling, func(ctx context.Context, call *troupe.Call) (string, error) {
		answers, err := call.Ask(ctx, sampled("capital_question", "What is the capital of France?", 100))
		if err != nil {
			return "", err
		}
		return said(answers, "capital_question")
	})
	add("list_roots", "Asks the client for its roots.", mcp.CapClientRoots, func(ctx context.Context, call *troupe.Call) (string, error) {
		answers, err := call.Ask(ctx, troupe.Roots("client_roots"))
		if err != nil {
			return "", err
		}
		return located(answers, "client_roots")
	})
	confirmed := func(ctx context.Context, call *troupe.Call) (string, error) {
		ok, err := filledIn(ctx, call, "confirm", "Please confirm", "ok", &mcp.BooleanSchema{})
		return fmt.Sprintf("state-ok: the user said %s", ok), err
	}
	add("request_state", "Asks the user to confirm.", mcp.CapClientElicitationForm, confirmed)
	add("tampered_state", "Asks the user to confirm, and knows what it had asked.", mcp.CapClientElicitationForm, confirmed)
	add("multiple_inputs", "Asks for a name, a greeting and the roots at once.", mcp.CapClientElicitationForm|mcp.CapClientSampling|mcp.CapClientRoots,
		func(ctx context.Context, call *troupe.Call) (string, error) {
			answers, err := call.Ask(ctx, asked("user_name", "What is your name?", "name", &mcp.StringSchema{}),
				sampled("greeting", "Generate a greeting", 50), troupe.Roots("client_roots"))
			if err != nil {
				return "", err
			}
			name, err1 := filled(answers, "user_name", "name")
			greeting, err2 := said(answers, "greeting")
			roots, err3 := located(answers, "client_roots")
			return fmt.Sprintf("%s %s works in %s", greeting, name, roots), errors.Join(err1, err2, err3)
		})
	add("multi_round", "Asks the user for a name, and then for a colour.", mcp.CapClientElicitationForm, func(ctx context.Context, call *troupe.Call) (string, error) {
		name, err := filledIn(ctx, call, "step1", "Step 1: What is your name?", "name", &mcp.StringSchema{})
		if err != nil {
			return "", err
		}
		color, err := filledIn(ctx, call, "step2", "Step 2: What is your favorite color?", "color", &mcp.StringSchema{})
		return fmt.Sprintf("%s likes %s", name, color), err
	})
	// It asks only for capabilities that the client declares, so it has no Needs.
	add("capabilities", "Asks for whatever the client can answer.", 0, func(ctx context.Context, call *troupe.Call) (string, error) {
		can := call.Peer().Capabilities()
		var questions []troupe.Question
		if can.Has(mcp.CapClientElicitationForm) {
			questions = append(questions, asked("user_name", "What is your name?", "name", &mcp.StringSchema{}))
		}
		if can.Has(mcp.CapClientSampling) {
			questions = append(questions, sampled("greeting", "Generate a greeting", 50))
		}
		if can.Has(mcp.CapClientRoots) {
			questions = append(questions, troupe.Roots("client_roots"))
		}
		if len(questions) == 0 {
			return "the client can answer nothing", nil
		}
		_, err := call.Ask(ctx, questions...)
		return fmt.Sprintf("asked %d questions", len(questions)), err
	})
}

// addInputPrompt adds a prompt that asks the user before it answers.
func addInputPrompt(s *troupe.Server) {
	const about = "Asks the user what it is about."
	troupe.AddPrompt(s, troupe.Prompt{Name: "test_input_required_result_prompt", Title: "Prompt with input", Description: about, Needs: mcp.CapClientElicitationForm},
		func(ctx context.Context, call *troupe.Call, _ map[string]string) (*mcp.GetPromptResult, error) {
			topic, err := filledIn(ctx, call, "user_context", "What context should the prompt use?", "context", &mcp.StringSchema{})
			if err != nil {
				return nil, mcp.NewError(mcp.CodeInvalidParams, err.Error())
			}
			return &mcp.GetPromptResult{Description: about, Messages: []mcp.PromptMessage{{Role: mcp.RoleUser, Content: mcp.Text("Use this context: " + topic)}}}, nil
		})
}

// asked is a form with one required field.
func asked(key, message, field string, schema mcp.PrimitiveSchema) troupe.Question {
	return troupe.Elicit(key, message, mcp.FormSchema{Properties: []mcp.Property{{Name: field, Schema: schema}}, Required: []string{field}})
}

// sampled is a question to the client's model.
func sampled(key, prompt string, tokens int64) troupe.Question {
	return troupe.Sample(key, mcp.CreateMessageParams{
		Messages:  []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.Blocks(mcp.Text(prompt))}},
		MaxTokens: tokens,
	})
}

// filledIn asks a form and returns its field.
func filledIn(ctx context.Context, call *troupe.Call, key, message, field string, schema mcp.PrimitiveSchema) (string, error) {
	answers, err := call.Ask(ctx, asked(key, message, field, schema))
	if err != nil {
		return "", err
	}
	return filled(answers, key, field)
}

// filled is a field of a form as text, strings without their quotes.
func filled(answers troupe.Answers, key, field string) (string, error) {
	r, err := answers.Elicited(key)
	if err != nil {
		return "", err
	}
	if r.Action != mcp.ElicitAccept {
		return "", fmt.Errorf("the user did not answer: %s", r.Action)
	}
	var content map[string]json.RawMessage
	if err := json.Unmarshal(r.Content, &content); err != nil {
		return "", fmt.Errorf("read the answer: %w", err)
	}
	value, ok := content[field]
	if !ok {
		return "", fmt.Errorf("the answer has no %s", field)
	}
	var text string
	if json.Unmarshal(value, &text) == nil {
		return text, nil
	}
	return string(value), nil
}

// said is the text of a message of the client's model.
func said(answers troupe.Answers, key string) (string, error) {
	r, err := answers.Sampled(key)
	if err != nil {
		return "", err
	}
	var texts []string
	for _, block := range r.Content.Blocks {
		if text, ok := block.(*mcp.TextContent); ok {
			texts = append(texts, text.Text)
		}
	}
	return strings.Join(texts, "\n"), nil
}

// located are the client's roots.
func located(answers troupe.Answers, key string) (string, error) {
	roots, err := answers.Roots(key)
	if err != nil {
		return "", err
	}
	var uris []string
	for _, r := range roots {
		uris = append(uris, r.URI)
	}
	return strings.Join(uris, ", "), nil
}
