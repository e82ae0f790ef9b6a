//go:build !race

package telemetry

import (
	"context"
	"testing"
	"time"

	metrics "go.opentelemetry.io/otel/metric/noop"
	spans "go.opentelemetry.io/otel/trace/noop"

	"github.com/troupe-run/troupe/mcp"
)

// observing returns what is done for a call that succeeds: it is counted, and, if calls are traced, has a span that is not kept.
func observing(t testing.TB, traced bool) func() {
	c := Config{MeterProvider: metrics.NewMeterProvider()}
	if traced {
		c.TracerProvider = spans.NewTracerProvider()
	}
	in, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	op, id := in.NewOperations("demo").Operation(mcp.MethodToolsCall, "echo"), []byte("1")
	via := Via{Revision: mcp.Latest, HTTP: 1, Client: "127.0.0.1:1234"}
	return func() {
		r := Request{Via: via, ID: id}
		ctx, span := op.StartSpan(context.Background(), &r)
		op.RecordRun(ctx, via, time.Millisecond, 0)
		span.End(0, "")
	}
}

// TestObservingAllocates bounds what telemetry adds to a call: nothing to count it, and the context that has the span, where that is
// not kept. What the tracer makes comes to that.
func TestObservingAllocates(t *testing.T) {
	for _, row := range []struct {
		traced bool
		most   float64
	}{{false, 0}, {true, 1}} {
		if n := testing.AllocsPerRun(1000, observing(t, row.traced)); n > row.most {
			t.Errorf("traced %v: got %v allocations, want at most %v", row.traced, n, row.most)
		}
	}
}

func BenchmarkObserving(b *testing.B) {
	for _, row := range []struct {
		name   string
		traced bool
	}{{"counted", false}, {"traced", true}} {
		b.Run(row.name, func(b *testing.B) {
			b.ReportAllocs()
			observe := observing(b, row.traced)
			for b.Loop() {
				observe()
			}
		})
	}
}
