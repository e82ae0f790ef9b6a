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
	fleets    = flag.Int("fleets", 60, "how many histories of fleets happen")
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
	s := series{what: "histories", flag: "histories", count: *histories, plan: newPlan}
	s.run(t)
	if *histories >= 1000 && !t.Failed() {
		s.must(t, "events", "answers", "answers found again", "calls lost", "cancels", "nothing more", "power cuts", "refusals", "resumes", "second runs")
	}
	s.report(t, *report)
}

// series are random histories.
type series struct {
	what, flag string
	count      int
	plan       func(seed uint64) plan
	seed       uint64
	happened   int
	took       time.Duration

	mu     sync.Mutex // guards the rest
	sums   map[string]int
	failed []uint64
}

func (s *series) run(t *testing.T) {
	s.sums, s.failed, s.seed = map[string]int{}, []uint64{}, *firstSeed
	if s.seed == 0 {
		s.seed = uint64(time.Now().UnixMilli())
	}
	fmt.Printf("%d %s from seed %d: go test ./actors/recovery -run %s -%s %d -seed %d\n", s.count, s.what, s.seed, t.Name(), s.flag, s.count, s.seed)
	began := time.Now()
	var next, wrong atomic.Int64
	t.Run("all", func(t *testing.T) {
		for i := range runtime.GOMAXPROCS(0) {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				for {
					n := next.Add(1) - 1
					if n >= int64(s.count) || wrong.Load() >= 10 {
						return
					}
					p := s.plan(s.seed + uint64(n))
					h := happen(t, p)
					s.add(p, h)
					switch {
					case len(h.faults) > 0:
						wrong.Add(1)
						s.keep(t, p, h)
					case *told:
						complain(t, h)
					}
				}
			})
		}
	})
	s.took, s.happened = time.Since(began), min(int(next.Load()), s.count)
	var all []string
	for _, what := range slices.Sorted(maps.Keys(s.sums)) {
		all = append(all, fmt.Sprintf("%d %s", s.sums[what], what))
	}
	fmt.Printf("%d %s in %.1f s: %s\n", s.happened, s.what, s.took.Seconds(), strings.Join(all, ", "))
}

func (s *series) add(p plan, h history) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for what, n := range h.sums {
		s.sums[what] += n
	}
	if len(h.faults) > 0 {
		s.failed = append(s.failed, p.Seed)
	}
}

// must fails the test if one of these things has never happened.
func (s *series) must(t *testing.T, things ...string) {
	for _, what := range things {
		if s.sums[what] == 0 {
			t.Errorf("in no history there were %s", what)
		}
	}
}

// report writes what came of the histories to a file, if that has a name.
func (s *series) report(t *testing.T, file string) {
	if file == "" {
		return
	}
	text, err := json.MarshalIndent(map[string]any{"histories": s.happened, "seed": s.seed, "seconds": s.took.Seconds(), "failed": s.failed, "sums": s.sums}, "", "  ")
	if err == nil {
		err = os.WriteFile(file, append(text, '\n'), 0o644)
	}
	if err != nil {
		t.Error(err)
	}
}

// keep shrinks a history that was wrong, and keeps it for TestKept.
func (s *series) keep(t *testing.T, p plan, h history) {
	t.Helper()
	small, again := shrink(t, p, h)
	kind := ""
	if p.Nodes > 0 {
		kind = "fleet-"
	}
	name := filepath.Join(kept, fmt.Sprintf("%s%d.json", kind, p.Seed))
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
	t.Errorf("seed %d: %s\nrepeat it with: go test ./actors/recovery -run %s -%s 1 -seed %d\nmade small it is %s, and repeated by: go test ./actors/recovery -run TestKept/%s",
		p.Seed, h.faults[0], strings.SplitN(t.Name(), "/", 2)[0], s.flag, p.Seed, filepath.Join("actors/recovery", name), strings.TrimSuffix(filepath.Base(name), ".json"))
}
