package limits

import (
	"testing"
	"time"
)

// used are limits where they are used: fields with the names of options, one of them in a struct, and others.
type used struct {
	Depth int `option:"Limits.MaxDepth"`
	Kept  struct {
		Bytes int `option:"Store.ReplayBytes"`
	}
	Rate  float64       `option:"Limits.CallRate"`
	Wait  time.Duration `option:"Limits.MaxAsk"`
	Other int
}

// TestFill fills fields from the options that they name, and from their defaults.
func TestFill(t *testing.T) {
	t.Parallel()
	var options struct {
		Limits struct {
			MaxDepth int
			CallRate float64
			MaxAsk   time.Duration
			MaxURI   int
		}
		Store struct{ ReplayBytes int64 }
	}
	options.Limits.MaxDepth, options.Limits.CallRate, options.Limits.MaxAsk, options.Store.ReplayBytes = 3, -1, time.Hour, 5
	got := used{Other: 7}
	Fill(&got, &options)
	want := used{Depth: 3, Rate: -1, Wait: time.Hour, Other: 7}
	want.Kept.Bytes = 5
	if got != want {
		t.Errorf("filled: %+v, want %+v", got, want)
	}

	got = used{Depth: -1, Rate: -1, Wait: time.Minute}
	FillDefaults(&got)
	want = used{Depth: MaxDepth.Value(), Rate: -1, Wait: time.Minute}
	want.Kept.Bytes = int(ReplayBytes.Value())
	if got != want {
		t.Errorf("by default: %+v, want %+v", got, want)
	}

	defer func() {
		if recover() == nil {
			t.Error("an option that there is not was filled in")
		}
	}()
	FillDefaults(&struct {
		Depth int `option:"Limits.Depth"`
	}{})
}
