package testkit

import (
	"flag"
	"log"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server/ats"

	"github.com/troupe-run/troupe/internal/testkit/when"
)

// Main runs a package's tests, with the clock started and without the log of runtimes that have none. With -short more of them run at once, as some wait more than they
// compute.
func Main(m *testing.M) {
	StartClock()
	SilenceLog()
	SpareCollections()
	if testing.Short() {
		_ = flag.Set("test.parallel", "8")
	}
	os.Exit(m.Run())
}

// SilenceLog discards what goes to slog.Default(), and leaves package log as it is.
func SilenceLog() {
	to, flags := log.Writer(), log.Flags()
	slog.SetDefault(slog.New(slog.DiscardHandler))
	log.SetOutput(to)
	log.SetFlags(flags)
}

// StartClock starts the store's clock, one goroutine per process. If it started inside a
// bubble, time would not pass there.
func StartClock() { ats.Register() }

// SpareCollections makes -short use more memory to save time: tests start many servers, and collecting their garbage is
// a fifth of the work. Call it in TestMain.
func SpareCollections() {
	if flag.Parse(); testing.Short() {
		debug.SetGCPercent(-1)
		debug.SetMemoryLimit(400 << 20)
	}
}

// Bubble runs f in virtual time, and then lets the store's last goroutines end. It fails
// the test if one does not end.
func Bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	OneAtATime(t)
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(time.Minute) })
		f(t)
	})
}

var (
	inBubbles sync.Mutex // guards the rest
	bubbles   int        // tests that OneAtATime is for
	procs     int        // processors before the first of them
)

// OneAtATime has one goroutine run at a time, until the test has ended, if the race detector looks on. Go 1.26 runs the timers of a bubble in one context of the
// detector, on whichever threads look at their channels, and two of them at once end the process (https://go.dev/issue/78156). Call it before
// synctest.Test.
func OneAtATime(t *testing.T) {
	if !when.RaceEnabled {
		return
	}
	inBubbles.Lock()
	defer inBubbles.Unlock()
	if bubbles++; bubbles == 1 {
		procs = runtime.GOMAXPROCS(1)
	}
	t.Cleanup(func() {
		inBubbles.Lock()
		defer inBubbles.Unlock()
		if bubbles--; bubbles == 0 {
			runtime.GOMAXPROCS(procs)
		}
	})
}
