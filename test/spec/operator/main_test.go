package operator_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/operator"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

func TestMain(m *testing.M) { kit.Main(m) }

// endedText is the message of the error of a call that an operator has ended.
const endedText = "an operator has ended this call; whether it took effect is unknown"

// runaways are tools that heed nothing, and how they have been called off.
type runaways struct {
	goOn   chan struct{} // lets the handlers return
	causes chan error    // what has ended their contexts
}

// addRunaways adds tools whose handlers go on whatever ends their contexts: one that sends nothing, one that sends progress first, and one that asks
// its client first. like says what else they are.
func addRunaways(s *troupe.Server, like troupe.Tool) *runaways {
	add := func(name string, f func(context.Context, *troupe.Call) (string, error)) {
		like.Name = name
		troupe.AddTool(s, like, func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) { return f(ctx, call) })
	}
	w := &runaways{goOn: make(chan struct{}), causes: make(chan error, 100)}
	run := func(ctx context.Context) (string, error) {
		<-ctx.Done()
		w.causes <- context.Cause(ctx)
		<-w.goOn
		return "too late", nil
	}
	add("silent", func(ctx context.Context, _ *troupe.Call) (string, error) { return run(ctx) })
	add("talks", func(ctx context.Context, call *troupe.Call) (string, error) {
		_ = call.Log(ctx, "info", "test", "begun")
		return run(ctx)
	})
	add("asks", func(ctx context.Context, call *troupe.Call) (string, error) {
		if _, err := call.Roots(ctx); err != nil {
			return run(ctx)
		}
		return run(ctx)
	})
	return w
}

// inFlight returns the only call in flight.
func inFlight(t *testing.T, rt *troupe.Runtime) operator.Call {
	t.Helper()
	synctest.Wait()
	page, err := rt.Operator().Calls(t.Context(), operator.Query{})
	if err != nil || len(page.Calls) != 1 {
		t.Fatalf("in flight: %+v, %v; want one call", page.Calls, err)
	}
	return page.Calls[0]
}

// cancel ends the only call in flight, which is as want says, and checks that its handler learns why.
func (w *runaways) cancel(t *testing.T, rt *troupe.Runtime, want operator.Call) {
	t.Helper()
	c := inFlight(t, rt)
	got := operator.Call{State: c.State, Method: c.Method, Target: c.Target, Server: c.Server, Tenant: c.Tenant, Revision: c.Revision, Attempt: c.Attempt, Principal: c.Principal}
	want.Method, want.Server, want.Tenant, want.Attempt = "tools/call", "/mcp", "anon", 1
	if got != want || c.ID == "" || c.Node == "" || c.Began.IsZero() {
		t.Errorf("the call is %+v, want %+v", c, want)
	}
	ended, err := rt.Operator().CancelCall(t.Context(), c.ID)
	if err != nil || ended.ID != c.ID || ended.Target != c.Target {
		t.Errorf("cancelled: %+v, %v", ended, err)
	}
	if cause := <-w.causes; cause != troupe.ErrCalledOff {
		t.Errorf("the handler's context ends with %v", cause)
	}
	if page, err := rt.Operator().Calls(t.Context(), operator.Query{}); err != nil || len(page.Calls) != 0 {
		t.Errorf("in flight, then: %+v, %v", page.Calls, err)
	}
	if _, err := rt.Operator().CancelCall(t.Context(), c.ID); err != operator.ErrNoCall {
		t.Errorf("cancelled once more: %v", err)
	}
}

// fault is the response to a call that an operator has ended.
func fault(id string) string { return host.Fault(id, -32010, endedText, "") }
