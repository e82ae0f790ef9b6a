package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/bench/client"
)

// behindReport is what kills and resumes cost behind many stored events.
type behindReport struct {
	Events  int         `json:"events"`
	Bytes   float64     `json:"bytes_of_the_log"`
	Seconds float64     `json:"seconds_to_store_them"`
	Restart *killCosts  `json:"kill_and_start,omitempty"`
	Memory  *resumeCost `json:"resume_just_after_the_events_were_sent,omitempty"`
	Log     *resumeCost `json:"resume_later,omitempty"`
}

type killCosts struct {
	Kills  int     `json:"kills"`
	Ready  latency `json:"kill_to_ready_ms"`
	Answer latency `json:"kill_to_first_answer_ms"`
	CPU    latency `json:"processor_time_to_first_answer_ms"`
	Memory int64   `json:"resident_bytes_after_the_last"`
}

// resumeCost is what a resume of a stream of resumeEvents costs.
type resumeCost struct {
	Resumes int     `json:"resumes"`
	First   latency `json:"request_to_first_event_ms"`
	Last    latency `json:"request_to_last_event_ms"`
	CPU     float64 `json:"processor_time_of_the_process_for_each_ms"`
}

const (
	fillClients = 64 // at once
	fillTo      = 250
	// resumeEvents are those of a stream that is resumed, the answer among them.
	resumeEvents = 200
	// fromTheLog is longer than a process keeps in memory what it has stored.
	fromTheLog = 35 * time.Second
)

// measureBehind stores --events events in one node, with settings that keep all of them for as long as a run takes, and then resumes streams and kills
// the node behind them.
func measureBehind(ctx context.Context, o options, kills, resumes bool) (r *behindReport, err error) {
	o.hosted = false // bench/lab has no such settings
	if o.bin, err = build(ctx, filepath.Dir(o.data), false); err != nil {
		return nil, err
	}
	w, err := newWorld(ctx, o, "--set", "replay-age=6h", "--max-store", "40GiB")
	if err != nil {
		return nil, err
	}
	defer w.end()
	if _, err := w.start(); err != nil {
		return nil, err
	}
	began := time.Now()
	var next atomic.Int64
	err = each(fillClients, fillClients, func(int) error {
		c := client.New(w.p.url(0), w.rt)
		err := c.Initialize(w.ctx, `{}`)
		for n := int(next.Add(1)); err == nil && n*(2*fillTo+1) < o.events; n = int(next.Add(1)) {
			_, err = countTo(w.ctx, c, n, fillTo, 1)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	m, err := metricsOf(w.p.addr)
	if err != nil {
		return nil, err
	}
	r = &behindReport{Events: o.events, Bytes: m[`troupe_store_bytes{stream="events"}`], Seconds: time.Since(began).Seconds()}
	fmt.Fprintf(o.log, "stored %+v\n", r)
	c := client.New(w.p.url(0), w.rt)
	if err := c.Initialize(w.ctx, `{}`); err != nil {
		return nil, err
	}
	if resumes {
		if err := w.measureResumes(c, r); err != nil {
			return nil, err
		}
	}
	if kills {
		r.Restart, err = w.measureKills(c)
	}
	return r, err
}

// measureKills kills the process --rounds times.
func (w *world) measureKills(c *client.Client) (*killCosts, error) {
	var ready, answer, cpu []time.Duration
	for n := range w.o.rounds {
		// What is stored just before a kill is in no index on the disk.
		if _, err := countTo(w.ctx, c, n, fillTo, 1); err != nil {
			return nil, err
		}
		if err := errors.Join(w.p.kill(), w.p.start()); err != nil {
			return nil, err
		}
		began := time.Now()
		if !w.until(w.p.isReady) {
			return nil, errors.New("not ready after the start: " + w.p.log.lines(20))
		}
		ready = append(ready, time.Since(began))
		answered := func() bool {
			a, err := c.Call(w.ctx, "1", "tools/call", `{"name":"echo","arguments":{"text":"first"}}`)
			return err == nil && a.Status == http.StatusOK
		}
		if !w.until(answered) {
			return nil, errors.New("no answer after the start: " + w.p.log.lines(20))
		}
		took, _ := w.p.used()
		answer, cpu = append(answer, time.Since(began)), append(cpu, took)
	}
	_, resident := w.p.used()
	return &killCosts{w.o.rounds, latencyOf(ready), latencyOf(answer), latencyOf(cpu), resident}, nil
}

// measureResumes resumes a stream, each of whose events has an append of its own: at once, so that it comes from the memory of the process, and once
// it must be read of the log.
func (w *world) measureResumes(c *client.Client, r *behindReport) error {
	if err := answeredWith("")(c.Call(w.ctx, "1", "logging/setLevel", `{"level":"error"}`)); err != nil {
		return fmt.Errorf("logging/setLevel: %w", err)
	}
	from, err := countTo(w.ctx, c, 2, resumeEvents-1, 20)
	if err != nil {
		return err
	}
	if r.Memory, err = w.resumeOften(c, from); err != nil {
		return err
	}
	fmt.Fprintf(w.o.log, "at once %+v\nthe same in %v\n", r.Memory, fromTheLog)
	if !w.wait(fromTheLog) {
		return context.Cause(w.ctx)
	}
	r.Log, err = w.resumeOften(c, from)
	return err
}

// resumeOften resumes a stream --rounds times.
func (w *world) resumeOften(c *client.Client, from string) (*resumeCost, error) {
	var first, last []time.Duration
	before, _ := w.p.used()
	for range w.o.rounds {
		began := time.Now()
		took, n, err := resumeWhole(w.ctx, c, from)
		if err == nil && n != resumeEvents {
			err = fmt.Errorf("a resume of %d events, want %d", n, resumeEvents)
		}
		if err != nil {
			return nil, err
		}
		first, last = append(first, took), append(last, time.Since(began))
	}
	cpu, _ := w.p.used()
	return &resumeCost{w.o.rounds, latencyOf(first), latencyOf(last), ms(cpu-before) / float64(w.o.rounds)}, nil
}
