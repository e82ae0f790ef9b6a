package nodes_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

// TestTwoPrograms starts another program with the same settings on the same NATS servers: it gets no session and no task of the first, and is told what to do.
func TestTwoPrograms(t *testing.T) {
	nodes(t, 1, nil, func(t *testing.T, v *kit.VirtualNATS, all ...*host.Host) {
		var first, another atomic.Int64 // tasks that ran
		tool := troupe.Tool{Name: "job", Task: troupe.TaskOptional, Rerun: troupe.Safe}
		job := func(ran *atomic.Int64) func(context.Context, *troupe.Call, struct{}) (string, error) {
			return func(context.Context, *troupe.Call, struct{}) (string, error) { ran.Add(1); return "", nil }
		}
		troupe.AddTool(all[0].Server, tool, job(&first))
		o := host.Unhurried
		o.Store.NATS.URL = v.Line("another").URL()
		rt, err := troupe.New(o)
		if err != nil {
			t.Fatal(err)
		}
		defer rt.Close(context.Background())
		server := func(id string) *troupe.Server {
			s := troupe.NewServer(mcp.Implementation{Name: "another", Version: "1"}, &troupe.ServerOptions{ID: id})
			troupe.AddTool(s, tool, job(&another))
			return s
		}
		err = rt.TryMount("/mcp", server(""))
		for _, want := range []string{`mount /mcp`, `node a, which is there, is another program: server "main" is`, `and "another" here`, "another id"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("it is mounted, or the error lacks %q: %v", want, err)
			}
		}
		if len(rt.Mounted()) != 0 {
			t.Error("what was refused is mounted")
		}
		c := all[0].Unchecked().Initialize(`{}`)
		for range 20 {
			c.Post(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"job","arguments":{},"task":{}}}`)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if first.Load() != 20 || another.Load() != 0 {
			t.Errorf("of 20 tasks %d ran, and %d in the other program", first.Load(), another.Load())
		}
		if err := rt.TryMount("/mcp", server("search")); err != nil {
			t.Errorf("under an id of its own: %v", err)
		}
		time.Sleep(5 * time.Second)
		if err := rt.Ready(); err != nil {
			t.Errorf("then it is not ready: %v", err)
		}
	})
}
