package main

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/troupe-run/troupe/bench/client"
)

// What a quiet client does.
const (
	quietCalls   = "calls"
	quietBegins  = "initializes"
	quietStreams = "streams" // of 300 ms, which do not count
)

// quiet is a client that asks for little, from 127.0.0.1.
type quiet struct {
	url string
	as  func(http.RoundTripper) http.RoundTripper // what its requests go through; nil is nothing

	mu       sync.Mutex // guards the rest
	now      map[string][]time.Duration
	failed   int
	failures []string
}

// quietReport is how a quiet client fared.
type quietReport struct {
	Took     map[string]latency `json:"ms"`
	Failed   int                `json:"failed"`
	Failures []string           `json:"failures,omitempty"` // the first of them
}

func (q quietReport) String() string {
	text := fmt.Sprintf("%d failed; p50/p99/max ms:", q.Failed)
	for _, kind := range []string{quietCalls, quietBegins, quietStreams} {
		text += fmt.Sprintf(" %d %s %s", q.Took[kind].N, kind, q.Took[kind])
	}
	return text
}

// workDuring has the client work while f runs. It returns what its requests took beside the report.
func (q *quiet) workDuring(ctx context.Context, f func()) (quietReport, map[string][]time.Duration) {
	q.now, q.failed, q.failures = make(map[string][]time.Duration), 0, nil
	over := make(chan struct{})
	var working sync.WaitGroup
	loop := func(every time.Duration, kind string, least time.Duration, request func(context.Context) error) {
		working.Go(func() {
			for !isClosed(over) {
				q.measure(ctx, kind, least, request)
				select {
				case <-over:
				case <-time.After(every):
				}
			}
		})
	}
	kept := client.NewTransport()
	defer kept.CloseIdleConnections()
	var rt, single http.RoundTripper = kept, &http.Transport{DisableKeepAlives: true}
	if q.as != nil {
		rt, single = q.as(rt), q.as(single)
	}
	begin := func() *client.Client {
		c := client.New(q.url, rt)
		q.measure(ctx, quietBegins, 0, func(ctx context.Context) error { return c.BeginSession(ctx, `{}`) })
		return c
	}
	c, m := begin(), client.NewStateless(q.url, rt, `{}`)
	const echo = `"name":"echo","arguments":{"text":"quiet"}`
	loop(20*time.Millisecond, quietCalls, 0, func(ctx context.Context) error {
		return answeredWith("quiet")(c.SendRequest(ctx, "1", "tools/call", "{"+echo+"}"))
	})
	loop(20*time.Millisecond, quietCalls, 0, func(ctx context.Context) error {
		return answeredWith("quiet")(m.SendRequest(ctx, "1", "tools/call", echo))
	})
	loop(50*time.Millisecond, quietBegins, 0, func(ctx context.Context) error {
		fresh := client.New(q.url, single)
		if err := fresh.BeginSession(ctx, `{}`); err != nil {
			return err
		}
		return answeredWith("")(fresh.EndSession(ctx))
	})
	for range 4 {
		s := begin()
		loop(10*time.Millisecond, quietStreams, 300*time.Millisecond, func(ctx context.Context) error {
			return answeredWith("slept 300 ms")(s.SendRequest(ctx, "1", "tools/call", `{"name":"sleep","arguments":{"ms":300}}`))
		})
	}
	f()
	close(over)
	working.Wait()
	return quietReport{latenciesOf(q.now), q.failed, q.failures}, q.now
}

// failuresTold is how many failures are told in full.
const failuresTold = 5

// measure times a request beyond what it has to take.
func (q *quiet) measure(ctx context.Context, kind string, least time.Duration, request func(context.Context) error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	began := time.Now()
	err := request(ctx)
	q.mu.Lock()
	defer q.mu.Unlock()
	if err == nil {
		q.now[kind] = append(q.now[kind], time.Since(began)-least)
	} else if q.failed++; q.failed <= failuresTold {
		q.failures = append(q.failures, fmt.Sprintf("%s: %v", kind, err))
	}
}
