package limits_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/when"
	"github.com/troupe-run/troupe/test/spec/host"
)

// TestFullStoreRefusesNewWorkAndLetsOldEnd fills the store: running calls end well, new
// ones are refused, and new ones are accepted again when events have expired.
func TestFullStoreRefusesNewWorkAndLetsOldEnd(t *testing.T) {
	when.Unraced(t, "virtual time that is long under the race detector")
	when.Long(t, "it fills a store")
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{Store: troupe.StoreOptions{MaxStore: host.Sized[int64](16<<20, 6<<20), Lease: 5 * time.Second}, Limits: troupe.Limits{LogRate: -1}}, nil)
		c := h.Session()
		early := c.Post(host.Call("1", "sleep", `{"ms":600000}`))
		early.Next()
		// The server cuts a client that does not read.
		answer := make(chan []kit.Event, 1)
		go func() { answer <- early.All() }()
		refused := false
		// Each call writes much less than the tenth that is kept for running calls.
		for i := 2; i < 500 && !refused; i++ {
			a := c.Post(host.Call(fmt.Sprint(i), "chatter", `{"to":1500}`))
			if a.Stream() {
				if n := len(a.All()); n != 1502 {
					t.Fatalf("call %d: %d events", i, n)
				}
			} else {
				refused = true
				if !host.TurnedAway(a) {
					t.Errorf("a new stream in a full store: %s %s", a.Status, a.Body)
				}
			}
			time.Sleep(time.Second) // the node looks at the store's use once a second
		}
		if !refused {
			t.Fatal("the store never filled")
		}
		if a := h.Client().Post(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`); a.StatusCode != 200 {
			t.Errorf("a new session, whose part of the store has room: %s", a.Status)
		}
		host.Equal(t, "a plain call", c.Post(host.Call("600", "echo", `{"text":"x"}`)).Body, host.TextResult("600", "x"))
		if got := host.Payloads(<-answer); len(got) != 1 || got[0] != host.TextResult("1", "slept") {
			t.Errorf("a call from before: %v", got)
		}
		time.Sleep(14 * time.Minute)
		if a := c.Post(host.Call("601", "chatter", `{"to":1}`)); !a.Stream() || len(a.All()) != 3 {
			t.Errorf("after the events have expired: %s %s", a.Status, a.Body)
		}
	})
}
