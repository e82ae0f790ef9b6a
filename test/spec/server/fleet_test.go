package server_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

// TestTwoRuntimesOnOneServer has two runtimes hear of each other through a NATS server, and refuses a third with other settings.
func TestTwoRuntimesOnOneServer(t *testing.T) {
	kit.BubbleNATS(t, nil, func(t *testing.T, v *kit.VirtualNATS) {
		on := func(name string) troupe.Options {
			return troupe.Options{Store: troupe.StoreOptions{Node: name, NATS: troupe.NATSOptions{URL: v.Line(name).URL()}}}
		}
		a, b := host.New(t, on("a"), nil), host.New(t, on("b"), nil)
		time.Sleep(3 * time.Second)
		for _, h := range []*host.Host{a, b} {
			if n, sent := h.Gauge("troupe.nodes.heard", ""), h.Gauge("troupe.mail.messages", "sent"); n != 1 || sent < 3 {
				t.Errorf("%s hears %d others, and has sent %d messages", h.Runtime.Node(), n, sent)
			}
		}
		o := on("c")
		o.Store.ReplayAge = time.Hour
		if rt, err := troupe.New(o); !errors.Is(err, troupe.ErrNATS) || !strings.Contains(err.Error(), "replay-age is 10m0s there and 1h0m0s here") {
			t.Errorf("with another age: %v, %v", rt, err)
		}
		c := a.Session()
		c.Initialize(`{}`)
		v.Line("b").Break()
		time.Sleep(2 * time.Minute)
		if n := a.Gauge("troupe.nodes.heard", ""); n != 0 {
			t.Errorf("a dead process is heard: %d", n)
		}
		v.Line("b").Heal()
		time.Sleep(5 * time.Second)
		if n := a.Gauge("troupe.nodes.heard", ""); n != 1 {
			t.Errorf("a process that is back is not heard: %d", n)
		}
	})
}
