package main

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-run/troupe/test/kit/when"
)

// variables are those that make a process export all to an address, often.
func variables(endpoint string) []string {
	return []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + endpoint, "OTEL_BSP_SCHEDULE_DELAY=50", "OTEL_BLRP_SCHEDULE_DELAY=50", "OTEL_METRIC_EXPORT_INTERVAL=200", "OTEL_RESOURCE_ATTRIBUTES=deployment.environment.name=test"}
}

// TestExportToNobodyProcess: a collector that is away, or takes what it is sent and never answers, holds no call and no end up. What
// is dropped is counted.
func TestExportToNobodyProcess(t *testing.T) {
	when.Long(t, "processes")
	t.Parallel()
	binary(t)
	done := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-done }))
	t.Cleanup(func() { close(done); silent.Close() })
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
