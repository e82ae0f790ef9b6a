package loadgen

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"
)

// looks is when a run has asked for what in its options.
type looks struct {
	settled   []time.Time
	meanwhile time.Time
}

// watch has a run note when it calls back.
func watch(o *Options) *looks {
	l := new(looks)
	o.Settle = func(context.Context) error {
		l.settled = append(l.settled, time.Now())
		return nil
	}
	o.Meanwhile = func(context.Context) error {
		l.meanwhile = time.Now()
		return nil
	}
	return l
}

// check checks that the server could settle before each look at its memory, and that there was time
// between the two.
func (l *looks) check(t *testing.T) {
	t.Helper()
	if len(l.settled) != 2 || l.settled[1].Sub(l.settled[0]) < restFor || l.meanwhile.Before(l.settled[1]) {
		t.Errorf("the server settled at %v, and had other work at %v", l.settled, l.meanwhile)
	}
}

// TestHeldFails: a server that does not settle has no figures, and neither has one whose other work
// failed.
func TestHeldFails(t *testing.T) {
	broken := errors.New("broken")
	for _, scenario := range []string{"hold", "streams"} {
		for name, set := range map[string]func(*Options){
			"settle":    func(o *Options) { o.Settle = func(context.Context) error { return broken } },
			"meanwhile": func(o *Options) { o.Meanwhile = func(context.Context) error { return broken } },
		} {
			t.Run(scenario+" "+name, func(t *testing.T) {
				new(manyServer).serve(t, func(t *testing.T, o Options) {
					o.Scenario, o.Count = scenario, 10
					set(&o)
					if _, err := Run(t.Context(), o); !errors.Is(err, broken) {
						t.Errorf("the error is %v, want %v", err, broken)
					}
				})
			})
		}
	}
}

// TestHold: sessions that have gone are found, and all are ended unless they are to stay.
func TestHold(t *testing.T) {
	for _, keep := range []bool{false, true} {
		t.Run(fmt.Sprint("keep=", keep), func(t *testing.T) {
			s := &manyServer{gone: func(n int) bool { return n%100 == 7 }}
			s.serve(t, func(t *testing.T, o Options) {
				o.Scenario, o.Count, o.Keep = "hold", 300, keep
				looks := watch(&o)
				r, err := Run(t.Context(), o)
				looks.check(t)
				judge(t, r, err, 300, map[string]int64{"status 404": 3})
				if r.Held == nil || r.Held.Count != 300 {
					t.Errorf("held are %+v", r.Held)
				}
				if n := len(s.ended); keep && n > 0 || !keep && n != 300 {
					t.Errorf("%d sessions were ended", n)
				}
				for id, n := range s.ended {
					if n != 1 {
						t.Errorf("session %s was ended %d times", id, n)
					}
				}
			})
		})
	}
}

// TestHoldNeedsSessions: two sessions of one id are one.
func TestHoldNeedsSessions(t *testing.T) {
	s := &manyServer{sameID: true}
	s.serve(t, func(t *testing.T, o Options) {
		o.Scenario, o.Count, o.Clients = "hold", 4, 2
		r, err := Run(t.Context(), o)
		judge(t, r, err, 1, map[string]int64{"wrong answer": 3})
	})
}

// TestIdleStreams: streams that end are counted, comments are nothing, and pings are answered.
func TestIdleStreams(t *testing.T) {
	for _, revision := range []string{DefaultRevision, Stateless} {
		t.Run(revision, func(t *testing.T) {
			s := &manyServer{breaks: func(n int) bool { return n%10 == 3 }}
			s.serve(t, func(t *testing.T, o Options) {
				o.Scenario, o.Revision, o.Count, o.Duration = "streams", revision, 50, 5*time.Second
				looks := watch(&o)
				r, err := Run(t.Context(), o)
				looks.check(t)
				judge(t, r, err, 50, map[string]int64{"stream ended": 5})
				if r.Held == nil || r.Held.Count != 50 || r.Held.Seconds != 5 || r.Events != 0 {
					t.Errorf("held are %+v, with %d events", r.Held, r.Events)
				}
				if want := 45*2 + 5; s.pongs != want {
					t.Errorf("%d pings were answered, want %d", s.pongs, want)
				}
			})
		})
	}
}

// TestResume: each stream must get what it missed, once and in order, in as many parts as it takes.
func TestResume(t *testing.T) {
	all := func(from int) (numbers []int) {
		for n := from + 1; n <= steps; n++ {
			numbers = append(numbers, n)
		}
		return numbers
	}
	s := &manyServer{
		parts: func(session int) bool { return session%10 == 1 },
		replay: func(session, from int) []int {
			switch session % 10 {
			case 2: // One is missing.
				return all(from + 1)
			case 3: // The last is.
				return all(from)[:steps-from-1]
			case 4: // One comes twice.
				return append([]int{from + 1}, all(from)...)
			case 5: // One that had come comes again.
				return all(from - 1)
			}
			return all(from)
		},
	}
	s.serve(t, func(t *testing.T, o Options) {
		o.Scenario, o.Count = "resume", 40
		r, err := Run(t.Context(), o)
		judge(t, r, err, 24, map[string]int64{"lost": 8, "doubled": 8})
		if r.First == nil || r.First.P50 < 30 || r.First.P50 > 31 || r.Latency.P50 < 50 || r.Latency.P50 > 51 || r.Latency.Max < 100 {
			t.Errorf("latencies are %+v, to the first event %+v", r.Latency, r.First)
		}
	})
}

// TestFanout: what a stream does not hear of, or hears of twice, is counted; an update at the
// beginning of a stream is not.
func TestFanout(t *testing.T) {
	for _, revision := range []string{DefaultRevision, Stateless} {
		t.Run(revision, func(t *testing.T) {
			s := &manyServer{repeats: true, copies: func(stream, update int) int {
				switch {
				case stream == 3 && update%5 == 4:
					return 0
				case stream == 5 && update%5 == 2:
					return 2
				}
				return 1
			}}
			s.serve(t, func(t *testing.T, o Options) {
				o.Scenario, o.Revision, o.Count, o.Rate, o.Timeout, o.Duration = "fanout", revision, 30, 1, 500*time.Millisecond, 10*time.Second
				r, err := Run(t.Context(), o)
				judge(t, r, err, 10*30-2, map[string]int64{"lost": 2, "doubled": 2})
				if l := r.Latency; l.P50 < 7 || l.Max > 8 {
					t.Errorf("latencies are %+v", l)
				}
			})
		})
	}
}

// TestParked: calls that ask are left as they are, and one that is answered at once is none of
// them.
func TestParked(t *testing.T) {
	against(t, func(n int64, w http.ResponseWriter, id, text string) {
		if n%100 == 7 {
			answer(w, id, text)
			return
		}
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"input_required","inputRequests":{"a":{}},"requestState":"s"}}`, id)
	}, func(t *testing.T, o Options) {
		o.Scenario, o.Count, o.Tool = "parked", 300, "echo"
		if _, err := Run(t.Context(), o); err == nil {
			t.Error("calls wait in a session")
		}
		o.Revision = Stateless
		looks := watch(&o)
		r, err := Run(t.Context(), o)
		looks.check(t)
		judge(t, r, err, 297, map[string]int64{"wrong answer": 3})
		if r.Held == nil || r.Held.Count != 297 {
			t.Errorf("held are %+v", r.Held)
		}
	})
}
