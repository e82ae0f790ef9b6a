package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/contrib/bridges/otelslog"
	"go.opentelemetry.io/contrib/exporters/autoexport"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/exemplar"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/troupe-run/troupe"
)

// exporters send traces, metrics and logs to where the OTEL_ variables say. What nothing is said of
// is nil, and costs nothing.
type exporters struct {
	resource *resource.Resource
	traces   *sdktrace.TracerProvider
	metrics  sdkmetric.Reader
	logs     *sdklog.LoggerProvider

	spans, records outflow
	failed         atomic.Int64
	ends           atomic.Bool  // the process does
	told           atomic.Int64 // when the log said last that an export has failed, unix seconds
	log            *slog.Logger // which is not exported
	lines          *logLines    // the log, if requests are logged
}

// otelSignal is one of the three kinds of telemetry, as its variables name it.
type otelSignal string

const (
	ofTraces  otelSignal = "TRACES"
	ofMetrics otelSignal = "METRICS"
	ofLogs    otelSignal = "LOGS"
)

// isOn reports whether the environment says where a signal goes.
func (s otelSignal) isOn() bool {
	if disabled, _ := strconv.ParseBool(os.Getenv("OTEL_SDK_DISABLED")); disabled {
		return false
	}
	switch os.Getenv(s.exporterVariable()) {
	case "none":
		return false
	case "":
		return os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_"+string(s)+"_ENDPOINT") != ""
	}
	return true
}

// explain says which variables an exporter cannot be made of.
func (s otelSignal) explain(err error) error {
	if name := os.Getenv(s.exporterVariable()); name != "" {
		return fmt.Errorf("%s is %q: %w", s.exporterVariable(), name, err)
	}
	return fmt.Errorf("OTEL_EXPORTER_OTLP_ for %s: %w", strings.ToLower(string(s)), err)
}

func (s otelSignal) exporterVariable() string { return "OTEL_" + string(s) + "_EXPORTER" }

// newExporters returns what the environment asks for. What is exported names the node, which o is given, too. o.Log is what the
// process says on standard error; piped says that standard output carries the protocol.
func newExporters(ctx context.Context, o *troupe.Options, piped bool) (_ *exporters, err error) {
	x := &exporters{log: o.Log}
	if !ofTraces.isOn() && !ofMetrics.isOn() && !ofLogs.isOn() {
		return x, nil
	}
	for _, s := range []otelSignal{ofTraces, ofMetrics, ofLogs} {
		if piped && s.isOn() && os.Getenv(s.exporterVariable()) == "console" {
			return nil, fmt.Errorf("%s is console: standard output carries the protocol", s.exporterVariable())
		}
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(x.exportFailed))
	o.Store.Node = troupe.NodeName(*o)
	own := []attribute.KeyValue{attribute.String("service.version", version()), attribute.String("service.instance.id", o.Store.Node)}
	if os.Getenv("OTEL_SERVICE_NAME") == "" {
		own = append(own, attribute.String("service.name", "troupe"))
	}
	if x.resource, err = resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(own...), resource.WithFromEnv()); err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	if ofTraces.isOn() {
		e, err := autoexport.NewSpanExporter(ctx)
		if err != nil {
			return nil, ofTraces.explain(err)
		}
		if x.spans.room, err = queueOf("OTEL_BSP_MAX_QUEUE_SIZE"); err != nil {
			return nil, err
		}
		x.traces = sdktrace.NewTracerProvider(sdktrace.WithResource(x.resource), sdktrace.WithSpanProcessor(spanQueue{sdktrace.NewBatchSpanProcessor(spanExporter{e, x}), &x.spans}))
	}
	if ofMetrics.isOn() {
		if x.metrics, err = autoexport.NewMetricReader(ctx); err != nil {
			return nil, ofMetrics.explain(err)
		}
	}
	if ofLogs.isOn() {
		e, err := autoexport.NewLogExporter(ctx)
		if err != nil {
			return nil, ofLogs.explain(err)
		}
		if x.records.room, err = queueOf("OTEL_BLRP_MAX_QUEUE_SIZE"); err != nil {
			return nil, err
		}
		x.logs = sdklog.NewLoggerProvider(sdklog.WithResource(x.resource), sdklog.WithProcessor(recordQueue{sdklog.NewBatchProcessor(recordExporter{e, x}), &x.records}))
	}
	return x, nil
}

// observe says in o where logs, metrics and spans go: to standard error, to /metrics, and where the OTEL_ variables say. piped
// says that standard output carries the protocol, and that there is no /metrics. The caller must close what it returns.
func (s *settings) observe(ctx context.Context, o *troupe.Options, stderr io.Writer, piped bool) (*exporters, *sdkmetric.MeterProvider, error) {
	o.Log = s.logger(stderr)
	var lines *logLines
	if s.logRequests != "" {
		lines = newLogLines(stderr)
		o.Log = s.logger(promptLines{lines})
		lines.log = o.Log
	}
	x, err := newExporters(ctx, o, piped)
	if err != nil {
		return nil, nil, err
	}
	o.Log, x.lines = x.exported(o.Log), lines
	o.Telemetry.Detail, o.Telemetry.Principals = s.metricsDetail, s.tracePrincipals
	if lines != nil {
		o.Telemetry.Requests, _ = s.requestLog() // check has looked
		o.Telemetry.Requests.Log = x.exported(s.logger(lines))
	}
	if x.traces != nil {
		o.Telemetry.TracerProvider = x.traces
	}
	if piped && x.metrics == nil {
		return x, nil, nil
	}
	var more []sdkmetric.Option
	if x.resource != nil {
		more = append(more, sdkmetric.WithResource(x.resource))
	}
	if x.metrics != nil {
		more = append(more, sdkmetric.WithReader(x.metrics))
	}
	meters, handler, err := newMetrics(more...)
	if err != nil {
		return nil, nil, err
	}
	o.Telemetry.MeterProvider, o.Telemetry.Metrics = meters, handler
	return x, meters, x.countLosses(meters)
}

// queueOf is how much waits for a collector at most.
func queueOf(variable string) (int64, error) {
	text := os.Getenv(variable)
	if text == "" {
		return 2048, nil // as the SDK has it
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%s is %q: want a number of 1 or more", variable, text)
	}
	return n, nil
}

// exported returns a log whose records are exported, too, if logs are.
func (x *exporters) exported(log *slog.Logger) *slog.Logger {
	if x.logs == nil {
		return log
	}
	return slog.New(slog.NewMultiHandler(log.Handler(), leveled{otelslog.NewHandler("github.com/troupe-run/troupe", otelslog.WithLoggerProvider(x.logs)), log.Handler()}))
}

// leveled is a handler with the levels of another one.
type leveled struct {
	slog.Handler
	levels slog.Handler
}

func (h leveled) Enabled(ctx context.Context, l slog.Level) bool { return h.levels.Enabled(ctx, l) }
func (h leveled) WithAttrs(attrs []slog.Attr) slog.Handler {
	return leveled{h.Handler.WithAttrs(attrs), h.levels}
}
func (h leveled) WithGroup(name string) slog.Handler {
	return leveled{h.Handler.WithGroup(name), h.levels}
}

// exportFailed counts an export that has failed, and logs one in a minute.
func (x *exporters) exportFailed(err error) {
	if strings.Contains(err.Error(), "baggage") { // of a client: it counts as absent
		return
	}
	if x.ends.Load() && errors.Is(err, context.Canceled) { // the export of metrics under way, which the last one is in place of
		return
	}
	x.failed.Add(1)
	now := time.Now().Unix()
	if last := x.told.Load(); now-last >= 60 && x.told.CompareAndSwap(last, now) {
		x.log.Warn("telemetry is not exported: calls go on, and what is dropped is counted", "error", err, "failures", x.failed.Load(), "dropped_spans", x.spans.dropped.Load(), "dropped_logs", x.records.dropped.Load())
	}
}

// countLosses has the meters count what was not exported, and not written.
func (x *exporters) countLosses(meters metric.MeterProvider) error {
	lost := make(map[string]*atomic.Int64)
	if x.resource != nil {
		lost["traces"], lost["logs"] = &x.spans.dropped, &x.records.dropped
	}
	if x.lines != nil {
		lost["requests"] = &x.lines.dropped
	}
	if len(lost) == 0 {
		return nil
	}
	m := meters.Meter("github.com/troupe-run/troupe/cmd/troupe")
	dropped, err := m.Int64ObservableCounter("troupe.telemetry.dropped", metric.WithUnit("{record}"), metric.WithDescription("Spans and log records that were not exported, because the collector is away or slow, and lines of requests that were not written."))
	if err != nil {
		return err
	}
	failed, err := m.Int64ObservableCounter("troupe.telemetry.failures", metric.WithUnit("{export}"), metric.WithDescription("Exports of telemetry that have failed."))
	if err != nil {
		return err
	}
	_, err = m.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		for signal, n := range lost {
			o.ObserveInt64(dropped, n.Load(), metric.WithAttributes(attribute.String("signal", signal)))
		}
		o.ObserveInt64(failed, x.failed.Load())
		return nil
	}, dropped, failed)
	return err
}

// writeLines writes the lines of requests that wait, within d.
func (x *exporters) writeLines(d time.Duration) {
	if x.lines != nil {
		x.lines.flushWithin(d)
	}
}

// lastExport is how long the end of the process waits for a collector, and for whoever reads its log.
const lastExport = 3 * time.Second

// close writes and exports what waits, for as long as lastExport each.
func (x *exporters) close(meters *sdkmetric.MeterProvider) {
	x.writeLines(lastExport)
	x.ends.Store(true)
	ctx, cancel := context.WithTimeout(context.Background(), lastExport)
	defer cancel()
	var ends []func(context.Context) error // at once: where one collector is away another may be there
	if x.traces != nil {
		ends = append(ends, x.traces.Shutdown)
	}
	if x.metrics != nil {
		ends = append(ends, meters.Shutdown)
	}
	if x.logs != nil {
		ends = append(ends, x.logs.Shutdown)
	}
	errs := make([]error, len(ends))
	var over sync.WaitGroup
	for i, end := range ends {
		over.Go(func() { errs[i] = end(ctx) })
	}
	over.Wait()
	if err := errors.Join(errs...); err != nil {
		x.log.Warn("telemetry of the last moments was not exported", "error", err)
	}
}

// outflow counts what waits to be exported. The SDK drops what its queue has no room for, and does not
// count it where anybody sees it: so what comes to a full queue is dropped and counted before.
type outflow struct {
	room             int64
	waiting, dropped atomic.Int64
}

// admit reports whether there is room for one more.
func (o *outflow) admit() bool {
	if o.waiting.Add(1) <= o.room {
		return true
	}
	o.waiting.Add(-1)
	o.dropped.Add(1)
	return false
}

// hand takes n out of the queue.
func (o *outflow) hand(n int, err error) {
	o.waiting.Add(-int64(n))
	if err != nil {
		o.dropped.Add(int64(n))
	}
}

// spanQueue is a queue of spans.
type spanQueue struct {
	sdktrace.SpanProcessor
	flow *outflow
}

func (q spanQueue) OnEnd(s sdktrace.ReadOnlySpan) {
	if s.SpanContext().IsSampled() && q.flow.admit() {
		q.SpanProcessor.OnEnd(s)
	}
}

// spanExporter takes spans from their queue.
type spanExporter struct {
	sdktrace.SpanExporter
	x *exporters
}

func (e spanExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	e.x.spans.hand(len(spans), err)
	return err
}

// recordQueue is a queue of log records.
type recordQueue struct {
	sdklog.Processor
	flow *outflow
}

func (q recordQueue) OnEmit(ctx context.Context, r *sdklog.Record) error {
	if !q.flow.admit() {
		return nil
	}
	return q.Processor.OnEmit(ctx, r)
}

// recordExporter takes log records from their queue.
type recordExporter struct {
	sdklog.Exporter
	x *exporters
}

func (e recordExporter) Export(ctx context.Context, records []sdklog.Record) error {
	err := e.Exporter.Export(ctx, records)
	e.x.records.hand(len(records), err)
	return err
}

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
