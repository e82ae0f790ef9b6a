package telemetry

import (
	"cmp"
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// backends record what becomes of the instances of backends. The names of backends come from the configuration, and reasons are few.
type backends struct {
	starts, waits metric.Float64Histogram
	adopted, ends metric.Int64Counter
}

// BackendStarted records how long the start of an instance took, and why it cannot serve, "" if it can.
func (i *Instruments) BackendStarted(backend, failed string, took time.Duration) {
	recordDuration(i.backends.starts, backend, cmp.Or(failed, "ready"), took)
}

// BackendWaited records how long a call waited for an instance, and why it got none, "" if it got one.
func (i *Instruments) BackendWaited(backend, refused string, took time.Duration) {
	recordDuration(i.backends.waits, backend, cmp.Or(refused, "given"), took)
}

func recordDuration(h metric.Float64Histogram, backend, outcome string, took time.Duration) {
	if h != nil {
		h.Record(context.Background(), took.Seconds(), metric.WithAttributes(attribute.String("backend", backend), attribute.String("outcome", outcome)))
	}
}

// BackendAdopted counts an instance that an earlier process has left.
func (i *Instruments) BackendAdopted(backend string) {
	if i.backends.adopted != nil {
		i.backends.adopted.Add(context.Background(), 1, metric.WithAttributes(attribute.String("backend", backend)))
	}
}

// BackendEnded counts the end of an instance that could serve.
func (i *Instruments) BackendEnded(backend, reason string) {
	if i.backends.ends != nil {
		i.backends.ends.Add(context.Background(), 1, metric.WithAttributes(attribute.String("backend", backend), attribute.String("reason", reason)))
	}
}
