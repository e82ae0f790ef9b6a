package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/bench/client"
	"github.com/troupe-run/troupe/bench/program"
)

// costsReport is what kills and resumes cost behind stored events. Nothing of it is judged.
type costsReport struct {
	report
	Events  int         `json:"events_stored_before,omitempty"`
	Bytes   float64     `json:"bytes_of_the_log,omitempty"`
	Restart *killCost   `json:"kill_and_start,omitempty"`
	Memory  *resumeCost `json:"resume_just_after_the_events_were_sent,omitempty"`
	Log     *resumeCost `json:"resume_later,omitempty"`
}

type killCost struct {
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
	fillClients  = 64 // at once
	fillTo       = 250
	resumeEvents = 200 // of a stream that is resumed, the answer among them
	// fromTheLog is longer than a process keeps in memory what it has stored.
	fromTheLog = 35 * time.Second
)

// runCosts stores --events events in one node, with settings that keep all of them for as long as a
// run takes, and measures behind them the parts that are named, or both.
func runCosts(ctx context.Context, o options) (r *costsReport, err error) {
	wants := func(part string) bool { return slices.Contains(o.parts, part) || len(o.parts) == 0 }
	r = &costsReport{report: newReport("costs", o)}
	w, err := newWorld(ctx, o, "--set", "replay-age=6h", "--max-store", "40GiB")
	if err != nil {
		return r, err
	}
	defer w.end()
	if _, err := w.start(); err != nil {
		return r, err
	}
	if err := r.storeEvents(w); err != nil {
		return r, err
	}
	c := client.New(w.p.URL(0), w.rt)
	if err := c.BeginSession(w.ctx, `{}`); err != nil {
		return r, err
	}
	if err := answeredWith("")(c.SendRequest(w.ctx, "1", "logging/setLevel", `{"level":"error"}`)); err != nil {
		return r, err
	}
	if wants("resume") {
		from, err := countTo(w.ctx, c, 2, resumeEvents-1, 20) // each event has an append of its own
		if err != nil {
			return r, err
		}
		if r.Memory, err = measureResumes(w, c, from); err != nil {
			return r, err
		}
		w.wait(fromTheLog)
		if r.Log, err = measureResumes(w, c, from); err != nil {
			return r, err
		}
	}
	if wants("behind") {
		r.Restart, err = measureKills(w, c)
	}
	return r, err
}

// resumeWhole resumes a stream and reads it to its end. It returns how long the first event took,
// and how many came.
func resumeWhole(ctx context.Context, c *client.Client, from string) (first time.Duration, n int, err error) {
	began := time.Now()
	a, err := c.ResumeStream(ctx, from)
	if err != nil || a.Events == nil {
		return 0, 0, fmt.Errorf("a resume: %w %+v", err, a)
	}
	defer a.Close()
	p, err := client.ParseID(from)
	defer c.ForgetStream(p.Stream)
	for m := (message{Method: "none yet"}); err == nil && m.Method != ""; {
		var e client.Event
		if e, err = a.Events.Next(); err == nil && e.Data != "" { // else it names the place of the stream
			n, first, m = n+1, cmp.Or(first, time.Since(began)), parse(e.Data)
		}
	}
	return first, n, err
}

// countTo makes a call that counts, reads its stream to the end, and returns the id before its
// first event.
func countTo(ctx context.Context, c *client.Client, n, to, delay int) (before string, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	a, err := c.SendRequest(ctx, strconv.Itoa(n), "tools/call", fmt.Sprintf(`{"name":"count","arguments":{"to":%d,"delay_ms":%d},"_meta":{"progressToken":%d}}`, to, delay, n))
	if err != nil || a.Events == nil {
		return "", fmt.Errorf("a call: %w %+v", err, a)
	}
	e, err := a.Events.Next()
	if err == nil {
		err = answeredWith(fmt.Sprintf("counted to %d", to))(a, nil)
	}
	p, err2 := client.ParseID(e.ID)
	c.ForgetStream(p.Stream)
	return p.Stream + ".0.0", errors.Join(err, err2)
}

// storeEvents stores events of other clients.
func (r *costsReport) storeEvents(w *world) error {
	var next atomic.Int64
	err := each(fillClients, fillClients, func(int) error {
		c := client.New(w.p.URL(0), w.rt)
		err := c.BeginSession(w.ctx, `{}`)
		for n := int(next.Add(1)); err == nil && n*(2*fillTo+1) < w.o.events; n = int(next.Add(1)) {
			_, err = countTo(w.ctx, c, n, fillTo, 1)
		}
		return err
	})
	if err != nil {
		return err
	}
	m, err := program.Metrics(w.p.Addr)
	r.Events, r.Bytes = w.o.events, m[`troupe_store_bytes{stream="events"}`]
	fmt.Fprintf(w.o.log, "stored %d events, %.0f bytes\n", r.Events, r.Bytes)
	return err
}

// measureResumes resumes a stream --rounds times.
func measureResumes(w *world, c *client.Client, from string) (*resumeCost, error) {
	var first, last []time.Duration
	before, _ := w.p.Used()
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
	cpu, _ := w.p.Used()
	return &resumeCost{w.o.rounds, latencyOf(first), latencyOf(last), ms(cpu-before) / float64(w.o.rounds)}, nil
}

// measureKills kills the process --rounds times.
func measureKills(w *world, c *client.Client) (*killCost, error) {
	var ready, answer, cpu []time.Duration
	for n := range w.o.rounds {
		// What is stored just before a kill is in no index on the disk.
		if _, err := countTo(w.ctx, c, n, fillTo, 1); err != nil {
			return nil, err
		}
		began := time.Now()
		if err := errors.Join(w.p.Kill(), w.p.StartReady(w.ctx)); err != nil {
			return nil, err
		}
		ready = append(ready, time.Since(began))
		isAnswered := func() bool {
			return answeredWith("first")(c.SendRequest(w.ctx, "1", "tools/call", `{"name":"echo","arguments":{"text":"first"}}`)) == nil
		}
		if !w.until(isAnswered) {
			return nil, errors.New("no answer after the start: " + w.p.Log.LastLines(20))
		}
		took, _ := w.p.Used()
		answer, cpu = append(answer, time.Since(began)), append(cpu, took)
	}
	_, resident := w.p.Used()
	return &killCost{w.o.rounds, latencyOf(ready), latencyOf(answer), latencyOf(cpu), resident}, nil
}
