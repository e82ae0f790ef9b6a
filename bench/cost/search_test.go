//go:build full

package cost

import (
	"cmp"
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	// most is the size of the largest message that is looked for, least that of the smallest.
	most  = 64 << 10
	least = 8 << 10
	// kept is how many messages are mutated further, for each figure.
	kept = 6
)

// found is a message and what it costs for each of its bytes beyond the small one of its kind.
type found struct {
	tree *node
	size int
	cost cost
}

// figures are what the search is for.
var figures = map[string]func(*found) float64{
	"heap": func(f *found) float64 { return float64(f.cost.Bytes) / float64(f.size) },
	"cpu":  func(f *found) float64 { return float64(f.cost.CPU) / float64(f.size) },
}

// search mutates messages of a kind until the time is over, and returns the worst by figure.
func (h *host) search(rnd *rand.Rand, k *kind, end time.Time) (worst map[string][]*found) {
	worst = map[string][]*found{"heap": nil, "cpu": nil}
	small := parse([]byte(k.small))
	for _, file := range corpus(k.name) {
		if text, err := load(file); err == nil {
			h.judge(k, parse(text), worst)
		}
	}
	for time.Now().Before(end) {
		n := small
		if all := worst[[]string{"heap", "cpu"}[rnd.IntN(2)]]; len(all) > 0 && rnd.IntN(8) > 0 {
			n = all[rnd.IntN(len(all))].tree
		}
		n = n.clone()
		for range 1 + rnd.IntN(4) {
			mutate(rnd, n, most)
		}
		h.judge(k, n, worst)
	}
	return worst
}

// judge measures a message, and enters it where it is among the worst.
func (h *host) judge(k *kind, n *node, worst map[string][]*found) {
	text := n.write(nil)
	if len(text) > most || len(text) < least {
		return
	}
	f := &found{tree: n, size: len(text)}
	c, _ := h.measure(k, text, 1)
	f.cost = c.beyond(h.base[k.name])
	again := false
	for name, of := range figures {
		again = again || len(worst[name]) < kept || of(f) > of(worst[name][kept-1])
	}
	if !again {
		return
	}
	more, _ := h.measure(k, text, 3)
	f.cost = c.least(more).beyond(h.base[k.name])
	for name, of := range figures {
		all := append(worst[name], f)
		slices.SortStableFunc(all, func(x, y *found) int { return cmp.Compare(of(y), of(x)) })
		worst[name] = all[:min(len(all), kept)]
	}
}

const folder = "testdata"

// corpus are the files of a kind.
func corpus(kind string) []string {
	all, _ := filepath.Glob(filepath.Join(folder, kind+"_*.json.gz")) // the pattern is well formed
	return all
}

func load(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return io.ReadAll(z)
}

// save writes a message to the corpus.
func save(kind, figure string, f *found) error {
	var b strings.Builder
	z := gzip.NewWriter(&b)
	if _, err := z.Write(f.tree.write(nil)); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, kind+"_"+figure+".json.gz"), []byte(b.String()), 0o644)
}
