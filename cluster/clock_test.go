package cluster

import (
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/when"
)

// TestClockThatIsWrong: a machine whose clock is not that of the servers is refused at the start with a sentence that says so, and one whose clock
// is set later says it for as long as it is wrong. What is stored lives by the servers' clock all the while.
func TestClockThatIsWrong(t *testing.T) {
	when.Unraced(t, "virtual time that is long under the race detector")
	kit.BubbleNATS(t, nil, func(t *testing.T, v *kit.VirtualNATS) {
		var off atomic.Int64 // of the machine's clock
		var log syncBuffer
		begin := func(name string, by time.Duration) (*Node, error) {
			off.Store(int64(by))
			return Open(t.Context(), Options{Node: name, Remote: Remote{URL: v.Line(name).URL()}, Log: slog.New(slog.NewTextHandler(&log, nil)),
				now: func() time.Time { return time.Now().Add(time.Duration(off.Load())) }})
		}
		for by, want := range map[time.Duration]string{11 * time.Minute: "11m0s ahead of", -3 * time.Second: "3s behind"} {
			_, err := begin("wrong", by)
			if !errors.Is(err, ErrRemote) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "NTP") {
				t.Errorf("%v: %v", by, err)
			}
		}
		n, err := begin("n", time.Second)
		if err != nil {
			t.Fatal(err)
		}
		defer n.Close(t.Context())
		state := func(what string, by time.Duration, wrong bool) {
			t.Helper()
			off.Store(int64(by))
			time.Sleep(2 * limits.Lease.Value())
			synctest.Wait()
			ahead, err := n.Ahead(), n.ClockWrong()
			if (err != nil) != wrong || (ahead-by).Abs() > 100*time.Millisecond {
				t.Errorf("%s: ahead by %v, %v", what, ahead, err)
			}
			if d := time.Until(n.Now()).Abs(); d > 100*time.Millisecond {
				t.Errorf("%s: the store's clock is off by %v", what, d)
			}
		}
		state("a second", time.Second, false)
		state("set by an hour", -time.Hour, true)
		state("and nobody minds", -time.Hour, true)
		state("set right", 0, false)
		for what, want := range map[string]int{"the clock of this machine is 1h0m0s behind": 1, "is right again": 1} {
			if got := strings.Count(log.String(), what); got != want {
				t.Errorf("%q is in the log %d times, want %d:\n%s", what, got, want, log.String())
			}
		}
	})
}
