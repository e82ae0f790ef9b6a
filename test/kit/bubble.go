package kit

import (
	"flag"
	"log"
	"log/slog"
	"os"
	"runtime/debug"
	"testing"

	"github.com/nats-io/nats-server/v2/server/ats"

	"github.com/troupe-run/troupe/internal/bubble"
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

// Bubble runs f in virtual time: see [bubble.Test].
func Bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	bubble.Test(t, f)
}
