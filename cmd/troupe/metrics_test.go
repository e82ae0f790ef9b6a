package main

import (
	"context"
	"fmt"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/internal/telemetry"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit/when"
)

// scraped is what /metrics says.
func scraped(t *testing.T, record func(*telemetry.Instruments), detail telemetry.Detail) string {
	t.Helper()
	meters, handler, err := newMetrics()
	if err != nil {
		t.Fatal(err)
	}
	in, err := telemetry.New(telemetry.Config{MeterProvider: meters, Detail: detail})
	if err != nil {
		t.Fatal(err)
	}
	record(in)
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	return w.Body.String()
}

// bothEras calls five tools of each of 1,000 servers once in a session, with its handshake, and once without.
func bothEras(in *telemetry.Instruments) { bothErasOf(1000, in) }

func bothErasOf(servers int, in *telemetry.Instruments) {
	ctx := context.Background()
	legacy, modern := telemetry.Via{Revision: mcp.LatestLegacy, HTTP: 1}, telemetry.Via{Revision: mcp.Latest, HTTP: 1}
	for i := range servers {
		ops := in.NewOperations(fmt.Sprintf("server-%04d", i))
		for _, method := range []string{mcp.MethodInitialize, mcp.NotifyInitialized} {
			ops.Operation(method, "").RecordRun(ctx, legacy, time.Millisecond, 0)
		}
		for n := range 5 {
			tool := ops.Operation(mcp.MethodToolsCall, fmt.Sprintf("tool-%d", n))
			tool.RecordRun(ctx, legacy, time.Millisecond, 0)
			tool.RecordRun(ctx, modern, time.Millisecond, 0)
		}
	}
}

// counts sums the calls of tools/call at /metrics that a label matches.
func counts(body, label string) (n int) {
	labelled := regexp.MustCompile(label)
	for _, line := range regexp.MustCompile(`(?m)^mcp_server_operation_duration_seconds_count\{(.*)\} (\d+)$`).FindAllStringSubmatch(body, -1) {
		if strings.Contains(line[1], `mcp_method_name="tools/call"`) && labelled.MatchString(line[1]) {
			var calls int
			_, _ = fmt.Sscan(line[2], &calls)
			n += calls
		}
	}
	return n
}

// TestMetricsOfAThousandServers: at the default nothing is counted without the name of its server, what is counted without the name
// of its tool is counted, and the page stays below 20 MB.
func TestMetricsOfAThousandServers(t *testing.T) {
	when.Unraced(t, "tens of thousands of series, on one goroutine")
	t.Parallel()
	body := scraped(t, bothEras, telemetry.DetailAuto)
	if strings.Contains(body, "otel_metric_overflow") {
		t.Error("something is counted under no name")
	}
	if n := counts(body, `troupe_server="server-\d+"`); n != 10_000 {
		t.Errorf("%d of 10,000 calls are counted by their servers", n)
	}
	named := counts(body, `gen_ai_tool_name="tool-\d"`)
	if coarse := fmt.Sprintf(`troupe_metrics_coarse_total{detail="server"} %d`, 10_000-named); named == 0 || !strings.Contains(body, coarse+"\n") {
		t.Errorf("%d calls are counted by their tools, and /metrics has no %s", named, coarse)
	}
	if len(body) > 20e6 {
		t.Errorf("/metrics has %d bytes, want 20 MB at most", len(body))
	}
}

// TestMetricsDetail: each level names what it says.
func TestMetricsDetail(t *testing.T) {
	when.Unraced(t, "tens of thousands of series, on one goroutine")
	t.Parallel()
	for detail, want := range map[telemetry.Detail][2]int{telemetry.DetailTool: {10_000, 10_000}, telemetry.DetailServer: {0, 10_000}, telemetry.DetailMethod: {0, 0}} {
		body := scraped(t, bothEras, detail)
		if tools, servers, all := counts(body, `gen_ai_tool_name`), counts(body, `troupe_server`), counts(body, ``); tools != want[0] || servers != want[1] || all != 10_000 {
			t.Errorf("%s: %d calls are counted by tool, %d by server and %d in all, want %d, %d and 10,000", detail, tools, servers, all, want[0], want[1])
		}
		if strings.Contains(body, "troupe_metrics_coarse_total{") {
			t.Errorf("%s: something is counted more coarsely than was asked for", detail)
		}
	}
}

// TestMetricsOfManyTools: with 30,000 tools the series stay bounded, also where the operator wants tools told apart, and so do the codes
// that handlers make up.
func TestMetricsOfManyTools(t *testing.T) {
	when.Unraced(t, "tens of thousands of series, on one goroutine")
	t.Parallel()
	record := func(in *telemetry.Instruments) {
		ops, via := in.NewOperations("main"), telemetry.Via{Revision: mcp.Latest, HTTP: 1}
		for i := range 30_000 {
			ops.Operation(mcp.MethodToolsCall, fmt.Sprint("tool-", i)).RecordRun(context.Background(), via, time.Millisecond, i%7*-1000)
		}
		for i := range 1000 {
			ops.Operation(mcp.MethodToolsCall, "tool-1").RecordRun(context.Background(), via, time.Millisecond, 200_000+i)
		}
	}
	for detail, most := range map[telemetry.Detail]int{telemetry.DetailAuto: 1100, telemetry.DetailTool: 20_200} {
		body := scraped(t, record, detail)
		if n := strings.Count(body, "mcp_server_operation_duration_seconds_count{"); n > most {
			t.Errorf("%s: %d series, want %d at most", detail, n, most)
		}
		if n := counts(body, ""); n != 31_000 {
			t.Errorf("%s: %d of 31,000 calls are counted", detail, n)
		}
		if !strings.Contains(body, `error_type="_OTHER"`) || !strings.Contains(body, `troupe_metrics_coarse_total{detail="server"}`) {
			t.Errorf("%s: neither codes beyond those that are told apart nor tools are counted as such", detail)
		}
	}
}

// BenchmarkScrape measures /metrics, with the series of one server and of 1,000 that have five tools each.
func BenchmarkScrape(b *testing.B) {
	for _, servers := range []int{1, 1000} {
		b.Run(fmt.Sprint("servers=", servers), func(b *testing.B) {
			meters, handler, err := newMetrics()
			if err != nil {
				b.Fatal(err)
			}
			rt, err := troupe.New(troupe.Options{Telemetry: troupe.Telemetry{MeterProvider: meters}}) // which has the gauges of a process
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = rt.Close(context.Background()) }()
			in, err := telemetry.New(telemetry.Config{MeterProvider: meters})
			if err != nil {
				b.Fatal(err)
			}
			bothErasOf(servers, in)
			size := 0
			for b.Loop() {
				w := httptest.NewRecorder()
				handler.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
				size = w.Body.Len()
			}
			b.ReportMetric(float64(size), "bytes")
		})
	}
}
