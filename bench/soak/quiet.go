package main

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/troupe-run/troupe/bench/loadgen"
)

// What a quiet client does.
const (
	quietCalls     = "calls"
	quietStateless = "stateless calls"
	quietBegins    = "initializes"
	quietStreams   = "streams" // of quietStream, which does not count
)

// quietStream is how long each of the streams lasts.
const quietStream = 300 * time.Millisecond

// quietLoads are the loads of a quiet client.
var quietLoads = map[string]loadgen.Options{
	quietCalls:     {Rate: 40, Clients: 16},
	quietStateless: {Rate: 40, Clients: 16, Revision: loadgen.Stateless},
	quietBegins:    {Rate: 15, Clients: 8, Scenario: "sessions"},
	quietStreams:   {Clients: 4, Tool: "sleep", Arguments: fmt.Sprintf(`{"ms":%d}`, quietStream.Milliseconds())},
}

// quiet is a client that asks for little, from 127.0.0.1.
type quiet struct {
	url string
	as  func(http.RoundTripper) http.RoundTripper // what its requests go through; nil is nothing
}

// quietReport is how a quiet client fared.
type quietReport struct {
	Took     map[string]latency `json:"ms"`
	Failed   int64              `json:"failed"`
	Failures []string           `json:"failures,omitempty"` // an example of each kind
}

func (q quietReport) String() string {
	text := fmt.Sprintf("%d failed; p50/p99/max ms:", q.Failed)
	for _, kind := range slices.Sorted(maps.Keys(q.Took)) {
		text += fmt.Sprintf(" %d %s %s", q.Took[kind].N, kind, q.Took[kind])
	}
	return text
}

// isIdle reports that the client got nothing of some kind done.
func (q quietReport) isIdle() bool {
	for kind := range quietLoads {
		if q.Took[kind].N == 0 {
			return true
		}
	}
	return false
}

// workDuring has the client work while f runs, which begins once the client has begun.
func (q *quiet) workDuring(ctx context.Context, f func()) quietReport {
	all := quietReport{Took: make(map[string]latency)}
	over := make(chan struct{})
	var mu sync.Mutex // guards all
	var begun, working sync.WaitGroup
	for kind, o := range quietLoads {
		begun.Add(1)
		begin := sync.OnceFunc(begun.Done)
		o.URL, o.Through, o.WarmUp, o.Timeout = q.url, q.as, -1, patience
		o.Meanwhile = func(context.Context) error { begin(); <-over; return nil }
		working.Go(func() {
			defer begin() // if it could not
			r, err := loadgen.Run(ctx, o)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				all.Failed++
				all.Failures = append(all.Failures, fmt.Sprintf("%s: %v", kind, err))
				return
			}
			least := 0.0
			if kind == quietStreams {
				least = ms(quietStream)
			}
			all.Took[kind] = latency{int(r.Operations), r.Latency.P50 - least, r.Latency.P99 - least, r.Latency.Max - least}
			all.Failed += r.Failed()
			for _, text := range r.Examples {
				all.Failures = append(all.Failures, kind+": "+text)
			}
		})
	}
	begun.Wait()
	f()
	close(over)
	working.Wait()
	return all
}
