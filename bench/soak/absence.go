package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/troupe-run/troupe/bench/client"
)

// measureRefusals has another client ping the node, over a new connection each time. stop waits for
// an answer, and returns for how long there was none. At a socket that stays open no request may
// fail, neither that of a session nor one of 2026-07-28.
func measureRefusals(w *world) (stop func() time.Duration, err error) {
	rt := &http.Transport{DisableKeepAlives: true}
	c, without := client.New(w.p.URL(0), rt), client.NewStateless(w.p.URL(0), rt, `{}`)
	if err := c.BeginSession(w.ctx, `{}`); err != nil {
		return nil, err
	}
	over, sum := make(chan struct{}), make(chan time.Duration, 1)
	go func() {
		var all time.Duration
		for good, refused := time.Now(), false; w.wait(2 * time.Millisecond); {
			err := answeredWith("")(c.SendRequest(w.ctx, "1", "ping", ""))
			if err == nil && w.o.socket {
				err = answeredWith(`"text":"here"`)(without.SendRequest(w.ctx, "1", "tools/call", `"name":"echo","arguments":{"text":"here"}`))
				w.tally.addMany("connections_in_restarts", 2)
			}
			if err != nil && w.o.socket {
				w.violated(nil, "a request over a new connection failed, though the socket stays open: %v", err)
			}
			if err != nil {
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
	v := newStateless(w, 99, w.p.URL(0), w.rt)
	isIdle := func() bool { return w.callsInFlight() == "0" }
	var all []time.Duration
	for i := range leftCalls {
		call := []string{endlessSleep, endlessStream}[i%2]
		err := v.leaveWhen(call, func() bool { return !isIdle() })
		left := time.Now()
		if !errors.Is(err, context.Canceled) || !w.until(isIdle) {
			return latency{}, fmt.Errorf("%s was left, and %s calls are in flight: %w\n%s", call, w.callsInFlight(), err, w.logs())
		}
		all = append(all, time.Since(left))
	}
	_ = each(principalCalls+100, 50, func(int) error {
		v.leaveCall(50*time.Millisecond, false)
		return nil
	})
	if !w.until(isIdle) {
		return latency{}, fmt.Errorf("many calls were left, and %s are in flight", w.callsInFlight())
	}
	return latencyOf(all), answeredWith(`"text":"free"`)(v.c.SendRequest(w.ctx, "1", "tools/call", `"name":"echo","arguments":{"text":"free"}`))
}
