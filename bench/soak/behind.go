package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"time"

	"github.com/troupe-run/troupe/bench/client"
)

// behindReport is what kills and resumes cost behind many stored events.
type behindReport struct {
	Stored  filled      `json:"stored"`
	Restart *killCosts  `json:"kill_and_start,omitempty"`
	Resume  *resumeCost `json:"resume,omitempty"`
}

type killCosts struct {
	Kills  int     `json:"kills"`
	Ready  latency `json:"kill_to_ready_ms"`
	Answer latency `json:"kill_to_first_answer_ms"`
	CPU    latency `json:"processor_time_to_first_answer_ms"`
	Memory int64   `json:"resident_bytes_after_the_last"`
}

// behind stores --events events in one node, with settings that keep all of them for as long as a run takes, and then resumes streams and kills the
// node behind them.
func (c *costs) behind(r *costsReport) (err error) {
	o := c.o
	o.hosted = false // bench/lab has no such settings
	if o.bin, err = build(c.ctx, filepath.Dir(o.data), false); err != nil {
		return err
	}
	w, err := startWorld(c.ctx, o, "--set", "replay-age=6h", "--max-store", "40GiB")
	if err != nil {
		return err
	}
	defer w.end()
	b := new(behindReport)
	if b.Stored, err = w.fill(o.events); err != nil {
		return err
	}
	fmt.Fprintf(o.log, "stored %+v\n", b.Stored)
	if c.wants("resume") {
		b.Resume, err = w.measureResumes()
	}
	if err == nil && c.wants("behind") {
		b.Restart, err = w.measureKills()
	}
	r.Behind = b
	return err
}

// measureKills kills the process --rounds times.
func (w *world) measureKills() (*killCosts, error) {
	c, err := w.session()
	if err != nil {
		return nil, err
	}
	var ready, answer, cpu []time.Duration
	for n := range w.o.rounds {
		// What is stored just before a kill is in no index on the disk.
		if _, _, err := countCall(w.ctx, c, n, fillTo, 1, true); err != nil {
			return nil, err
		}
		if err := w.p.kill(); err != nil {
			return nil, err
		}
		a, b, took, err := w.again(c)
		if err != nil {
			return nil, err
		}
		ready, answer, cpu = append(ready, a), append(answer, b), append(cpu, took)
		fmt.Fprintf(w.o.log, "kill %d of %d: ready after %v, first answer after %v, %v of processor time\n", n+1, w.o.rounds, a, b, took)
	}
	return &killCosts{w.o.rounds, latencyOf(ready), latencyOf(answer), latencyOf(cpu), residentOf(w.p.cmd.Process.Pid)}, nil
}

// again starts the process that was killed. It returns how long it takes to be ready, and to answer a request of a
// session, and how much processor time it has used by then.
func (w *world) again(c *client.Client) (ready, answer, cpu time.Duration, err error) {
	began := time.Now()
	if err := w.p.start(); err != nil {
		return 0, 0, 0, err
	}
	for ; time.Since(began) < 4*patience; time.Sleep(time.Millisecond) {
		if ready == 0 {
			if !w.ready() {
				continue
			}
			ready = time.Since(began)
		}
		a, err := c.Call(w.ctx, "1", "tools/call", `{"name":"echo","arguments":{"text":"first"}}`)
		if err != nil {
			continue
		}
		a.Close()
		if a.Status == http.StatusOK {
			return ready, time.Since(began), cpuOf(w.p.cmd.Process.Pid), nil
		}
	}
	return 0, 0, 0, errors.New("no answer after the start: " + w.p.log.lines(20))
}

// resumeCost is what a resume of a short stream costs.
type resumeCost struct {
	Events int         `json:"events_of_a_resume"`
	Memory resumeCosts `json:"just_after_they_were_sent"`
	Log    resumeCosts `json:"later"`
}

type resumeCosts struct {
	Resumes int     `json:"resumes"`
	First   latency `json:"request_to_first_event_ms"`
	Last    latency `json:"request_to_last_event_ms"`
	CPU     float64 `json:"processor_time_of_the_process_for_each_ms"`
}

const (
	resumeEvents = 200
	// fromTheLog is longer than a process keeps in memory what it has stored.
	fromTheLog = 35 * time.Second
)

// measureResumes resumes a stream of 200 events, each with an append of its own: at once, so that it comes from the memory of the process, and once it
// must be read of the log.
func (w *world) measureResumes() (r *resumeCost, err error) {
	c, err := w.session()
	if err != nil {
		return nil, err
	}
	if err := answeredWith("")(c.Call(w.ctx, "1", "logging/setLevel", `{"level":"error"}`)); err != nil {
		return nil, fmt.Errorf("logging/setLevel: %w", err)
	}
	r = &resumeCost{Events: resumeEvents}
	from, got, err := countCall(w.ctx, c, 2, resumeEvents-1, 20, true)
	if err == nil && got != resumeEvents {
		err = fmt.Errorf("a call of %d events sent %d", resumeEvents, got)
	}
	if err != nil {
		return nil, err
	}
	if r.Memory, err = w.resumes(c, from); err != nil {
		return nil, err
	}
	fmt.Fprintf(w.o.log, "at once %+v\nthe same in %v\n", r.Memory, fromTheLog)
	if !w.wait(fromTheLog) {
		return nil, context.Cause(w.ctx)
	}
	r.Log, err = w.resumes(c, from)
	return r, err
}

// resumes resumes a stream as often as is wanted.
func (w *world) resumes(c *client.Client, from string) (r resumeCosts, err error) {
	var first, last []time.Duration
	cpu := cpuOf(w.p.cmd.Process.Pid)
	for range w.o.rounds {
		a, b, err := w.resumed(c, from)
		if err != nil {
			return r, err
		}
		first, last = append(first, a), append(last, b)
	}
	r.Resumes, r.First, r.Last = w.o.rounds, latencyOf(first), latencyOf(last)
	r.CPU = float64((cpuOf(w.p.cmd.Process.Pid) - cpu).Microseconds()) / 1000 / float64(w.o.rounds)
	return r, nil
}

// resumed resumes a stream of resumeEvents, and returns how long it takes until its first event and until its end.
func (w *world) resumed(c *client.Client, from string) (first, last time.Duration, err error) {
	began := time.Now()
	a, err := c.Resume(w.ctx, from)
	if err != nil || a.Events == nil {
		return 0, 0, fmt.Errorf("a resume: %w %+v", err, a)
	}
	defer a.Close()
	for n := 0; ; n++ {
		_, err := a.Events.Next()
		if n == 0 {
			first = time.Since(began)
		}
		if n == resumeEvents && errors.Is(err, io.EOF) {
			p, err := client.ParseID(from)
			c.Forget(p.Stream)
			return first, time.Since(began), err
		}
		if err != nil {
			return 0, 0, fmt.Errorf("a resume after %d events: %w", n, err)
		}
	}
}
