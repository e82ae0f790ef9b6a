package host

import (
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/troupe-run/troupe"
)

// NewRecorder returns a recorder of spans, and what has a runtime tell it of all that it makes.
func NewRecorder() (*tracetest.SpanRecorder, troupe.Telemetry) {
	all := tracetest.NewSpanRecorder()
	return all, troupe.Telemetry{TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(all))}
}
