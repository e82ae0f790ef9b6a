package main

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/bench/client"
)

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
		defer a.Close()
		body := string(a.Body)
		for a.Events != nil && !strings.Contains(body, text) {
			e, err := a.Events.Next()
			if err != nil {
				return fmt.Errorf("the stream ended with %q: %w", body, err)
			}
			body = e.Data
		}
		if a.Status >= 300 || !strings.Contains(body, text) {
			return fmt.Errorf("got %d %s", a.Status, body)
		}
		return nil
	}
}

// metricsOf reads what a process says at /metrics: values by the names of their series.
func metricsOf(addr string) (map[string]float64, error) {
	resp, err := http.Get("http://" + addr + "/metrics")
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	m := make(map[string]float64)
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		name, text, _ := strings.Cut(lines.Text(), " ")
		if v, err := strconv.ParseFloat(text, 64); err == nil {
			m[name] = v
		}
	}
	return m, lines.Err()
}

// residentOf is the resident memory of a process in bytes, 0 where the system does not say.
func residentOf(pid int) int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(b), "\nVmRSS:")
	var kb int64
	_, _ = fmt.Sscan(rest, &kb)
	return kb << 10
}

// cpuOf is the processor time of a process, by the clock ticks of /proc.
func cpuOf(pid int) time.Duration {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(data), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond
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

// waitFor waits for d, or returns false when ctx has ended.
func waitFor(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
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

func (t *tally) add(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all == nil {
		t.all = make(map[string]int64)
	}
	t.all[what]++
}

func (t *tally) of(what string) int64 { return t.counts()[what] }

func (t *tally) counts() map[string]int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.all)
}
