package histories

import (
	"math/rand/v2"
	"time"
)

// Span is a duration that reads well in a kept plan.
type Span time.Duration

// MarshalText writes it as [time.Duration.String] does.
func (s Span) MarshalText() ([]byte, error) { return []byte(time.Duration(s).String()), nil }

// UnmarshalText reads what [time.ParseDuration] reads.
func (s *Span) UnmarshalText(b []byte) error {
	d, err := time.ParseDuration(string(b))
	*s = Span(d)
	return err
}

// Rand returns the random numbers of one part of a history, so that one part does not change another's.
func Rand(seed uint64, part string) *rand.Rand {
	h := uint64(14695981039346656037)
	for i := range len(part) {
		h = (h ^ uint64(part[i])) * 1099511628211
	}
	return rand.New(rand.NewPCG(seed, h))
}

// Between draws a time.
func Between(r *rand.Rand, from, to time.Duration) time.Duration {
	if to <= from {
		return from
	}
	return from + time.Duration(r.Int64N(int64(to-from)))
}

// Pick draws an index by weights.
func Pick(r *rand.Rand, weights ...int) int {
	sum := 0
	for _, w := range weights {
		sum += w
	}
	n := r.IntN(sum)
	for i, w := range weights {
		if n -= w; n < 0 {
			return i
		}
	}
	return 0
}
