package histories

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupe-run/troupe/internal/testkit"
)

var (
	histories = flag.Int("histories", 10, "how many histories happen")
	firstSeed = flag.Uint64("seed", 1, "the seed of the first history, the others follow; 0 draws one")
	told      = flag.Bool("tell", false, "tell what happens in a history, wrong or not")
	reportTo  = flag.String("report", "", "file for a report as JSON")
	every     = flag.Int("every", 0, "of the histories, this process has each of that many, and starts no others: how processes share the work")
)

func TestMain(m *testing.M) { testkit.Main(m) }

// processes is how many processes share the work: of bubbles with clients of NATS, a process has one at a time.
const processes = 2

// wrongMost is how many wrong histories end a process.
const wrongMost = 5

// kept is the folder of histories that were wrong once.
const kept = "testdata/histories"

// keptPlan is a file in that folder.
type keptPlan struct {
	Fault string // what was wrong
	Plan  plan
}

// report is what came of histories.
type report struct {
	Histories int            `json:"histories"`
	Seed      uint64         `json:"seed"`
	Seconds   float64        `json:"seconds"`
	Failed    []uint64       `json:"failed"`
	Sums      map[string]int `json:"sums"`
}

// TestKept runs the histories that were wrong once, which must be right now.
func TestKept(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(kept, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var k keptPlan
			if err := json.Unmarshal(text, &k); err != nil {
				t.Fatal(err)
			}
			if h := happen(t, k.Plan); len(h.faults) > 0 || *told {
				complain(t, h)
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

// TestHistories runs random histories of several nodes: see the package's documentation.
func TestHistories(t *testing.T) {
	if testing.Short() {
		*histories = min(*histories, 6)
	}
	if *firstSeed == 0 {
		*firstSeed = uint64(time.Now().UnixMilli())
	}
	var all report
	if *every > 0 || *histories == 1 {
		all = happens(t)
	} else {
		all = shared(t)
	}
	if *histories >= 200 && !t.Failed() {
		for _, what := range []string{"answers", "answers found again", "calls cancelled", "calls lost", "events", "messages to sessions", "news judged", "news repaired", "power cuts", "refusals", "resumes", "round trips", "second runs", "sessions ended", "tasks"} {
			if all.Sums[what] == 0 {
				t.Errorf("in no history there were %s", what)
			}
		}
	}
	if *reportTo == "" {
		return
	}
	text, err := json.MarshalIndent(all, "", "  ")
	if err == nil {
		err = os.WriteFile(*reportTo, append(text, '\n'), 0o644)
	}
	if err != nil {
		t.Error(err)
	}
}

// happens has the histories of this process happen.
func happens(t *testing.T) report {
	all, began := report{Seed: *firstSeed, Failed: []uint64{}, Sums: map[string]int{}}, time.Now()
	for n := 0; n < *histories && len(all.Failed) < wrongMost; n += max(1, *every) {
		p := newPlan(*firstSeed + uint64(n))
		h := happen(t, p)
		all.Histories++
		for what, k := range h.sums {
			all.Sums[what] += k
		}
		switch {
		case len(h.faults) > 0:
			all.Failed = append(all.Failed, p.Seed)
			keep(t, p, h)
		case *told:
			complain(t, h)
		}
	}
	all.Seconds = time.Since(began).Seconds()
	return all
}

// shared has other processes share the histories.
func shared(t *testing.T) report {
	fmt.Printf("%d histories of a virtual cluster from seed %d: go test ./internal/spec/histories -run TestHistories -histories %d -seed %d\n", *histories, *firstSeed, *histories, *firstSeed)
	all, began := report{Seed: *firstSeed, Failed: []uint64{}, Sums: map[string]int{}}, time.Now()
	dir := t.TempDir()
	var mu sync.Mutex // guards all
	var running sync.WaitGroup
	for i := range processes {
		running.Go(func() {
			own := filepath.Join(dir, fmt.Sprint(i))
			c := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestHistories$", "-test.timeout", "0", fmt.Sprintf("-test.short=%v", testing.Short()),
				"-histories", fmt.Sprint(*histories-i), "-seed", fmt.Sprint(*firstSeed+uint64(i)), "-every", fmt.Sprint(processes), "-report", own)
			c.Env = append(os.Environ(), "GOMAXPROCS=1")
			var out bytes.Buffer
			c.Stdout, c.Stderr = &out, &out
			failed := c.Run()
			var r report
			text, err := os.ReadFile(own)
			if err == nil {
				err = json.Unmarshal(text, &r)
			}
			if failed != nil || err != nil {
				t.Errorf("process %d: %v %v\n%s", i, failed, err, out.String())
			}
			mu.Lock()
			defer mu.Unlock()
			all.Histories += r.Histories
			all.Failed = append(all.Failed, r.Failed...)
			for what, k := range r.Sums {
				all.Sums[what] += k
			}
		})
	}
	running.Wait()
	slices.Sort(all.Failed)
	all.Seconds = time.Since(began).Seconds()
	var sums []string
	for _, what := range slices.Sorted(maps.Keys(all.Sums)) {
		sums = append(sums, fmt.Sprintf("%d %s", all.Sums[what], what))
	}
	fmt.Printf("%d histories in %.1f s: %s\n", all.Histories, all.Seconds, strings.Join(sums, ", "))
	return all
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
	t.Errorf("seed %d: %s\nrepeat it with: go test ./internal/spec/histories -run TestHistories -histories 1 -seed %d\nmade small it is %s, and repeated by: go test ./internal/spec/histories -run TestKept/%d", p.Seed, h.faults[0], p.Seed, name, p.Seed)
}
