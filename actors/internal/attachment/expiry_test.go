package attachment_test

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/actors/internal/attachment"
	"github.com/troupe-run/troupe/actors/internal/stream"
)

func appendOf(n int) stream.Append {
	return stream.Append{Num: uint64(n), Entries: []stream.Entry{{Kind: stream.Message, Data: []byte(said(n))}}}
}

func frame(n int) attachment.Frame {
	return attachment.Frame{From: uint64(n), Append: appendOf(n)}
}

// TestNothingComesAfterItExpires has each of the ways on which an event comes to a connection bring one a moment before its end, and one at its end.
func TestNothingComesAfterItExpires(t *testing.T) {
	type connection = attachment.Attachment[string]
	for name, tt := range map[string]struct {
		primes, answers, live bool
		bring                 func(a *connection, n int)
		keptExpired           bool
	}{
		"a frame":                        {primes: true, live: true, bring: func(a *connection, n int) { a.Frame(frame(n)) }},
		"a frame, of an older client":    {live: true, bring: func(a *connection, n int) { a.Frame(frame(n)) }},
		"a frame of a call":              {primes: true, answers: true, live: true, bring: func(a *connection, n int) { a.Frame(frame(n)) }},
		"the log":                        {primes: true, bring: func(a *connection, n int) { a.WriteReplayed(appendOf(n)) }},
		"a question":                     {primes: true, live: true, bring: func(a *connection, n int) { a.SendUnstored([]byte(said(n)), time.Now()) }},
		"a call that nobody can resume":  {answers: true, live: true, bring: func(a *connection, n int) { a.SendUnstored([]byte(said(n)), time.Now()) }, keptExpired: true},
		"a call that has had an event":   {answers: true, live: true, bring: func(a *connection, n int) { a.Frame(frame(n)) }},
		"nothing comes but the moment":   {primes: true, live: true, bring: func(a *connection, n int) { a.EndIfExpired() }},
		"a frame behind a log that lags": {primes: true, bring: func(a *connection, n int) { a.Frame(frame(n)) }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var among attachment.Set[string]
				var held atomic.Int64
				c := &client{}
				until := time.Now().Add(time.Minute)
				a := attachment.New(attachment.Config[string]{Among: &among, Held: &held, Conn: c, Stream: "s", Expires: until, Primes: tt.primes, Answers: tt.answers}, 1, 0, tt.live)
				a.Open(true)
				time.Sleep(time.Minute - 1)
				if tt.bring(a, 1); a.IsOver() {
					t.Fatal("it is over before its end")
				}
				if strings.HasPrefix(name, "a frame behind") {
					time.Sleep(time.Nanosecond)
					a.CatchUp()
				} else {
					time.Sleep(time.Nanosecond)
					tt.bring(a, 2)
				}
				want := []string{said(1)}
				switch {
				case tt.keptExpired:
					tt.bring(a, 3)
					a.Frame(frame(1)) // from here on the client could resume
					a.Frame(frame(2))
					want = []string{said(1), said(2), said(3), said(1), said(2)}
				case strings.HasPrefix(name, "nothing"), strings.HasPrefix(name, "a frame behind"):
					want = nil
				}
				if !slices.Equal(c.events, want) || c.over == tt.keptExpired || a.IsOver() == tt.keptExpired {
					t.Errorf("the events %q came, want %q; over: %v", c.events, want, c.over)
				}
				if tt.primes && len(c.primed) != 1 {
					t.Errorf("it is primed with %q", c.primed)
				}
			})
		})
	}
}

// TestWithheld has a connection that may not have what it was not there for.
func TestWithheld(t *testing.T) {
	var among attachment.Set[string]
	var held atomic.Int64
	for name, tt := range map[string]struct {
		primes, later, live, over bool
		want                      []string
	}{
		"for good":                            {primes: true, live: true, want: []string{said(1), said(3)}},
		"for now":                             {primes: true, live: true, later: true, over: true, want: []string{said(1)}},
		"for now, of a client that has an id": {live: true, later: true, over: true, want: []string{said(1)}},
		"for now, and has waited":             {primes: true, later: true, over: true, want: []string{said(1)}},
	} {
		c := &client{}
		a := attachment.New(attachment.Config[string]{Among: &among, Held: &held, Conn: c, Stream: "s", Primes: tt.primes, Withholds: func(message []byte) (withheld, later bool) {
			return string(message) == said(2), string(message) == said(2) && tt.later
		}}, 1, 0, tt.live)
		a.Open(true)
		for n := 1; n <= 3; n++ {
			a.Frame(frame(n))
		}
		if !tt.live {
			a.CatchUp()
		}
		if !slices.Equal(c.events, tt.want) || c.over != tt.over {
			t.Errorf("%s: the events %q came, want %q; over: %v", name, c.events, tt.want, c.over)
		}
		again := attachment.New(a.Config, 2, 0, false)
		c.events, c.over = nil, false
		for n := 2; n <= 3; n++ {
			again.WriteReplayed(appendOf(n))
		}
		again.CatchUp()
		if !slices.Equal(c.events, []string{said(3)}) || c.over {
			t.Errorf("%s, resumed: the events %q came; over: %v", name, c.events, c.over)
		}
	}
}
