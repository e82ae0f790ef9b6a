package cluster

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/test/kit"
)

// perOp runs the loop and reports the processor time of each round, including the
// server's, which is in this process. It returns it, too, in microseconds.
func perOp(b *testing.B, loop func()) float64 {
	b.ReportAllocs()
	start := kit.CPU()
	loop()
	each := float64((kit.CPU() - start).Microseconds()) / float64(b.N)
	b.ReportMetric(each, "cpu-µs/op")
	return each
}

func benchStores(b *testing.B, f func(b *testing.B, n *Node)) {
	b.Run("store=file", func(b *testing.B) { f(b, open(b, Options{Dir: b.TempDir()})) })
	b.Run("store=memory", func(b *testing.B) { f(b, open(b, Options{})) })
}

// BenchmarkAppendSync measures what Sync costs: one append after the other on each
// stream, with the disk flushed for all waiting appends at once, every second, or every
// 2 minutes.
func BenchmarkAppendSync(b *testing.B) {
	for _, streams := range []int{1, 100} {
		for _, sync := range []struct {
			name string
			time time.Duration
		}{{"group", -1}, {"1s", time.Second}, {"2m", 2 * time.Minute}} {
			b.Run(fmt.Sprintf("streams=%d/sync=%s", streams, sync.name), func(b *testing.B) {
				n := open(b, Options{Dir: b.TempDir(), Sync: sync.time})
				var flushes atomic.Int64
				if n.flusher != nil {
					n.flusher.sync = func(f *os.File) error { flushes.Add(1); return f.Sync() }
				}
				appendAll(b, n, streams, 300)
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "appends/s")
				if n.flusher != nil {
					b.ReportMetric(float64(b.N)/float64(max(flushes.Load(), 1)), "appends/flush")
				}
			})
		}
	}
}

// BenchmarkStoredEvent measures what a stored event takes of the store's budget and of
// the heap.
func BenchmarkStoredEvent(b *testing.B) {
	for _, size := range []int{150, 1000} {
		b.Run(fmt.Sprintf("bytes=%d", size), func(b *testing.B) {
			n := open(b, Options{Dir: b.TempDir()})
			heap := func() uint64 {
				runtime.GC()
				runtime.GC()
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				return m.HeapAlloc
			}
			before := heap()
			var wg sync.WaitGroup
			for i := range (b.N + RingSize - 1) / RingSize {
				stream := fmt.Sprintf("abcdefghijklmnopqrstuvwxyz.demo.abcdefghijklmnopqrstuvwxyz.%026d", i)
				rev := must[uint64](b)(n.OpenStream(b.Context(), stream, []byte("w"), nil, time.Hour))
				wg.Go(func() {
					for num := uint64(1); num <= RingSize; num++ {
						if err := appendWait(n, stream, rev, num, make([]byte, size)); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			if b.N > RingSize {
				<-time.After(25 * time.Second) // until the server has dropped its caches
			}
			s, err := n.fillOfKind(b.Context(), events)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(s.Bytes)/float64(s.Messages), "store-B/event")
			b.ReportMetric((float64(heap())-float64(before))/float64(s.Messages), "heap-B/event")
		})
	}
}

// BenchmarkAppend makes one append after the other on each stream: the price of a
// durable event of 256 bytes that has an append of its own, and of events that share one.
func BenchmarkAppend(b *testing.B) {
	for _, streams := range []int{1, 100} {
		for _, events := range []int{1, 4, 16} {
			b.Run(fmt.Sprintf("streams=%d/events=%d", streams, events), func(b *testing.B) {
				benchStores(b, func(b *testing.B, n *Node) {
					each := appendAll(b, n, streams, events*256)
					b.ReportMetric(each/float64(events), "cpu-µs/event")
					b.ReportMetric(float64(events*b.N)/b.Elapsed().Seconds(), "events/s")
				})
			})
		}
	}
}

// appendAll makes b.N appends of size bytes on that many streams. Each stream has one
// append in flight, and sends the next one after the acknowledgement. It returns the
// processor time of an append in microseconds.
func appendAll(b *testing.B, n *Node, streams, size int) float64 {
	data := make([]byte, size)
	names, revs := make([]string, streams), make([]uint64, streams)
	for i := range names {
		names[i] = fmt.Sprintf("anon.demo.abcdefghijklmnopqrstuvwxyz.stream%020d", i)
		revs[i] = must[uint64](b)(n.OpenStream(b.Context(), names[i], []byte("w"), nil, time.Hour))
	}
	b.ResetTimer()
	return perOp(b, func() {
		if streams == 1 {
			done := make(chan error, 1)
			num := uint64(0)
			for b.Loop() {
				num++
				n.Append(names[0], revs[0], num, data, func(err error) { done <- err })
				if err := <-done; err != nil {
					b.Fatal(err)
				}
			}
			return
		}
		var left atomic.Int64
		left.Store(int64(b.N))
		var wg sync.WaitGroup
		for i := range names {
			wg.Go(func() {
				done := make(chan error, 1)
				for num := uint64(1); left.Add(-1) >= 0; num++ {
					n.Append(names[i], revs[i], num, data, func(err error) { done <- err })
					if err := <-done; err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
	})
}

// BenchmarkRead measures a resume of 200 events while the log also holds 100 other
// streams.
func BenchmarkRead(b *testing.B) {
	benchStores(b, func(b *testing.B, n *Node) {
		data := make([]byte, 256)
		for i := range 100 {
			stream := "anon.demo.s.st" + strconv.Itoa(i)
			rev := must[uint64](b)(n.OpenStream(b.Context(), stream, []byte("w"), nil, time.Hour))
			for num := uint64(1); num <= 200; num++ {
				if err := appendWait(n, stream, rev, num, data); err != nil {
					b.Fatal(err)
				}
			}
		}
		b.ResetTimer()
		perOp(b, func() {
			for b.Loop() {
				if got, err := readEvents(b.Context(), n, "anon.demo.s.st50", 1, 200); err != nil || len(got) != 200 {
					b.Fatal(len(got), err)
				}
			}
		})
	})
}

func BenchmarkTail(b *testing.B) {
	benchStores(b, func(b *testing.B, n *Node) {
		rev := must[uint64](b)(n.OpenStream(b.Context(), testStream, []byte("w"), nil, time.Hour))
		for num := uint64(1); num <= 200; num++ {
			if err := appendWait(n, testStream, rev, num, make([]byte, 256)); err != nil {
				b.Fatal(err)
			}
		}
		perOp(b, func() {
			for b.Loop() {
				if got, err := n.Tail(b.Context(), testStream, 190); err != nil || got != 200 {
					b.Fatal(got, err)
				}
			}
		})
	})
}

func BenchmarkGet(b *testing.B) {
	benchStores(b, func(b *testing.B, n *Node) {
		must[uint64](b)(n.Create(b.Context(), testKey, make([]byte, 300), time.Hour))
		perOp(b, func() {
			for b.Loop() {
				if _, _, err := n.Get(b.Context(), testKey); err != nil {
					b.Fatal(err)
				}
			}
		})
	})
}

func BenchmarkCreate(b *testing.B) {
	benchStores(b, func(b *testing.B, n *Node) {
		data := make([]byte, 300)
		i := 0
		perOp(b, func() {
			for b.Loop() {
				i++
				if _, err := n.Create(b.Context(), "session.anon.demo.s"+strconv.Itoa(i), data, time.Hour); err != nil {
					b.Fatal(err)
				}
			}
		})
	})
}

func BenchmarkSeal(b *testing.B) {
	n := open(b, Options{})
	plain := make([]byte, 300)
	perOp(b, func() {
		for b.Loop() {
			sealed, err := n.Keys().Seal(plain, nil)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := n.Keys().Open(sealed, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkOpen measures a start on an empty directory, until the node could serve.
func BenchmarkOpen(b *testing.B) {
	perOp(b, func() {
		for b.Loop() {
			n := must[*Node](b)(Open(b.Context(), Options{Dir: b.TempDir()}))
			b.StopTimer()
			if err := n.Close(b.Context()); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
	})
}

// BenchmarkAsk measures a question to another node and its reply, through a NATS server over TCP: one after the other, and many at once.
func BenchmarkAsk(b *testing.B) {
	for _, size := range []int{100, 64 << 10} {
		for _, askers := range []int{1, 64} {
			b.Run(fmt.Sprintf("bytes=%d/askers=%d", size, askers), func(b *testing.B) {
				c := kit.StartNATS(b, 1, nil)
				from, to := remote(b, c, "from"), remote(b, c, "to")
				to.Mail().Listen(func(l *store.Letter) { l.Reply(l.Data) }, func(store.Address) {})
				peer, data := store.Address{Node: "to", Boot: to.Boot()}, make([]byte, size)
				perOp(b, func() {
					var all sync.WaitGroup
					var left atomic.Int64
					left.Store(int64(b.N))
					for range askers {
						all.Go(func() {
							for left.Add(-1) >= 0 {
								if _, err := from.Mail().Ask(b.Context(), peer, "bench", data); err != nil {
									b.Error(err)
									return
								}
							}
						})
					}
					all.Wait()
				})
			})
		}
	}
}
