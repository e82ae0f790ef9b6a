package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/troupe-run/troupe/bench/client"
)

// restartReport is what orderly restarts of one process under a safe call of a minute
// cost others, and that call.
type restartReport struct {
	Scenario string       `json:"scenario"`
	Rounds   int          `json:"rounds"`
	Seconds  float64      `json:"call_seconds"`
	Refused  restartTimes `json:"another_client_is_refused_ms"`
	Ends     restartTimes `json:"signal_to_exit_ms"`
	Events   int          `json:"events_of_the_call"`
}

// runRestart stops a process in order, and starts it again at once, once a round,
// while a safe call runs that takes as long as o.time. Another client calls all the
// time, over connections that are its own each time.
func runRestart(ctx context.Context, o options) (*restartReport, error) {
	w, err := startWorld(ctx, o, o.flags...)
	if err != nil {
		return nil, err
	}
	defer w.end()
	c, err := w.session()
	if err != nil {
		return nil, err
	}
	other := client.New(w.p.url(0), &http.Transport{DisableKeepAlives: true})
	if err := other.Initialize(w.ctx, `{}`); err != nil {
		return nil, err
	}
	to := int(o.time / (100 * time.Millisecond))
	a, err := c.Call(w.ctx, "1", "tools/call", fmt.Sprintf(`{"name":"count","arguments":{"to":%d,"delay_ms":100},"_meta":{"progressToken":1}}`, to))
	if err != nil {
		return nil, err
	}
	b := &balanced{ctx: w.ctx}
	answer := make(chan string, 1)
	go func() { answer <- b.follow(c, a, "1") }()
	var refused, ends []time.Duration
	for range o.rounds {
		took, end, err := w.restart(other)
		if err != nil {
			return nil, err
		}
		refused, ends = append(refused, took), append(ends, end)
		fmt.Fprintf(o.log, "refused for %v, ended after %v\n", took, end)
	}
	if text := <-answer; b.failures.Load() > 0 || !strings.Contains(text, fmt.Sprintf("counted to %d", to)) {
		return nil, fmt.Errorf("the call: %v, answered with %s", b.first.Load(), text)
	}
	report := &restartReport{Scenario: "restart", Rounds: o.rounds, Seconds: o.time.Seconds(), Refused: timesOf(refused), Ends: timesOf(ends), Events: to + 1}
	if report.Refused.Max > 1000 {
		return report, fmt.Errorf("another client is refused for %v ms", report.Refused.Max)
	}
	return report, nil
}

// restart stops the process and starts it again, and returns for how long a client got
// no answer, and how long the process took to end.
func (w *world) restart(c *client.Client) (refused, ended time.Duration, err error) {
	stopped := time.Now()
	if err := w.p.signal(syscall.SIGTERM); err != nil {
		return 0, 0, err
	}
	again := make(chan error, 1)
	go func() {
		select {
		case err := <-w.p.exited:
			ended = time.Since(stopped)
			if err == nil {
				err = w.p.start()
			}
			again <- err
		case <-time.After(2 * patience):
			again <- errors.New("troupe does not end: " + w.p.log.lines(20))
		}
	}()
	var since time.Time // when the client was answered last, before it was refused
	for good, started := time.Now(), false; ; time.Sleep(2 * time.Millisecond) {
		a, err := c.Call(w.ctx, "1", "ping", "")
		switch {
		case err == nil && a.Status == http.StatusOK:
			if !since.IsZero() {
				refused += time.Since(since)
				since = time.Time{}
			}
			if good = time.Now(); started {
				return refused, ended, nil
			}
		case since.IsZero():
			since = good
		}
		select {
		case err := <-again:
			if err != nil {
				return 0, 0, err
			}
			started = true
		default:
		}
		if time.Since(good) > patience {
			return 0, 0, errors.New("no answer after the restart: " + w.p.log.lines(20))
		}
	}
}
