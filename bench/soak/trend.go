package main

import (
	"fmt"
	"slices"
)

// sample is what a process held at a moment, by names of series, and at second "at".
type sample map[string]float64

// at is the series of the seconds since the load began.
const at = "at"

// bound is how much a series may rise while the load stays the same.
type bound struct {
	series string
	share  float64 // of what there was before,
	more   float64 // and so much beside
}

// trend is a series in the four quarters of a run.
type trend struct {
	Series   string     `json:"series"`
	Quarters [4]quarter `json:"quarters"`
	Most     float64    `json:"most_in_the_last"` // which its median may be
}

type quarter struct {
	Median float64 `json:"median"`
	Max    float64 `json:"max"`
}

// trendOf sums up a series of samples that were taken at even distances; at least four.
func trendOf(all []sample, b bound) trend {
	t := trend{Series: b.series}
	for q := range t.Quarters {
		var values []float64
		for _, s := range all[q*len(all)/4 : (q+1)*len(all)/4] {
			values = append(values, s[b.series])
		}
		slices.Sort(values)
		t.Quarters[q] = quarter{values[len(values)/2], values[len(values)-1]}
	}
	t.Most = t.Quarters[1].Median*(1+b.share) + b.more
	return t
}

// tellRise says by how much a series has risen, "" if it has stayed flat. The first quarter does
// not count: what is kept for a time accumulates in it. Medians, because a peak is no leak, and a
// leak is in every sample that follows it.
func (t *trend) tellRise() string {
	if last := t.Quarters[3].Median; last > t.Most {
		return fmt.Sprintf("%s has risen from %.1f in the second quarter to %.1f in the last, and may be %.1f", t.Series, t.Quarters[1].Median, last, t.Most)
	}
	return ""
}
