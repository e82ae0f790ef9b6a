package pulse_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/internal/pulse"
)

// TestAProcessThatStandsStill asks at the moment at which it goes on, and later: it is told once, and not while the process runs.
func TestAProcessThatStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stood := 0
		p := pulse.New(func() { stood++ })
		defer p.Stop()
		feels := func(what string, want int) {
			t.Helper()
			if p.Feel(); stood != want {
				t.Errorf("%s: stood still %d times, want %d", what, stood, want)
			}
		}
		feels("at first", 0)
		time.Sleep(time.Hour + pulse.Every/2) // between two beats: one at the same instant would run beside what follows
		feels("while it runs", 0)
		p.Skip(pulse.Every + pulse.Still + time.Millisecond)
		feels("when it goes on", 1)
		feels("once more", 1)
		time.Sleep(time.Hour)
		feels("while it runs again", 1)
		p.Skip(pulse.Every + pulse.Still + time.Millisecond)
		time.Sleep(pulse.Every) // the beat finds it
		synctest.Wait()
		feels("when nobody has asked", 2)
		p.Skip(pulse.Still / 2)
		feels("for a moment", 2)
	})
}
