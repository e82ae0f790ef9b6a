package worker_test

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/troupe-run/troupe/cluster"
	"github.com/troupe-run/troupe/internal/nodestore"
	"github.com/troupe-run/troupe/internal/task"
	"github.com/troupe-run/troupe/internal/worker"
)

// BenchmarkTask measures tasks over a store on disk: one after the other, the time from the creation to the start of the
// handler and to the end that its client sees; and sixteen at a time, how many end in a second.
func BenchmarkTask(b *testing.B) {
	n, err := cluster.Open(b.Context(), cluster.Options{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = n.Close(context.Background()) })
	p := worker.NewPool(worker.Config{Store: nodestore.NewTasks(n), Node: "n", Boot: "b", Running: 1000})
	b.Cleanup(func() { _ = p.Close(context.Background()) })
	started := make(chan time.Time, 1)
	p.Mount(worker.Service{ID: "demo", Known: func(string, string) bool { return true }, Safe: func(string, string) bool { return true },
		Run: func(context.Context, *worker.Attempt) worker.Result {
			select {
			case started <- time.Now():
			default:
			}
			return worker.Result{Value: []byte(`{"content":[]}`)}
		}})
	run := func(b *testing.B) {
		s, err := p.Create(b.Context(), worker.NewTask{Tenant: "anon", Server: "demo", Revision: "2026-07-28", Method: "tools/call", Name: "x", TTL: time.Minute,
			Request: worker.Request{Message: json.RawMessage(`{"jsonrpc":"2.0","id":0,"method":"tools/call","params":{"name":"x"}}`)}})
		if err == nil {
			err = p.Follow(b.Context(), s.Key, func(s worker.Snapshot) bool { return s.Record.State != task.Ended })
		}
		if err != nil {
			b.Error(err)
		}
	}
	b.Run("one", func(b *testing.B) {
		var starts, ends []time.Duration
		for b.Loop() {
			began := time.Now()
			run(b)
			ends = append(ends, time.Since(began))
			starts = append(starts, (<-started).Sub(began))
		}
		for unit, all := range map[string][]time.Duration{"start": starts, "end": ends} {
			slices.Sort(all)
			b.ReportMetric(float64(all[len(all)/2].Microseconds()), unit+"-p50-µs")
			b.ReportMetric(float64(all[len(all)*99/100].Microseconds()), unit+"-p99-µs")
		}
	})
	b.Run("sixteen", func(b *testing.B) {
		b.SetParallelism(8)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				run(b)
			}
		})
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
	})
}
