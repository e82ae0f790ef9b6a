package main

import (
	"context"
	"errors"
	"fmt"
)

// rollReport is what rolling restarts of a fleet cost its clients.
type rollReport struct {
	Scenario string        `json:"scenario"`
	Servers  int           `json:"nats_servers"`
	Nodes    int           `json:"nodes"`
	Seconds  float64       `json:"seconds"`
	Clients  int           `json:"clients"`
	Counts   balanceCounts `json:"counts"`
}

// verdict fails a run in which a client got anything but its answer, or not all nodes were restarted.
func (r *rollReport) verdict() error {
	if c := &r.Counts; c.Failures > 0 || c.Restarts < int64(r.Nodes) {
		return fmt.Errorf("%d of %d calls failed over %d restarts, first %s", c.Failures, c.Calls, c.Restarts, c.First)
	}
	return nil
}

// runRoll restarts the nodes of a fleet one after the other, as a deploy does: each ends in order, is started again and becomes ready. Its clients, of which each request
// goes to the next node that is ready, try nothing again but a stream that broke.
func runRoll(ctx context.Context, o options) (*rollReport, error) {
	b := &balanced{}
	b.ctx, b.stop = context.WithCancel(ctx)
	defer b.end()
	f, front, err := startFleet(b.ctx, o)
	if err != nil {
		return nil, err
	}
	defer f.end()
	b.url, b.processes, b.ready = "http://"+front+"/mcp", f.nodes, true
	err = b.run(o)
	return &rollReport{Scenario: "roll", Servers: o.nats, Nodes: len(f.nodes), Seconds: o.time.Seconds(), Clients: o.clients, Counts: b.counts()}, err
}

// startFleet starts a fleet and waits until its proxy, at front, has heard that all nodes are ready.
func startFleet(ctx context.Context, o options) (f *fleet, front string, err error) {
	if front, err = freeAddress(o.seed + 7000); err != nil {
		return nil, "", err
	}
	if f, err = newFleet(ctx, o, front); err != nil {
		return nil, "", err
	}
	if err = f.start(); err == nil && !(&world{ctx: ctx}).until((&world{p: &process{addr: front}}).ready) {
		err = errors.New("the nodes are not ready")
	}
	if err != nil {
		f.end()
		return nil, "", err
	}
	return f, front, nil
}
