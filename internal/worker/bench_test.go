package worker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/troupe-run/troupe/cluster"
	"github.com/troupe-run/troupe/internal/nodestore"
	"github.com/troupe-run/troupe/internal/task"
	"github.com/troupe-run/troupe/internal/worker"
	"github.com/troupe-run/troupe/test/kit"
)

// BenchmarkTask measures tasks over a store on disk, and in memory: one after the other, the time from the creation to the
// start of the handler and to the end that its client sees; the same for calls that become tasks while their handlers run, to when the task is
// stored; and sixteen at a time, how many end in a second.
func BenchmarkTask(b *testing.B) {
	b.Run("store=file", func(b *testing.B) { benchmarkTask(b, cluster.Options{Dir: b.TempDir()}) })
	b.Run("store=memory", func(b *testing.B) { benchmarkTask(b, cluster.Options{}) })
}

// BenchmarkTaskFlushed is BenchmarkTask where each write is on the disk before it counts.
func BenchmarkTaskFlushed(b *testing.B) {
	benchmarkTask(b, cluster.Options{Dir: b.TempDir(), Sync: -1})
}

// BenchmarkTaskNATS is BenchmarkTask over one NATS server and over three.
func BenchmarkTaskNATS(b *testing.B) {
	for _, servers := range []int{1, 3} {
		b.Run(fmt.Sprint(servers), func(b *testing.B) {
			benchmarkTask(b, cluster.Options{Remote: cluster.Remote{URL: kit.StartNATS(b, servers, nil).URL()}})
		})
	}
}

func benchmarkTask(b *testing.B, o cluster.Options) {
	n, err := cluster.Open(b.Context(), o)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = n.Close(context.Background()) })
	p := worker.NewPool(worker.Config{Store: nodestore.NewTasks(n), Node: "n", Boot: "b", Running: 1000, Shared: o.Remote.URL != ""})
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
	work := worker.NewTask{Tenant: "anon", Server: "demo", Revision: "2026-07-28", Method: "tools/call", Name: "x", TTL: time.Minute,
		Request: worker.Request{Message: json.RawMessage(`{"jsonrpc":"2.0","id":0,"method":"tools/call","params":{"name":"x"}}`)}}
	await := func(b *testing.B, key worker.Key, err error) {
		if err == nil {
			err = p.Follow(b.Context(), key, func(s worker.Snapshot) bool { return s.Record.State != task.Ended })
		}
		if err != nil {
			b.Error(err)
		}
	}
	run := func(b *testing.B) {
		s, err := p.Create(b.Context(), work)
		await(b, s.Key, err)
	}
	sum := func(b *testing.B, cpu time.Duration) {
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
		b.ReportMetric(float64(cpu.Microseconds())/float64(b.N), "cpu-µs/op")
	}
	quantiles := func(b *testing.B, unit string, all []time.Duration) {
		slices.Sort(all)
		b.ReportMetric(float64(all[len(all)/2].Microseconds()), unit+"-p50-µs")
		b.ReportMetric(float64(all[len(all)*99/100].Microseconds()), unit+"-p99-µs")
	}
	b.Run("at-once=1", func(b *testing.B) {
		var starts, ends []time.Duration
		cpu := kit.CPU()
		for b.Loop() {
			began := time.Now()
			run(b)
			ends = append(ends, time.Since(began))
			starts = append(starts, (<-started).Sub(began))
		}
		sum(b, kit.CPU()-cpu)
		quantiles(b, "start", starts)
		quantiles(b, "end", ends)
	})
	b.Run("adopted", func(b *testing.B) {
		var stored, ends []time.Duration
		cpu := kit.CPU()
		for b.Loop() {
			began := time.Now()
			a, s, err := p.Adopt(b.Context(), work)
			if err != nil {
				b.Fatal(err)
			}
			stored = append(stored, time.Since(began))
			a.Conclude(worker.Result{Value: []byte(`{"content":[]}`)})
			await(b, s.Key, nil)
			ends = append(ends, time.Since(began))
		}
		sum(b, kit.CPU()-cpu)
		quantiles(b, "stored", stored)
		quantiles(b, "end", ends)
	})
	b.Run("at-once=16", func(b *testing.B) {
		b.SetParallelism(8)
		cpu := kit.CPU()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				run(b)
			}
		})
		sum(b, kit.CPU()-cpu)
	})
}
