package history

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var (
	histories = flag.Int("histories", 500, "how many histories")
	firstSeed = flag.Uint64("seed", 1, "the seed of the first one; 0 draws it")
	told      = flag.Bool("tell", false, "say what happens")
)

const kept = "testdata/kept.txt"

// TestHistories runs random histories. A run of one seed is the same each time.
func TestHistories(t *testing.T) {
	count := *histories
	if testing.Short() {
		count = min(count, 100)
	}
	seed := *firstSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixMilli())
	}
	fmt.Printf("%d histories from seed %d: go test ./internal/sim/history -run TestHistories -histories %d -seed %d\n", count, seed, count, seed)
	began := time.Now()
	var next, events atomic.Int64
	var mu sync.Mutex
	sums := map[string]int{}
	var failed []*world
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for {
				n := next.Add(1) - 1
				mu.Lock()
				over := n >= int64(count) || len(failed) >= 10
				mu.Unlock()
				if over {
					return
				}
				w := happen(seed+uint64(n), *told)
				events.Add(int64(w.events))
				mu.Lock()
				for what, k := range w.judge.sums {
					sums[what] += k
				}
				if len(w.judge.faults) > 0 {
					failed = append(failed, w)
				} else if *told {
					t.Logf("%v\n%s", w, strings.Join(w.tale, "\n"))
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	var what []string
	for _, k := range slices.Sorted(maps.Keys(sums)) {
		what = append(what, fmt.Sprintf("%d %s", sums[k], k))
	}
	fmt.Printf("%d histories in %.1f s, %d events: %s\n", min(int(next.Load()), count), time.Since(began).Seconds(), events.Load(), strings.Join(what, ", "))
	slices.SortFunc(failed, func(a, b *world) int { return int(int64(a.plan.Seed) - int64(b.plan.Seed)) })
	for _, w := range failed {
		t.Errorf("seed %d: %s\nrepeat it with: go test ./internal/sim/history -run TestHistories -histories 1 -seed %d -tell\nkeep it by a line in internal/sim/history/%s", w.plan.Seed, w.judge.faults[0], w.plan.Seed, kept)
	}
	if len(failed) > 0 && count == 1 {
		t.Logf("what happened:\n%s", strings.Join(happen(failed[0].plan.Seed, true).tale, "\n"))
	}
	if count >= 5000 && !t.Failed() {
		for _, k := range []string{"calls", "responses", "calls lost", "takeovers", "second runs", "resumes", "questions found again", "messages passed over", "records stored again", "power", "freeze", "drain", "jump", "full"} {
			if sums[k] == 0 {
				t.Errorf("in no history there were %s", k)
			}
		}
	}
}

// TestSeedsRepeat checks that a seed gives the same history each time, to the last event.
func TestSeedsRepeat(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		a, b := happen(seed, true), happen(seed, true)
		if a.hash != b.hash || a.events != b.events || !slices.Equal(a.tale, b.tale) {
			t.Errorf("seed %d: %d events and %x, then %d and %x", seed, a.events, a.hash, b.events, b.hash)
		}
	}
	if a, b := happen(1, false), happen(2, false); a.hash == b.hash {
		t.Error("two seeds give one history")
	}
}

// TestKept runs the histories that were wrong once.
func TestKept(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(kept)
	if err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		number, why, _ := strings.Cut(lines.Text(), " ")
		if number == "" || number == "#" {
			continue
		}
		seed, err := strconv.ParseUint(number, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if w := happen(seed, *told); len(w.judge.faults) > 0 {
			t.Errorf("seed %d, which was %q: %s", seed, why, w.judge.faults[0])
		}
	}
}
