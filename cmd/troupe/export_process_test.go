package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	logs "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	metrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	traces "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-run/troupe/test/kit/when"
)

// collector is an OTLP receiver. It keeps what it gets as lines: the signal, the resource, and the name with its attributes.
type collector struct {
	*httptest.Server
	got lines
}

func newCollector(t *testing.T) *collector {
	c := &collector{got: lines{wrote: make(chan struct{}, 1)}}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = c.take(r.URL.Path, body)
		}
		if err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *collector) take(path string, body []byte) error {
	switch path {
	case "/v1/traces":
		var m traces.ExportTraceServiceRequest
		if err := proto.Unmarshal(body, &m); err != nil {
			return err
		}
		for _, r := range m.ResourceSpans {
			for _, s := range r.ScopeSpans {
				for _, span := range s.Spans {
					fmt.Fprintf(&c.got, "span {%s} %x %s {%s} links %d\n", told(r.Resource.Attributes), span.ParentSpanId, span.Name, told(span.Attributes), len(span.Links))
				}
			}
		}
	case "/v1/metrics":
		var m metrics.ExportMetricsServiceRequest
		if err := proto.Unmarshal(body, &m); err != nil {
			return err
		}
		for _, r := range m.ResourceMetrics {
			for _, s := range r.ScopeMetrics {
				for _, metric := range s.Metrics {
					fmt.Fprintf(&c.got, "metric {%s} %s\n", told(r.Resource.Attributes), metric.Name)
				}
			}
		}
	case "/v1/logs":
		var m logs.ExportLogsServiceRequest
		if err := proto.Unmarshal(body, &m); err != nil {
			return err
		}
		for _, r := range m.ResourceLogs {
			for _, s := range r.ScopeLogs {
				for _, record := range s.LogRecords {
					fmt.Fprintf(&c.got, "log {%s} %s {%s} trace %x\n", told(r.Resource.Attributes), record.Body.GetStringValue(), told(record.Attributes), record.TraceId)
				}
			}
		}
	default:
		return fmt.Errorf("nobody knows %s", path)
	}
	return nil
}

// told is the attributes, by name.
func told(attrs []*common.KeyValue) string {
	var all []string
	for _, kv := range attrs {
		v := kv.Value.GetStringValue()
		if n := kv.Value.GetIntValue(); n != 0 {
			v = fmt.Sprint(n)
		}
		all = append(all, kv.Key+"="+v)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// await waits until the collector has something that matches.
func (c *collector) await(t *testing.T, pattern string) []string {
	t.Helper()
	for late := time.After(hung); ; {
		if found := regexp.MustCompile(`(?m)` + pattern).FindStringSubmatch(c.got.String()); found != nil {
			return found
		}
		select {
		case <-c.got.wrote:
		case <-late:
			t.Fatalf("the collector did not get %s:\n%s", pattern, c.got.String())
		}
	}
}

// variables are those that make a process export all to an address, often.
func variables(endpoint string) []string {
	return []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + endpoint, "OTEL_BSP_SCHEDULE_DELAY=50", "OTEL_BLRP_SCHEDULE_DELAY=50", "OTEL_METRIC_EXPORT_INTERVAL=200", "OTEL_RESOURCE_ATTRIBUTES=deployment.environment.name=test"}
}

// TestExportProcess starts a server with the variables of OpenTelemetry alone. Its traces, metrics and logs say what it is called; a second
// run after kill -9 is linked to the first one, with the parent that the request had; and the end of the process sends what waits.
func TestExportProcess(t *testing.T) {
	when.Long(t, "processes")
	t.Parallel()
	binary(t)
	c := newCollector(t)
	args := append(variables(c.URL), "--data", t.TempDir(), "--node", "n1", "--log-requests", "all")
	p := start(t, args...)
	session := p.session(t)
	who := `service\.instance\.id=n1 service\.name=troupe service\.version=`
	c.await(t, `^span \{deployment\.environment\.name=test `+who+`.* initialize \{.*network\.transport=tcp`)
	c.await(t, `^metric \{.*`+who+`.*mcp\.server\.operation\.duration$`)
	c.await(t, `^log \{.*`+who+`.*\} request \{.*method=initialize .*outcome=ok .*trace [0-9a-f]{32}$`)

	body := `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"count","arguments":{"to":3,"delay_ms":1500},"_meta":{"progressToken":"p","traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}}}`
	x, err := p.post(t.Context(), body, "Mcp-Session-Id", session)
	if err != nil {
		t.Fatal(err)
	}
	first, _ := x.next(t)
	p.kill(t)
	x.close()
	p = start(t, args...)
	again, err := p.send(t.Context(), "GET", "", "Mcp-Session-Id", session, "Last-Event-ID", first)
	if err != nil {
		t.Fatal(err)
	}
	defer again.close()
	for answer := ""; !strings.Contains(answer, `"id":7`); {
		_, answer = again.next(t)
	}
	c.await(t, `^span \{.*\} b7ad6b7169203331 tools/call count \{.*troupe\.run=2.* links 1$`)

	p.request(t, "POST", "/mcp", session, `{"jsonrpc":"2.0","id":8,"method":"resources/read","params":{"uri":"test://last"}}`)
	p.signal(t, syscall.SIGTERM)
	if code := p.exit(t); code != 0 {
		t.Errorf("it ended with %d:\n%s", code, p.stderr)
	}
	c.await(t, `^span .*mcp\.resource\.uri=test://last`)
}

// TestExportToNobodyProcess: a collector that is away, or takes what it is sent and never answers, holds no call and no end up. What
// is dropped is counted.
func TestExportToNobodyProcess(t *testing.T) {
	when.Long(t, "processes")
	t.Parallel()
	binary(t)
	var over sync.WaitGroup
	done := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { over.Add(1); defer over.Done(); <-done }))
	t.Cleanup(func() { close(done); over.Wait(); silent.Close() })
	for name, endpoint := range map[string]string{"away": "http://127.0.0.1:1", "silent": silent.URL} {
		t.Run(name, func(t *testing.T) {
			p := start(t, append(variables(endpoint), "OTEL_BSP_MAX_QUEUE_SIZE=8", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE=4", "--memory")...)
			for range 100 {
				if status, _, body := p.stateless(t, "tools/call", "echo", tool("echo", `{"text":"x"}`), ""); status != http.StatusOK {
					t.Fatalf("%d %s", status, body)
				}
			}
			for end := time.Now().Add(hung); ; time.Sleep(100 * time.Millisecond) {
				_, _, body := p.request(t, "GET", "/metrics", "", "")
				if regexp.MustCompile(`troupe_telemetry_dropped_total\{signal="traces"\} [1-9]`).MatchString(body) {
					break
				}
				if time.Now().After(end) {
					t.Fatal("nothing is counted as dropped")
				}
			}
			p.signal(t, syscall.SIGTERM)
			if code := p.exit(t); code != 0 {
				t.Errorf("it ended with %d:\n%s", code, p.stderr)
			}
		})
	}
}

// TestExportVariables: variables that cannot be used are named.
func TestExportVariables(t *testing.T) {
	when.Long(t, "processes")
	t.Parallel()
	binary(t)
	for variable, want := range map[string]string{
		"OTEL_TRACES_EXPORTER=carrier-pigeon":  `OTEL_TRACES_EXPORTER is "carrier-pigeon"`,
		"OTEL_METRICS_EXPORTER=carrier-pigeon": `OTEL_METRICS_EXPORTER is "carrier-pigeon"`,
	} {
		p := startAny(t, variable, "--memory")
		if code := p.exit(t); code == 0 || !strings.Contains(p.stderr.String(), want) {
			t.Errorf("with %s it ends with %d: %s", variable, code, p.stderr)
		}
	}
}
