package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/bench/client"
)

// patience is how long anything may take before it counts as lost.
const patience = 30 * time.Second

// latency sums up durations, in milliseconds.
type latency struct {
	N   int     `json:"n"`
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

func (l latency) String() string { return fmt.Sprintf("%.1f/%.1f/%.0f", l.P50, l.P99, l.Max) }

func latencyOf(all []time.Duration) latency {
	if len(all) == 0 {
		return latency{}
	}
	slices.Sort(all)
	return latency{len(all), ms(all[len(all)/2]), ms(all[len(all)*99/100]), ms(all[len(all)-1])}
}

// latenciesOf sums up durations of several kinds.
func latenciesOf(all map[string][]time.Duration) map[string]latency {
	sums := make(map[string]latency)
	for kind, took := range all {
		sums[kind] = latencyOf(took)
	}
	return sums
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// answeredWith checks an answer, or the last event of a stream.
func answeredWith(text string) func(*client.Answer, error) error {
	return func(a *client.Answer, err error) error {
		if err != nil {
			return err
		}
		body, err := lastOf(a)
		if err == nil && (a.Status >= 300 || !strings.Contains(body, text)) {
			err = fmt.Errorf("got %d %s", a.Status, body)
		}
		return err
	}
}

// lastOf is what answers a request: the body, or the last event of a stream where that took longer.
func lastOf(a *client.Answer) (body string, err error) {
	defer a.Close()
	if a.Events == nil {
		return string(a.Body), nil
	}
	for {
		e, err := a.Events.Next()
		if errors.Is(err, io.EOF) {
			return body, nil
		}
		if err != nil {
			return "", err
		}
		body = e.Data
	}
}

// each runs f for 0 to n-1, so many at once, and returns the first error.
func each(n, atOnce int, f func(i int) error) error {
	var group sync.WaitGroup
	var next atomic.Int64
	var failed atomic.Pointer[error]
	for range atOnce {
		group.Go(func() {
			for failed.Load() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if err := f(i); err != nil {
					failed.CompareAndSwap(nil, &err)
				}
			}
		})
	}
	group.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

// isClosed reports whether a channel is.
func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// tally counts what has happened, by name.
type tally struct {
	mu  sync.Mutex // guards all
	all map[string]int64
}

func (t *tally) add(what string) { t.addMany(what, 1) }

func (t *tally) addMany(what string, n int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all == nil {
		t.all = make(map[string]int64)
	}
	t.all[what] += n
}

func (t *tally) of(what string) int64 { return t.counts()[what] }

func (t *tally) counts() map[string]int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.all)
}

// durations are how long things took, by kinds.
type durations struct {
	mu  sync.Mutex // guards all
	all map[string][]time.Duration
}

func (d *durations) add(kind string, took time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.all == nil {
		d.all = make(map[string][]time.Duration)
	}
	d.all[kind] = append(d.all[kind], took)
}
