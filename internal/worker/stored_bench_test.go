package worker_test

import (
	"context"
	"encoding/json"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/troupe-run/troupe/cluster"
	"github.com/troupe-run/troupe/internal/nodestore"
	"github.com/troupe-run/troupe/internal/task"
	"github.com/troupe-run/troupe/internal/worker"
	"github.com/troupe-run/troupe/test/kit"
)

// poolOnDisk returns a pool over a store on disk, and its node. What its handlers do is in the requests: "end", "ask" or "idle".
func poolOnDisk(b *testing.B) (*worker.Pool, *cluster.Node) {
	b.Helper()
	n, err := cluster.Open(b.Context(), cluster.Options{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = n.Close(context.Background()) })
	p := worker.NewPool(worker.Config{Store: nodestore.NewTasks(n), Node: "n", Boot: "b", Running: 2000})
	b.Cleanup(func() { _ = p.Close(context.Background()) })
	p.Mount(worker.Service{ID: "demo", Known: func(string, string) bool { return true }, Safe: func(string, string) bool { return true },
		Run: func(ctx context.Context, a *worker.Attempt) worker.Result {
			switch string(a.Request.Message) {
			case `"ask"`:
				if _, err := a.Ask(ctx, questions("q")); err != nil {
					return failed(err)
				}
			case `"idle"`:
				<-ctx.Done()
			}
			return done(`{"content":[{"type":"text","text":"x"}]}`)
		}})
	return p, n
}

// storeTasks makes tasks, sixteen at a time, and returns them once they have a state.
func storeTasks(b *testing.B, p *worker.Pool, tenant, what string, n int, ttl time.Duration, state task.State) []worker.Key {
	b.Helper()
	keys, next := make([]worker.Key, n), make(chan int)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for i := range next {
				s, err := p.Create(b.Context(), worker.NewTask{Tenant: tenant, Server: "demo", Revision: "2026-07-28", Method: "tools/call", Name: "x", TTL: ttl,
					Request: worker.Request{Message: json.RawMessage(what)}})
				if err == nil {
					err = p.Follow(b.Context(), s.Key, func(s worker.Snapshot) bool { return s.Record.State != state })
				}
				if err != nil {
					b.Error(err)
				}
				keys[i] = s.Key
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
	return keys
}

// heap is what is on the heap after a collection.
func heap() float64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc + m.StackInuse)
}

// reportTimes reports the median and the 99th percentile of what f takes.
func reportTimes(b *testing.B, what string, n int, f func(i int)) {
	b.Helper()
	all := make([]time.Duration, n)
	for i := range all {
		began := time.Now()
		f(i)
		all[i] = time.Since(began)
	}
	slices.Sort(all)
	b.ReportMetric(float64(all[n/2].Microseconds()), what+"-p50-µs")
	b.ReportMetric(float64(all[n*99/100].Microseconds()), what+"-p99-µs")
}

// BenchmarkStoredTasks stores as many tasks as there are iterations (-benchtime 100000x), which have ended or wait for their clients: what
// each holds of the memory, and how long it takes to read one and to list a page of a hundred, of their tenant and of one with a single task.
func BenchmarkStoredTasks(b *testing.B) {
	for what, state := range map[string]task.State{"end": task.Ended, "ask": task.Waiting} {
		b.Run(what, func(b *testing.B) {
			p, _ := poolOnDisk(b)
			storeTasks(b, p, "other", `"end"`, 1, time.Hour, task.Ended) // the queue is there
			before, began := heap(), time.Now()
			keys := storeTasks(b, p, "anon", `"`+what+`"`, b.N, time.Hour, state)
			b.ReportMetric(float64(b.N)/time.Since(began).Seconds(), "made/s")
			b.ReportMetric((heap()-before)/float64(b.N), "B/task")
			storeTasks(b, p, "single", `"end"`, 1, time.Hour, task.Ended)
			get := func(i int) {
				if _, err := p.Get(b.Context(), keys[i*7919%len(keys)]); err != nil {
					b.Error(err)
				}
			}
			list := func(tenant string) func(int) {
				return func(int) {
					if all, _, err := p.List(b.Context(), tenant, "demo", 0, 100); err != nil || len(all) == 0 {
						b.Errorf("%d are listed: %v", len(all), err)
					}
				}
			}
			reportTimes(b, "get", 1000, get)
			reportTimes(b, "page", 20, list("anon"))
			reportTimes(b, "single", 20, list("single"))
		})
	}
}

// BenchmarkExpiringTasks stores as many tasks, which all end their time within a while: how late the last one is gone, and how long a
// read takes meanwhile.
func BenchmarkExpiringTasks(b *testing.B) {
	p, n := poolOnDisk(b)
	ttl := 10*time.Second + time.Duration(b.N)*5*time.Millisecond // none is over before the last is made
	kept := storeTasks(b, p, "single", `"end"`, 1, time.Hour, task.Ended)
	left := func() uint64 { return n.Stats().Streams["tasks"].Messages }
	own := left()
	storeTasks(b, p, "anon", `"end"`, b.N, ttl, task.Ended)
	last, slowest := time.Now(), time.Duration(0)
	for tick := time.NewTicker(20 * time.Millisecond); left() > own && time.Since(last) < 2*ttl; <-tick.C {
		began := time.Now()
		if _, err := p.Get(b.Context(), kept[0]); err != nil {
			b.Error(err)
		}
		slowest = max(slowest, time.Since(began))
	}
	if left() > own {
		b.Errorf("%d messages are left", left()-own)
	}
	b.ReportMetric((time.Since(last) - ttl).Seconds(), "gone-after-s")
	b.ReportMetric(float64(slowest.Milliseconds()), "slowest-read-meanwhile-ms")
}

// BenchmarkIdleTasks has a thousand tasks run that do nothing, for as many seconds as there are iterations (-benchtime 30x).
func BenchmarkIdleTasks(b *testing.B) {
	p, _ := poolOnDisk(b)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for _, n := range []int{0, 1000} {
		storeTasks(b, p, "anon", `"idle"`, n, time.Hour, task.Running)
		<-tick.C
		began, cpu := time.Now(), kit.CPU()
		for range b.N {
			<-tick.C
		}
		b.ReportMetric(100*float64(kit.CPU()-cpu)/float64(time.Since(began)), map[int]string{0: "%-of-a-core-without", 1000: "%-of-a-core"}[n])
	}
}
