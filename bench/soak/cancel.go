package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/troupe-run/troupe/bench/client"
)

// cancelReport is how long it takes from when a client closes its connection until the
// handler has ended and its place among the calls in flight is free. A following call
// finds that out, which is part of the time.
type cancelReport struct {
	Scenario string      `json:"scenario"`
	Rounds   int         `json:"rounds"`
	Idle     int         `json:"idle_listeners"`
	Before   cancelTimes `json:"before_the_first_byte_ms"`
	Stream   cancelTimes `json:"in_mid_stream_ms"`
	Call     cancelTimes `json:"a_following_call_ms"`
}

type cancelTimes struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// cancelIdle is how many listeners are open beside.
const cancelIdle = 100

// runCancel closes connections of calls of 2026-07-28, before the first byte of the
// answer and in mid-stream, once a round each. It fails when one takes longer than
// o.within, if that is not 0.
func runCancel(ctx context.Context, o options) (*cancelReport, error) {
	w, err := startWorld(ctx, o, "--set", "calls-per-principal=1")
	if err != nil {
		return nil, err
	}
	defer w.end()
	c := client.NewStateless(w.p.url(0), w.rt, `{}`)
	for i := range cancelIdle {
		a, err := c.Call(w.ctx, fmt.Sprint(i), "subscriptions/listen", `"notifications":{}`)
		if err != nil {
			return nil, err
		}
		if _, err := a.Events.Next(); err != nil {
			return nil, err
		}
		defer a.Close()
	}
	var before, within, calls []time.Duration
	for range o.rounds {
		for times, call := range map[*[]time.Duration]string{
			&before: `"name":"sleep","arguments":{"ms":3600000}`,
			&within: `"name":"count","arguments":{"to":1000000,"delay_ms":1000}`,
		} {
			took, err := w.cancelled(c, call)
			if err != nil {
				return nil, w.cause(err)
			}
			*times = append(*times, took)
			began := time.Now()
			if _, err := free(w.ctx, c); err != nil {
				return nil, w.cause(err)
			}
			calls = append(calls, time.Since(began))
		}
	}
	r := &cancelReport{Scenario: "cancel", Rounds: o.rounds, Idle: cancelIdle, Before: quantiles(before), Stream: quantiles(within), Call: quantiles(calls)}
	if worst := max(slices.Max(before), slices.Max(within)); o.within > 0 && worst > o.within {
		return nil, fmt.Errorf("a handler ended %v after its client had closed the connection: %+v", worst, r)
	}
	return r, nil
}

// cancelled makes a call, closes its connection when its handler runs, and returns how
// long after that another call has its place.
func (w *world) cancelled(c *client.Stateless, call string) (time.Duration, error) {
	ctx, cancel := context.WithCancel(w.ctx)
	defer cancel()
	type result struct {
		a   *client.Answer
		err error
	}
	came := make(chan result, 1)
	go func() {
		a, err := c.Call(ctx, `"x"`, "tools/call", call)
		if err == nil && a.Events != nil {
			_, err = a.Events.Next()
		}
		came <- result{a, err}
	}()
	streams := strings.Contains(call, "count")
	for running := false; !running; {
		select {
		case r := <-came:
			if r.err != nil || r.a.Events == nil {
				return 0, fmt.Errorf("%s got %+v and %v", call, r.a, r.err)
			}
			running = true
		case <-time.After(100 * time.Millisecond): // longer than it takes to get there
			if streams {
				break
			}
			ok, err := free(ctx, c)
			if err != nil {
				return 0, err
			}
			running = !ok
		}
	}
	closed := time.Now()
	cancel()
	for time.Since(closed) < patience {
		if ok, err := free(w.ctx, c); ok || err != nil {
			return time.Since(closed), err
		}
	}
	return 0, errors.New("a call goes on whose client has closed the connection")
}

// free reports that a call may begin.
func free(ctx context.Context, c *client.Stateless) (bool, error) {
	a, err := c.Call(ctx, "1", "tools/call", `"name":"echo","arguments":{"text":"free"}`)
	switch {
	case err != nil:
		return false, err
	case a.Status == http.StatusOK && strings.Contains(string(a.Body), `"text":"free"`):
		return true, nil
	case a.Status == http.StatusTooManyRequests:
		return false, nil
	}
	return false, fmt.Errorf("a following call got %d %s", a.Status, a.Body)
}

func quantiles(all []time.Duration) cancelTimes {
	slices.Sort(all)
	at := func(q float64) float64 {
		return float64(all[int(q*float64(len(all)-1))].Microseconds()) / 1000
	}
	return cancelTimes{P50: at(0.5), P99: at(0.99), Max: at(1)}
}
