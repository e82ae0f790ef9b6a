package stateless_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

// TestWaitForInputEnds has handlers wait for input that never comes.
func TestWaitForInputEnds(t *testing.T) {
	errGone := errors.New("the handler's own cause")
	for name, c := range map[string]struct {
		ask   func(ctx context.Context, call *troupe.Call, ends chan<- error) error // ends gets the errors of Ask
		end   func(h *host.Host)
		want  error
		after time.Duration
	}{
		"with the patience": {want: troupe.ErrNoAnswer, after: 10 * time.Minute},
		"with a context of the handler's own": {ask: func(ctx context.Context, call *troupe.Call, ends chan<- error) error {
			ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, errGone)
			defer cancel()
			return askOnce(ctx, call, ends)
		}, want: errGone, after: time.Minute},
		"with the handler": {ask: func(ctx context.Context, call *troupe.Call, ends chan<- error) error {
			go func() { _ = askOnce(ctx, call, ends) }()
			return host.Sleep(ctx, 3000)
		}, want: nil, after: 3 * time.Second},
		"with the server": {end: func(h *host.Host) { h.Runtime.Unmount("/mcp") }, want: troupe.ErrUnmounted},
		"while another asks": {ask: func(ctx context.Context, call *troupe.Call, ends chan<- error) error {
			go func() {
				time.Sleep(time.Second)
				ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, errGone)
				defer cancel()
				_ = askOnce(ctx, call, ends)
			}()
			return askOnce(ctx, call, make(chan error, 1))
		}, want: errGone, after: time.Minute + time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				h := host.New(t, troupe.Options{}, nil)
				ends := make(chan error, 1)
				troupe.AddTool(h.Server, troupe.Tool{Name: "waits", Needs: mcp.CapClientElicitationForm}, func(ctx context.Context, call *troupe.Call, _ map[string]any) (string, error) {
					if c.ask == nil {
						return "", askOnce(ctx, call, ends)
					}
					return "", c.ask(ctx, call, ends)
				})
				m := h.Stateless(host.EveryCapability)
				a, id := m.Tool("waits", `{}`)
				m.Parked(a, id, "name")
				begun := time.Now()
				if c.end != nil {
					synctest.Wait()
					c.end(h)
				}
				var err error
				select {
				case err = <-ends:
				case <-time.After(time.Hour):
				}
				if err == nil || c.want != nil && !errors.Is(err, c.want) || time.Since(begun) != c.after {
					t.Errorf("the wait ended after %v with %v; want %v, %v", time.Since(begun), err, c.after, c.want)
				}
			})
		})
	}
}

func askOnce(ctx context.Context, call *troupe.Call, ends chan<- error) error {
	_, err := call.Ask(ctx, troupe.Elicit("name", "Who?", host.Form))
	ends <- err
	return err
}

func TestGoroutinesOfAHandlerAskInTurn(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		troupe.AddTool(h.Server, troupe.Tool{Name: "both", Needs: mcp.CapClientElicitationForm}, func(ctx context.Context, call *troupe.Call, _ map[string]any) (string, error) {
			ends := make(chan error, 2)
			go func() { _ = askOnce(ctx, call, ends) }()
			go func() { _ = askOnce(ctx, call, ends) }()
			return "asked", errors.Join(<-ends, <-ends)
		})
		m := h.Stateless(host.EveryCapability)
		a, id := m.Tool("both", `{}`)
		a, id = m.Tool("both", `{}`, m.Parked(a, id, "name"), host.Given("name", "Ada"))
		host.Equal(t, "both", m.Done(m.Tool("both", `{}`, m.Parked(a, id, "name-2"), host.Given("name-2", "Eve"))), "asked")
	})
}
