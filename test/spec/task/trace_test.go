package task_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

// runsOf is what the spans of the runs of tasks say of them, in the order in which they began.
func runsOf(all *tracetest.SpanRecorder) (told []string) {
	for _, s := range all.Started() {
		for _, kv := range s.Attributes() {
			if kv.Key == "troupe.task.attempt" {
				told = append(told, "attempt "+kv.Value.String())
			}
		}
		for _, e := range s.Events() {
			line := e.Name
			for _, kv := range e.Attributes {
				if kv.Key != "troupe.step.took_ms" {
					line += " " + kv.Value.String()
				}
			}
			told = append(told, line)
		}
	}
	return told
}

// TestTracesOfTasks: the span of a run says which one it is, and has an event for each step, those that an earlier run has stored included.
func TestTracesOfTasks(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		all, tel := host.NewRecorder()
		o := troupe.Options{Dir: t.TempDir(), Telemetry: tel}
		tool := func(h *host.Host, last bool) {
			add(h, troupe.Tool{Name: "steps", Task: troupe.TaskOptional, Rerun: troupe.Safe}, func(ctx context.Context, call *troupe.Call, _ WorkIn) (*mcp.CallToolResult, error) {
				for i := range 2 {
					if i == 1 && !last {
						<-ctx.Done()
						return nil, context.Cause(ctx)
					}
					if _, err := troupe.Step(ctx, call, fmt.Sprint("s", i), func(context.Context) (int, error) { return i, nil }); err != nil {
						return nil, err
					}
				}
				return words("done"), nil
			})
		}
		h := host.New(t, o, nil)
		tool(h, false)
		c := session(h)
		id := begin(t, c, "steps", `{}`)
		time.Sleep(time.Second)
		o.Dir = host.CopyDir(t, o.Dir)
		h2 := host.New(t, o, nil)
		tool(h2, true)
		await(t, h2.Moved(c), id, "completed")
		if got, want := runsOf(all), []string{"attempt 1", "troupe.step s0 false", "attempt 2", "troupe.step s0 true", "troupe.step s1 false"}; !slices.Equal(got, want) {
			t.Errorf("the spans of runs say %q, want %q", got, want)
		}
	})
}
