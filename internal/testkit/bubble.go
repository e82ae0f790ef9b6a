package testkit

import (
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server/ats"
)

// Main runs a package's tests, with the clock started.
func Main(m *testing.M) {
	StartClock()
	os.Exit(m.Run())
}

// StartClock starts the store's clock, which is one goroutine per process: started
// inside a bubble it would keep that bubble's time from passing.
func StartClock() { ats.Register() }

// Bubble runs f in virtual time, and then lets the store's last goroutines end;
// one that does not end fails the test.
func Bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(time.Minute) })
		f(t)
	})
}
