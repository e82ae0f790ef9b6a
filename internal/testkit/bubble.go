package testkit

import (
	"flag"
	"os"
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server/ats"
)

// Main runs a package's tests, with the clock started.
func Main(m *testing.M) {
	StartClock()
	SpareCollections()
	os.Exit(m.Run())
}

// StartClock starts the store's clock, which is one goroutine per process: started
// inside a bubble it would keep that bubble's time from passing.
func StartClock() { ats.Register() }

// SpareCollections has -short spend memory to save time: tests start many servers, whose garbage is a fifth of the work.
// Call it in TestMain.
func SpareCollections() {
	if flag.Parse(); testing.Short() {
		debug.SetGCPercent(400)
	}
}

// Bubble runs f in virtual time, and then lets the store's last goroutines end;
// one that does not end fails the test.
func Bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(time.Minute) })
		f(t)
	})
}
