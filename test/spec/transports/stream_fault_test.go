package transports_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/when"
	"github.com/troupe-run/troupe/test/spec/host"
)

// TestResumedStandaloneStreamHearsOn has a session leave memory while no client
// listens: a stream that is resumed later gets the session's messages all the same.
func TestResumedStandaloneStreamHearsOn(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		c := h.Session()
		c.Post(host.SubscribeOne)
		s := c.Get("")
		prime, _ := s.Next()
		s.Close()
		time.Sleep(3 * time.Minute) // the session leaves memory, its stream does not
		l := host.Listen(c.Get(prime.ID))
		before, _ := l.Now()
		time.Sleep(3 * time.Minute)
		h.Server.ResourceUpdated("test://one")
		h.Server.RemovePrompts("greet")
		time.Sleep(time.Second)
		got, ended := l.Now()
		if diff := cmp.Diff([]string{host.OneUpdated, host.PromptsChanged}, got[len(before):]); diff != "" || ended {
			t.Errorf("ended: %v (-want +got):\n%s", ended, diff)
		}
		l.Close()
	})
}

// TestResumeAroundABigEvent checks that an event that is too big for one append has an
// id like any other.
func TestResumeAroundABigEvent(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		h.AddTool("big", 0, func(ctx context.Context, call *troupe.Call) (string, error) {
			for _, text := range []string{"before", strings.Repeat("x", 700<<10), "after"} {
				if err := call.Log(ctx, mcp.LevelError, "", text); err != nil {
					return "", err
				}
				if err := host.Sleep(ctx, 100); err != nil {
					return "", err
				}
			}
			return "done", nil
		})
		c := h.Session()
		all := c.Post(host.Call("1", "big", `{}`)).All()
		if len(host.Payloads(all)) != 4 {
			t.Fatalf("%d events", len(all))
		}
		for i, e := range all {
			r := c.Get(e.ID)
			if i == len(all)-1 {
				over(t, r)
				continue
			}
			if !r.Stream() {
				t.Errorf("resume after event %d of %d bytes: %s %s", i, len(e.Data), r.Status, r.Body)
				continue
			}
			if diff := cmp.Diff(host.Payloads(all[i+1:]), host.Payloads(r.All())); diff != "" {
				t.Errorf("resume after event %d of %d bytes (-want +got):\n%.2000s", i, len(e.Data), diff)
			}
		}
	})
}

// TestUpdateBeforeTheFirstStream checks that changes before a client listens for the
// first time are announced once it does.
func TestUpdateBeforeTheFirstStream(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		c := h.Session()
		c.Post(host.SubscribeOne)
		h.Server.ResourceUpdated("test://one")
		l := host.Listen(c.Get(""))
		time.Sleep(time.Second)
		got, _ := l.Now()
		if diff := cmp.Diff([]string{host.OneUpdated}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		l.Close()
	})
}

// TestUpdateWhileNobodyListens checks that a client that comes back gets the changes
// made meanwhile, however long that was: by a resume as long as there is something to
// resume, else by a new stream.
func TestUpdateWhileNobodyListens(t *testing.T) {
	when.Unraced(t, "virtual time that is long under the race detector")
	when.Long(t, "six waits")
	for _, away := range []time.Duration{time.Minute, 9 * time.Minute, 11 * time.Minute, 13 * time.Minute, 14 * time.Minute, 20 * time.Minute} {
		t.Run(away.String(), func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				h := host.New(t, troupe.Options{}, nil)
				c := h.Session()
				c.Post(host.SubscribeOne)
				s := c.Get("")
				prime, _ := s.Next()
				heard, _ := s.Next() // changes before that
				host.Equal(t, "at first", heard.Data, host.OneUpdated)
				s.Close()
				busy := func(d time.Duration) { // the session stays in memory
					for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(30 * time.Second) {
						c.Post(host.Call("1", "echo", `{"text":"x"}`))
					}
				}
				busy(away)
				h.Server.ResourceUpdated("test://one")
				h.Server.RemovePrompts("greet")
				busy(30 * time.Second)
				back := c.Get(prime.ID)
				if !back.Stream() {
					host.BadEvent(t, back)
					back = c.Get("")
				}
				l := host.Listen(back)
				time.Sleep(time.Second)
				got, _ := l.Now()
				for _, want := range []string{host.OneUpdated, host.PromptsChanged} {
					if !slices.Contains(got, want) {
						t.Errorf("got %q, which lacks %s", got, want)
					}
				}
				l.Close()
			})
		})
	}
}

// TestTwoStreamsBegunAtOnce checks that of two GETs in close succession one stream
// replaces the other: the session listens once, and gets every message once.
func TestTwoStreamsBegunAtOnce(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		for i := range 50 {
			c := h.Session()
			answers := make(chan *kit.Answer, 2)
			for range 2 {
				go func() {
					a, err := c.Try("GET", "")
					if err != nil {
						t.Error(err)
					}
					answers <- a
				}()
			}
			var begun []*host.Listening
			for range 2 {
				if a := <-answers; a == nil || !a.Stream() {
					t.Fatal("one of the two was refused")
				} else {
					begun = append(begun, host.Listen(a))
				}
			}
			time.Sleep(time.Second)
			c.Post(host.Call("1", "tick", `{"to":2}`))
			var heard []string
			live := 0
			for _, l := range begun {
				got, ended := l.Now()
				if !ended {
					live++
				}
				heard = append(heard, got...)
			}
			var want []string
			for n := 1; n <= 2; n++ {
				want = append(want, host.Note("notifications/message", fmt.Sprintf(`{"level":"info","logger":"tick","data":%d}`, n)))
			}
			if diff := cmp.Diff(want, heard); diff != "" || live != 1 {
				t.Errorf("pair %d: %d streams are live, want 1; heard (-want +got):\n%s", i, live, diff)
			}
			for _, l := range begun {
				l.Close()
			}
		}
		synctest.Wait()
		if n := h.Actors("stream"); n > 50 {
			t.Errorf("%d streams are held for 50 sessions", n)
		}
	})
}

// TestListChangesToldOnABrokenConnection checks which announcements the next stream
// repeats: those sent shortly before a connection broke, or on one that its client has
// given up, because they may not have arrived. Announcements sent long before are not
// repeated.
func TestListChangesToldOnABrokenConnection(t *testing.T) {
	when.Unraced(t, "virtual time that is long under the race detector")
	for name, row := range map[string]struct {
		lives time.Duration // how long the connection lives after the change
		ends  bool          // before the next one begins
		again bool
	}{
		"broken at once":       {0, true, true},
		"broken a little late": {20 * time.Second, true, true},
		"broken late":          {46 * time.Second, true, false},
		"given up":             {46 * time.Second, false, true},
		"given up at once":     {0, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				h := host.New(t, troupe.Options{}, nil)
				c := h.Session()
				first := host.Listen(c.Get(""))
				synctest.Wait()
				h.Server.RemovePrompts("greet")
				time.Sleep(time.Second)
				if got, _ := first.Now(); !slices.Equal(got, []string{host.PromptsChanged}) {
					t.Fatalf("told %v", got)
				}
				time.Sleep(row.lives)
				if row.ends {
					first.Close()
					time.Sleep(16 * time.Second) // until a comment does not get through
				}
				synctest.Wait()
				second := host.Listen(c.Get(""))
				want := []string(nil)
				if row.again {
					want = []string{host.PromptsChanged}
				}
				if got, _ := second.Now(); !slices.Equal(got, want) {
					t.Errorf("the next stream begins with %v, want %v", got, want)
				}
				time.Sleep(time.Minute)
				second.Close()
				time.Sleep(16 * time.Second)
				third := host.Listen(c.Get(""))
				defer third.Close()
				if got, _ := third.Now(); len(got) != 0 {
					t.Errorf("the third stream begins with %v", got)
				}
			})
		})
	}
}
