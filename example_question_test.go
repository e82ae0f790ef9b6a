package troupe_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
)

func ExampleCall_ElicitURL() {
	srv := troupe.NewServer(anyone, nil)
	troupe.AddTool(srv, troupe.Tool{Name: "pay", Needs: mcp.CapClientElicitationURL},
		func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) {
			r, err := call.ElicitURL(ctx, "Please pay.", "bill-7", "https://example.com/pay/7")
			if err != nil || r.Action != mcp.ElicitAccept {
				return "not paid", err
			}
			// Acceptance is only consent: in a real server, the page says when it is done.
			return "paid", call.ElicitationComplete(ctx, "bill-7")
		})

	v := visit(srv, `{"elicitation":{"url":{}}}`)
	defer v.close()
	v.answer = `{"action":"accept"}`
	v.request("tools/call", `{"name":"pay"}`)
	// Output:
	// elicitation/create
	// notifications/elicitation/complete {"elicitationId":"bill-7"}
	// {"content":[{"type":"text","text":"paid"}]}
}

func ExampleURLRequired() {
	srv := troupe.NewServer(anyone, nil)
	troupe.AddTool(srv, troupe.Tool{Name: "mail"},
		func(context.Context, *troupe.Call, struct{}) (string, error) {
			return "", troupe.URLRequired(mcp.ElicitURL{Message: "Please sign in.", ElicitationID: "1", URL: "https://example.com/in"})
		})

	v := visit(srv, `{"elicitation":{"url":{}}}`)
	defer v.close()
	v.request("tools/call", `{"name":"mail"}`)
	// Output:
	// {"code":-32042,"message":"the user must open a URL first","data":{"elicitations":[{"mode":"url","message":"Please sign in.","elicitationId":"1","url":"https://example.com/in"}]}}
}

func ExampleCall_Sample() {
	srv := troupe.NewServer(anyone, nil)
	troupe.AddTool(srv, troupe.Tool{Name: "shorten", Needs: mcp.CapClientSampling},
		func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) {
			r, err := call.Sample(ctx, mcp.CreateMessageParams{
				Messages:  []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.Blocks(mcp.Text("Shorten: a cat sat on a mat."))}},
				MaxTokens: 100,
			})
			if err != nil {
				return "", err
			}
			for _, block := range r.Content.Blocks {
				if text, ok := block.(*mcp.TextContent); ok {
					return text.Text, nil
				}
			}
			return "", errors.New("the model said nothing")
		})

	v := visit(srv, `{"sampling":{}}`)
	defer v.close()
	v.answer = `{"role":"assistant","content":{"type":"text","text":"A cat sat."},"model":"m"}`
	v.request("tools/call", `{"name":"shorten"}`)
	// Output:
	// sampling/createMessage
	// {"content":[{"type":"text","text":"A cat sat."}]}
}

// Several questions go out at once, each with a key for its answer.
func ExampleAnswers() {
	srv := troupe.NewServer(anyone, nil)
	form := mcp.FormSchema{Properties: []mcp.Property{{Name: "ok", Schema: &mcp.BooleanSchema{}}}}
	troupe.AddTool(srv, troupe.Tool{Name: "confirm", Needs: mcp.CapClientElicitationForm},
		func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) {
			answers, err := call.Ask(ctx, troupe.Elicit("read", "Have you read it?", form), troupe.Elicit("sign", "Do you sign it?", form))
			if err != nil {
				return "", err
			}
			read, err := answers.Elicited("read")
			if err != nil {
				return "", err // the client answered this one with an error
			}
			sign, err := answers.Elicited("sign")
			return fmt.Sprintf("read: %s, signed: %s", read.Action, sign.Action), err
		})

	v := visit(srv, `{"elicitation":{}}`)
	defer v.close()
	v.answer = `{"action":"decline"}`
	v.request("tools/call", `{"name":"confirm"}`)
	// Output:
	// elicitation/create
	// elicitation/create
	// {"content":[{"type":"text","text":"read: decline, signed: decline"}]}
}

// A client that can host the question as a task holds no request open, however long its user takes. Any other client gets a
// plain question.
func ExampleQuestion_AsTask() {
	srv := troupe.NewServer(anyone, nil)
	form := mcp.FormSchema{Properties: []mcp.Property{{Name: "ok", Schema: &mcp.BooleanSchema{}}}}
	troupe.AddTool(srv, troupe.Tool{Name: "release", Needs: mcp.CapClientElicitationForm, Rerun: troupe.Safe},
		func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) {
			answers, err := call.Ask(ctx, troupe.Elicit("approve", "May it go out?", form).AsTask(8*time.Hour))
			if err != nil {
				return "", err
			}
			r, err := answers.Elicited("approve")
			return string(r.Action), err
		})

	v := visit(srv, `{"elicitation":{},"tasks":{"requests":{"elicitation":{"create":{}}}}}`)
	defer v.close()
	const task = `{"taskId":"7","status":"completed","createdAt":"2025-11-25T10:30:00Z","lastUpdatedAt":"2025-11-25T10:30:00Z","ttl":28800000}`
	v.answers = map[string]string{"elicitation/create": `{"task":` + task + `}`, "tasks/result": `{"action":"accept","content":{"ok":true}}`}
	v.request("tools/call", `{"name":"release"}`)
	// Output:
	// elicitation/create
	// tasks/result
	// {"content":[{"type":"text","text":"accept"}]}
}

// A client that announces changes of its roots is asked for them once.
func ExampleCall_Roots() {
	srv := troupe.NewServer(anyone, nil)
	troupe.AddTool(srv, troupe.Tool{Name: "where", Needs: mcp.CapClientRoots},
		func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) {
			roots, err := call.Roots(ctx)
			if err != nil || len(roots) == 0 {
				return "nowhere", err
			}
			return roots[0].URI, nil
		})

	v := visit(srv, `{"roots":{"listChanged":true}}`)
	defer v.close()
	v.answer = `{"roots":[{"uri":"file:///src"}]}`
	v.request("tools/call", `{"name":"where"}`)
	v.request("tools/call", `{"name":"where"}`)
	// Output:
	// roots/list
	// {"content":[{"type":"text","text":"file:///src"}]}
	// {"content":[{"type":"text","text":"file:///src"}]}
}

func ExampleCall_Ping() {
	srv := troupe.NewServer(anyone, nil)
	troupe.AddTool(srv, troupe.Tool{Name: "reach"},
		func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) {
			return "the client is there", call.Ping(ctx)
		})

	v := visit(srv, `{}`)
	defer v.close()
	v.answer = `{}`
	v.request("tools/call", `{"name":"reach"}`)
	// Output:
	// ping
	// {"content":[{"type":"text","text":"the client is there"}]}
}

func ExampleCall_Peer() {
	srv := troupe.NewServer(anyone, nil)
	troupe.AddTool(srv, troupe.Tool{Name: "who"},
		func(_ context.Context, call *troupe.Call, _ struct{}) (string, error) {
			p := call.Peer()
			return fmt.Sprintf("%s, %s, samples: %t", p.Client().Name, p.Revision(), p.Capabilities().Sampling != nil), nil
		})

	v := visit(srv, `{"sampling":{}}`)
	defer v.close()
	v.request("tools/call", `{"name":"who"}`)
	// Output:
	// {"content":[{"type":"text","text":"example, 2025-11-25, samples: true"}]}
}

func ExampleCall_Meta() {
	srv := troupe.NewServer(anyone, nil)
	troupe.AddTool(srv, troupe.Tool{Name: "meta"},
		func(_ context.Context, call *troupe.Call, _ struct{}) (string, error) {
			var trace string
			_, err := call.Meta().Decode("example.com/trace", &trace)
			return "trace " + trace, err
		})

	v := visit(srv, `{}`)
	defer v.close()
	v.request("tools/call", `{"name":"meta","_meta":{"example.com/trace":"7"}}`)
	// Output:
	// {"content":[{"type":"text","text":"trace 7"}]}
}

func ExampleElicitAs() {
	type order struct {
		Size  string `json:"size" form:"title=Size;enum=S|M|L"`
		Count int    `json:"count,omitempty" jsonschema:"how many" form:"min=1;max=10;default=1"`
	}
	srv := troupe.NewServer(anyone, nil)
	troupe.AddTool(srv, troupe.Tool{Name: "order", Needs: mcp.CapClientElicitationForm},
		func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) {
			o, action, err := troupe.ElicitAs[order](ctx, call, "Which shirt?")
			if err != nil || action != mcp.ElicitAccept {
				return "nothing ordered", err
			}
			return fmt.Sprintf("ordered %d of size %s", o.Count, o.Size), nil
		})

	v := visit(srv, `{"elicitation":{}}`)
	defer v.close()
	v.answer = `{"action":"accept","content":{"size":"L","count":2}}`
	v.request("tools/call", `{"name":"order"}`)
	v.answer = `{"action":"decline"}`
	v.request("tools/call", `{"name":"order"}`)
	// Output:
	// elicitation/create
	// {"content":[{"type":"text","text":"ordered 2 of size L"}]}
	// elicitation/create
	// {"content":[{"type":"text","text":"nothing ordered"}]}
}

func ExampleFormFor() {
	type person struct {
		Name string   `json:"name" form:"title=Your name;min=1"`
		Pets []string `json:"pets,omitempty" form:"enum=cat|dog"`
	}
	form, err := troupe.FormFor[person]()
	if err != nil {
		panic(err)
	}
	schema, _ := form.Raw()
	fmt.Println(string(schema))
	// Output:
	// {"type":"object","properties":{"name":{"type":"string","title":"Your name","minLength":1},"pets":{"type":"array","items":{"type":"string","enum":["cat","dog"]}}},"required":["name"]}
}
