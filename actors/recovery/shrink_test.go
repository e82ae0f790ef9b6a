package recovery

import (
	"encoding/json"
	"regexp"
	"slices"
	"testing"
	"time"
)

// shrinkFor bounds the search for a smaller history, in real time.
const shrinkFor = 15 * time.Second

// shrink looks for a smaller plan whose history is wrong in the same way. It returns
// the plan and its history.
func shrink(t *testing.T, p plan, h history) (plan, history) {
	t.Helper()
	kind := kindOf(h)
	until := time.Now().Add(shrinkFor)
	for smaller := true; smaller; {
		smaller = false
		for i := 0; time.Now().Before(until); i++ {
			q, ok := without(p, i)
			if !ok {
				break
			}
			for range 2 { // the plan does not draw the order of events at one instant
				if g := happen(t, q); len(g.faults) > 0 && kindOf(g) == kind {
					p, h, smaller = q, g, true
					i--
					break
				}
			}
		}
	}
	return p, h
}

var names = regexp.MustCompile(`[a-z2-7]{4}\.\d+\.\d+|[\d.]+|"[^"]*"`)

// kindOf returns what is wrong with a history, without the names.
func kindOf(h history) string {
	kind := names.ReplaceAllString(h.faults[0], "")
	return kind[:min(len(kind), 40)]
}

// without returns the plan without its i-th part; ok is false when it has fewer parts.
func without(p plan, i int) (q plan, ok bool) {
	text, err := json.Marshal(p)
	if err != nil {
		panic(err)
	}
	if err := json.Unmarshal(text, &q); err != nil {
		panic(err)
	}
	part := func() bool { i--; return i < 0 }
	for k := range q.Faults {
		if part() {
			q.Faults = slices.Delete(q.Faults, k, k+1)
			return q, true
		}
	}
	for k := range q.Clients {
		if len(q.Clients) > 1 && part() {
			q.Clients = slices.Delete(q.Clients, k, k+1)
			return q, true
		}
		posts := &q.Clients[k].Posts
		for l := range *posts {
			if len(*posts) > 1 && part() {
				*posts = slices.Delete(*posts, l, l+1)
				return q, true
			}
			po := &(*posts)[l]
			for m := range po.Breaks {
				if part() {
					po.Breaks = slices.Delete(po.Breaks, m, m+1)
					return q, true
				}
			}
			for m := range po.Calls {
				if len(po.Calls) > 1 && part() {
					po.Calls = slices.Delete(po.Calls, m, m+1)
					return q, true
				}
				c := &po.Calls[m]
				if c.Cancel > 0 && part() {
					c.Cancel = 0
					return q, true
				}
				for n := range c.Steps {
					if part() {
						c.Steps = slices.Delete(c.Steps, n, n+1)
						return q, true
					}
				}
			}
		}
	}
	return q, false
}
