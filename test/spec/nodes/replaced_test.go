package nodes_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/when"
	"github.com/troupe-run/troupe/test/spec/host"
)

// TestLeaderThatWasReplaced cuts a NATS server off together with a node, as where a rack loses its uplink. It led all streams, and goes on to answer reads from what
// it has for up to 20 s, while the others go on without it. Clients whose balancer sends them to that node are never told that what the others have begun is not
// there: a session, a stream, a task.
func TestLeaderThatWasReplaced(t *testing.T) {
	when.Full(t, "three servers hold elections")
	servers := kit.StartCabledNATS(t)
	urls := strings.Split(servers.URL(), ",")
	start := func(name string, at int) *host.Host {
		h := host.New(t, troupe.Options{Store: troupe.StoreOptions{Node: name, NATS: troupe.NATSOptions{URL: urls[at]}}}, nil)
		troupe.AddTool(h.Server, troupe.Tool{Name: "job", Task: troupe.TaskOptional, Rerun: troupe.Safe}, func(ctx context.Context, _ *troupe.Call, _ struct{}) (string, error) {
			return "done", host.Sleep(ctx, 1000)
		})
		return h
	}
	a, b := start("cut-off", 0), start("others", 1)
	for _, stream := range []string{"troupe_sessions", "troupe_events-0", "troupe_events-1", "troupe_events-2", "troupe_events-3", "troupe_tasks"} {
		servers.Lead(t, 0, stream)
	}
	others := b.Unchecked().Initialize(`{}`)
	others.Post(host.Call("1", "echo", `{"text":"x"}`))
	known := a.Moved(others)
	known.Post(host.Call("1", "echo", `{"text":"x"}`)) // the node has the session in its memory

	servers.Cut(0)
	cut, asked := time.Now(), 0
	check := func(what string, r *kit.Answer) {
		asked++
		defer r.Close()
		if r.Stream() || r.StatusCode == 202 || r.StatusCode == 503 || r.StatusCode == 200 && strings.Contains(r.Body, "retryAfterMs") {
			return
		}
		t.Errorf("%.1f s after the cut, %s: %s %s", time.Since(cut).Seconds(), what, r.Status, r.Body)
	}
	// Where the node cannot tell, a request takes five seconds.
	for time.Since(cut) < 25*time.Second || asked < 12 && time.Since(cut) < 10*time.Minute {
		<-time.After(100 * time.Millisecond)
		begun, err := b.Unchecked().Try("POST", host.InitializeRequest)
		if err != nil || begun.StatusCode != 200 {
			continue // the others elect
		}
		client := *a.Unchecked()
		client.Session = begun.Header.Get("Mcp-Session-Id")
		check("a notification of a session that the others have begun", client.Post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`))
		check("a call of it", client.Post(host.Call("1", "echo", `{"text":"x"}`)))
		if call, err := others.Try("POST", host.CallWith("7", "count", `{"to":3,"delay_ms":100}`, `"p"`)); err == nil && call.Stream() {
			if e, ok := call.Next(); ok {
				check("a resume of a stream that the others have begun", known.Get(e.ID))
			}
			call.Close()
		}
		if made, err := others.Try("POST", `{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"job","arguments":{},"task":{}}}`); err == nil {
			if _, id, ok := strings.Cut(made.Body, `"taskId":"`); ok {
				check("tasks/get of a task that the others have made", known.Post(`{"jsonrpc":"2.0","id":9,"method":"tasks/get","params":{"taskId":"`+id[:26]+`"}}`))
			}
		}
	}
	servers.Heal()
	for end := time.Now().Add(time.Minute); known.Post(host.Call("1", "echo", `{"text":"x"}`)).StatusCode != 200; <-time.After(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the node that was cut off does not serve again")
		}
	}
	if asked < 12 {
		t.Errorf("only %d requests were made", asked)
	}
}
