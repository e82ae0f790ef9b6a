package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/bench/client"
)

// costsReport is what comebacks and restarts cost where nobody does any harm. Nothing of it is
// judged.
type costsReport struct {
	report
	Servers   int         `json:"nats_servers"`
	Here      *attachCost `json:"streams_read_at_their_writer,omitempty"`
	Elsewhere *attachCost `json:"streams_read_at_another_node,omitempty"`

	Events  int         `json:"events_stored_before,omitempty"`
	Bytes   float64     `json:"bytes_of_the_log,omitempty"`
	Restart *killCost   `json:"kill_and_start,omitempty"`
	Memory  *resumeCost `json:"resume_just_after_the_events_were_sent,omitempty"`
	Log     *resumeCost `json:"resume_later,omitempty"`
}

// attachCost is what streams cost that clients come back to.
type attachCost struct {
	Streams  int     `json:"streams"`
	Events   int     `json:"events"`
	First    latency `json:"resume_to_first_event_ms"`
	NodesCPU float64 `json:"cpu_us_per_event_of_the_nodes"`
	NATSCPU  float64 `json:"cpu_us_per_event_of_nats"`
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
	attachStreams = 50 // at once
	attachEvents  = 400
	fillClients   = 64 // at once
	fillTo        = 250
	resumeEvents  = 200 // of a stream that is resumed, the answer among them
	// fromTheLog is longer than a process keeps in memory what it has stored.
	fromTheLog = 35 * time.Second
)

// runCosts measures the parts that are named, or all of them; those behind stored events only if
// there are to be any.
func runCosts(ctx context.Context, o options) (r *costsReport, err error) {
	wants := func(part string) bool {
		return slices.Contains(o.parts, part) || len(o.parts) == 0 && (o.events > 0 || part == "attach")
	}
	r = &costsReport{report: newReport("costs", o), Servers: o.nats}
	if wants("behind") || wants("resume") {
		if err := r.measureBehind(ctx, o, wants("behind"), wants("resume")); err != nil {
			return r, err
		}
	}
	if !wants("attach") {
		return r, nil
	}
	front, err := freeAddress(o.seed + 7000)
	if err != nil {
		return r, err
	}
	o.nodes = 3
	f, err := newFleet(ctx, o, front)
	if err != nil {
		return r, err
	}
	defer f.end()
	if err = f.start(); err == nil {
		err = (&process{name: "the fleet", addr: front}).untilReady(ctx)
	}
	if err == nil {
		r.Here, err = measureAttach(ctx, f, 0)
	}
	if err == nil {
		r.Elsewhere, err = measureAttach(ctx, f, 1)
	}
	return r, err
}

// measureAttach has calls on the first node, whose clients lose their connections after the first
// event and come back to a node.
func measureAttach(ctx context.Context, f *fleet, to int) (*attachCost, error) {
	cpu := func() (nodes, nats time.Duration) {
		for _, p := range f.nodes {
			took, _ := p.usedResources()
			nodes += took
		}
		for _, p := range f.nats {
			took, _ := p.usedResources()
			nats += took
		}
		return nodes, nats
	}
	var first durations
	nodes, nats := cpu()
	err := each(attachStreams, attachStreams, func(int) error {
		rt := client.NewTransport()
		defer rt.CloseIdleConnections()
		c := client.New(f.nodes[0].url(0), rt)
		if err := c.BeginSession(ctx, `{}`); err != nil {
			return err
		}
		a, err := c.SendRequest(ctx, "1", "tools/call", fmt.Sprintf(`{"name":"count","arguments":{"to":%d,"delay_ms":10}}`, attachEvents))
		if err != nil || a.Events == nil {
			return fmt.Errorf("a call: %w %+v", err, a)
		}
		e, err := a.Events.Next()
		if a.Close(); err != nil {
			return err
		}
		took, n, err := resumeWhole(ctx, c.AtURL(f.nodes[to].url(0)), e.ID)
		if err == nil && n != attachEvents+1 {
			err = fmt.Errorf("%d events after the first, want %d", n, attachEvents+1)
		}
		first.add("", took)
		return err
	})
	nodes2, nats2 := cpu()
	micros := func(d time.Duration) float64 { return float64(d.Microseconds()) / (attachStreams * attachEvents) }
	return &attachCost{attachStreams, attachStreams * attachEvents, latencyOf(first.all[""]), micros(nodes2 - nodes), micros(nats2 - nats)}, err
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

// measureBehind stores --events events in one node, with settings that keep all of them for as long
// as a run takes, and then resumes streams and kills the node behind them.
func (r *costsReport) measureBehind(ctx context.Context, o options, kills, resumes bool) (err error) {
	o.hosted = false // bench/lab has no such settings
	if o.bin, err = build(ctx, filepath.Dir(o.data), false); err != nil {
		return err
	}
	w, err := newWorld(ctx, o, "--set", "replay-age=6h", "--max-store", "40GiB")
	if err != nil {
		return err
	}
	defer w.end()
	if _, err := w.start(); err != nil {
		return err
	}
	var next atomic.Int64
	err = each(fillClients, fillClients, func(int) error {
		c := client.New(w.p.url(0), w.rt)
		err := c.BeginSession(w.ctx, `{}`)
		for n := int(next.Add(1)); err == nil && n*(2*fillTo+1) < o.events; n = int(next.Add(1)) {
			_, err = countTo(w.ctx, c, n, fillTo, 1)
		}
		return err
	})
	if err != nil {
		return err
	}
	m, err := metricsOf(w.p.addr)
	if err != nil {
		return err
	}
	r.Events, r.Bytes = o.events, m[`troupe_store_bytes{stream="events"}`]
	fmt.Fprintf(o.log, "stored %d events, %.0f bytes\n", r.Events, r.Bytes)
	c := client.New(w.p.url(0), w.rt)
	if err := c.BeginSession(w.ctx, `{}`); err != nil {
		return err
	}
	if err := answeredWith("")(c.SendRequest(w.ctx, "1", "logging/setLevel", `{"level":"error"}`)); err != nil {
		return err
	}
	if resumes {
		from, err := countTo(w.ctx, c, 2, resumeEvents-1, 20) // each event has an append of its own
		if err != nil {
			return err
		}
		if r.Memory, err = measureResumes(w, c, from); err != nil {
			return err
		}
		w.wait(fromTheLog)
		if r.Log, err = measureResumes(w, c, from); err != nil {
			return err
		}
	}
	if kills {
		r.Restart, err = measureKills(w, c)
	}
	return err
}

// measureResumes resumes a stream --rounds times.
func measureResumes(w *world, c *client.Client, from string) (*resumeCost, error) {
	var first, last []time.Duration
	before, _ := w.p.usedResources()
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
	cpu, _ := w.p.usedResources()
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
		if err := errors.Join(w.p.kill(), w.p.startReady(w.ctx)); err != nil {
			return nil, err
		}
		ready = append(ready, time.Since(began))
		isAnswered := func() bool {
			return answeredWith("first")(c.SendRequest(w.ctx, "1", "tools/call", `{"name":"echo","arguments":{"text":"first"}}`)) == nil
		}
		if !w.until(isAnswered) {
			return nil, errors.New("no answer after the start: " + w.p.log.lastLines(20))
		}
		took, _ := w.p.usedResources()
		answer, cpu = append(answer, time.Since(began)), append(cpu, took)
	}
	_, resident := w.p.usedResources()
	return &killCost{w.o.rounds, latencyOf(ready), latencyOf(answer), latencyOf(cpu), resident}, nil
}
