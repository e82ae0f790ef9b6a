package main

import (
	"math"
	"strings"
	"testing"
)

// TestTrend judges series as a process could give them: only those that go on rising after their
// first quarter are leaks.
func TestTrend(t *testing.T) {
	t.Parallel()
	const n = 400
	b := bound{"heap", 0.05, 4}
	for name, c := range map[string]struct {
		at   func(i int) float64
		leak bool
	}{
		"flat":                              {func(int) float64 { return 60 }, false},
		"nothing":                           {func(int) float64 { return 0 }, false},
		"falls":                             {func(i int) float64 { return 100 - float64(i)/10 }, false},
		"swings":                            {func(i int) float64 { return 60 + 20*math.Sin(float64(i)/5) }, false},
		"fills up in the first quarter":     {func(i int) float64 { return min(float64(i), 100) }, false},
		"a peak at the end":                 {func(i int) float64 { return 60 + 500*float64(i/390) }, false},
		"within its share and more":         {func(i int) float64 { return 100 + float64(i)/25 }, false},
		"grows":                             {func(i int) float64 { return 60 + float64(i)/20 }, true},
		"grows under swings":                {func(i int) float64 { return 60 + float64(i)/20 + 5*math.Sin(float64(i)/5) }, true},
		"grows from nothing":                {func(i int) float64 { return float64(i) / 40 }, true},
		"a step in the third quarter":       {func(i int) float64 { return 60 + 10*float64(i/250) }, true},
		"falls at first, and then grows":    {func(i int) float64 { return math.Abs(float64(i-150)) / 5 }, true},
		"fills up, and goes on more slowly": {func(i int) float64 { return min(float64(i), 100) + float64(i)/15 }, true},
	} {
		var all []sample
		for i := range n {
			all = append(all, sample{at: float64(i), "heap": c.at(i)})
		}
		tr := trendOf(all, b)
		if got := tr.tellRise(); (got != "") != c.leak || c.leak && !strings.HasPrefix(got, "heap has risen from ") {
			t.Errorf("%s: got %q of %+v, want a leak: %t", name, got, tr, c.leak)
		}
	}
}
