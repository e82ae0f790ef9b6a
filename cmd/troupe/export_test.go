package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/troupe-run/troupe"
)

// TestExportOfMetricsAtTheEnd: the process ends while metrics are on their way. They are sent once more, and nobody is told that some were lost.
func TestExportOfMetricsAtTheEnd(t *testing.T) {
	var exports atomic.Int32
	first := make(chan struct{})
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if exports.Add(1) == 1 {
			close(first)
			<-r.Context().Done()
		}
	}))
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", collector.URL)
	t.Setenv("OTEL_METRIC_EXPORT_INTERVAL", "1") // in milliseconds
	s := settings{logLevel: "info", logFormat: "text"}
	var log bytes.Buffer
	sent, meters, err := s.observe(t.Context(), &troupe.Options{}, &log, false)
	if err != nil {
		t.Fatal(err)
	}
	<-first
	before := sent.failed.Load() // so soon after the start the reader may have had no meters
	sent.close(meters)
	if n := sent.failed.Load() - before; n != 0 || strings.Contains(log.String(), "of the last moments") {
		t.Errorf("%d exports have failed: %s", n, &log)
	}
	if n := exports.Load(); n < 2 {
		t.Errorf("there were %d exports", n)
	}
}
