package main

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/bench/loadgen"
	"github.com/troupe-run/troupe/test/kit/when"
)

// BenchmarkTelemetry measures what a call costs a server that reports nothing, and one that reports: metrics; these and spans of one call
// in a hundred, to a collector in the same process; spans of all calls, to a collector that takes nothing; and a line for each request.
// Clients are another process.
func BenchmarkTelemetry(b *testing.B) {
	when.Full(b, "seconds of load for each")
	program := binary(b)
	reads := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	defer reads.Close()
	done := make(chan struct{})
	stands := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-done }))
	defer stands.Close()
	defer close(done)
	for _, row := range []struct{ name, collector, sampled, log string }{
		{name: "nothing"}, {name: "metrics"}, {name: "spans", collector: reads.URL, sampled: "0.01"}, {name: "standing", collector: stands.URL, sampled: "1"}, {name: "log", log: "all"},
	} {
		b.Run("reports="+row.name, func(b *testing.B) {
			s := settings{logLevel: "info", logFormat: "json", logRequests: row.log}
			o := troupe.Options{Listen: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler), DrainDelay: -1}
			o.Limits.CallRate, o.Shared.PrincipalRate = -1, -1
			if row.collector != "" {
				b.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", row.collector)
				b.Setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
				b.Setenv("OTEL_TRACES_SAMPLER_ARG", row.sampled)
			}
			if row.name != "nothing" {
				log, err := os.Create(filepath.Join(b.TempDir(), "log"))
				if err != nil {
					b.Fatal(err)
				}
				defer log.Close()
				sent, meters, err := s.observe(b.Context(), &o, log, false)
				if err != nil {
					b.Fatal(err)
				}
				defer sent.close(meters)
			}
			rt, err := troupe.New(o)
			if err != nil {
				b.Fatal(err)
			}
			rt.Mount("/mcp", s.demo())
			ln, err := rt.Listen()
			if err != nil {
				b.Fatal(err)
			}
			ctx, stop := context.WithCancel(b.Context())
			ended := make(chan error, 1)
			go func() { ended <- rt.ServeOn(ctx, ln) }()
			file := filepath.Join(b.TempDir(), "report.json")
			for b.Loop() {
				load := exec.Command(program, "bench", "http://"+ln.Addr().String()+"/mcp", "--json", file, "--pid", strconv.Itoa(os.Getpid()), "--duration", "3s")
				if out, err := load.CombinedOutput(); err != nil {
					b.Fatalf("%v: %s", err, out)
				}
			}
			stop()
			if err := <-ended; err != nil {
				b.Error(err)
			}
			r, err := loadgen.Read(file)
			if err != nil || r.Failed() > 0 {
				b.Fatalf("%+v, %v", r, err)
			}
			b.ReportMetric(r.CPU, "cpu-µs/call")
			b.ReportMetric(r.Latency.P99, "p99-ms")
		})
	}
}
