package main

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	logs "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	metrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	traces "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// collector is an OTLP receiver. It keeps the spans that it gets, and the rest as lines: the signal, the resource, and the name with its
// attributes.
type collector struct {
	*httptest.Server
	got lines

	mu    sync.Mutex // guards spans
	spans map[string]*exportedSpan
}

// exportedSpan is a span as it was exported.
type exportedSpan struct {
	*trace.Span
	resource, attrs map[string]string
}

func newCollector(t *testing.T) *collector {
	c := &collector{got: lines{wrote: make(chan struct{}, 1)}, spans: make(map[string]*exportedSpan)}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil { // its process was killed, or ends and sends it again
			return
		}
		if err := c.take(r.URL.Path, body); err != nil {
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
				c.takeSpans(values(r.Resource.Attributes), s.Spans)
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
					fmt.Fprintf(&c.got, "metric {%s} %s\n", told(values(r.Resource.Attributes)), metric.Name)
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
					fmt.Fprintf(&c.got, "log {%s} %s {%s} trace %x\n", told(values(r.Resource.Attributes)), record.Body.GetStringValue(), told(values(record.Attributes)), record.TraceId)
				}
			}
		}
	default:
		return fmt.Errorf("nobody knows %s", path)
	}
	return nil
}

func (c *collector) takeSpans(resource map[string]string, spans []*trace.Span) {
	c.mu.Lock()
	for _, s := range spans {
		c.spans[string(s.SpanId)] = &exportedSpan{s, resource, values(s.Attributes)}
	}
	c.mu.Unlock()
	for _, s := range spans {
		fmt.Fprintf(&c.got, "span %s\n", s.Name)
	}
}

// values are attributes by their names, as text.
func values(attrs []*common.KeyValue) map[string]string {
	all := make(map[string]string)
	for _, kv := range attrs {
		switch v := kv.Value.Value.(type) {
		case *common.AnyValue_IntValue:
			all[kv.Key] = fmt.Sprint(v.IntValue)
		case *common.AnyValue_BoolValue:
			all[kv.Key] = fmt.Sprint(v.BoolValue)
		default:
			all[kv.Key] = kv.Value.GetStringValue()
		}
	}
	return all
}

// told is attributes as text, by name.
func told(attrs map[string]string) string {
	var all []string
	for _, k := range slices.Sorted(maps.Keys(attrs)) {
		all = append(all, k+"="+attrs[k])
	}
	return strings.Join(all, " ")
}

// await waits until the collector has something that matches.
func (c *collector) await(t *testing.T, pattern string) []string {
	t.Helper()
	matches := regexp.MustCompile(`(?m)` + pattern)
	var found []string
	c.until(t, pattern, func() bool { found = matches.FindStringSubmatch(c.got.String()); return found != nil })
	return found
}

// until waits until the collector has got what it should.
func (c *collector) until(t *testing.T, what string, has func() bool) {
	t.Helper()
	for late := time.After(hung); !has(); {
		select {
		case <-c.got.wrote:
		case <-late:
			t.Fatalf("the collector did not get %s:\n%s", what, c.got.String())
		}
	}
}

// exported are the spans so far.
func (c *collector) exported() (all []*exportedSpan) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Values(c.spans))
}

// rootOf is the span at the top of those that the collector has above s, or s.
func (c *collector) rootOf(s *exportedSpan) *exportedSpan {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		above := c.spans[string(s.ParentSpanId)]
		if above == nil {
			return s
		}
		s = above
	}
}

// line says of a span what is not usual: usual are the attributes that each span of its kind should have, * of any text.
func (c *collector) line(s *exportedSpan, usual map[string]string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	kind := strings.ToLower(strings.TrimPrefix(s.Kind.String(), "SPAN_KIND_"))
	said := []string{kind, s.Name}
	for _, k := range slices.Sorted(maps.Keys(s.attrs)) {
		v := s.attrs[k]
		if v == "" || usual[k] != v && usual[k] != "*" {
			if strings.HasPrefix(v, "#") { // the hash of an id
				v = "#"
			}
			said = append(said, k+"="+v)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(usual)) {
		if s.attrs[k] == "" {
			said = append(said, "no "+k)
		}
	}
	if s.Status.GetCode() == trace.Status_STATUS_CODE_ERROR {
		said = append(said, fmt.Sprintf("ERROR %q", s.Status.Message))
	}
	if above := c.spans[string(s.ParentSpanId)]; above != nil {
		said = append(said, "below "+above.Name)
	} else if len(s.ParentSpanId) > 0 {
		said = append(said, fmt.Sprintf("below %x", s.ParentSpanId))
	}
	for _, l := range s.Links {
		link := "link " + values(l.Attributes)["troupe.link"]
		if link != "link earlier run" { // which was never exported
			link += fmt.Sprintf(" %x", l.SpanId)
		}
		said = append(said, link)
	}
	for _, e := range s.Events {
		if e.Name != "troupe.stream" { // which comes where a busy machine takes long
			said = append(said, "event "+e.Name)
		}
	}
	return strings.Join(said, " ")
}
