package limits_test

import (
	"bytes"
	"context"
	"encoding/json"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/internal/spec/host"
	"github.com/troupe-run/troupe/internal/testkit"
)

// slowArguments take until held is closed to be decoded, if they say so.
type slowArguments struct{}

var held chan struct{} // of TestLargeArgumentsTakeTurns

func (*slowArguments) UnmarshalJSON(text []byte) error {
	if bytes.Contains(text, []byte(`"wait"`)) {
		<-held
	}
	return nil
}

// TestLargeArgumentsTakeTurns has one client fill all places for large arguments, and wait for more: another client's small
// calls do not wait at all, and its large one has the next place.
func TestLargeArgumentsTakeTurns(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		held = make(chan struct{})
		m := host.NewMeter()
		h := host.New(t, troupe.Options{Authenticate: host.User, Telemetry: troupe.Telemetry{MeterProvider: m}, Limits: troupe.Limits{Grace: time.Minute}}, nil)
		var mu sync.Mutex
		var order []string
		tool := troupe.Tool{Name: "slow", Description: "d", InputSchema: json.RawMessage(`{"type":"object"}`)}
		troupe.AddTool(h.Server, tool, func(_ context.Context, c *troupe.Call, _ slowArguments) (string, error) {
			mu.Lock()
			defer mu.Unlock()
			order = append(order, c.Principal().Subject)
			return "x", nil
		})
		ann, bob := host.As(h.Client(), "ann").Initialize(`{}`), host.As(h.Client(), "bob").Initialize(`{}`)
		call := func(c *testkit.Client, id, what string, values int) <-chan *testkit.Answer {
			got := make(chan *testkit.Answer, 1)
			go func() {
				got <- c.Post(host.Call(id, "slow", `{"what":"`+what+`","pad":[`+strings.Repeat("1,", values)+`1]}`))
			}()
			synctest.Wait()
			return got
		}
		places := max(1, runtime.GOMAXPROCS(0)/2)
		var all []<-chan *testkit.Answer
		for i := range places {
			all = append(all, call(ann, strconv.Itoa(i), "wait", 1100))
		}
		late := call(ann, `"late"`, "", 1100) // waits for its turn for too long
		start := time.Now()
		a := <-late
		host.Equal(t, "too late", a.Body, host.Fault(`"late"`, host.Internal, "temporarily unavailable: try again shortly", `{"retryAfterMs":1000}`))
		if n := m.Count("troupe.refusals", "turn"); n != 1 || time.Since(start) != 5*time.Second {
			t.Errorf("%d refusals are counted after %v, want 1 after 5 s", n, time.Since(start))
		}
		for i := range 2 * places {
			all = append(all, call(ann, strconv.Itoa(100+i), "", 1100))
		}
		host.Equal(t, "a small call", (<-call(bob, "1", "", 900)).Body, host.TextResult("1", "x"))
		host.Equal(t, "a small call of the same client", (<-call(ann, "1000", "", 900)).Body, host.TextResult("1000", "x"))
		mu.Lock()
		order = nil
		mu.Unlock()
		large := call(bob, "2", "", 1100)
		time.Sleep(time.Second)
		mu.Lock()
		if len(order) > 0 {
			t.Errorf("%q had a turn though there was none", order)
		}
		mu.Unlock()
		close(held)
		host.Equal(t, "a large call", (<-large).Body, host.TextResult("2", "x"))
		for _, a := range all {
			if a := <-a; !strings.Contains(a.Body, `"result"`) {
				t.Errorf("in turn: %s", a.Body)
			}
		}
	})
}
