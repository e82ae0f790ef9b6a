package histories

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	firstSeed = flag.Uint64("seed", 1, "the seed of the first history, the others follow; 0 draws one")
	told      = flag.Bool("tell", false, "tell what happens in a history, wrong or not")
)

// kept is the folder of histories that were wrong once, beside the test.
const kept = "testdata/histories"

// keptPlan is a file in that folder.
type keptPlan[P any] struct {
	Fault string // what was wrong
	Plan  P
}

// Harness is a kind of random histories.
type Harness[P any] struct {
	Package string // of the test, as go test takes it
	Flag    string // that says how many happen
	Kind    string // in the names of kept histories, before their seeds
	Workers int    // how many happen at once
	Times   int    // how often a smaller plan may be right before it is: events of one instant have any order
	Wrong   int    // how many wrong histories end a run
	Draw    func(seed uint64) P
	Happen  func(t *testing.T, p P) History
}

// Begin says how the histories of a test can be repeated. It returns the seed of the first.
func (h *Harness[P]) Begin(t *testing.T, count int) uint64 {
	if *firstSeed == 0 {
		*firstSeed = uint64(time.Now().UnixMilli())
	}
	fmt.Printf("%d histories from seed %d: go test %s -run %s -%s %d -seed %d\n", count, *firstSeed, h.Package, t.Name(), h.Flag, count, *firstSeed)
	return *firstSeed
}

// Run has each step-th of that many histories happen. If that is not each, somebody else has said how they can be repeated.
func (h *Harness[P]) Run(t *testing.T, count, step int) Report {
	if step == 1 {
		h.Begin(t, count)
	}
	r := Report{Seed: *firstSeed, Failed: []uint64{}, Sums: map[string]int{}}
	began, test := time.Now(), t.Name()
	var mu sync.Mutex // guards r and next
	next := 0
	take := func() (seed uint64, ok bool) {
		mu.Lock()
		defer mu.Unlock()
		if next >= count || len(r.Failed) >= h.Wrong {
			return 0, false
		}
		next += step
		return *firstSeed + uint64(next-step), true
	}
	t.Run("all", func(t *testing.T) {
		for i := range h.Workers {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				if h.Workers > 1 {
					t.Parallel()
				}
				for seed, ok := take(); ok; seed, ok = take() {
					p := h.Draw(seed)
					got := h.Happen(t, p)
					one := Report{Histories: 1, Sums: got.Sums}
					if len(got.Faults) > 0 {
						one.Failed = []uint64{seed}
					}
					mu.Lock()
					r.Add(one)
					mu.Unlock()
					if len(got.Faults) > 0 {
						h.keep(t, test, seed, p, got)
					} else if *told {
						complain(t, got)
					}
				}
			})
		}
	})
	if r.Seconds = time.Since(began).Seconds(); step == 1 {
		r.Print()
	}
	return r
}

// keep makes a history that was wrong smaller, and keeps it for [Harness.Kept].
func (h *Harness[P]) keep(t *testing.T, test string, seed uint64, p P, wrong History) {
	t.Helper()
	small, again := shrink(t, p, wrong, h.Times, h.Happen)
	name := fmt.Sprint(h.Kind, seed)
	file := filepath.Join(kept, name+".json")
	text, err := json.MarshalIndent(keptPlan[P]{again.Faults[0], small}, "", "\t")
	if err == nil {
		err = os.MkdirAll(kept, 0o755)
	}
	if err == nil {
		err = os.WriteFile(file, append(text, '\n'), 0o644)
	}
	if err != nil {
		t.Error(err)
	}
	complain(t, again)
	t.Errorf("seed %d: %s\nrepeat it with: go test %s -run %s -%s 1 -seed %d\nmade small it is %s, and repeated by: go test %s -run TestKept/%s",
		seed, wrong.Faults[0], h.Package, test, h.Flag, seed, file, h.Package, name)
}

// Kept has the histories happen that were wrong once, each so often. They must be right now.
func (h *Harness[P]) Kept(t *testing.T, times int) {
	files, err := filepath.Glob(filepath.Join(kept, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			if h.Workers > 1 {
				t.Parallel()
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var k keptPlan[P]
			if err := json.Unmarshal(text, &k); err != nil {
				t.Fatal(err)
			}
			for range times {
				if got := h.Happen(t, k.Plan); len(got.Faults) > 0 || *told {
					complain(t, got)
				}
			}
		})
	}
}

// complain tells of a history, and fails the test if it is wrong.
func complain(t *testing.T, h History) {
	t.Helper()
	tale := h.Tale
	if n := len(tale) - 150; n > 0 && !*told {
		tale = append([]string{fmt.Sprintf("(%d lines before)", n)}, tale[n:]...)
	}
	t.Logf("what happened:\n%s", strings.Join(tale, "\n"))
	if len(h.Faults) > 0 {
		t.Errorf("%s", strings.Join(h.Faults, "\n"))
	}
}
