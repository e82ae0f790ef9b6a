package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/troupe-run/troupe/bench/client"
	"github.com/troupe-run/troupe/bench/program"
)

// keptOutcomes is how much a process may hold of the outcomes of parked calls, for ten minutes: 16
// MiB, and what is counted for each beside.
const keptOutcomes = 22 << 20

// mayRemain is how much more there may be, when all clients have gone and what is kept for a time
// is over, than before they came. Of all other gauges of a process there must be no more than
// before.
func mayRemain(series string) (more float64, judged bool) {
	switch {
	case series == "go_goroutines":
		return 16, true // of the store, which has them for each of its streams of messages that was once used
	case series == "process_open_fds":
		return 8, true // blocks that the store has open
	case series == `troupe_store_messages{stream="keys"}`:
		return 2, true // the key of what clients carry, made with the first of it, and the one that follows it
	case series == `troupe_memory_held_bytes{kind="parked"}`:
		return keptOutcomes, true
	case series == "troupe_connections_open", series == "troupe_streams_open", series == "troupe_streams_read_elsewhere", series == "troupe_streams_replaying", series == "troupe_sessions_active",
		series == "troupe_calls_in_flight", series == "troupe_calls_parked", series == "troupe_requests_pending", series == "troupe_tasks_open", series == "troupe_tasks_queued",
		series == "troupe_tasks_running", series == "troupe_tasks_waiting", series == "troupe_log_waiting", series == "troupe_log_recent_bytes",
		strings.HasPrefix(series, "troupe_actors{"), strings.HasPrefix(series, "troupe_memory_held_bytes{"),
		strings.HasPrefix(series, "troupe_store_used_bytes{"), strings.HasPrefix(series, "troupe_store_messages{"):
		return 0, true
	}
	return 0, false
}

// whatRemains says what of a process there is more of than before, of all series or of those that
// are wanted.
func whatRemains(before, now map[string]float64, wanted func(series string) bool) (more []string) {
	for _, series := range slices.Sorted(maps.Keys(now)) {
		if most, judged := mayRemain(series); judged && (wanted == nil || wanted(series)) && now[series] > before[series]+most {
			more = append(more, fmt.Sprintf("%s is %.0f, and was %.0f before", series, now[series], before[series]))
		}
	}
	return more
}

// gaugesShown are the gauges that a report shows.
func gaugesShown(g map[string]float64) map[string]float64 {
	all := make(map[string]float64)
	for name, v := range g {
		if _, judged := mayRemain(name); judged || name == "go_gc_heap_live_bytes" || name == "process_resident_memory_bytes" || name == "troupe_panics_total" {
			all[name] = v
		}
	}
	return all
}

// awaitRest waits until a process holds no more than before, and returns what it holds then and, if
// the time is over, what is more.
func awaitRest(ctx context.Context, addr string, within time.Duration, more func(now map[string]float64) []string) (now map[string]float64, rest []string) {
	for end := time.Now().Add(within); ; {
		now, err := program.Metrics(addr)
		if err != nil {
			return now, []string{err.Error()}
		}
		if rest = more(now); len(rest) == 0 || time.Now().After(end) || !client.Sleep(ctx, 200*time.Millisecond) {
			return now, rest
		}
	}
}
