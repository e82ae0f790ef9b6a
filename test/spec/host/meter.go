package host

import (
	"context"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/troupe-run/troupe"
)

// Meter is a MeterProvider that keeps the values of metrics, by their names and the values of their labels.
type Meter struct {
	noop.MeterProvider
	mu        sync.Mutex                   // guards the rest
	counts    map[counted]int64            // of counters
	callbacks map[string][]metric.Callback // that observe the rest, by the name of the metric
}

// Count returns the value of a metric for a value of its label; label is "" for a metric without one. It observes that
// metric alone: others ask the store.
func (m *Meter) Count(name, label string) int64 {
	m.mu.Lock()
	callbacks := m.callbacks[name]
	m.mu.Unlock()
	observed := observer{counts: map[counted]int64{}}
	for _, f := range callbacks {
		_ = f(context.Background(), observed)
	}
	if v, ok := observed.counts[counted{name, label}]; ok {
		return v
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.counts[counted{name, label}]
}

// Meter implements MeterProvider.
func (m *Meter) Meter(string, ...metric.MeterOption) metric.Meter { return meterOf{m: m} }

// metered makes a runtime report to a meter: the one that o names, or a new one. It leaves a provider of another kind;
// then the host knows no metrics.
func metered(o *troupe.Options) *Meter {
	m, ok := o.Telemetry.MeterProvider.(*Meter)
	if !ok {
		m = NewMeter()
		if o.Telemetry.MeterProvider == nil {
			o.Telemetry.MeterProvider = m
		}
	}
	return m
}

type counted struct{ name, label string }

// NewMeter returns a meter for Options.Telemetry.MeterProvider. A host makes its own unless Options name one.
func NewMeter() *Meter {
	return &Meter{counts: make(map[counted]int64), callbacks: make(map[string][]metric.Callback)}
}

// Gauge returns the value of a metric of the runtime, for a value of its label or for "".
func (h *Host) Gauge(name, label string) int64 { return h.m.Count(name, label) }

// Actors returns the number of live actors of a kind.
func (h *Host) Actors(kind string) int64 { return h.Gauge("troupe.actors", kind) }

// Stored returns the number of messages in a stream of the store.
func (h *Host) Stored(stream string) int64 { return h.Gauge("troupe.store.messages", stream) }

// HeldBytes returns the number of bytes that the runtime holds for its clients.
func (h *Host) HeldBytes() (n int64) {
	for _, kind := range []string{"bodies", "decoded", "queues", "waiting", "parked", "listeners", "sessions"} {
		n += h.Gauge("troupe.memory.held", kind)
	}
	return n
}

// held returns the counts of what the runtime holds for its clients, by name.
func (h *Host) held() map[string]int64 {
	all := map[string]int64{}
	for what, name := range map[string]string{
		"calls in flight": "troupe.calls.in_flight", "streams": "troupe.streams.open", "sessions": "troupe.sessions.active",
		"connections": "troupe.connections.open", "pending requests": "troupe.requests.pending", "parked calls": "troupe.calls.parked", "accounts": "troupe.accounts",
	} {
		all[what] = h.Gauge(name, "")
	}
	all["bytes"] = h.HeldBytes()
	return all
}

// label returns the value of the attribute that tells the series of a metric apart.
func label(attrs attribute.Set) string {
	for _, key := range []attribute.Key{"reason", "kind", "stream", "budget", "outcome"} {
		if v, ok := attrs.Value(key); ok {
			return v.AsString()
		}
	}
	return ""
}

type meterOf struct {
	noop.Meter
	m *Meter
}

func (o meterOf) Int64Counter(name string, _ ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return counter{name: name, m: o.m}, nil
}

func (o meterOf) Int64ObservableCounter(name string, _ ...metric.Int64ObservableCounterOption) (metric.Int64ObservableCounter, error) {
	return observedCounter{name: name}, nil
}

func (o meterOf) Int64ObservableGauge(name string, _ ...metric.Int64ObservableGaugeOption) (metric.Int64ObservableGauge, error) {
	return observedGauge{name: name}, nil
}

func (o meterOf) RegisterCallback(f metric.Callback, of ...metric.Observable) (metric.Registration, error) {
	o.m.mu.Lock()
	defer o.m.mu.Unlock()
	for _, instrument := range of {
		name := nameOf(instrument)
		o.m.callbacks[name] = append(o.m.callbacks[name], f)
	}
	return noop.Registration{}, nil
}

type counter struct {
	noop.Int64Counter
	name string
	m    *Meter
}

func (c counter) Add(_ context.Context, n int64, opts ...metric.AddOption) {
	key := counted{c.name, label(metric.NewAddConfig(opts).Attributes())}
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	c.m.counts[key] += n
}

type observedCounter struct {
	noop.Int64ObservableCounter
	name string
}

type observedGauge struct {
	noop.Int64ObservableGauge
	name string
}

// observer gets the values that a callback observes.
type observer struct {
	noop.Observer
	counts map[counted]int64
}

func (o observer) ObserveInt64(of metric.Int64Observable, v int64, opts ...metric.ObserveOption) {
	o.counts[counted{nameOf(of), label(metric.NewObserveConfig(opts).Attributes())}] = v
}

// nameOf returns the name of what a callback observes.
func nameOf(of metric.Observable) string {
	switch of := of.(type) {
	case observedCounter:
		return of.name
	case observedGauge:
		return of.name
	}
	return ""
}
