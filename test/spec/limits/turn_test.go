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
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
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
	kit.Bubble(t, func(t *testing.T) {
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
		call := func(c *kit.Client, id, what string, values int) <-chan *kit.Answer {
			got := make(chan *kit.Answer, 1)
			go func() {
				got <- c.Post(host.Call(id, "slow", `{"what":"`+what+`","pad":[`+strings.Repeat("1,", values)+`1]}`))
			}()
			synctest.Wait()
			return got
		}
		places := max(1, runtime.GOMAXPROCS(0)/2)
		var all []<-chan *kit.Answer
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

// TestLargeParamsTakeTurns: the params of other methods are decoded in turn, too, if the message is large. A request that gets
// no turn is refused, and costs nothing.
func TestLargeParamsTakeTurns(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		held = make(chan struct{})
		h := host.New(t, troupe.Options{Authenticate: host.User, Limits: troupe.Limits{Grace: time.Minute, CallRate: 0.001, CallBurst: 4}}, &troupe.ServerOptions{Complete: func(context.Context, *troupe.Call, mcp.CompleteParams) (mcp.Completion, error) {
			return mcp.Completion{Values: []string{}}, nil
		}})
		tool := troupe.Tool{Name: "slow", Description: "d", InputSchema: json.RawMessage(`{"type":"object"}`)}
		troupe.AddTool(h.Server, tool, func(context.Context, *troupe.Call, slowArguments) (string, error) { return "x", nil })
		troupe.AddMethod(h.Server, troupe.Method{Name: "acme/own"}, func(context.Context, *troupe.Call, struct{}) (struct{}, error) { return struct{}{}, nil })
		pad := `,"pad":[` + strings.Repeat("1,", 1100) + `1]}`
		var all []<-chan *kit.Answer
		for i := range max(1, runtime.GOMAXPROCS(0)/2) {
			c := host.As(h.Client(), "ann").Initialize(`{}`)
			got := make(chan *kit.Answer, 1)
			go func() { got <- c.Post(host.Call(strconv.Itoa(i), "slow", `{"what":"wait"`+pad)) }()
			synctest.Wait()
			all = append(all, got)
		}
		for method, params := range map[string]string{
			"prompts/get":         `{"name":"greet","arguments":{"who":"x"}`,
			"completion/complete": `{"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"who","value":""}`,
			"acme/own":            `{"x":1`,
		} {
			c := host.As(h.Unchecked(), "bob").Initialize(`{}`)
			start := time.Now()
			if a := c.Post(host.Method("1", method, params+"}")); !strings.Contains(a.Body, `"result"`) || time.Since(start) != 0 {
				t.Errorf("%s, small: %s after %v", method, a.Body, time.Since(start))
			}
			host.Equal(t, method, c.Post(host.Method("2", method, params+pad)).Body, host.Fault("2", host.Internal, "temporarily unavailable: try again shortly", `{"retryAfterMs":1000}`))
			if d := time.Since(start); d != 5*time.Second {
				t.Errorf("%s is refused after %v, want 5 s", method, d)
			}
			for i := range 4 { // of four one was spent
				if a := c.Post(host.Method(strconv.Itoa(i), method, params+"}")); strings.Contains(a.Body, `"result"`) != (i < 3) {
					t.Errorf("%s, then number %d: %s", method, i, a.Body)
				}
			}
		}
		close(held)
		for _, a := range all {
			if a := <-a; !strings.Contains(a.Body, `"result"`) {
				t.Errorf("in turn: %s", a.Body)
			}
		}
	})
}
