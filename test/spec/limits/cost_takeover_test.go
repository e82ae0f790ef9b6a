package limits_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

// BenchmarkTakeover measures the resume of a call whose process was lost, from the request
// until its end, -32010: of calls with few events, and of calls that had filled the log.
// Each event has an append of its own.
func BenchmarkTakeover(b *testing.B) {
	const streams = 16
	for _, events := range []int{10, 900} {
		b.Run(fmt.Sprintf("appends=%d", events), func(b *testing.B) {
			dir := b.TempDir()
			serve := func(dir string) *kit.Client {
				rt, err := troupe.New(troupe.Options{Dir: dir, Limits: troupe.Limits{LogRate: -1}, Store: troupe.StoreOptions{NoSocket: true}}) // its directory is copied
				if err != nil {
					b.Fatal(err)
				}
				srv := troupe.NewServer(mcp.Implementation{Name: "bench", Version: "1"}, nil)
				troupe.AddTool(srv, troupe.Tool{Name: "tell"}, func(ctx context.Context, call *troupe.Call, in host.CountIn) (string, error) {
					for i := range in.To {
						_ = call.Log(ctx, mcp.LevelInfo, "", i)
						_ = host.Sleep(ctx, 1) // so that each event has an append of its own
					}
					<-ctx.Done()
					return "", ctx.Err()
				})
				rt.Mount("/mcp", srv)
				hs := httptest.NewServer(rt)
				b.Cleanup(func() {
					hs.CloseClientConnections()
					hs.Close()
					ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
					defer cancel()
					_ = rt.Close(ctx)
				})
				return &kit.Client{T: b, HTTP: hs.Client(), URL: hs.URL + "/mcp"}
			}
			c := serve(dir).Initialize(`{}`)
			ids := make([]string, streams)
			var wg sync.WaitGroup
			for i := range ids {
				wg.Go(func() {
					a := c.Post(host.Call(fmt.Sprint(i), "tell", fmt.Sprintf(`{"to":%d}`, events)))
					for range events + 1 {
						e, _ := a.Next()
						ids[i] = e.ID
					}
				})
			}
			wg.Wait()
			var took []time.Duration
			for n := 0; b.Loop(); n++ {
				if n%streams == 0 {
					b.StopTimer()
					crashed := filepath.Join(b.TempDir(), "d")
					if err := os.CopyFS(crashed, os.DirFS(dir)); err != nil {
						b.Fatal(err)
					}
					session := c.Session
					c = serve(crashed)
					c.Session = session
					b.StartTimer()
				}
				begin := time.Now()
				if rest := host.Payloads(c.Get(ids[n%streams]).All()); len(rest) != 1 || !strings.Contains(rest[0], "-32010") {
					b.Fatalf("resumed: %q", rest)
				}
				took = append(took, time.Since(begin))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
		})
	}
}
