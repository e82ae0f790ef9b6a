package troupe_test

import (
	"context"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
)

// meter is a MeterProvider that knows what has been counted, by the name of the
// metric and its attribute reason.
type meter struct {
	noop.MeterProvider
	mu        sync.Mutex // guards the rest
	counts    map[counted]int64
	callbacks []metric.Callback
}

type counted struct{ name, reason string }

func newMeter() *meter { return &meter{counts: make(map[counted]int64)} }

// count is the value of a counter for a reason, or of a gauge with the reason "".
func (m *meter) count(name, reason string) int64 {
	m.mu.Lock()
	callbacks := m.callbacks
	m.mu.Unlock()
	for _, f := range callbacks {
		_ = f(context.Background(), observer{m: m})
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.counts[counted{name, reason}]
}

func (m *meter) set(name string, attrs attribute.Set, v int64, add bool) {
	reason, _ := attrs.Value("reason")
	key := counted{name, reason.AsString()}
	m.mu.Lock()
	defer m.mu.Unlock()
	if add {
		v += m.counts[key]
	}
	m.counts[key] = v
}

func (m *meter) Meter(string, ...metric.MeterOption) metric.Meter { return meterOf{m: m} }

type meterOf struct {
	noop.Meter
	m *meter
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

func (o meterOf) RegisterCallback(f metric.Callback, _ ...metric.Observable) (metric.Registration, error) {
	o.m.mu.Lock()
	defer o.m.mu.Unlock()
	o.m.callbacks = append(o.m.callbacks, f)
	return noop.Registration{}, nil
}

type counter struct {
	noop.Int64Counter
	name string
	m    *meter
}

func (c counter) Add(_ context.Context, n int64, opts ...metric.AddOption) {
	c.m.set(c.name, metric.NewAddConfig(opts).Attributes(), n, true)
}

type observedCounter struct {
	noop.Int64ObservableCounter
	name string
}

type observedGauge struct {
	noop.Int64ObservableGauge
	name string
}

type observer struct {
	noop.Observer
	m *meter
}

func (o observer) ObserveInt64(of metric.Int64Observable, v int64, opts ...metric.ObserveOption) {
	attrs := metric.NewObserveConfig(opts).Attributes()
	switch of := of.(type) {
	case observedCounter:
		o.m.set(of.name, attrs, v, false)
	case observedGauge:
		o.m.set(of.name, attrs, v, false)
	}
}
