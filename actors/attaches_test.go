package actors

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/sim"
)

// TestAttachesAreBounded has many clients come back at once to a node that does not write their streams. It asks the one that does for a
// few at a time, for each once, and all of them go on.
func TestAttachesAreBounded(t *testing.T) {
	const clients, travel = 100, time.Second
	var asked atomic.Int64
	inFleet(t, 2, func(kind string) sim.Fate {
		if kind != letterAttach {
			return sim.Fate{}
		}
		asked.Add(1)
		return sim.Fate{Back: travel}
	}, func(t *testing.T, all []*member) {
		a, b := all[0], all[1]
		end := make(chan struct{})
		a.handler.f = func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
			say(ctx, c, 1)
			<-end
			return []byte(`{}`), nil
		}
		var sessions, events []string
		for range clients {
			session, c := a.begin("2025-11-25"), &heldConn{}
			go a.postOn(c, session, message("1", "x"))
			synctest.Wait()
			sessions, events = append(sessions, session), append(events, c.lastID())
			c.Cut()
		}
		var back []*heldConn
		for i := range clients {
			back = append(back, b.get(sessions[i], events[i]))
		}
		most := int64(limits.Attaches.Value())
		for n := int64(1); n*most < clients+most; n++ {
			synctest.Wait()
			if got, want := asked.Load(), min(n*most, clients); got != want {
				t.Errorf("%d streams are asked for after %d rounds, want %d", got, n, want)
			}
			time.Sleep(travel)
		}
		close(end)
		synctest.Wait()
		for i, c := range back {
			if got := c.events(); len(got) != 1 || !strings.Contains(got[0], `"result"`) || !c.over {
				t.Errorf("client %d got %q, over %v", i, got, c.over)
			}
		}
		if n := slices.Max([]int64{b.Stats().Takeovers, a.Stats().Takeovers}); n != 0 {
			t.Errorf("%d takeovers of streams whose writer lives", n)
		}
	})
}
