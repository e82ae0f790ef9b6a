package actors

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/mcp"
)

// TestClockThatGoesBack has the store's clock go back. Every entry stored after the writer
// record must come after a new record: otherwise the entry would expire before the record,
// which does not know it.
func TestClockThatGoesBack(t *testing.T) {
	for name, tt := range map[string]struct {
		back   time.Duration
		during string // the append during which the clock goes back
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

// ops records the operations of a store while a test runs. harm may run before each
// operation.
type ops struct {
	mu  sync.Mutex // guards all
	all []string
}

func (o *ops) add(op string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, op)
}

func (o *ops) count(op string) (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, x := range o.all {
		if x == op {
			n++
		}
	}
	return n
}

// ticks returns a handler that sends messages without end.
func ticks(every time.Duration) func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
	return func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
		for {
			_ = c.Notify(ctx, "n", []byte(`{}`))
			select {
			case <-time.After(every):
			case <-ctx.Done():
				return nil, mcp.NewError(mcp.CodeInternalError, "ended")
			}
		}
	}
}

// TestClockThatWentForwardMeanwhile checks that a record stored by a clock that was ahead
// for a moment outlives the later entries, too.
func TestClockThatWentForwardMeanwhile(t *testing.T) {
	for name, tt := range map[string]struct {
		during   string
		takeover bool
	}{
		"when the stream began":         {"OpenStream", false},
		"when the record was rewritten": {"Rewrite", false},
		"when the stream was taken":     {"Rewrite", true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
				var o ops
				ahead := make(chan struct{}, 1)
				var armed atomic.Bool
				h.mem.before = func(op, _ string) error {
					if o.add(op); op == tt.during && armed.Swap(false) {
						h.mem.skew.Store(int64(time.Hour))
						ahead <- struct{}{}
					}
					return nil
				}
				h.handler.f = ticks(203 * time.Millisecond) // 100 of these times are not whole seconds
				h.svc.Handler = safeHandler{h.handler}
				armed.Store(tt.during == "OpenStream")
				c, session := &heldConn{}, h.begin("2025-11-25")
				go h.postOn(c, session, aCall)
				time.Sleep(100 * time.Millisecond)
				armed.Store(tt.during == "Rewrite")
				if tt.takeover {
					n, svc, end := h.heir(safeHandler{&heldHandler{f: ticks(200 * time.Millisecond)}}, Limits{})
					defer end()
					go h.resume(n, svc, session, c.lastID())
				}
				<-ahead
				time.Sleep(100 * time.Millisecond)
				h.mem.skew.Store(0)
				before := o.count("Rewrite")
				time.Sleep(350 * time.Millisecond) // shorter than the node's interval between looks for a jump
				if n := o.count("Rewrite") - before; n != 1 {
					t.Errorf("%d rewrites in %v, want one before the next append", n, o.all)
				}
			})
		})
	}
}

// TestRecordsAreRenewedByBothClocks checks that a record is renewed in time when the
// store's clock has gone back, and at once when it has gone forward.
func TestRecordsAreRenewedByBothClocks(t *testing.T) {
	for name, tt := range map[string]struct{ jump, within time.Duration }{
		"forward": {11 * time.Minute, 2 * time.Second},
		"back":    {-time.Hour, 4 * time.Minute}, // a quarter of 13 min 20 s
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
				var o ops
				h.mem.before = func(op, _ string) error { o.add(op); return nil }
				h.handler.f = ticks(time.Hour)
				h.svc.Handler = safeHandler{h.handler}
				go h.postOn(&heldConn{}, h.begin("2025-11-25"), aCall)
				time.Sleep(10 * time.Second)
				h.mem.skew.Add(int64(tt.jump))
				time.Sleep(tt.within)
				if o.count("Rewrite") != 1 || o.count("KeepBody") != 1 {
					t.Errorf("%d rewrites, %d of the body, want one each", o.count("Rewrite"), o.count("KeepBody"))
				}
			})
		})
	}
}

// TestRecordStoredAgainHasItsBody checks that a record that was stored again has its call's
// body beside it, even if the acknowledgement was lost when only the record was stored.
func TestRecordStoredAgainHasItsBody(t *testing.T) {
	for name, lost := range map[string]bool{"at once": false, "its acknowledgement was lost": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
				var lose atomic.Bool
				h.mem.after = func(op, _ string) error { // of OpenStream, before the body is stored
					if op == "OpenStream" && lose.Swap(false) {
						return store.ErrUnavailable
					}
					return nil
				}
				h.handler.f = ticks(time.Minute)
				h.svc.Handler = safeHandler{h.handler}
				go h.postOn(&heldConn{}, h.begin("2025-11-25"), aCall)
				time.Sleep(30 * time.Second)
				lose.Store(lost)
				h.mem.forget()
				time.Sleep(90 * time.Second) // shorter than the time after which a record is due
				if lose.Load() {
					t.Error("no acknowledgement was lost")
				}
				h.bodiesAre(t, aCall)
			})
		})
	}
}

func (h *held) bodiesAre(t *testing.T, want string) {
	t.Helper()
	h.mem.mu.Lock()
	defer h.mem.mu.Unlock()
	for path := range h.mem.appends {
		if string(h.mem.bodies[path]) != want || !strings.Contains(string(h.mem.records[path].data), `"safe":true`) {
			t.Errorf("record %s, body %q", h.mem.records[path].data, h.mem.bodies[path])
		}
	}
}

// TestBodyIsRenewed checks that a call's body is renewed with its record, by a takeover
// too. A renewal that fails is tried again soon but not at once, because each attempt holds
// up the stream.
func TestBodyIsRenewed(t *testing.T) {
	for name, tt := range map[string]struct {
		takeover bool
		fails    int
	}{
		"when the record is due":             {false, 0},
		"by a takeover":                      {true, 0},
		"at the second time":                 {false, 1},
		"at the second time, for a takeover": {true, 1},
		"after an hour":                      {false, 72},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Limits{MaxCall: 3 * time.Hour}, NodeLimits{}, func(t *testing.T, h *held) {
				var o ops
				var fails atomic.Int32
				fails.Store(int32(tt.fails))
				h.mem.before = func(op, _ string) error {
					if o.add(op); op == "KeepBody" && fails.Add(-1) >= 0 {
						return store.ErrUnavailable
					}
					return nil
				}
				h.handler.f = ticks(time.Hour)
				h.svc.Handler = safeHandler{h.handler}
				c, session := &heldConn{}, h.begin("2025-11-25")
				go h.postOn(c, session, aCall)
				time.Sleep(10 * time.Second)
				lose := func() {
					h.mem.mu.Lock()
					clear(h.mem.bodies)
					h.mem.mu.Unlock()
				}
				if tt.takeover {
					n, svc, end := h.heir(safeHandler{&heldHandler{f: ticks(time.Hour)}}, Limits{MaxCall: 3 * time.Hour})
					defer end()
					h.resume(n, svc, session, c.lastID())
					time.Sleep(10 * time.Second)
					if o.count("KeepBody") != 1 {
						t.Errorf("%d attempts at the body by the takeover, want 1", o.count("KeepBody"))
					}
				}
				if !tt.takeover || tt.fails > 0 {
					lose()
				}
				time.Sleep(230*time.Second + time.Duration(tt.fails)*51500*time.Millisecond)
				if n := o.count("KeepBody"); n < tt.fails+1 || n > tt.fails+2 {
					t.Errorf("%d attempts at the body, of which %d were to fail", n, tt.fails)
				}
				h.bodiesAre(t, aCall)
			})
		})
	}
}

// TestSessionsLiveByTheStoresClock has the store's clock go on by eleven minutes, and back: a session is gone when its record is, whatever the
// machine takes the time for.
func TestSessionsLiveByTheStoresClock(t *testing.T) {
	for off, want := range map[time.Duration]int{-11 * time.Minute: 200, 0: 200, 11 * time.Minute: 404} {
		inBubble(t, freshLimits, NodeLimits{}, func(t *testing.T, h *held) {
			h.handler.f = func(context.Context, *Call) ([]byte, *mcp.Error) { return []byte("{}"), nil }
			name := h.begin("2025-11-25") // it has ten minutes for its next request
			h.mem.skew.Add(int64(off))
			time.Sleep(time.Second)
			if status, body := h.post(name, message("1", "x")).answer(); status != want {
				t.Errorf("the clock goes on by %v: answered %d %s, want %d", off, status, body, want)
			}
		})
	}
}
