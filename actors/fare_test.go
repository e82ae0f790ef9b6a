package actors

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/actors/internal/stream"
	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/mcp"
)

// large runs a call that sends n messages of 200 kB, each in an append of its own, and whose client has lost the connection
// after the first event, whose id it returns.
func large(h *held, session string, n int) (event string) {
	params := []byte(`"` + string(bytes.Repeat([]byte("x"), 200_000)) + `"`)
	h.handler.f = func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
		_ = c.Notify(ctx, "n", []byte(`{}`))
		time.Sleep(10 * time.Millisecond)
		for range n {
			_ = c.Notify(ctx, "n", params)
			time.Sleep(10 * time.Millisecond)
		}
		return []byte(`"here"`), nil
	}
	c := &heldConn{}
	go h.postOn(c, session, message("1", "x"))
	time.Sleep(5 * time.Millisecond)
	event = c.lastID()
	c.Cut()
	time.Sleep(time.Duration(n+2) * 10 * time.Millisecond)
	return event
}

// TestAResumePaysAsItGoes: what a resume reads beyond its first MiB costs tokens. Without tokens it waits, however long that
// is, and a reader that is slow has no less time.
func TestAResumePaysAsItGoes(t *testing.T) {
	const mib = 1 << 20
	l := Limits{ResumeWait: 5 * time.Second, Stream: stream.Limits{Bytes: 64 * mib}}
	for name, row := range map[string]struct {
		messages    int
		burst       int
		spent       int // of the burst, before
		left        int // tokens afterwards
		after, most time.Duration
		gone        bool
	}{
		"a little":             {messages: 4, burst: 20, left: 15, most: 100 * time.Millisecond},
		"more":                 {messages: 30, burst: 100, left: 75, most: 100 * time.Millisecond}, // 6 MB
		"without tokens":       {messages: 30, burst: 100, spent: 95, after: 18 * time.Second, most: 40 * time.Second},
		"its client goes away": {messages: 30, burst: 100, spent: 95, after: time.Second, most: 3 * time.Second, gone: true},
		"of few tokens":        {messages: 30, burst: 10, left: 0, after: 5 * time.Second, most: 40 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, l, NodeLimits{Principal: PrincipalLimits{Rate: 1, Burst: row.burst}}, func(t *testing.T, h *held) {
				session := h.begin("2025-11-25")
				event := large(h, session, row.messages)
				time.Sleep(time.Hour)
				h.accounts.Of("anon", "192.0.2.1").Buckets[rateOfCalls].TakeN(time.Now(), row.spent)
				began := time.Now()
				c := &heldConn{}
				in := h.input(session, "192.0.2.1", c)
				in.LastEventID = event
				if row.gone {
					time.AfterFunc(1500*time.Millisecond, c.Cut)
				}
				h.Get(h.svc, in, nil)
				if d := time.Since(began); d < row.after || d > row.most {
					t.Errorf("it took %v, want %v to %v", d, row.after, row.most)
				}
				if n := len(c.events()); !row.gone && (n != row.messages+1 || !strings.Contains(c.events()[n-1], "here")) {
					t.Errorf("%d events have come, want %d", n, row.messages+1)
				}
				b := h.accounts.Of("anon", "192.0.2.1").Buckets[rateOfCalls]
				if row.left > 0 && (b.TakeN(time.Now(), row.left) != 0 || b.TakeN(time.Now(), 3) == 0) {
					t.Errorf("not %d tokens are left", row.left)
				}
				if row.gone && b.Take(time.Now()) == 0 {
					t.Error("who left has not paid what it could")
				}
				if n := h.accounts.BytesOf(quota.Queues); n != 0 {
					t.Errorf("%d bytes are still held", n)
				}
			})
		})
	}
}

// TestReadsOfTheLogAreHeld: a resume counts what it reads before it does, and has it counted until its client has read it.
// Where there is little room it reads less at a time.
func TestReadsOfTheLogAreHeld(t *testing.T) {
	l := Limits{Stream: stream.Limits{Bytes: 64 << 20}}
	for name, most := range map[string]int64{"room for all": -1, "little room": 1 << 20, "hardly any": 600_000} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, l, NodeLimits{Bytes: most}, func(t *testing.T, h *held) {
				reads := 0
				var watching atomic.Bool
				h.mem.before = func(op, _ string) error {
					if op == "Read" && watching.Load() {
						reads++
						if n := h.accounts.BytesOf(quota.Queues); n < 200_000 || most > 0 && n > most {
							t.Errorf("%d bytes are counted before a read", n)
						}
					}
					return nil
				}
				session := h.begin("2025-11-25")
				event := large(h, session, 20)
				time.Sleep(time.Minute)
				watching.Store(true)
				c := &heldConn{most: 1}
				in := h.input(session, "192.0.2.1", c)
				in.LastEventID = event
				done := make(chan struct{})
				go func() { h.Get(h.svc, in, nil); close(done) }()
				time.Sleep(time.Second)
				n := h.accounts.BytesOf(quota.Queues)
				if read := int64(20 * 200_000); most < 0 && (n < read || n > read+read/10) || most > 0 && (n < 200_000 || n > most) {
					t.Errorf("%d bytes are held while the client does not read", n)
				}
				var got []string
				for range 200 {
					time.Sleep(10 * time.Millisecond)
					got = append(got, c.read()...)
				}
				hasReturned(t, done)
				if len(got) != 21 || most > 0 && reads < 10 || most < 0 && reads > 3 {
					t.Errorf("%d events have come with %d reads", len(got), reads)
				}
				if n := h.accounts.BytesOf(quota.Queues); n != 0 {
					t.Errorf("%d bytes are still held", n)
				}
			})
		})
	}
}

// TestResumesWaitForRoom: a resume for which there is no room at all is held, and goes on when there is.
func TestResumesWaitForRoom(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{Bytes: 1 << 20}, func(t *testing.T, h *held) {
		session := h.begin("2025-11-25")
		event := large(h, session, 10)
		time.Sleep(time.Second) // the session is still in memory
		other := h.accounts.Of("other", "")
		h.accounts.ChargeAnyway(other, quota.Bodies, 1<<20)
		c := h.back(session, event)
		time.Sleep(10 * time.Second)
		if n := len(c.events()); n != 0 || !c.begun() || c.over {
			t.Errorf("without room: %d events, begun %t, over %t", n, c.begun(), c.over)
		}
		h.accounts.Refund(other, quota.Bodies, 1<<20)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if n := len(c.events()); n != 11 || !c.over {
			t.Errorf("with room: %d events, over %t", n, c.over)
		}

		slow := &heldConn{most: 1}
		in := h.input(session, "192.0.2.1", slow)
		in.LastEventID = event
		go h.Get(h.svc, in, nil)
		time.Sleep(time.Second) // it has read a part
		for !h.accounts.ChargeAnyway(other, quota.Bodies, 1<<20) {
			other = h.accounts.Of("other", "") // which had nothing, and was dropped
		}
		got := 0
		for range 10 {
			got += len(slow.read())
			time.Sleep(time.Second)
		}
		if got == 0 || got == 11 || slow.over {
			t.Errorf("without room: %d events, over %t", got, slow.over)
		}
		h.accounts.Refund(other, quota.Bodies, 1<<20)
		for range 30 {
			got += len(slow.read())
			time.Sleep(time.Second)
		}
		if got != 11 || !slow.over {
			t.Errorf("with room again: %d events, over %t", got, slow.over)
		}
	})
}

// TestTakeoversAreHeld: a takeover counts what it reads of the log before it does, and a call that runs again what it holds.
func TestTakeoversAreHeld(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
		var reads atomic.Int64
		var heir atomic.Pointer[Node]
		h.mem.before = func(op, _ string) error {
			if n := heir.Load(); op == "Read" && n != nil {
				reads.Add(1)
				if n := n.accounts.BytesOf(quota.Queues); n < 1000 {
					t.Errorf("%d bytes are counted before read %d", n, reads.Load())
				}
			}
			return nil
		}
		h.svc = NewService("s", safeHandler{h.handler}, Limits{})
		h.handler.f = ticks(time.Second)
		session, c := h.begin("2025-11-25"), &heldConn{}
		go h.postOn(c, session, `{"jsonrpc":"2.0","id":1,"method":"x","params":{"pad":"`+strings.Repeat("x", 100_000)+`"}}`)
		time.Sleep(10 * time.Second)
		event := c.lastID()
		c.Cut()
		time.Sleep(10 * time.Second)
		end := make(chan struct{})
		n, svc, stop := h.heir(safeHandler{&heldHandler{f: func(context.Context, *Call) ([]byte, *mcp.Error) {
			<-end
			return []byte(`{}`), nil
		}}}, Limits{})
		defer stop()
		heir.Store(n)
		back := h.resume(n, svc, session, event)
		time.Sleep(time.Second)
		if reads.Load() < 2 {
			t.Errorf("%d reads of the log", reads.Load())
		}
		if n := n.accounts.BytesOf(quota.Queues); n > 110_000 {
			t.Errorf("%d bytes are held for what was read", n)
		}
		if n := n.accounts.BytesOf(quota.Parked); n < 100_000 {
			t.Errorf("%d bytes are held for a call that runs again, with its message of 100,000", n)
		}
		close(end)
		time.Sleep(time.Second)
		synctest.Wait()
		if k := n.accounts.BytesOf(quota.Parked) + n.accounts.BytesOf(quota.Queues); k != 0 || !back.over {
			t.Errorf("%d bytes are held once it has ended: %t", k, back.over)
		}
	})
}

// TestNobodyWaitsInAPlace: a resume that has the place of a lost log, and whose principal has its share of the memory, gives the
// place back at once, and comes again.
func TestNobodyWaitsInAPlace(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{Bytes: 512 << 10}, func(t *testing.T, h *held) {
		var full quota.Holding
		session := h.begin("2025-11-25")
		f := &readCharge{accounts: &h.accounts, from: h.peerOf(session).last.Load()}
		if !full.ChargeAnyway(h.accounts.Accounts, f.from.billedAccount(), quota.Parked, 300<<10) {
			t.Fatal("not counted")
		}
		leave, err := h.takeovers.awaitLogTurn(t.Context(), f.from, f)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if err := f.awaitMemory(t.Context(), 200<<10); !errors.Is(err, store.ErrUnavailable) || time.Since(start) != 0 {
			t.Errorf("in the place: %v after %v", err, time.Since(start))
		}
		leave()
		if err := f.awaitMemory(t.Context(), 200<<10); !errors.Is(err, store.ErrUnavailable) || time.Since(start) < roomWait {
			t.Errorf("without it: %v after %v", err, time.Since(start))
		}
		full.Free()
		if err := f.awaitMemory(t.Context(), 200<<10); err != nil {
			t.Errorf("with room: %v", err)
		}
		f.held.Reset()
	})
}
