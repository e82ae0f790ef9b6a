package main

import (
	"fmt"
	"net/http"
	"regexp"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/exemplar"
)

// newMetrics returns the meter provider that the runtime reports to, and the handler
// that serves its metrics beside those of the Go runtime and the process.
func newMetrics(more ...sdkmetric.Option) (*sdkmetric.MeterProvider, http.Handler, error) {
	registry := prometheus.NewRegistry()
	// The heap that was live after the last collection shows a leak; beside it the heap in use holds garbage of up to 128 MiB.
	live := collectors.WithGoCollectorRuntimeMetrics(collectors.GoRuntimeMetricsRule{Matcher: regexp.MustCompile("^/gc/heap/live:bytes$")})
	registry.MustRegister(collectors.NewGoCollector(live), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(registry), otelprometheus.WithoutScopeInfo())
	if err != nil {
		return nil, nil, fmt.Errorf("metrics: %w", err)
	}
	// Nothing shows exemplars, and to look for a span costs each measurement as much as the rest of it.
	// The runtime bounds its series itself, see Options.Telemetry.Detail; the library's own bound would count what is beyond
	// it under no name.
	provider := sdkmetric.NewMeterProvider(append(more, sdkmetric.WithReader(exporter), sdkmetric.WithExemplarFilter(exemplar.AlwaysOffFilter), sdkmetric.WithCardinalityLimit(0))...)
	return provider, promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), nil
}
