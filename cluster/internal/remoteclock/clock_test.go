package remoteclock_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/cluster/internal/remoteclock"
)

// TestClock hears a server whose clock is behind that of the machine, with answers that take long or not, and after either clock was set.
func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c remoteclock.Clock
		if got := c.Now(); !got.Equal(time.Now()) || c.Ahead() != 0 {
			t.Errorf("before anything was heard it is %v, ahead %v", got, c.Ahead())
		}
		machine, server := time.Duration(0), -11*time.Minute // by how much their clocks are off
		hear := func(there, back time.Duration) {
			sent := time.Now().Add(machine)
			time.Sleep(there)
			said := time.Now().Add(server)
			time.Sleep(back)
			c.Hear(sent, time.Now().Add(machine), said)
		}
		is := func(what string, off, ahead time.Duration) {
			t.Helper()
			if got := c.Now().Sub(time.Now().Round(0)); got != off {
				t.Errorf("%s: off by %v, want %v", what, got, off)
			}
			if got := c.Ahead(); got != ahead {
				t.Errorf("%s: ahead by %v, want %v", what, got, ahead)
			}
		}
		const ms = time.Millisecond
		hear(10*ms, 10*ms)
		is("at first", -11*time.Minute, 11*time.Minute-10*ms)
		time.Sleep(time.Hour)
		is("an hour later", -11*time.Minute, 11*time.Minute-10*ms)
		hear(1900*ms, 100*ms)
		is("an answer that takes long", -11*time.Minute, 11*time.Minute-1900*ms)

		if got := c.Surely(); got != 11*time.Minute-1900*ms {
			t.Errorf("surely ahead by %v", got)
		}
		machine = -time.Hour
		is("the machine's clock was set", -11*time.Minute, 11*time.Minute-1900*ms)
		hear(10*ms, 10*ms)
		is("and the server is heard", -11*time.Minute, -49*time.Minute+10*ms)
		surely := []time.Duration{c.Surely()} // one server may be wrong
		for range 2 {
			hear(10*ms, 10*ms)
			surely = append(surely, c.Surely())
		}
		if want := []time.Duration{0, 0, -49*time.Minute + 10*ms}; !slices.Equal(surely, want) {
			t.Errorf("surely ahead by %v, want %v", surely, want)
		}

		machine, server = 0, -time.Second
		hear(10*ms, 30*ms)
		is("the server's clock was set", -1030*ms, time.Second-10*ms)
		server = 20 * ms
		hear(50*ms, 50*ms)
		is("a difference that cannot be told", -30*ms, 0)
		server = 300 * ms
		hear(0, 10*ms)
		is("a clock that goes on", 290*ms, -290*ms)
	})
}
