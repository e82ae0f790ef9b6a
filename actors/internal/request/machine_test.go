package request

import (
	"math"
	"testing"
	"time"
)

// TestStep has a row for every phase and event; an event without a row has no effect.
func TestStep(t *testing.T) {
	type step struct {
		p Phase
		e Event
	}
	type outcome struct {
		name string
		next Phase
		act  Action
	}
	table := map[step]outcome{
		{Plain, Emit}:     {"the first message makes a stream", Streaming, Open | Send},
		{Plain, Grace}:    {"so does the end of the grace", Streaming, Open},
		{Plain, Result}:   {"a quick answer is plain", Answered, Answer},
		{Plain, Cancel}:   {"a cancel before anything was sent", Cancelled, StopCall | Withdraw},
		{Plain, Deadline}: {"a deadline leaves the answer to the handler", Plain, StopCall},
		{Plain, GiveUp}:   {"a node that stops gives up what it has not accepted", Dropped, StopCall | Abandon},
		{Plain, Ask}:      {"a question of a stateless request is its answer", Parked, Answer},

		{Streaming, Emit}:     {"messages follow", Streaming, Send},
		{Streaming, Result}:   {"the answer ends the stream", Answered, Answer},
		{Streaming, Cancel}:   {"a cancel leaves a mark", Cancelled, StopCall | Withdraw},
		{Streaming, Lost}:     {"a lost stream stops the call", Dropped, StopCall},
		{Streaming, Deadline}: {"a deadline leaves the stream to the handler", Streaming, StopCall},
		{Streaming, GiveUp}:   {"a node that stops leaves accepted calls to others", Dropped, StopCall | Abandon},
		{Streaming, Ask}:      {"a question may end a stream", Parked, Answer},

		{Parked, Resume}: {"the request was sent again: as from the beginning", Plain, 0},
		{Parked, Result}: {"a handler that does not wait has nobody to answer", Dropped, 0},
		{Parked, GiveUp}: {"a node that stops ends the wait", Dropped, StopCall | Abandon},
	}
	for p := range phases {
		for e := range events {
			want, ok := table[step{p, e}]
			if !ok {
				want = outcome{"for nobody", p, Drop}
			}
			if next, act := Step(p, e); next != want.next || act != want.act {
				t.Errorf("%s (%d, %d): got %d, %b; want %d, %b", want.name, p, e, next, act, want.next, want.act)
			}
		}
	}
}

// TestAtMostOneEnding checks every order of up to six events: a request, and each round
// trip of it, gets at most one ending, and nothing after it.
func TestAtMostOneEnding(t *testing.T) {
	const endings = Answer | Withdraw | Abandon
	var walk func(p Phase, ended bool, path []Event)
	walk = func(p Phase, ended bool, path []Event) {
		if len(path) == 6 {
			return
		}
		for e := range events {
			next, act := Step(p, e)
			if act&endings != 0 && ended && p != Parked { // the handler is given up, and no request
				t.Fatalf("second ending at %v, %v", path, e)
			}
			if act&(Send|Open) != 0 && ended {
				t.Fatalf("sent after the ending at %v, %v", path, e)
			}
			again := p == Parked && e == Resume
			walk(next, !again && (ended || act&endings != 0), append(path[:len(path):len(path)], e))
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
