package bubble

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Test runs f in virtual time, and then lets the store's last goroutines end. It fails
// the test if one does not end.
func Test(t *testing.T, f func(t *testing.T)) {
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

// OneAtATime has one goroutine run at a time until the test has ended, if the race detector looks on. Go 1.26 runs the
// timers of a bubble in one context of the detector, on whichever threads look at their channels, and two of them at once
// end the process (https://go.dev/issue/78156). Call it before [synctest.Test].
func OneAtATime(t *testing.T) {
	if !RaceEnabled {
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
