package server_test

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

var updateMetrics = flag.Bool("update", false, "write the table of docs/metrics.md")

// TestMetricsTable compares the table of docs/metrics.md with the instruments that a
// runtime declares, and the labels that it puts on them. The document has the rows in an order of its own; new ones come last.
func TestMetricsTable(t *testing.T) {
	const document = "../../../docs/metrics.md"
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	place := func(row string) int { // of its name in the table
		name, _, _ := strings.Cut(strings.TrimPrefix(row, "| "), " ")
		i := strings.Index(string(text), "\n| "+name+" ")
		if i < 0 {
			return len(text)
		}
		return i
	}
	var got []string
	kit.Bubble(t, func(t *testing.T) {
		d := &declarations{instruments: map[string]*instrument{}}
		h := host.New(t, troupe.Options{Telemetry: troupe.Telemetry{MeterProvider: d}}, nil)
		c := h.Session()
		c.Post(host.Call("1", "echo", `{"text":"x"}`))
		c.Post(host.Call("2", "no such tool", `{}`))
		c.Post(host.Method("3", "prompts/get", `{"name":"greet","arguments":{"who":"x"}}`))
		h.Unchecked().Post("{")
		a := c.Get("")
		first, _ := a.Next()
		a.Close()
		defer c.Get(first.ID).Close()
		asking := c.Post(host.Call("4", "pingback", `{}`))
		host.Reply(c, host.NextQuestion(t, asking).ID, "result", `{}`)
		host.Last(t, asking)
		asking = c.Post(host.Call("5", "pingback", `{}`))
		host.Reply(c, host.NextQuestion(t, asking).ID, "error", `{"code":-32601,"message":"no"}`)
		host.Last(t, asking)
		h.Session().Do("DELETE", "")
		synctest.Wait()
		d.collect()
		d.instruments["troupe.stream.cut"].labels["reason"] = true     // TestWhatAClientMayHoldUp has this reason
		d.instruments["troupe.metrics.coarse"].labels["detail"] = true // of very many tools
		d.instruments["troupe.tls.reloads"].labels["outcome"] = true   // TestTLSFilesAreReadAgain has both outcomes
		for name, labels := range map[string][]string{                 // of backends, which this server has not
			"troupe.backend.instances": {"backend", "state"}, "troupe.backend.waiting": {"backend"}, "troupe.backend.memory": {"backend"}, "troupe.backend.adopted": {"backend"},
			"troupe.backend.ends": {"backend", "reason"}, "troupe.backend.start.duration": {"backend", "outcome"}, "troupe.backend.wait.duration": {"backend", "outcome"},
		} {
			for _, label := range labels {
				d.instruments[name].labels[label] = true
			}
		}
		// The command counts these itself.
		served := map[string]bool{"troupe_config_reloads_total": true, "troupe_telemetry_dropped_total": true, "troupe_telemetry_failures_total": true}
		for _, i := range d.instruments {
			got = append(got, i.row())
			served[i.served()] = true
		}
		for _, name := range regexp.MustCompile(`\b(?:troupe|mcp)_\w+`).FindAllString(string(text), -1) {
			if !served[name] {
				t.Errorf("the document has %s, which is not at /metrics", name)
			}
		}
	})
	slices.SortFunc(got, func(a, b string) int { return cmp.Or(cmp.Compare(place(a), place(b)), strings.Compare(a, b)) })
	table := "| metric | kind, unit | labels | what it says |\n|---|---|---|---|\n" + strings.Join(got, "\n") + "\n"
	kit.Tables(t, document, map[string]string{"All metrics": table}, *updateMetrics, "go test ./test/spec/server -run TestMetricsTable -update")
}

// TestDrainGauges has a drain wait for a call: the metrics say for how long it does, and how long it may.
func TestDrainGauges(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{DrainDelay: 5 * time.Second, DrainWait: time.Minute}, nil)
		a := h.Session().Post(host.Call("1", "sleep", `{"ms":40000}`))
		time.Sleep(time.Second)
		if took, limit := h.Gauge("troupe.drain.time", ""), h.Gauge("troupe.drain.limit", ""); took != 0 || limit != 65 {
			t.Errorf("before it drains: %d s of %d", took, limit)
		}
		ended := make(chan error, 1)
		go func() { ended <- h.Runtime.Drain(t.Context()) }()
		time.Sleep(20 * time.Second)
		if took := h.Gauge("troupe.drain.time", ""); took != 20 {
			t.Errorf("after 20 s it drains for %d s", took)
		}
		host.Last(t, a)
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestStoreGauges stores the sessions of two principals, one of which has far more.
func TestStoreGauges(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{Authenticate: host.User, Store: troupe.StoreOptions{MaxStore: 64 << 20}}, nil)
		host.As(h.Client(), "bob").Initialize(`{}`)
		for range 10 {
			host.As(h.Client(), "ann").InitializeAs("2025-11-25", `{"experimental":{"x":{"pad":"`+strings.Repeat("x", 6000)+`"}}}`)
		}
		time.Sleep(time.Minute) // the lease was renewed, and with it the store was measured
		most, used := h.Gauge("troupe.store.used.most", "sessions"), h.Gauge("troupe.store.used", "sessions")
		if most < 60_000 || most > 70_000 || used < most+100 {
			t.Errorf("ann has stored %d bytes of %d, want 60,000 to 70,000 and bob's", most, used)
		}
		if got := h.Gauge("troupe.store.budget", "sessions") + h.Gauge("troupe.store.budget", "calls") + h.Gauge("troupe.store.budget", "tasks"); got < 48<<20 || got > 64<<20 {
			t.Errorf("the budgets have %d bytes together, want nearly 64 MiB", got)
		}
		if most, used := h.Gauge("troupe.store.used.most", "calls"), h.Gauge("troupe.store.used", "calls"); most != 0 || used > 1000 {
			t.Errorf("nobody has called, and %d bytes are stored, %d of one principal", used, most)
		}
	})
}

// instrument is a metric as it was declared, and the labels that the test saw on it.
type instrument struct {
	name, kind, unit, description string
	labels                        map[string]bool
}

// served returns the name at /metrics.
func (i *instrument) served() string {
	shown := strings.NewReplacer(".", "_").Replace(i.name)
	suffix := map[string]string{"s": "_seconds", "By": "_bytes", "1": "_ratio", "ms": "_milliseconds"}[i.unit]
	if !strings.HasSuffix(shown, suffix) {
		shown += suffix
	}
	if i.kind == "counter" {
		shown += "_total"
	}
	return shown
}

func (i *instrument) row() string {
	var labels []string
	for label := range i.labels {
		labels = append(labels, "`"+label+"`")
	}
	slices.Sort(labels)
	kind := i.kind
	if i.unit != "" && !strings.HasPrefix(i.unit, "{") { // a unit, and not what is counted
		kind += ", " + i.unit
	}
	return fmt.Sprintf("| `%s` | %s | %s | %s |", i.name, kind, cmp.Or(strings.Join(labels, ", "), "-"), i.description)
}

func (i *instrument) seen(attrs attribute.Set) {
	for _, kv := range attrs.ToSlice() {
		i.labels[string(kv.Key)] = true
	}
}

// declarations is a MeterProvider that remembers declarations.
type declarations struct {
	noop.MeterProvider
	mu          sync.Mutex // guards the rest
	instruments map[string]*instrument
	callbacks   []metric.Callback
}

func (d *declarations) declare(name, kind, unit, description string) *instrument {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.instruments[name] == nil {
		d.instruments[name] = &instrument{name, kind, unit, description, map[string]bool{}}
	}
	return d.instruments[name]
}

// collect runs the callbacks of observable metrics, as a collection does.
func (d *declarations) collect() {
	for _, f := range d.callbacks {
		_ = f(context.Background(), labelled{})
	}
}

func (d *declarations) Meter(string, ...metric.MeterOption) metric.Meter { return declaring{d: d} }

type declaring struct {
	noop.Meter
	d *declarations
}

func (m declaring) Int64Counter(name string, o ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	c := metric.NewInt64CounterConfig(o...)
	return declaredCounter{i: m.d.declare(name, "counter", c.Unit(), c.Description())}, nil
}

func (m declaring) Float64Histogram(name string, o ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	c := metric.NewFloat64HistogramConfig(o...)
	return declaredHistogram{i: m.d.declare(name, "histogram", c.Unit(), c.Description())}, nil
}

func (m declaring) Int64ObservableCounter(name string, o ...metric.Int64ObservableCounterOption) (metric.Int64ObservableCounter, error) {
	c := metric.NewInt64ObservableCounterConfig(o...)
	return declaredObservedCounter{i: m.d.declare(name, "counter", c.Unit(), c.Description())}, nil
}

func (m declaring) Int64ObservableGauge(name string, o ...metric.Int64ObservableGaugeOption) (metric.Int64ObservableGauge, error) {
	c := metric.NewInt64ObservableGaugeConfig(o...)
	return declaredGauge{i: m.d.declare(name, "gauge", c.Unit(), c.Description())}, nil
}

func (m declaring) RegisterCallback(f metric.Callback, _ ...metric.Observable) (metric.Registration, error) {
	m.d.mu.Lock()
	defer m.d.mu.Unlock()
	m.d.callbacks = append(m.d.callbacks, f)
	return noop.Registration{}, nil
}

type declaredCounter struct {
	noop.Int64Counter
	i *instrument
}

func (c declaredCounter) Add(_ context.Context, _ int64, o ...metric.AddOption) {
	c.i.seen(metric.NewAddConfig(o).Attributes())
}

type declaredHistogram struct {
	noop.Float64Histogram
	i *instrument
}

func (h declaredHistogram) Record(_ context.Context, _ float64, o ...metric.RecordOption) {
	h.i.seen(metric.NewRecordConfig(o).Attributes())
}

type declaredObservedCounter struct {
	noop.Int64ObservableCounter
	i *instrument
}

type declaredGauge struct {
	noop.Int64ObservableGauge
	i *instrument
}

// labelled notes the labels of observations.
type labelled struct{ noop.Observer }

func (labelled) ObserveInt64(of metric.Int64Observable, _ int64, o ...metric.ObserveOption) {
	attrs := metric.NewObserveConfig(o).Attributes()
	switch of := of.(type) {
	case declaredObservedCounter:
		of.i.seen(attrs)
	case declaredGauge:
		of.i.seen(attrs)
	}
}
