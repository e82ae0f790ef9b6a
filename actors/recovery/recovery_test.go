package recovery

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var (
	histories = flag.Int("histories", 60, "how many histories happen")
	firstSeed = flag.Uint64("seed", 1, "the seed of the first history, the others follow; 0 draws one")
	told      = flag.Bool("tell", false, "tell what happens in a history, wrong or not")
	report    = flag.String("report", "", "file for a report as JSON")
)

// kept is the folder of histories that were wrong once.
const kept = "testdata/histories"

// keptPlan is a file in that folder.
type keptPlan struct {
	Fault string // what was wrong
	Plan  plan
}

// TestKept runs the histories that were wrong once, which must be right now.
func TestKept(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(kept, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var k keptPlan
			if err := json.Unmarshal(text, &k); err != nil {
				t.Fatal(err)
			}
			times := 3
			if testing.Short() {
				times = 1
			}
			for range times { // events at the same instant have any order
				if h := happen(t, k.Plan); len(h.faults) > 0 || *told {
					complain(t, h)
				}
			}
		})
	}
}

// complain fails the test if a history is wrong.
func complain(t *testing.T, h history) {
	t.Helper()
	tale := h.tale
	if n := len(tale) - 150; n > 0 && !*told {
		tale = append([]string{fmt.Sprintf("(%d lines before)", n)}, tale[n:]...)
	}
	t.Logf("what happened:\n%s", strings.Join(tale, "\n"))
	if len(h.faults) > 0 {
		t.Errorf("%s", strings.Join(h.faults, "\n"))
	}
}

// TestHistories runs random histories. Every accepted request has at most one response,
// which uses the answers to its questions. Every event id names one event. No client
// learns that it has everything unless it has.
func TestHistories(t *testing.T) {
	if testing.Short() {
		*histories = min(*histories, 15)
	}
	seed := *firstSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixMilli())
	}
	fmt.Printf("%d histories from seed %d: go test ./actors/recovery -run TestHistories -histories %d -seed %d\n", *histories, seed, *histories, seed)
	began := time.Now()
	var next, wrong atomic.Int64
	var mu sync.Mutex // guards sums and failed
	sums, failed := map[string]int{}, []uint64{}
	t.Run("all", func(t *testing.T) {
		for i := range runtime.GOMAXPROCS(0) {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				for {
					n := next.Add(1) - 1
					if n >= int64(*histories) || wrong.Load() >= 10 {
						return
					}
					p := newPlan(seed + uint64(n))
					h := happen(t, p)
					mu.Lock()
					for what, n := range h.sums {
						sums[what] += n
					}
					if len(h.faults) > 0 {
						failed = append(failed, p.Seed)
					}
					mu.Unlock()
					switch {
					case len(h.faults) > 0:
						wrong.Add(1)
						keep(t, p, h)
					case *told:
						complain(t, h)
					}
				}
			})
		}
	})
	took := time.Since(began)
	var all []string
	for _, what := range slices.Sorted(maps.Keys(sums)) {
		all = append(all, fmt.Sprintf("%d %s", sums[what], what))
	}
	fmt.Printf("%d histories in %.1f s: %s\n", min(int(next.Load()), *histories), took.Seconds(), strings.Join(all, ", "))
	if *histories >= 1000 && !t.Failed() {
		for _, what := range []string{"events", "answers", "answers found again", "calls lost", "cancels", "nothing more", "power cuts", "refusals", "resumes", "second runs"} {
			if sums[what] == 0 {
				t.Errorf("in no history there were %s", what)
			}
		}
	}
	if *report != "" {
		text, err := json.MarshalIndent(map[string]any{"histories": min(int(next.Load()), *histories), "seed": seed, "seconds": took.Seconds(), "failed": failed, "sums": sums}, "", "  ")
		if err == nil {
			err = os.WriteFile(*report, append(text, '\n'), 0o644)
		}
		if err != nil {
			t.Error(err)
		}
	}
}

// keep shrinks a history that was wrong, and keeps it for TestKept.
func keep(t *testing.T, p plan, h history) {
	t.Helper()
	small, again := shrink(t, p, h)
	name := filepath.Join(kept, fmt.Sprintf("%d.json", p.Seed))
	text, err := json.MarshalIndent(keptPlan{again.faults[0], small}, "", "\t")
	if err == nil {
		err = os.MkdirAll(kept, 0o755)
	}
	if err == nil {
		err = os.WriteFile(name, append(text, '\n'), 0o644)
	}
	if err != nil {
		t.Error(err)
	}
	complain(t, again)
	t.Errorf("seed %d: %s\nrepeat it with: go test ./actors/recovery -run TestHistories -histories 1 -seed %d\nmade small it is %s, and repeated by: go test ./actors/recovery -run TestKept/%d", p.Seed, h.faults[0], p.Seed, filepath.Join("actors/recovery", name), p.Seed)
}
