package troupetest_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/troupetest"
)

// slow is a server with tools that ask questions whose answers take long.
func slow() *troupe.Server {
	srv := server()
	form := mcp.FormSchema{Properties: []mcp.Property{{Name: "name", Schema: &mcp.StringSchema{}}}}
	troupe.AddTool(srv, troupe.Tool{Name: "elicit"}, func(ctx context.Context, call *troupe.Call, in greeting) (string, error) {
		wait := 8 * time.Hour
		if in.Name == "impatient" {
			wait = time.Minute
		}
		a, err := call.Ask(ctx, troupe.Elicit("who", "Who?", form).AsTask(wait))
		if err != nil {
			return "", err
		}
		r, err := a.Elicited("who")
		return string(r.Action), err
	})
	troupe.AddTool(srv, troupe.Tool{Name: "slow sample"}, func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) {
		a, err := call.Ask(ctx, troupe.Sample("it", mcp.CreateMessageParams{MaxTokens: 9}).AsTask(8*time.Hour))
		if err != nil {
			return "", err
		}
		r, err := a.Sampled("it")
		return r.Model, err
	})
	return srv
}

// TestHostTasks has a client take an hour for its answers. A question that is no task does not wait for so long.
func TestHostTasks(t *testing.T) {
	each(t, func(t *testing.T, r mcp.Revision) {
		if !protocol.Has(r, protocol.FeatureElicitation) {
			return
		}
		ended := make(chan error, 1)
		o := troupetest.Options{
			Revision: r, HostTasks: true, Runtime: troupe.Options{Limits: troupe.Limits{MaxCall: 9 * time.Hour}},
			Elicit: func(ctx context.Context, _ mcp.ElicitParams) (mcp.ElicitResult, error) {
				select {
				case <-time.After(time.Hour):
				case <-ctx.Done():
					ended <- context.Cause(ctx)
				}
				return mcp.ElicitResult{Action: mcp.ElicitAccept, Content: json.RawMessage(`{}`)}, nil
			},
			Sample: func(context.Context, mcp.CreateMessageParams) (mcp.CreateMessageResult, error) {
				time.Sleep(time.Hour)
				return mcp.CreateMessageResult{}, mcp.NewError(mcp.CodeUserRejected, "no")
			},
		}
		c := troupetest.Connect(t, slow(), o)
		began := time.Now()
		got, err := c.CallTool(t.Context(), "elicit", greeting{})
		if !protocol.Has(r, protocol.FeatureCoreTasks) {
			if took := time.Since(began); protocol.Has(r, protocol.FeatureSessions) && (err != nil || !got.IsError || took != 10*time.Minute) {
				t.Errorf("without tasks: %+v, %v after %v", got, err, took)
			}
			return
		}
		// The client says that its task has ended, so that the server looks at once.
		if took := time.Since(began); err != nil || troupetest.Text(got) != "accept" || took != time.Hour {
			t.Errorf("elicited %+v, %v after %v", got, err, took)
		}
		if _, err := c.CallTool(t.Context(), "slow sample", nil); !errors.Is(err, mcp.NewError(mcp.CodeUserRejected, "")) {
			t.Errorf("a rejected question: %v", err)
		}
		if got, err := c.CallTool(t.Context(), "elicit", greeting{"impatient"}); err != nil || !got.IsError {
			t.Errorf("a question that is given up: %+v, %v", got, err)
		}
		synctest.Wait()
		select {
		case err := <-ended:
			if !errors.Is(err, mcp.NewError(mcp.CodeInternalError, "")) {
				t.Errorf("the function ends with %v", err)
			}
		default:
			t.Error("the function was not told that its task is cancelled")
		}
	})
}

// TestHostTasksOnlyWhereAsked asks a client that hosts tasks with a question that wants none, and with one that does.
func TestHostTasksOnlyWhereAsked(t *testing.T) {
	troupetest.Test(t, func(t *testing.T) {
		o := troupetest.Options{Revision: mcp.Revision20251125, HostTasks: true, Sample: func(context.Context, mcp.CreateMessageParams) (mcp.CreateMessageResult, error) {
			return mcp.CreateMessageResult{Role: mcp.RoleAssistant, Model: "small", Content: mcp.Blocks(mcp.Text("Hi"))}, nil
		}}
		c := troupetest.Connect(t, slow(), o)
		for tool, want := range map[string]string{"sample": "small", "slow sample": "small"} {
			if got, err := c.CallTool(t.Context(), tool, nil); err != nil || troupetest.Text(got) != want {
				t.Errorf("%s: %+v, %v", tool, got, err)
			}
		}
	})
}
