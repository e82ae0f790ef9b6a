package actors

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit/when"
)

// inUse is what the heap holds after a collection.
func inUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestWhatWaitsForTheLogIsCounted has calls send while the store does not answer: what waits is counted, within a factor
// of two of what the heap grows by, and given back when it is stored, or the streams end.
func TestWhatWaitsForTheLogIsCounted(t *testing.T) {
	when.Long(t, "it measures the heap")
	for name, row := range map[string]struct {
		calls, messages, size int
		batch                 bool
		faulty                bool // the connection panics at the first message
		ends                  func(h *held, session string, release func())
	}{
		"one message each": {calls: 20, messages: 1, size: 400_000},
		"several":          {calls: 10, messages: 6, size: 150_000},
		"the session is deleted": {calls: 4, messages: 3, size: 100_000, ends: func(h *held, session string, release func()) {
			h.Delete(h.svc, h.input(session, "192.0.2.1", &heldConn{}))
			release()
		}},
		"a panic":                {calls: 2, messages: 3, size: 100_000, faulty: true},
		"the results of a batch": {calls: 2, messages: 0, size: 400_000, batch: true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Limits{Grace: time.Hour}, NodeLimits{}, func(t *testing.T, h *held) {
				result := []byte(`"` + string(bytes.Repeat([]byte("x"), row.size)) + `"`)
				done := make(chan struct{})
				h.handler.f = func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
					if row.batch && string(c.Message().ID) != `1` {
						return result, nil
					}
					for range row.messages {
						_ = c.Notify(ctx, "n", append([]byte(nil), result...))
					}
					select {
					case <-done:
					case <-ctx.Done():
					}
					return []byte("{}"), nil
				}
				session := h.begin("2025-03-26")
				h.post(session, message("0", "y")) // what the first makes
				release := h.hold("Append")
				counted, used := h.accounts.BytesOf(quota.Waiting), inUse()
				if row.batch {
					go h.postOn(&heldConn{}, session, "["+message("1", "x")+","+message("2", "x")+","+message("3", "x")+"]")
				} else {
					for i := range row.calls {
						if row.faulty {
							c := &faultyConn{fails: func(op string, data []byte) bool { return op == "Event" && len(data) > 1000 }}
							h.postTo(c, h.input(session, "192.0.2.1", c), message(fmt.Sprint(i+1), "x"))
							continue
						}
						go h.postOn(&heldConn{}, session, message(fmt.Sprint(i+1), "x"))
					}
				}
				time.Sleep(time.Second)
				synctest.Wait()
				counted, used = h.accounts.BytesOf(quota.Waiting)-counted, inUse()-used
				t.Logf("%d bytes are counted, %d are used", counted, used)
				if counted < used/2 || counted > 2*used || used < int64(row.calls*max(1, row.messages)*row.size) {
					t.Errorf("%d bytes are counted, %d are used", counted, used)
				}
				if row.ends != nil {
					row.ends(h, session, release)
				} else {
					release()
					time.Sleep(time.Second)
					synctest.Wait()
					if n := h.accounts.BytesOf(quota.Waiting); n != 0 && !row.batch {
						t.Errorf("%d bytes are counted once all is stored", n)
					}
					close(done)
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				if n := h.accounts.BytesOf(quota.Waiting); n != 0 {
					t.Errorf("%d bytes are counted afterwards", n)
				}
			})
		})
	}
}

// TestCrowdedCallsWait: the calls of a client that has its share of the memory send one message at a time while the store
// does not answer; those of another go on.
func TestCrowdedCallsWait(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{Bytes: 2 << 20}, func(t *testing.T, h *held) {
		params := []byte(`"` + string(bytes.Repeat([]byte("x"), 20_000)) + `"`)
		var mu sync.Mutex
		sent := make(map[string]int)
		h.handler.f = func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
			who := string(c.Message().ID)
			for range 20 {
				_ = c.Notify(ctx, "n", params)
				mu.Lock()
				sent[who]++
				mu.Unlock()
			}
			return []byte("{}"), nil
		}
		greedy := h.begin("2025-11-25")
		release := h.hold("Append")
		for i := range 10 {
			go h.postOn(&heldConn{}, greedy, message(fmt.Sprint(i+1), "x"))
			time.Sleep(100 * time.Millisecond)
		}
		synctest.Wait()
		if n := h.accounts.BytesOf(quota.Waiting); n > 1_900_000 || n < 800_000 { // without the wait it were 4 MB
			t.Errorf("%d bytes are held for one client, of 2 MiB", n)
		}
		c := &heldConn{}
		h.postFrom(c, "192.0.2.2", "", initializeAs("2025-11-25"))
		go h.postFrom(&heldConn{}, "192.0.2.2", c.name, message("99", "x"))
		synctest.Wait()
		if sent["99"] < 1 || sent["10"] > 1 {
			t.Errorf("another client has sent %d messages, the last call of the first %d", sent["99"], sent["10"])
		}
		release()
		time.Sleep(time.Minute)
		synctest.Wait()
		for who, n := range sent {
			if n != 20 {
				t.Errorf("call %s has sent %d of 20 messages", who, n)
			}
		}
		if n := h.accounts.BytesOf(quota.Waiting); n != 0 {
			t.Errorf("%d bytes are counted afterwards", n)
		}
	})
}

// TestCrowdedSessionsMissNotifications: a notification that is for the session and can be made good later does not wait for
// the log while its client has its share of the memory.
func TestCrowdedSessionsMissNotifications(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{Bytes: 512 << 10}, func(t *testing.T, h *held) {
		session := h.begin("2025-11-25")
		c := &heldConn{}
		h.Get(h.svc, h.input(session, "192.0.2.1", c), nil)
		release := h.hold("Append")
		key, _ := sessionKey("anon", "s", session)
		s, _ := h.sessions.Get(key)
		taken := 0
		for range 40 {
			if s.home.pushNotification(bytes.Repeat([]byte("x"), 20_000)) {
				taken++
			}
		}
		if taken < 5 || taken > 20 || !s.missed.Load() {
			t.Errorf("%d of 40 notifications wait, and the rest are missed: %t", taken, s.missed.Load())
		}
		release()
		time.Sleep(time.Minute)
		if n := len(c.events()); n != taken {
			t.Errorf("%d notifications have come, want %d", n, taken)
		}
		c.Cut()
	})
}
