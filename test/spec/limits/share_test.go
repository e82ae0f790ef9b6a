package limits_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/when"
	"github.com/troupe-run/troupe/test/spec/host"
)

// TestOneClientDoesNotFillTheStore has a client stay within all limits on numbers and
// store as much as it can: it is refused when it has its share. Other clients begin
// sessions and make calls of any length meanwhile.
func TestOneClientDoesNotFillTheStore(t *testing.T) {
	when.Unraced(t, "virtual time that is long under the race detector")
	when.Long(t, "it fills a store")
	for name, fill := range map[string]func(mallory *kit.Client, i int) *kit.Answer{
		"with sessions": func(mallory *kit.Client, _ int) *kit.Answer {
			return mallory.Post(strings.Replace(host.InitializeRequest, `"version":"`, `"version":"`+strings.Repeat("1", 7000), 1))
		},
		"with the bodies of calls": func(mallory *kit.Client, i int) *kit.Answer {
			return mallory.Post(host.CallWith(fmt.Sprint(i), "count", `{"to":1}`, `"t","pad":"`+strings.Repeat("x", 1<<20)+`"`))
		},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				m := host.NewMeter()
				h := host.New(t, troupe.Options{Store: troupe.StoreOptions{MaxStore: 64 << 20, Lease: 5 * time.Second}, Authenticate: host.User, Telemetry: troupe.Telemetry{MeterProvider: m}}, nil)
				alice := host.As(h.Client(), "alice").Initialize(`{}`)
				mallory := host.As(h.Unchecked(), "mallory")
				if name != "with sessions" {
					mallory.Initialize(`{}`)
				}
				n := 0
				for ; n < 5000 && m.Count("troupe.refusals", "principal-store") == 0; n++ {
					if a := fill(mallory, n); a.Stream() {
						a.All()
					}
					time.Sleep(100 * time.Millisecond)
				}
				if n < 10 || n == 5000 {
					t.Errorf("refused after %d of them", n)
				}
				if full := m.Count("troupe.refusals", "store-full"); full != 0 {
					t.Errorf("the store is nearly full, %d times", full)
				}
				budget := map[bool]string{true: "sessions", false: "calls"}[name == "with sessions"]
				if most, all := m.Count("troupe.store.used.most", budget), m.Count("troupe.store.budget", budget); most <= all/16 || most > all {
					t.Errorf("the gauges say that mallory has %d bytes of %d, want a sixteenth and more", most, all)
				}
				host.As(h.Client(), "carol").Initialize(`{}`)
				if got := host.Last(t, alice.Post(host.Call("1", "sleep", `{"ms":300}`))); !strings.Contains(got, `"result"`) {
					t.Errorf("a call of 300 ms: %s", got)
				}
			})
		})
	}
}
