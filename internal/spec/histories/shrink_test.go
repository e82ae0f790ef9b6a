package histories

import (
	"encoding/json"
	"regexp"
	"slices"
	"testing"
	"time"
)

// shrinkFor bounds the search for a smaller history, in real time.
const shrinkFor = 20 * time.Second

// shrink looks for a smaller plan whose history is wrong in the same way. It returns the plan and its history.
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
			if g := happen(t, q); len(g.faults) > 0 && kindOf(g) == kind {
				p, h, smaller = q, g, true
				i--
			}
		}
	}
	return p, h
}

var names = regexp.MustCompile(`[a-z2-7]{4}\.\d+\.\d+|[\d.]+|"[^"]*"`)

// kindOf returns what is wrong with a history, without the names.
func kindOf(h history) string {
	kind := names.ReplaceAllString(h.faults[0], "")
	return kind[:min(len(kind), 30)]
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
	for k := range q.Clients {
		if len(q.Clients) > 1 && part() {
			q.Clients = slices.Delete(q.Clients, k, k+1)
			return q, true
		}
	}
	for k := range q.Faults {
		if part() {
			q.Faults = slices.Delete(q.Faults, k, k+1)
			return q, true
		}
	}
	for k := range q.Changes {
		if part() {
			q.Changes = slices.Delete(q.Changes, k, k+1)
			return q, true
		}
	}
	for k := range q.Clients {
		c := &q.Clients[k]
		if c.Listen && part() {
			c.Listen = false
			return q, true
		}
		for l := range c.Posts {
			if len(c.Posts) > 1 && part() {
				c.Posts = slices.Delete(c.Posts, l, l+1)
				return q, true
			}
			po := &c.Posts[l]
			for m := range po.Breaks {
				if part() {
					po.Breaks = slices.Delete(po.Breaks, m, m+1)
					return q, true
				}
			}
			if po.Cancel > 0 && part() {
				po.Cancel = 0
				return q, true
			}
			for n := range po.Steps {
				if part() {
					po.Steps = slices.Delete(po.Steps, n, n+1)
					return q, true
				}
			}
		}
	}
	return q, false
}
