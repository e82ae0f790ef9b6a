package main

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/troupe-run/troupe/bench/client"
)

// quiet is a client that asks for little: it calls, initializes and lets streams run all the time, from 127.0.0.1.
type quiet struct {
	url string
	as  func(http.RoundTripper) http.RoundTripper // what its requests go through; nil is nothing

	mu       sync.Mutex // guards the rest
	now      samples    // of this run
	before   samples    // of the runs that were kept
	failed   int
	failures []string
}

// samples are how long requests took.
type samples struct{ calls, initializes, streams []time.Duration }

func (s *samples) report() quietReport {
	return quietReport{Calls: latencyOf(s.calls), Initializes: latencyOf(s.initializes), Streams: latencyOf(s.streams)}
}

// quietReport is how a quiet client fared.
type quietReport struct {
	Calls       latency  `json:"calls_ms"`
	Initializes latency  `json:"initializes_ms"`
	Streams     latency  `json:"streams_ms"` // beyond their 300 ms
	Failed      int      `json:"failed"`
	Failures    []string `json:"failures,omitempty"` // the first of them
}

func (q *quietReport) String() string {
	return fmt.Sprintf("p50/p99/max ms: %d calls %s, %d initializes %s, %d streams %s, %d failed", q.Calls.N, q.Calls, q.Initializes.N, q.Initializes, q.Streams.N, q.Streams, q.Failed)
}

func newQuiet(url string) *quiet { return &quiet{url: url} }

// run has the client work while f runs.
func (q *quiet) run(ctx context.Context, f func()) quietReport {
	q.now, q.failed, q.failures = samples{}, 0, nil
	over := make(chan struct{})
	var working sync.WaitGroup
	loop := func(every time.Duration, step func()) {
		working.Go(func() {
			for {
				step()
				select {
				case <-over:
					return
				case <-time.After(every):
				}
			}
		})
	}
	as := q.as
	if as == nil {
		as = func(rt http.RoundTripper) http.RoundTripper { return rt }
	}
	kept := client.NewTransport()
	defer kept.CloseIdleConnections()
	rt, single := as(kept), as(&http.Transport{DisableKeepAlives: true})
	begin := func() *client.Client {
		c := client.New(q.url, rt)
		if err := q.within(ctx, func(ctx context.Context) error { return c.Initialize(ctx, `{}`) }); err != nil {
			q.fail("initialize", err)
		}
		return c
	}
	c, m := begin(), client.NewStateless(q.url, rt, `{}`)
	loop(20*time.Millisecond, func() {
		q.time(ctx, &q.now.calls, "call", 0, func(ctx context.Context) error {
			return answeredWith("quiet")(c.Call(ctx, "1", "tools/call", `{"name":"echo","arguments":{"text":"quiet"}}`))
		})
	})
	loop(20*time.Millisecond, func() {
		q.time(ctx, &q.now.calls, "stateless call", 0, func(ctx context.Context) error {
			return answeredWith("quiet")(m.Call(ctx, "1", "tools/call", `"name":"echo","arguments":{"text":"quiet"}`))
		})
	})
	loop(50*time.Millisecond, func() {
		fresh := client.New(q.url, single)
		q.time(ctx, &q.now.initializes, "initialize", 0, func(ctx context.Context) error { return fresh.Initialize(ctx, `{}`) })
		if fresh.Session() != "" {
			if err := q.within(ctx, func(ctx context.Context) error { return answeredWith("")(fresh.Delete(ctx)) }); err != nil {
				q.fail("delete", err)
			}
		}
	})
	for range 4 {
		s := begin()
		loop(10*time.Millisecond, func() {
			q.time(ctx, &q.now.streams, "stream", 300*time.Millisecond, func(ctx context.Context) error {
				return answeredWith("slept 300 ms")(s.Call(ctx, "1", "tools/call", `{"name":"sleep","arguments":{"ms":300}}`))
			})
		})
	}
	f()
	close(over)
	working.Wait()
	r := q.now.report()
	r.Failed, r.Failures = q.failed, q.failures
	return r
}

// keep adds the last run to what sum sums up.
func (q *quiet) keep() {
	q.before.calls = append(q.before.calls, q.now.calls...)
	q.before.initializes = append(q.before.initializes, q.now.initializes...)
	q.before.streams = append(q.before.streams, q.now.streams...)
}

// sum is the report of all runs that were kept.
func (q *quiet) sum() quietReport { return q.before.report() }

// within runs a request that may take as long as patience.
func (q *quiet) within(ctx context.Context, request func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return request(ctx)
}

// time measures a request beyond what it has to take.
func (q *quiet) time(ctx context.Context, into *[]time.Duration, what string, least time.Duration, request func(context.Context) error) {
	began := time.Now()
	if err := q.within(ctx, request); err != nil {
		q.fail(what, err)
		return
	}
	took := time.Since(began) - least
	q.mu.Lock()
	defer q.mu.Unlock()
	*into = append(*into, took)
}

// failuresTold is how many failures are told in full.
const failuresTold = 5

func (q *quiet) fail(what string, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.failed++; q.failed <= failuresTold {
		q.failures = append(q.failures, fmt.Sprintf("%s: %v", what, err))
	}
}
