package troupe_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/internal/testkit"
	"github.com/troupe-run/troupe/mcp"
)

// listening is a stream that is read on while the test does other things.
type listening struct {
	*testkit.Answer

	mu    sync.Mutex // guards the rest
	got   []string
	ended bool
}

func listen(a *testkit.Answer) *listening {
	l := &listening{Answer: a}
	go func() {
		for e, ok := a.Next(); ok; e, ok = a.Next() {
			if e.Data != "" {
				l.mu.Lock()
				l.got = append(l.got, e.Data)
				l.mu.Unlock()
			}
		}
		l.mu.Lock()
		l.ended = true
		l.mu.Unlock()
	}()
	return l
}

// now returns what has come so far, once all that is under way has come.
func (l *listening) now() (got []string, ended bool) {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.got), l.ended
}

var (
	subscribeOne   = method("1", "resources/subscribe", `{"uri":"test://one"}`)
	oneUpdated     = note("notifications/resources/updated", `{"uri":"test://one"}`)
	promptsChanged = note("notifications/prompts/list_changed", "")
)

// A session leaves memory while nobody listens; a stream that is resumed later
// is the session's all the same.
func TestResumedStandaloneStreamHearsOn(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		h := newHost(t, troupe.Options{}, nil)
		c := h.session()
		c.Post(subscribeOne)
		s := c.Get("")
		prime, _ := s.Next()
		s.Close()
		time.Sleep(3 * time.Minute) // the session leaves memory, its stream does not
		l := listen(c.Get(prime.ID))
		before, _ := l.now()
		time.Sleep(3 * time.Minute)
		h.srv.ResourceUpdated("test://one")
		h.srv.RemovePrompts("greet")
		time.Sleep(time.Second)
		got, ended := l.now()
		if diff := cmp.Diff([]string{oneUpdated, promptsChanged}, got[len(before):]); diff != "" || ended {
			t.Errorf("ended: %v (-want +got):\n%s", ended, diff)
		}
		l.Close()
	})
}

// An event that is too big for one append has an id like any other.
func TestResumeAroundABigEvent(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		h := newHost(t, troupe.Options{}, nil)
		h.tool("big", 0, func(ctx context.Context, call *troupe.Call) (string, error) {
			for _, text := range []string{"before", strings.Repeat("x", 700<<10), "after"} {
				if err := call.Log(ctx, mcp.LevelError, "", text); err != nil {
					return "", err
				}
				if err := sleep(ctx, 100); err != nil {
					return "", err
				}
			}
			return "done", nil
		})
		c := h.session()
		all := c.Post(call("1", "big", `{}`)).All()
		if len(payloads(all)) != 4 {
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
			if diff := cmp.Diff(payloads(all[i+1:]), payloads(r.All())); diff != "" {
				t.Errorf("resume after event %d of %d bytes (-want +got):\n%.2000s", i, len(e.Data), diff)
			}
		}
	})
}

// What changes before a client listens for the first time is told once it does.
func TestUpdateBeforeTheFirstStream(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		h := newHost(t, troupe.Options{}, nil)
		c := h.session()
		c.Post(subscribeOne)
		h.srv.ResourceUpdated("test://one")
		l := listen(c.Get(""))
		time.Sleep(time.Second)
		got, _ := l.now()
		if diff := cmp.Diff([]string{oneUpdated}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		l.Close()
	})
}

// What changes while nobody listens is told to whoever comes back, however long
// that takes: by a resume as long as there is something to resume, else by a new
// stream.
func TestUpdateWhileNobodyListens(t *testing.T) {
	for _, away := range []time.Duration{time.Minute, 9 * time.Minute, 11 * time.Minute, 13 * time.Minute, 14 * time.Minute, 20 * time.Minute} {
		t.Run(away.String(), func(t *testing.T) {
			testkit.Bubble(t, func(t *testing.T) {
				h := newHost(t, troupe.Options{}, nil)
				c := h.session()
				c.Post(subscribeOne)
				s := c.Get("")
				prime, _ := s.Next()
				heard, _ := s.Next() // what may have changed before
				equal(t, "at first", heard.Data, oneUpdated)
				s.Close()
				busy := func(d time.Duration) { // the session stays in memory
					for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(30 * time.Second) {
						c.Post(call("1", "echo", `{"text":"x"}`))
					}
				}
				busy(away)
				h.srv.ResourceUpdated("test://one")
				h.srv.RemovePrompts("greet")
				busy(30 * time.Second)
				back := c.Get(prime.ID)
				if !back.Stream() {
					badEvent(t, back)
					back = c.Get("")
				}
				l := listen(back)
				time.Sleep(time.Second)
				got, _ := l.now()
				for _, want := range []string{oneUpdated, promptsChanged} {
					if !slices.Contains(got, want) {
						t.Errorf("got %q, which lacks %s", got, want)
					}
				}
				l.Close()
			})
		})
	}
}

// However closely two GETs follow each other, one stream replaces the other: the
// session listens once, and hears everything once.
func TestTwoStreamsBegunAtOnce(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		h := newHost(t, troupe.Options{}, nil)
		for i := range 50 {
			c := h.session()
			answers := make(chan *testkit.Answer, 2)
			for range 2 {
				go func() {
					a, err := c.Try("GET", "")
					if err != nil {
						t.Error(err)
					}
					answers <- a
				}()
			}
			var begun []*listening
			for range 2 {
				if a := <-answers; a == nil || !a.Stream() {
					t.Fatal("one of the two was refused")
				} else {
					begun = append(begun, listen(a))
				}
			}
			time.Sleep(time.Second)
			c.Post(call("1", "tick", `{"to":2}`))
			var heard []string
			live := 0
			for _, l := range begun {
				got, ended := l.now()
				if !ended {
					live++
				}
				heard = append(heard, got...)
			}
			var want []string
			for n := 1; n <= 2; n++ {
				want = append(want, note("notifications/message", fmt.Sprintf(`{"level":"info","logger":"tick","data":%d}`, n)))
			}
			if diff := cmp.Diff(want, heard); diff != "" || live != 1 {
				t.Errorf("pair %d: %d streams are live, want 1; heard (-want +got):\n%s", i, live, diff)
			}
			for _, l := range begun {
				l.Close()
			}
		}
		synctest.Wait()
		if n := h.actors("stream"); n > 50 {
			t.Errorf("%d streams are held for 50 sessions", n)
		}
	})
}

// What was told shortly before a connection broke, or on one that its client has given
// up, may not have arrived: the next stream tells it again. What was told long before
// is not repeated.
func TestListChangesToldOnABrokenConnection(t *testing.T) {
	for name, row := range map[string]struct {
		lives time.Duration // the connection, after the change
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
			testkit.Bubble(t, func(t *testing.T) {
				h := newHost(t, troupe.Options{}, nil)
				c := h.session()
				first := listen(c.Get(""))
				synctest.Wait()
				h.srv.RemovePrompts("greet")
				time.Sleep(time.Second)
				if got, _ := first.now(); !slices.Equal(got, []string{promptsChanged}) {
					t.Fatalf("told %v", got)
				}
				time.Sleep(row.lives)
				if row.ends {
					first.Close()
					time.Sleep(16 * time.Second) // until a comment does not get through
				}
				synctest.Wait()
				second := listen(c.Get(""))
				want := []string(nil)
				if row.again {
					want = []string{promptsChanged}
				}
				if got, _ := second.now(); !slices.Equal(got, want) {
					t.Errorf("the next stream begins with %v, want %v", got, want)
				}
				time.Sleep(time.Minute)
				second.Close()
				time.Sleep(16 * time.Second)
				third := listen(c.Get(""))
				defer third.Close()
				if got, _ := third.now(); len(got) != 0 {
					t.Errorf("the third stream begins with %v", got)
				}
			})
		})
	}
}
