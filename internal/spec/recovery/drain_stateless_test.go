package recovery_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/internal/spec/host"
	"github.com/troupe-run/troupe/internal/testkit"
)

// TestAllWhoWaitForACallAreToldThatItIsGivenUp drains a server while a call runs for
// two requests that brought the same answers: both get the error.
func TestAllWhoWaitForACallAreToldThatItIsGivenUp(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		h, _, _ := host.NewParking(t, troupe.Options{DrainDelay: -1, DrainWait: 100 * time.Millisecond})
		m := h.Stateless(host.EveryCapability)
		came := map[string][]<-chan *testkit.Answer{}
		for _, tool := range []string{"safe", "never"} {
			a, id := m.Tool(tool, `{}`)
			params := host.ToolParams(tool, `{}`, m.Parked(a, id, "name"), host.Given("name", "Ada"))
			for range 2 {
				later, _ := m.Later("tools/call", params)
				synctest.Wait()
				came[tool] = append(came[tool], later)
			}
		}
		ctx, stop := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- h.Runtime.ServeOn(ctx, testkit.NewListener()) }()
		stop()
		for i := range 2 {
			if a := <-came["safe"][i]; a.StatusCode != 503 || a.Header.Get("Retry-After") == "" {
				t.Errorf("what may run again, request %d: %s %s", i+1, a.Status, a.Body)
			}
			if a := <-came["never"][i]; a.StatusCode != 200 || !strings.Contains(a.Body, `"error":{"code":-32010,`) {
				t.Errorf("what may not, request %d: %s %s", i+1, a.Status, a.Body)
			}
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}
