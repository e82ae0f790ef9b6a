package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Gauge is a value that is read when metrics are collected.
type Gauge struct {
	Name, Unit, Doc string
	Counter         bool // it only rises
	Label           string
	Read            func(observe func(label string, v int64))
	// Second is the name of a second label; the gauge is then read with ReadPairs in place of Read.
	Second    string
	ReadPairs func(observe func(label, second string, v int64))
}

// RegisterGauges registers gauges with the provider. remove removes them.
func RegisterGauges(mp metric.MeterProvider, gauges []Gauge) (remove func() error, err error) {
	if mp == nil {
		return func() error { return nil }, nil
	}
	m := mp.Meter(scope)
	var regs []metric.Registration
	for _, g := range gauges {
		var obs metric.Int64Observable
		if g.Counter {
			obs, err = m.Int64ObservableCounter(g.Name, metric.WithUnit(g.Unit), metric.WithDescription(g.Doc))
		} else {
			obs, err = m.Int64ObservableGauge(g.Name, metric.WithUnit(g.Unit), metric.WithDescription(g.Doc))
		}
		if err != nil {
			return nil, err
		}
		reg, err := m.RegisterCallback(func(_ context.Context, o metric.Observer) error {
			if g.Second != "" {
				g.ReadPairs(func(label, second string, v int64) {
					o.ObserveInt64(obs, v, metric.WithAttributes(attribute.String(g.Label, label), attribute.String(g.Second, second)))
				})
				return nil
			}
			g.Read(func(label string, v int64) {
				if g.Label == "" {
					o.ObserveInt64(obs, v)
					return
				}
				o.ObserveInt64(obs, v, metric.WithAttributes(attribute.String(g.Label, label)))
			})
			return nil
		}, obs)
		if err != nil {
			return nil, err
		}
		regs = append(regs, reg)
	}
	return func() error {
		for _, r := range regs {
			if err := r.Unregister(); err != nil {
				return err
			}
		}
		return nil
	}, nil
}
