package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/internal/program"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/when"
)

// tryOpen opens a node, and returns why it could not.
func tryOpen(t *testing.T, v *kit.VirtualNATS, name string, change func(o *Options)) (*Node, error) {
	o := Options{Node: name, Remote: Remote{URL: v.Line(name).URL()}, Alike: []Setting{{"replay-age", "10m0s"}}}
	change(&o)
	return Open(t.Context(), o)
}

// TestFleetSettings: a node that has other settings than one that is there is refused, with all differences, and changes nothing.
func TestFleetSettings(t *testing.T) {
	kit.BubbleNATS(t, nil, func(t *testing.T, v *kit.VirtualNATS) {
		sized := func(gib int64) func(o *Options) { return func(o *Options) { o.MaxStore = gib << 30 } }
		a := must[*Node](t)(tryOpen(t, v, "a", sized(1)))
		size := func() uint64 { return must[StreamStats](t)(a.fillOfKind(t.Context(), "tasks")).MaxBytes }
		before := size()
		for _, c := range []struct {
			what   string
			change func(o *Options)
			want   []string
		}{
			{"another age", func(o *Options) { o.Alike[0].Value = "5m0s" }, []string{"replay-age is 10m0s there and 5m0s here"}},
			{"another size", sized(2), []string{"max-store is 1073741824 there and 2147483648 here"}},
			{"both", func(o *Options) { sized(2)(o); o.Alike[0].Value = "1h0m0s" }, []string{"max-store is", "replay-age is"}},
		} {
			n, err := tryOpen(t, v, "b", c.change)
			if !errors.Is(err, ErrRemote) {
				t.Fatalf("%s: got %v, %v", c.what, n, err)
			}
			for _, want := range append(c.want, "node a", "end all others first") {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%s: %v, want %q in it", c.what, err, want)
				}
			}
			if _, ok := a.entry(t, "b"); ok {
				t.Errorf("%s: the refused node left an entry", c.what)
			}
		}
		if got := size(); got != before {
			t.Errorf("a refused node changed the size of a stream from %d to %d", before, got)
		}

		// What a node does not set, or others do not know, it takes as it is.
		for i, set := range []func(o *Options){func(*Options) {}, sized(1), func(o *Options) { o.Alike = nil }, func(o *Options) { o.Alike = append(o.Alike, Setting{"new", "1"}) }} {
			n, err := tryOpen(t, v, fmt.Sprintf("c%d", i), set)
			if err != nil {
				t.Fatal(err)
			}
			change(t, n.Close(t.Context()))
		}

		// An older boot of the same node does not count: this one takes its place.
		change(t, must[*Node](t)(tryOpen(t, v, "a", sized(2))).Close(t.Context()))

		// Nor does one that died, once its lease is over.
		change(t, a.Close(t.Context()))
		b := must[*Node](t)(tryOpen(t, v, "b", sized(2)))
		closeAtEnd(t, b)
		v.Line("b").Break()
		synctest.Wait()
		if _, err := tryOpen(t, v, "c", sized(4)); !errors.Is(err, ErrRemote) {
			t.Errorf("while the lease of a dead node runs: %v", err)
		}
		time.Sleep(b.opts.Lease + 2*time.Second)
		c, err := tryOpen(t, v, "c", sized(4))
		if err != nil {
			t.Fatal(err)
		}
		change(t, c.Close(t.Context()))
		v.Line("b").Heal()
		time.Sleep(10 * time.Second)
	})
}

// TestFleetStartsTogether: of nodes that start at the same moment, those with the settings of the first stay.
func TestFleetStartsTogether(t *testing.T) {
	kit.BubbleNATS(t, nil, func(t *testing.T, v *kit.VirtualNATS) {
		for round := range 5 {
			var all sync.WaitGroup
			var mu sync.Mutex
			up := make(map[string][]*Node)
			for i := range 6 {
				age := []string{"1m", "2m"}[i%2]
				if round == 0 { // All have changed alike: all stay.
					age = "3m"
				}
				all.Go(func() {
					n, err := tryOpen(t, v, fmt.Sprintf("n%d-%d", round, i), func(o *Options) { o.Alike[0].Value = age })
					mu.Lock()
					defer mu.Unlock()
					if err == nil {
						up[age] = append(up[age], n)
					} else if !errors.Is(err, ErrRemote) {
						t.Error(err)
					}
				})
			}
			all.Wait()
			if len(up) != 1 {
				t.Errorf("round %d: %d nodes with one age, %d with the other", round, len(up["1m"]), len(up["2m"]))
			}
			if round == 0 && len(up["3m"]) != 6 {
				t.Errorf("%d of 6 nodes with the same settings start", len(up["3m"]))
			}
			for _, nodes := range up {
				if all := must[map[string]entry](t)(nodes[0].readEntries(t.Context())); len(all) != len(nodes) {
					t.Errorf("round %d: %d nodes started, and %d entries are there", round, len(nodes), len(all))
				}
				for _, n := range nodes {
					if err := n.Close(context.Background()); err != nil {
						t.Error(err)
					}
				}
			}
			time.Sleep(time.Minute)
		}
	})
}

// served are servers of one program.
func served(ids ...string) map[string]program.Program {
	all := make(map[string]program.Program)
	for _, id := range ids {
		all[id] = program.Program{Name: "program", Tools: "t"}
	}
	return all
}

// TestStrangers: a node that has other servers for long is logged, with what differs.
func TestStrangers(t *testing.T) {
	when.Unraced(t, "half a minute of virtual time under the race detector")
	kit.BubbleNATS(t, nil, func(t *testing.T, v *kit.VirtualNATS) {
		var text syncBuffer
		o := Options{Node: "a", Remote: Remote{URL: v.Line("a").URL()}, Log: slog.New(slog.NewTextHandler(&text, nil))}
		a, b := &mailbox{Node: open(t, o)}, listening(t, v, "b")
		a.listen()
		logged := func() int { synctest.Wait(); return strings.Count(text.String(), "does not serve the same") }
		a.Serves(served("one", "two"))
		time.Sleep(5 * time.Minute)
		if logged() != 0 {
			t.Errorf("a node that has not said what it serves is logged: %s", text.String())
		}
		b.Serves(served("two", "three"))
		time.Sleep(50 * time.Second)
		if logged() != 0 {
			t.Errorf("a difference is logged at once: %s", text.String())
		}
		time.Sleep(3 * time.Minute)
		if n := logged(); n < 2 || n > 4 || !strings.Contains(text.String(), "node=b only_there=[three] only_here=[one]") {
			t.Errorf("it is logged %d times: %s", n, text.String())
		}
		b.Serves(served("two", "one"))
		time.Sleep(2 * time.Second)
		n := logged()
		time.Sleep(5 * time.Minute)
		if logged() != n {
			t.Errorf("what is no difference any more is logged: %s", text.String())
		}
		many := make([]string, 1000)
		for i := range many {
			many[i] = fmt.Sprintf("server-%d", i)
		}
		b.Serves(served(many...))
		time.Sleep(2 * time.Minute)
		if logged() == n {
			t.Error("a difference between many is not logged")
		}
		if e, ok := a.entry(t, "b"); !ok || len(e.Servers) != 0 {
			t.Errorf("an entry names %d servers", len(e.Servers))
		}
	})
}
