//go:build full

package main

import (
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/codec"
)

// TestCost sends the worst messages that were found, and holds what they take of the heap below the bounds. Their time is
// only shown, since it is the machine's.
func TestCost(t *testing.T) { // not parallel: it measures the heap
	if raceEnabled {
		t.Skip("the race detector empties pools, which then cost what they save")
	}
	h, err := newHost()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := h.close(); err != nil {
			t.Error(err)
		}
	}()
	for _, k := range kinds() {
		files := corpus(k.name)
		if len(files) == 0 {
			t.Errorf("%s: nothing is in %s: go run ./bench/cost -keep", k.name, folder)
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
			size := float64(len(text))
			c = c.beyond(h.base[k.name])
			heap, allocs := float64(c.Bytes)/size, float64(c.Allocs)/size
			t.Logf("%-28s %6d bytes: %6.1f of heap and %5.2f allocations for each, %4.0f ns", strings.TrimSuffix(filepath.Base(file), ".json.gz"), len(text), heap, allocs, float64(c.CPU)/size)
			if mostHeap, mostAllocs := k.bounds(); heap > mostHeap || allocs > mostAllocs {
				t.Errorf("%s: %.1f bytes of heap and %.2f allocations for each byte, at most %.0f and %.0f", file, heap, allocs, mostHeap, mostAllocs)
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
