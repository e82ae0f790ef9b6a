package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/troupe-run/troupe/bench/client"
	"github.com/troupe-run/troupe/bench/loadgen"
)

// costsReport is what comebacks and restarts cost where nobody does any harm. Nothing of it is judged.
type costsReport struct {
	Scenario  string        `json:"scenario"`
	Servers   int           `json:"nats_servers"`
	Here      *attachCost   `json:"streams_read_at_their_writer,omitempty"`
	Elsewhere *attachCost   `json:"streams_read_at_another_node,omitempty"`
	Behind    *behindReport `json:"behind_stored_events,omitempty"`
}

func (*costsReport) verdict() error { return nil }

// attachCost is what streams cost that clients come back to.
type attachCost struct {
	Streams  int     `json:"streams"`
	Events   int     `json:"events"`
	First    latency `json:"resume_to_first_event_ms"`
	NodesCPU float64 `json:"cpu_us_per_event_of_the_nodes"`
	NATSCPU  float64 `json:"cpu_us_per_event_of_nats"`
}

const (
	costStreams = 50 // at once
	costEvents  = 400
)

// runCosts measures the parts that are named, or all of them; those behind stored events only if there are to be any.
func runCosts(ctx context.Context, o options) (*costsReport, error) {
	wants := func(part string) bool {
		return slices.Contains(o.parts, part) || len(o.parts) == 0 && (o.events > 0 || part == "attach")
	}
	r := &costsReport{Scenario: "costs", Servers: o.nats}
	if wants("behind") || wants("resume") {
		var err error
		if r.Behind, err = measureBehind(ctx, o, wants("behind"), wants("resume")); err != nil {
			return r, err
		}
	}
	if !wants("attach") {
		return r, nil
	}
	o.nodes = 3
	front, err := freeAddress(o.seed + 7000)
	if err != nil {
		return r, err
	}
	f, err := newFleet(ctx, o, front)
	if err != nil {
		return r, err
	}
	defer f.end()
	if err := f.start(); err != nil {
		return r, err
	}
	if err := (&process{name: "the fleet", addr: front}).untilReady(ctx); err != nil {
		return r, err
	}
	if r.Here, err = f.measureAttach(ctx, 0); err == nil {
		r.Elsewhere, err = f.measureAttach(ctx, 1)
	}
	return r, err
}

// cpu is the processor time that the nodes and the NATS servers have taken.
func (f *fleet) cpu() (nodes, nats time.Duration) {
	for _, p := range f.nodes {
		cpu, _ := p.used()
		nodes += cpu
	}
	for _, s := range f.nats.all {
		cpu, _ := loadgen.Used(s.cmd.Process.Pid)
		nats += cpu
	}
	return nodes, nats
}

// measureAttach has calls on the first node, whose clients lose their connections after the first event and come back to a node.
func (f *fleet) measureAttach(ctx context.Context, to int) (*attachCost, error) {
	var mu sync.Mutex
	var first []time.Duration
	nodes, nats := f.cpu()
	err := each(costStreams, costStreams, func(i int) error {
		rt := client.NewTransport()
		defer rt.CloseIdleConnections()
		c := client.New(f.nodes[0].url(0), rt)
		if err := c.Initialize(ctx, `{}`); err != nil {
			return err
		}
		a, err := c.Call(ctx, "1", "tools/call", fmt.Sprintf(`{"name":"count","arguments":{"to":%d,"delay_ms":10}}`, costEvents))
		if err != nil || a.Events == nil {
			return fmt.Errorf("a call: %w %+v", err, a)
		}
		e, err := a.Events.Next()
		a.Close()
		if err != nil {
			return err
		}
		took, n, err := resumeWhole(ctx, c.At(f.nodes[to].url(0)), e.ID)
		if n != costEvents+1 {
			return fmt.Errorf("%d events after the first, want %d: %w", n, costEvents+1, err)
		}
		mu.Lock()
		defer mu.Unlock()
		first = append(first, took)
		return err
	})
	nodes2, nats2 := f.cpu()
	micros := func(d time.Duration) float64 { return float64(d.Microseconds()) / (costStreams * costEvents) }
	return &attachCost{costStreams, costStreams * costEvents, latencyOf(first), micros(nodes2 - nodes), micros(nats2 - nats)}, err
}

// resumeWhole resumes a stream and reads it to its end. It returns how long the first event took, and how many came.
func resumeWhole(ctx context.Context, c *client.Client, from string) (first time.Duration, n int, err error) {
	began := time.Now()
	a, err := c.Resume(ctx, from)
	if err != nil || a.Events == nil {
		return 0, 0, fmt.Errorf("a resume: %w %+v", err, a)
	}
	defer a.Close()
	p, err := client.ParseID(from)
	defer c.Forget(p.Stream)
	for err == nil {
		var e client.Event
		if e, err = a.Events.Next(); err != nil {
			break
		}
		if e.Data == "" {
			continue // It names the place of the stream.
		}
		n, first = n+1, cmp.Or(first, time.Since(began))
		if m := parse(e.Data); m.Method == "" && m.Result != nil {
			return first, n, nil
		}
	}
	return first, n, err
}

// countTo makes a call that counts to a number with two events for each step, reads its stream to the end, and returns the id before its first
// event.
func countTo(ctx context.Context, c *client.Client, n, to, delay int) (before string, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	id := strconv.Itoa(n)
	a, err := c.Call(ctx, id, "tools/call", fmt.Sprintf(`{"name":"count","arguments":{"to":%d,"delay_ms":%d},"_meta":{"progressToken":%d}}`, to, delay, n))
	if err != nil {
		return "", err
	}
	defer a.Close()
	if a.Events == nil {
		return "", fmt.Errorf("a call got %d %.200s", a.Status, a.Body)
	}
	for {
		e, err := a.Events.Next()
		if err != nil {
			return "", fmt.Errorf("the stream of a call: %w", err)
		}
		if m := parse(e.Data); m.answers(id) {
			p, err := client.ParseID(e.ID)
			c.Forget(p.Stream)
			if m.text() != fmt.Sprintf("counted to %d", to) {
				err = fmt.Errorf("a call is answered with %s", e.Data)
			}
			return p.Stream + ".0.0", err
		}
	}
}
