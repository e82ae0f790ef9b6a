package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/troupe-run/troupe/bench/client"
)

// measureRefusals has another client ping the node, over a new connection each time. stop waits for
// an answer, and returns for how long there was none.
func measureRefusals(w *world) (stop func() time.Duration, err error) {
	c := client.New(w.p.url(0), &http.Transport{DisableKeepAlives: true})
	if err := c.BeginSession(w.ctx, `{}`); err != nil {
		return nil, err
	}
	over, sum := make(chan struct{}), make(chan time.Duration, 1)
	go func() {
		var all time.Duration
		for good, refused := time.Now(), false; w.wait(2 * time.Millisecond); {
			if answeredWith("")(c.SendRequest(w.ctx, "1", "ping", "")) != nil {
				refused = true
				continue
			}
			if refused {
				all += time.Since(good)
			}
			if good, refused = time.Now(), false; isClosed(over) {
				break
			}
		}
		sum <- all
	}()
	return func() time.Duration { close(over); return <-sum }, nil
}

const (
	// leftCalls are how many calls are left to measure.
	leftCalls = 20
	// principalCalls are how many calls a principal may have in flight: more than these are left
	// afterwards, and each has to give its place back.
	principalCalls = 1024
)

// measureLeft closes the connections of calls that would go on for hours, before the first byte of
// the answer and in mid-stream, when nothing else is in flight, and returns how long it takes until
// their handlers have ended.
func measureLeft(w *world) (latency, error) {
	c := client.NewStateless(w.p.url(0), w.connectionsOf(99), `{}`)
	leave := func(call string, seen func() bool) error {
		ctx, cancel := context.WithCancel(w.ctx)
		defer cancel()
		ended := make(chan error, 1)
		go func() {
			a, err := c.SendRequest(ctx, `"x"`, "tools/call", call)
			for err == nil && a.Events != nil {
				_, err = a.Events.Next()
			}
			ended <- err
		}()
		if !w.until(seen) {
			return fmt.Errorf("%s did not begin", call)
		}
		cancel()
		if err := <-ended; err == nil {
			return fmt.Errorf("%s was answered", call)
		}
		return nil
	}
	isIdle := func() bool { return w.callsInFlight() == "0" }
	sleep := `"name":"sleep","arguments":` + forHours
	var all []time.Duration
	for i := range leftCalls {
		call := sleep
		if i%2 == 1 {
			call = `"name":"count","arguments":{"to":1000000,"delay_ms":1000}`
		}
		err := leave(call, func() bool { return !isIdle() })
		left := time.Now()
		if err != nil || !w.until(isIdle) {
			return latency{}, fmt.Errorf("%s was left, and %s calls are in flight: %w\n%s", call, w.callsInFlight(), err, w.logs())
		}
		all = append(all, time.Since(left))
	}
	err := each(principalCalls+100, 50, func(int) error {
		return leave(sleep, func() bool { w.wait(50 * time.Millisecond); return true })
	})
	if err != nil || !w.until(isIdle) {
		return latency{}, fmt.Errorf("many calls were left, and %s are in flight: %w", w.callsInFlight(), err)
	}
	return latencyOf(all), answeredWith(`"text":"free"`)(c.SendRequest(w.ctx, "1", "tools/call", `"name":"echo","arguments":{"text":"free"}`))
}
