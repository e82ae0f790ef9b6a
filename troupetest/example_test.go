package troupetest_test

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/troupetest"
)

// ExampleConnect tests a tool that asks the user.
func ExampleConnect() {
	test := func(t *testing.T) {
		c := troupetest.Connect(t, newShop(), troupetest.Options{
			Elicit: func(context.Context, mcp.ElicitParams) (mcp.ElicitResult, error) {
				return mcp.ElicitResult{Action: mcp.ElicitAccept, Content: json.RawMessage(`{"size":"L"}`)}, nil
			},
		})
		got, err := c.CallTool(t.Context(), "order", nil)
		if err != nil || troupetest.Text(got) != "ordered size L" {
			t.Errorf("got %q, %v", troupetest.Text(got), err)
		}
	}
	_ = test
}

// ExampleTest tests a timeout, which takes no time.
func ExampleTest() {
	test := func(t *testing.T) {
		troupetest.Test(t, func(t *testing.T) {
			c := troupetest.Connect(t, newShop(), troupetest.Options{Runtime: troupe.Options{Limits: troupe.Limits{MaxCall: time.Hour}}})
			got, err := c.CallTool(t.Context(), "deliver", nil)
			if err != nil || !got.IsError {
				t.Errorf("a delivery of two hours ends with %+v, %v", got, err)
			}
		})
	}
	_ = test
}

// ExampleConnect_caller tests a tool that knows its caller.
func ExampleConnect_caller() {
	test := func(t *testing.T) {
		c := troupetest.Connect(t, newGreeter(), troupetest.Options{
			Header:    http.Header{"Accept-Language": {"de"}},
			Principal: troupe.Principal{Issuer: "example", Subject: "ada", Token: troupe.NewSecret("t0ken")},
		})
		got, err := c.CallTool(t.Context(), "greet", nil)
		if err != nil || troupetest.Text(got) != "Hallo, ada" {
			t.Errorf("got %q, %v", troupetest.Text(got), err)
		}
	}
	_ = test
}

func newGreeter() *troupe.Server {
	srv := troupe.NewServer(mcp.Implementation{Name: "greeter", Version: "1"}, nil)
	troupe.AddTool(srv, troupe.Tool{Name: "greet"}, func(_ context.Context, call *troupe.Call, _ struct{}) (string, error) {
		if call.Header().Get("Accept-Language") == "de" {
			return "Hallo, " + call.Principal().Subject, nil
		}
		return "Hello, " + call.Principal().Subject, nil
	})
	return srv
}

func newShop() *troupe.Server {
	srv := troupe.NewServer(mcp.Implementation{Name: "shop", Version: "1"}, nil)
	troupe.AddTool(srv, troupe.Tool{Name: "order"}, func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) {
		form := mcp.FormSchema{Properties: []mcp.Property{{Name: "size", Schema: &mcp.StringSchema{}}}}
		r, err := call.Elicit(ctx, "Which size?", form)
		var filled struct{ Size string }
		if err == nil && r.Action == mcp.ElicitAccept {
			err = json.Unmarshal(r.Content, &filled)
		}
		return "ordered size " + filled.Size, err
	})
	troupe.AddTool(srv, troupe.Tool{Name: "deliver"}, func(ctx context.Context, _ *troupe.Call, _ struct{}) (string, error) {
		select {
		case <-time.After(2 * time.Hour):
			return "delivered", nil
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	})
	return srv
}

// TestShop runs the tests of the examples.
func TestShop(t *testing.T) {
	troupetest.Test(t, func(t *testing.T) {
		c := troupetest.Connect(t, newShop(), troupetest.Options{
			Runtime: troupe.Options{Limits: troupe.Limits{MaxCall: time.Hour}},
			Elicit: func(context.Context, mcp.ElicitParams) (mcp.ElicitResult, error) {
				return mcp.ElicitResult{Action: mcp.ElicitAccept, Content: json.RawMessage(`{"size":"L"}`)}, nil
			},
		})
		if got, err := c.CallTool(t.Context(), "order", nil); err != nil || troupetest.Text(got) != "ordered size L" {
			t.Errorf("got %q, %v", troupetest.Text(got), err)
		}
		if got, err := c.CallTool(t.Context(), "deliver", nil); err != nil || !got.IsError {
			t.Errorf("a delivery of two hours ends with %+v, %v", got, err)
		}
	})
}
