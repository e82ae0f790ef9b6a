package actors

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/troupe-run/troupe/mcp"
)

// TestClockThatGoesBack: once the store's clock has gone back, nothing that came after the
// writer record is left as it is: it would expire before the record does, which knows
// nothing of it.
func TestClockThatGoesBack(t *testing.T) {
	for name, tt := range map[string]struct {
		back   time.Duration
		during string // the append that it goes back in
		want   []string
	}{
		"before an append":           {10 * time.Minute, "", []string{"Append", "back", "Rewrite", "Append", "Append"}},
		"while one is stored":        {10 * time.Minute, "Append", []string{"Append", "Append", "back", "Rewrite", "Append", "Append"}},
		"by less than events have":   {800 * time.Millisecond, "", []string{"Append", "back", "Append", "Append"}},
		"forward, and back to where": {0, "", []string{"Append", "back", "Append", "Append"}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
				var mu sync.Mutex // guards the rest
				var ops []string
				goBack := false
				back := func() {
					h.mem.skew.Add(-int64(tt.back))
					ops, goBack = append(ops, "back"), false
				}
				h.mem.before = func(op, _ string) error {
					mu.Lock()
					defer mu.Unlock()
					if op == "Append" || op == "Rewrite" {
						ops = append(ops, op)
					}
					if goBack && op == tt.during {
						back()
					}
					return nil
				}
				ended := make(chan error, 1)
				h.handler.f = talker(2, ended)
				c := &heldConn{}
				go h.postOn(c, h.begin("2025-11-25"), aCall)
				time.Sleep(30 * time.Second)
				if tt.back == 0 {
					h.mem.skew.Add(int64(time.Hour))
					h.mem.skew.Add(-int64(time.Hour))
				}
				mu.Lock()
				if goBack = true; tt.during == "" {
					back()
				}
				mu.Unlock()
				if err := <-ended; err != nil {
					t.Error(err)
				}
				time.Sleep(time.Second)
				mu.Lock()
				defer mu.Unlock()
				if diff := cmp.Diff(tt.want, ops); diff != "" {
					t.Errorf("operations (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(talked(2), c.events()); diff != "" {
					t.Errorf("events (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestRecordStoredAgainHasItsBody: the body of a call is beside a record that was stored
// again, however that went.
func TestRecordStoredAgainHasItsBody(t *testing.T) {
	for name, lost := range map[string]string{"at once": "", "its acknowledgement was lost": "OpenStream", "the body was not renewed": "KeepBody"} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
				var left atomic.Int32
				h.handler.f = func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
					for {
						_ = c.Notify(ctx, "n", []byte(`{}`))
						select {
						case <-time.After(time.Minute):
						case <-ctx.Done():
							return nil, mcp.NewError(mcp.CodeInternalError, "ended")
						}
					}
				}
				h.svc.Handler = safeHandler{h.handler}
				go h.postOn(&heldConn{}, h.begin("2025-11-25"), aCall)
				time.Sleep(30 * time.Second)
				h.mem.after = func(op, _ string) error { // of OpenStream before the body is stored
					if op == lost && left.Add(-1) >= 0 {
						return ErrUnavailable
					}
					return nil
				}
				left.Store(1)
				h.mem.forget()
				if time.Sleep(90 * time.Second); lost == "KeepBody" { // which comes when the record is due
					time.Sleep(5 * time.Minute)
				}
				if lost != "" && left.Load() > 0 {
					t.Errorf("%s did not fail", lost)
				}
				h.mem.mu.Lock()
				defer h.mem.mu.Unlock()
				for path := range h.mem.appends {
					if string(h.mem.bodies[path]) != aCall || !strings.Contains(string(h.mem.records[path].data), `"safe":true`) {
						t.Errorf("record %s, body %q", h.mem.records[path].data, h.mem.bodies[path])
					}
				}
			})
		})
	}
}
