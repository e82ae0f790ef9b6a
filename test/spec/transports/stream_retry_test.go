package transports_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

// TestRetry checks that each connection says when the client must come back if it breaks, and sooner if the server
// only wants a client to come back.
func TestRetry(t *testing.T) {
	for name, tt := range map[string]struct {
		o                      troupe.Options
		call, standalone, soon string
	}{
		"default": {troupe.Options{}, "4000", "8000", "1000"},
		"longer":  {troupe.Options{Limits: troupe.Limits{Retry: 10 * time.Second}}, "10000", "20000", "1000"},
		"shorter": {troupe.Options{Limits: troupe.Limits{Retry: 200 * time.Millisecond}}, "200", "400", "200"},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				h := host.New(t, tt.o, nil)
				c := h.Session()
				standalone := c.Get("")
				defer standalone.Close()
				first, _ := standalone.Next()
				host.Equal(t, "on the standalone stream", first.Retry, tt.standalone)

				a := c.Post(host.Call("1", "away", `{"ms":5000}`))
				first, _ = a.Next()
				host.Equal(t, "on a call's", first.Retry, tt.call)
				told := a.All()
				if len(told) != 1 || told[0].Retry != tt.soon || told[0].Data != "" || told[0].ID != "" {
					t.Errorf("when the call gives its connection up: %+v", told)
				}
				again := c.Get(first.ID)
				primed, _ := again.Next()
				host.Equal(t, "on the next connection", primed.Retry, tt.call)
				answer, _ := again.Next()
				host.Equal(t, "the answer", answer.Data, host.TextResult("1", "back"))
				if rest := again.All(); len(rest) != 0 {
					t.Errorf("and then %+v", rest)
				}
				// Once per connection is enough.
				counted := c.Post(host.CallWith("2", "count", `{"to":3,"delay_ms":1000}`, `"t"`)).All()
				for i, e := range counted {
					if want := map[bool]string{true: tt.call}[i == 0]; e.Retry != want {
						t.Errorf("event %d says %q, want %q", i, e.Retry, want)
					}
				}
			})
		})
	}
	t.Run("older revisions", func(t *testing.T) {
		kit.Bubble(t, func(t *testing.T) {
			h := host.New(t, troupe.Options{}, nil)
			c := h.Unchecked().InitializeAs("2025-06-18", `{}`)
			a := c.Post(host.CallWith("1", "count", `{"to":3,"delay_ms":1000}`, `"t"`))
			for _, e := range a.All() {
				if e.Retry != "" {
					t.Errorf("told %+v", e)
				}
			}
			synctest.Wait()
		})
	})
}
