package actors

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/mcp"
)

// TestWhoAppendsMuchIsPaced: what a client streams beyond what the store may have written lately waits, and comes whole and in order;
// another's stream does not wait.
func TestWhoAppendsMuchIsPaced(t *testing.T) {
	const mib, room, sent = 1 << 20, 16, 40
	inBubble(t, Limits{}, NodeLimits{Bytes: room * mib}, func(t *testing.T, h *held) {
		h.handler.f = func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
			if string(c.Message().Method) == "small" {
				_ = c.Notify(ctx, "n", []byte(`"small"`))
				return []byte(`{}`), nil
			}
			for i := range sent {
				if err := c.Notify(ctx, "n", fmt.Appendf(nil, `"%03d%s"`, i, strings.Repeat("x", mib))); err != nil {
					t.Errorf("event %d: %v", i, err)
				}
			}
			return []byte(`{}`), nil
		}
		session := h.begin("2025-11-25")
		other := h.begin("2025-11-25")
		c, start := &heldConn{}, time.Now()
		var took time.Duration
		go func() {
			h.postOn(c, session, message("1", "large"))
			for len(c.events()) < sent+1 {
				time.Sleep(100 * time.Millisecond)
			}
			took = time.Since(start)
		}()
		time.Sleep(5 * time.Second)
		if st := h.Stats(); st.Pacing != 1 || st.Recent < (room-1)*mib || st.Recent > 2*room*mib {
			t.Errorf("%d appends wait, %d bytes were appended lately", st.Pacing, st.Recent)
		}
		now := time.Now()
		quiet := &heldConn{}
		h.postFrom(quiet, "192.0.2.77", other, message("1", "small"))
		synctest.Wait()
		if n := len(quiet.events()); n != 2 || time.Since(now) > 0 {
			t.Errorf("another client has %d events after %v", n, time.Since(now))
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		// The time is that in which what is beyond the room comes back, 1.6 MiB a second.
		if want := (sent - room) * time.Second * 10 / room; took < want-2*time.Second || took > want+3*time.Second {
			t.Errorf("it took %v, want about %v", took, want)
		}
		for i, e := range c.events() {
			if want := fmt.Sprintf(`"%03d`, i); i < sent && !strings.Contains(e, want) {
				t.Errorf("event %d is not in its place: %.80s", i, e)
			}
		}
		if st := h.Stats(); st.Pacing != 0 || st.Recent != 0 {
			t.Errorf("%d appends wait, %d bytes were appended lately", st.Pacing, st.Recent)
		}
	})
}
