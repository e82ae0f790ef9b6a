package actors

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/internal/pulse"
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/sim"
)

// TestTheNextRequestFinds has a client change its session by way of one node, and go on at another one that serves the session from what it
// knows. What the client has an answer for holds there, and at the latest when the node has heard again of the others.
func TestTheNextRequestFinds(t *testing.T) {
	const stands, notify = "a node that stands still", `{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`
	for what, change := range map[string]struct {
		kind string
		do   func(a *mate, name string) error
		so   func(b *mate, name string) bool
	}{
		"the level": {letterSessionChanged, func(a *mate, name string) error { return a.peerOf(name).SetLevel(context.Background(), "error") },
			func(b *mate, name string) bool { b.post(name, ping); return b.peerOf(name).Level() == "error" }},
		"the end": {letterSessionEnded, func(a *mate, name string) error {
			if status := a.remove(name); status != 200 {
				return fmt.Errorf("DELETE was answered %d", status)
			}
			return nil
		}, func(b *mate, name string) bool { status, _ := b.post(name, ping).answer(); return status == 404 }},
		"the roots": {letterSessionChanged, func(a *mate, name string) error { a.post(name, notify); return nil },
			func(b *mate, name string) bool {
				b.post(name, ping)
				return b.peerOf(name).last.Load().sharedAnswer().answer == nil
			}},
	} {
		for harm, tt := range map[string]struct {
			harm   func(c *band)
			takes  time.Duration // until the client has its answer, at most
			within time.Duration
		}{
			"nothing":               {func(*band) {}, 0, 0},
			"slow letters":          {func(c *band) { c.let(sim.Fate{There: knownWait / 2}, change.kind) }, knownWait, 0},
			"a dead node":           {func(c *band) { c.all[2].box.Kill() }, 0, 0},
			"a lost question":       {func(c *band) { c.lose(change.kind, 1) }, knownWait, 0}, // the letter to all follows
			"a node that is silent": {func(c *band) { c.let(lost, change.kind) }, knownWait, recordAge},
			stands:                  {func(c *band) { c.let(lost, change.kind, letterUsage) }, knownWait, 0},
		} {
			t.Run(what+", "+harm, func(t *testing.T) {
				inBand(t, 3, Limits{}, func(t *testing.T, c *band) {
					a, b := c.all[0], c.all[1]
					a.handler.notified = func(p *Peer) { p.Forget() }
					name := a.begin("2025-11-25")
					for _, m := range c.all {
						m.post(name, ping)
						m.peerOf(name).last.Load().sharedAnswer().answer = []byte("{}")
					}
					time.Sleep(pulse.Every / 4) // no beat is due when the client has its answer
					tt.harm(c)
					began := time.Now()
					if err := change.do(a, name); err != nil {
						t.Fatal(err)
					}
					if took := time.Since(began); took > tt.takes {
						t.Errorf("the client had its answer after %v, want %v at most", took, tt.takes)
					}
					if harm == stands { // and goes on with this request
						b.fleet.pulse.Skip(knownWait)
					}
					if what == "the roots" && tt.within > 0 { // nothing but a later letter shows it
						c.let(sim.Fate{}, change.kind)
						c.all[2].box.Tell(letterCancel, []byte("{}"))
						a.box.Tell(letterCancel, []byte("{}"))
					}
					if took, ok := until(tt.within, func() bool { return change.so(b, name) }); !ok {
						t.Errorf("it is not so at the other node after %v", took)
					}
				})
			})
		}
	}
}

func setValue(t *testing.T, p *Peer, value string) error {
	return p.UpdateValue(t.Context(), "k", func([]byte) ([]byte, error) { return []byte(value), nil })
}

func value(t *testing.T, p *Peer) string {
	t.Helper()
	v, err := p.Value(t.Context(), "k")
	if err != nil {
		t.Error(err)
	}
	return string(v)
}

// TestValueOfAnotherNode sets a value by turns at two nodes that hear nothing of each other, and reads it at the other one at once.
func TestValueOfAnotherNode(t *testing.T) {
	inBand(t, 2, Limits{}, func(t *testing.T, c *band) {
		name := c.all[0].begin("2025-11-25")
		c.all[1].post(name, ping)
		c.let(lost, letterSessionChanged)
		for i := range 20 {
			want := strconv.Itoa(i / 4) // each is also set where it is set already, by what the node knows
			if err := setValue(t, c.all[i%2].peerOf(name), want); err != nil {
				t.Fatal(err)
			}
			if got := value(t, c.all[1-i%2].peerOf(name)); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
		for i, v := range []string{"7", "8", "7"} { // the last one is what its node knows
			if err := setValue(t, c.all[i%2].peerOf(name), v); err != nil {
				t.Fatal(err)
			}
		}
		if got := value(t, c.all[1].peerOf(name)); got != "7" {
			t.Errorf("got %s, want 7, which was set last", got)
		}
	})
}

// TestValueThatIsBeingRead reads a value while the record is being read for another: that one may be from before.
func TestValueThatIsBeingRead(t *testing.T) {
	inBand(t, 2, Limits{}, func(t *testing.T, c *band) {
		a, b := c.all[0], c.all[1]
		name := a.begin("2025-11-25")
		b.post(name, ping)
		release := slow(c.mem, "Get")
		go value(t, b.peerOf(name))
		synctest.Wait()
		c.mem.after = nil
		if err := setValue(t, a.peerOf(name), "1"); err != nil {
			t.Fatal(err)
		}
		got := make(chan string, 1)
		go func() { got <- value(t, b.peerOf(name)) }()
		synctest.Wait()
		release()
		if v := <-got; v != "1" {
			t.Errorf("got %q, want 1", v)
		}
	})
}

// TestValuesAreCountedUp has calls on three nodes count a value up at the same time, with letters and without.
func TestValuesAreCountedUp(t *testing.T) {
	for name, fate := range map[string]sim.Fate{"told": {}, "not told": lost} {
		t.Run(name, func(t *testing.T) {
			inBand(t, 3, Limits{}, func(t *testing.T, c *band) {
				c.let(fate, letterSessionChanged)
				name := c.all[0].begin("2025-11-25")
				const each = 30
				var all sync.WaitGroup
				for _, m := range c.all {
					m.post(name, ping)
					for range 2 {
						all.Go(func() {
							for range each {
								err := m.peerOf(name).UpdateValue(t.Context(), "k", func(old []byte) ([]byte, error) {
									n, _ := strconv.Atoi(string(old))
									return strconv.AppendInt(nil, int64(n+1), 10), nil
								})
								if err != nil {
									t.Error(err)
								}
							}
						})
					}
				}
				all.Wait()
				if got := value(t, c.all[1].peerOf(name)); got != strconv.Itoa(6*each) {
					t.Errorf("counted to %s, want %d", got, 6*each)
				}
			})
		})
	}
}

var errRefused = &mcp.Error{Code: 7, Message: "no"}

// TestUpdateThatIsRefused has the function of an update fail by what the node knew: it is asked again with what there is.
func TestUpdateThatIsRefused(t *testing.T) {
	inBand(t, 2, Limits{}, func(t *testing.T, c *band) {
		a, b := c.all[0], c.all[1]
		name := a.begin("2025-11-25")
		b.post(name, ping)
		c.let(lost, letterSessionChanged)
		refusing := func(m *mate) error {
			return m.peerOf(name).UpdateValue(t.Context(), "k", func(old []byte) ([]byte, error) {
				if old == nil {
					return nil, errRefused
				}
				return []byte("2"), nil
			})
		}
		if err := refusing(b); err != error(errRefused) {
			t.Errorf("of nothing: %v", err)
		}
		if err := setValue(t, a.peerOf(name), "1"); err != nil {
			t.Fatal(err)
		}
		b.door.shut.Store(true)
		if err := refusing(b); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("while it cannot be known: %v", err)
		}
		b.door.shut.Store(false)
		if err := refusing(b); err != nil || value(t, a.peerOf(name)) != "2" {
			t.Errorf("of what another node has stored: %v", err)
		}
	})
}

// TestChangeThatIsToldTwice tells a node twice that the client's roots have changed, after it has the new ones, too: it does not ask for them
// again. A change that nothing names may be another one.
func TestChangeThatIsToldTwice(t *testing.T) {
	inBand(t, 2, Limits{}, func(t *testing.T, c *band) {
		a, b := c.all[0], c.all[1]
		name := a.begin("2025-11-25")
		b.post(name, ping)
		s := b.peerOf(name).last.Load()
		for _, tt := range []struct {
			change uint64
			asks   bool
		}{{1, true}, {1, false}, {2, true}, {1, false}, {2, false}, {0, true}, {0, true}, {2, false}} {
			s.sharedAnswer().answer = []byte("{}")
			a.fleet.broadcastLetter(letterSessionChanged, &sessionLetter{Session: s.key, Forget: true, Change: tt.change})
			synctest.Wait()
			if asks := s.sharedAnswer().answer == nil; asks != tt.asks {
				t.Errorf("change %d: the next call asks: %v", tt.change, asks)
			}
		}
	})
}

// TestNamingThatComesLate names a standalone stream after a later one of the same node, and after one of another node that this node has not heard of: neither
// is replaced by it.
func TestNamingThatComesLate(t *testing.T) {
	inBand(t, 2, Limits{}, func(t *testing.T, c *band) {
		a, b := c.all[0], c.all[1]
		name := a.begin("2025-11-25")
		b.post(name, ping)
		a.listen(name)
		c.let(lost, letterSessionChanged)
		b.listen(name)
		s := a.peerOf(name).last.Load()
		newest := b.peerOf(name).last.Load().view.Load().rec.Standalone
		late := &streamActor{key: StreamKey{s.key, newID()}} // of the order 0
		of := standalone{s}.nameStandalone(t.Context(), late)
		rec, _, err := a.sessions.readRecord(t.Context(), s.key)
		if err != nil || !of.replaced || of.old != "" || rec.Standalone != newest {
			t.Errorf("replaced %v, in place of %q; the record names %q, want %q: %v", of.replaced, of.old, rec.Standalone, newest, err)
		}
	})
}

// TestEndThatFindsNoPlace tells a node of the end of a session while it has no place for what that needs: it serves the session no more.
func TestEndThatFindsNoPlace(t *testing.T) {
	inBand(t, 2, Limits{}, func(t *testing.T, c *band) {
		a, b := c.all[0], c.all[1]
		name := a.begin("2025-11-25")
		b.post(name, ping)
		b.fleet.working.Add(maxAside)
		a.remove(name)
		b.fleet.working.Add(-maxAside)
		if status, body := b.post(name, ping).answer(); status != 404 {
			t.Errorf("answered %d %s", status, body)
		}
	})
}
