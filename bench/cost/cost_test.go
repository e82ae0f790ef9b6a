//go:build full

package cost

import (
	"flag"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe/codec"
)

var (
	long   = flag.Duration("search", time.Second, "how long TestSearch searches, for all kinds together")
	seed   = flag.Uint64("seed", uint64(time.Now().UnixNano()), "of the mutations; the times of a machine are not reproducible")
	chosen = flag.String("kinds", "", "search only the kinds whose name matches")
	keep   = flag.Bool("keep", false, "write the worst to testdata")
)

// startHost starts a host that is closed at the end of the test.
func startHost(t *testing.T) *host {
	t.Helper()
	if raceEnabled {
		t.Skip("the race detector empties pools, which then cost what they save")
	}
	h, err := newHost()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

// checkBounds holds what a message takes of the heap below the bounds of its kind. Its time is only shown, since it is the machine's.
func checkBounds(t *testing.T, k *kind, name string, size int, c cost) {
	t.Helper()
	bytes := float64(size)
	heap, allocs := float64(c.Bytes)/bytes, float64(c.Allocs)/bytes
	t.Logf("%-28s %6d bytes: %6.1f of heap and %5.2f allocations for each, %4.0f ns", name, size, heap, allocs, float64(c.CPU)/bytes)
	if mostHeap, mostAllocs := k.bounds(); heap > mostHeap || allocs > mostAllocs {
		t.Errorf("%s: %.1f bytes of heap and %.2f allocations for each byte, at most %.0f and %.0f", name, heap, allocs, mostHeap, mostAllocs)
	}
}

// TestCost sends the worst messages that were found.
func TestCost(t *testing.T) { // not parallel: it measures the heap
	h := startHost(t)
	for _, k := range kinds() {
		files := corpus(k.name)
		if len(files) == 0 {
			t.Errorf("%s: nothing is in %s: search with -keep", k.name, folder)
		}
		for _, file := range files {
			text, err := load(file)
			if err != nil {
				t.Fatal(err)
			}
			if len(text) > most || !codec.Valid(text) {
				t.Errorf("%s has %d bytes, at most %d of JSON are searched", file, len(text), most)
			}
			c, _ := h.measure(&k, text, 3)
			checkBounds(t, &k, strings.TrimSuffix(filepath.Base(file), ".json.gz"), len(text), c.beyond(h.base[k.name]))
		}
	}
}

// TestSearch looks for messages that cost more than those that were found before.
func TestSearch(t *testing.T) { // not parallel: it measures the heap
	h := startHost(t)
	pattern := regexp.MustCompile(*chosen)
	all := slices.DeleteFunc(kinds(), func(k kind) bool { return !pattern.MatchString(k.name) })
	t.Logf("seed %d", *seed)
	for i := range all {
		k := &all[i]
		worst := h.search(rand.New(rand.NewPCG(*seed, uint64(i))), k, time.Now().Add(*long/time.Duration(len(all))))
		for figure, found := range worst {
			if len(found) == 0 {
				continue
			}
			checkBounds(t, k, k.name+" "+figure, found[0].size, found[0].cost)
			if *keep {
				if err := save(k.name, figure, found[0]); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// TestMutate checks that what is mutated stays JSON, and that mutations differ.
func TestMutate(t *testing.T) {
	t.Parallel()
	for _, k := range kinds() {
		rnd := rand.New(rand.NewPCG(1, 2))
		n := parse([]byte(k.small))
		if got := string(n.write(nil)); got != k.small {
			t.Fatalf("%s is written as %s", k.small, got)
		}
		seen := map[string]bool{}
		for range 300 {
			c := n.clone()
			mutate(rnd, c, most)
			text := c.write(nil)
			if !codec.Valid(text) {
				t.Fatalf("no JSON: %s", text)
			}
			seen[string(text)] = true
			if len(text) < 2000 {
				n = c
			}
		}
		if len(seen) < 100 {
			t.Errorf("%s: 300 mutations make %d messages", k.name, len(seen))
		}
	}
}
