package request

import (
	"math"
	"testing"
	"time"
)

func TestStep(t *testing.T) {
	for _, c := range []struct {
		name string
		p    Phase
		e    Event
		next Phase
		act  Action
	}{
		{"a quick answer is plain", Plain, Result, Answered, Answer},
		{"the first frame makes a stream", Plain, Emit, Streaming, Upgrade | Send},
		{"so does the end of the grace", Plain, Grace, Streaming, Upgrade},
		{"a cancel before anything was sent", Plain, Cancel, Cancelled, StopCall | EmptyEnd},
		{"a deadline leaves the answer to the handler", Plain, Deadline, Plain, StopCall},
		{"a node that stops refuses what it has not accepted", Plain, GiveUp, Dropped, StopCall | Refuse},
		{"frames follow", Streaming, Emit, Streaming, Send},
		{"a late grace changes nothing", Streaming, Grace, Streaming, Drop},
		{"the answer ends the stream", Streaming, Result, Answered, Final},
		{"a cancel leaves an end mark", Streaming, Cancel, Cancelled, StopCall | MarkEnd},
		{"a lost stream stops the call", Streaming, Lost, Dropped, StopCall},
		{"a node that stops hands accepted calls over", Streaming, GiveUp, Dropped, HandOver | StopCall},
		{"nothing is emitted after a cancel", Cancelled, Emit, Cancelled, Drop},
		{"nor answered", Cancelled, Result, Cancelled, Drop},
		{"nor after the answer", Answered, Emit, Answered, Drop},
		{"there is one answer", Answered, Result, Answered, Drop},
		{"a cancel that comes too late", Answered, Cancel, Answered, Drop},
		{"nothing after a loss", Dropped, Result, Dropped, Drop},
	} {
		if next, act := Step(c.p, c.e); next != c.next || act != c.act {
			t.Errorf("%s: got %d, %b; want %d, %b", c.name, next, act, c.next, c.act)
		}
	}
}

// TestAtMostOneEnding checks every order of up to six events: a request gets at
// most one ending, and nothing but endings' own actions after it.
func TestAtMostOneEnding(t *testing.T) {
	const endings = Answer | Final | EmptyEnd | MarkEnd | Refuse | HandOver
	var walk func(p Phase, ended bool, path []Event)
	walk = func(p Phase, ended bool, path []Event) {
		if len(path) == 6 {
			return
		}
		for e := Emit; e <= GiveUp; e++ {
			next, act := Step(p, e)
			if act&endings != 0 && ended {
				t.Fatalf("second ending at %v, %v", path, e)
			}
			if act&(Send|Upgrade) != 0 && ended {
				t.Fatalf("sent after the ending at %v, %v", path, e)
			}
			walk(next, ended || act&endings != 0, append(path[:len(path):len(path)], e))
		}
	}
	walk(Plain, false, nil)
}

func TestGate(t *testing.T) {
	var g Gate
	now := time.Unix(1000, 0)
	if v := g.Offer(0, now); v != Pass {
		t.Errorf("the first value, 0: %v, want Pass", v)
	}
	for _, v := range []float64{0, -1, math.NaN()} {
		if got := g.Offer(v, now); got != Stale {
			t.Errorf("%v after 0: %v, want Stale", v, got)
		}
	}
	for i := 1; i < Rate; i++ {
		if got := g.Offer(float64(i), now); got != Pass {
			t.Fatalf("value %d: %v, want Pass", i, got)
		}
	}
	if got := g.Offer(1000, now.Add(900*time.Millisecond)); got != Hold {
		t.Errorf("one above the rate: %v, want Hold", got)
	}
	if w := g.Wait(now.Add(900 * time.Millisecond)); w != 100*time.Millisecond {
		t.Errorf("wait %v, want 100ms", w)
	}
	if got := g.Offer(1001, now.Add(time.Second)); got != Pass {
		t.Errorf("in the next second: %v, want Pass", got)
	}
	var again Gate
	again.Raise(5)
	if got := again.Offer(5, now); got != Stale {
		t.Errorf("a re-run's old value: %v, want Stale", got)
	}
	if got := again.Offer(6, now); got != Pass {
		t.Errorf("a re-run's new value: %v, want Pass", got)
	}
}
