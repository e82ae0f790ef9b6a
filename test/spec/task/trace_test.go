package task_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

// spans is a tracer provider that remembers what spans are told.
type spans struct {
	noop.TracerProvider

	mu  sync.Mutex // guards all
	all []string
}

func (s *spans) Tracer(string, ...trace.TracerOption) trace.Tracer { return tracer{of: s} }

type tracer struct {
	noop.Tracer
	of *spans
}

func (t tracer) Start(ctx context.Context, _ string, _ ...trace.SpanStartOption) (context.Context, trace.Span) {
	s := span{of: t.of}
	return trace.ContextWithSpan(ctx, s), s
}

type span struct {
	noop.Span
	of *spans
}

func (s span) IsRecording() bool { return true }

func (s span) SetAttributes(kvs ...attribute.KeyValue) {
	for _, kv := range kvs {
		if kv.Key == "troupe.task.attempt" {
			s.of.note(fmt.Sprint(kv.Key, " ", kv.Value.String()))
		}
	}
}

func (s span) AddEvent(name string, o ...trace.EventOption) {
	c := trace.NewEventConfig(o...)
	for _, kv := range c.Attributes() {
		if kv.Key != "troupe.step.took_ms" {
			name += " " + kv.Value.String()
		}
	}
	s.of.note(name)
}

func (s *spans) note(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, what)
}

// TestTracesOfTasks: the span of a run says which one it is, and has an event for each step, those that an earlier run has stored included.
func TestTracesOfTasks(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		told := &spans{}
		o := troupe.Options{Dir: t.TempDir(), Telemetry: troupe.Telemetry{TracerProvider: told}}
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
		told.mu.Lock()
		defer told.mu.Unlock()
		if want := []string{"troupe.task.attempt 1", "troupe.step s0 false", "troupe.task.attempt 2", "troupe.step s0 true", "troupe.step s1 false"}; !slices.Equal(told.all, want) {
			t.Errorf("spans are told %q, want %q", told.all, want)
		}
	})
}
