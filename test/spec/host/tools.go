package host

import (
	"context"
	"fmt"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
)

// The arguments of the test tools.
type (
	EchoIn struct {
		Text string `json:"text"`
	}
	CountIn struct {
		To      int `json:"to"`
		DelayMS int `json:"delay_ms,omitempty"`
	}
	SleepIn struct {
		MS int `json:"ms"`
	}
	AskIn struct {
		Question string `json:"question"`
	}
)

// Form is a form with one required string, answer.
var Form = mcp.FormSchema{Properties: []mcp.Property{{Name: "answer", Schema: &mcp.StringSchema{}}}, Required: []string{"answer"}}

// AddTestTools adds the tools, the resources and the prompt that [New] serves.
func AddTestTools(s *troupe.Server) {
	troupe.AddTool(s, troupe.Tool{Name: "echo", Description: "Echoes.", Rerun: troupe.Safe},
		func(_ context.Context, _ *troupe.Call, in EchoIn) (string, error) { return in.Text, nil })
	troupe.AddTool(s, troupe.Tool{Name: "count", Description: "Counts.", Rerun: troupe.Safe},
		func(ctx context.Context, call *troupe.Call, in CountIn) (string, error) {
			for i := 1; i <= in.To; i++ {
				if err := call.Progress(ctx, float64(i), float64(in.To), ""); err != nil {
					return "", err
				}
				if err := Sleep(ctx, in.DelayMS); err != nil {
					return "", err
				}
			}
			return fmt.Sprintf("counted to %d", in.To), nil
		})
	troupe.AddTool(s, troupe.Tool{Name: "sleep", Description: "Sleeps."},
		func(ctx context.Context, _ *troupe.Call, in SleepIn) (string, error) {
			if err := Sleep(ctx, in.MS); err != nil {
				return "", err
			}
			return "slept", nil
		})
	troupe.AddTool(s, troupe.Tool{Name: "ask", Description: "Asks.", Needs: mcp.CapClientElicitationForm, Rerun: troupe.Safe},
		func(ctx context.Context, call *troupe.Call, in AskIn) (string, error) {
			r, err := call.Elicit(ctx, in.Question, Form)
			if err != nil {
				return "", err
			}
			return string(r.Action) + " " + string(r.Content), nil
		})
	troupe.AddTool(s, troupe.Tool{Name: "askslow", Description: "Asks, and takes an hour after that.", Needs: mcp.CapClientElicitationForm, Rerun: troupe.Safe},
		func(ctx context.Context, call *troupe.Call, in AskIn) (string, error) {
			r, err := call.Elicit(ctx, in.Question, Form)
			if err != nil {
				return "", err
			}
			if call.Attempt() == 1 {
				err = Sleep(ctx, 3600000)
			}
			return string(r.Action) + " " + string(r.Content), err
		})
	troupe.AddTool(s, troupe.Tool{Name: "panic", Description: "Panics."},
		func(context.Context, *troupe.Call, struct{}) (string, error) { panic("on purpose") })
	troupe.AddTool(s, troupe.Tool{Name: "log", Description: "Logs at every level."},
		func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) {
			for _, l := range []mcp.LoggingLevel{mcp.LevelDebug, mcp.LevelInfo, mcp.LevelWarning, mcp.LevelError} {
				if err := call.Log(ctx, l, "test", string(l)); err != nil {
					return "", err
				}
			}
			return "logged", nil
		})
	troupe.AddTool(s, troupe.Tool{Name: "chatter", Description: "Logs on the call's stream."},
		func(ctx context.Context, call *troupe.Call, in CountIn) (string, error) {
			for i := range in.To {
				if err := call.Log(ctx, mcp.LevelInfo, "chatter", i); err != nil {
					return "", err
				}
			}
			return "done", nil
		})
	troupe.AddTool(s, troupe.Tool{Name: "tick", Description: "Logs on the standalone stream."},
		func(ctx context.Context, call *troupe.Call, in CountIn) (string, error) {
			for i := 1; i <= in.To; i++ {
				if err := call.Peer().Log(ctx, mcp.LevelInfo, "tick", i); err != nil {
					return "", err
				}
				if err := Sleep(ctx, in.DelayMS); err != nil {
					return "", err
				}
			}
			return "ticked", nil
		})
	troupe.AddTool(s, troupe.Tool{Name: "pingback", Description: "Pings the client."},
		func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) {
			return "pong", call.Ping(ctx)
		})
	troupe.AddTool(s, troupe.Tool{Name: "away", Description: "Closes the connection, and answers later."},
		func(ctx context.Context, call *troupe.Call, in SleepIn) (string, error) {
			call.Disconnect()
			if err := Sleep(ctx, in.MS); err != nil {
				return "", err
			}
			return "back", nil
		})
	troupe.AddResource(s, mcp.Resource{URI: "test://one", Name: "one"},
		func(_ context.Context, _ *troupe.Call, uri string, _ map[string]string) ([]mcp.ResourceContents, error) {
			return []mcp.ResourceContents{mcp.TextResource(uri, "text/plain", "one")}, nil
		})
	troupe.AddResourceTemplate(s, mcp.ResourceTemplate{URITemplate: "test://items/{id}", Name: "item"},
		func(_ context.Context, _ *troupe.Call, uri string, vars map[string]string) ([]mcp.ResourceContents, error) {
			if vars["id"] == "none" {
				return nil, troupe.ErrNotFound
			}
			return []mcp.ResourceContents{mcp.TextResource(uri, "text/plain", vars["id"])}, nil
		})
	troupe.AddPrompt(s, troupe.Prompt{Name: "greet", Description: "Greets.", Arguments: []mcp.PromptArgument{{Name: "who", Required: true}}},
		func(_ context.Context, _ *troupe.Call, args map[string]string) (*mcp.GetPromptResult, error) {
			return &mcp.GetPromptResult{Messages: []mcp.PromptMessage{{Role: mcp.RoleUser, Content: mcp.Text("Hello " + args["who"])}}}, nil
		})
}

// Sleep waits ms milliseconds, or until the call is cancelled, as a handler should.
func Sleep(ctx context.Context, ms int) error {
	if ms == 0 {
		return nil
	}
	select {
	case <-time.After(time.Duration(ms) * time.Millisecond):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
