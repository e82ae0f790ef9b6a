package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"
)

// chaosTasks are the tasks that are made in each round, and how they work.
const (
	chaosTasks  = 16
	chaosSteps  = 40
	chaosStepMS = 50
)

// chaosReport is what a run of losses in a fleet found.
type chaosReport struct {
	Scenario  string                  `json:"scenario"`
	Servers   int                     `json:"nats_servers"`
	Nodes     int                     `json:"nodes"`
	Seed      uint64                  `json:"seed"`
	Rounds    int                     `json:"rounds"`
	Clients   int                     `json:"clients"`
	Stateless int                     `json:"stateless_clients"`
	Herd      int                     `json:"clients_that_come_back_within_a_second"`
	Away      float64                 `json:"nats_away_s"`
	Seconds   float64                 `json:"seconds"`
	Harm      map[string]int          `json:"harm"`
	Next      restartTimes            `json:"harm_to_next_plain_call_ms"`
	Gaps      map[string]restartTimes `json:"broken_stream_to_next_event_ms"`
	Counts    map[string]int64        `json:"counts"`
	Greedy    tenantReport            `json:"greedy_tenant"`

	Tasks    int `json:"tasks"`
	Unsure   int `json:"task_creations_without_an_answer"`
	Again    int `json:"steps_that_began_again_before_they_were_stored"`
	Late     int `json:"steps_begun_by_a_node_that_had_lost_the_task"`
	Attempts int `json:"most_attempts_of_a_task"`
}

// verdict holds the report against what is promised. A node that stood still, or is cut off, may begin the step that was next when
// another node has its task.
func (r *chaosReport) verdict() error {
	if most := 1 + r.Tasks/50; r.Late > most {
		return fmt.Errorf("%d steps were begun by a node that had lost the task, at most %d may", r.Late, most)
	}
	return r.Greedy.verdict()
}

// gaps are how long streams waited for their next event after their connections had broken, by what had been done.
type gaps struct {
	mu  sync.Mutex // guards all
	all map[string][]time.Duration
}

// goesOn notes that a stream whose connection broke a while ago has its next event.
func (w *world) goesOn(f *follower, after time.Duration) {
	if w.fleet == nil || !f.paced {
		return
	}
	w.gaps.mu.Lock()
	defer w.gaps.mu.Unlock()
	how := w.fleet.how.Load().(string)
	w.gaps.all[how] = append(w.gaps.all[how], after)
}

// runChaos has clients of both eras work through a load balancer that gives each request to the next of three nodes, while the fleet is
// harmed in one way after the other.
func runChaos(ctx context.Context, o options) (*chaosReport, error) {
	for _, how := range o.attacks {
		if !slices.Contains(known, how) || how == byLeader && o.nats < 2 {
			return nil, fmt.Errorf("no harm is called %q with %d NATS servers: there are %v, and %s where there are three", how, o.nats, known, byLeader)
		}
	}
	o.servers = 1 // the program may serve more
	w, err := newWorld(ctx, o)
	if err != nil {
		return nil, err
	}
	defer w.end()
	w.rt, w.gaps.all = balancedTransport{w.rt.(*http.Transport)}, make(map[string][]time.Duration)
	if w.fleet, err = newFleet(w.ctx, o, w.p.addr); err != nil {
		return nil, err
	}
	tasks := newTaskSoak(w.ctx, o, 3, chaosSteps, chaosStepMS)
	tasks.p, tasks.retries = w.p, true
	began := time.Now()
	if err := w.begin(); err != nil {
		return nil, err
	}
	for range max(2, o.clients/2) {
		w.admit(len(w.statelessClients), w.p.url(0))
	}
	var greedy *tenant
	if o.greedy > 0 {
		greedy = w.newTenant(o.greedy)
	}
	r := &chaosReport{Scenario: "chaos", Servers: o.nats, Nodes: chaosNodes, Seed: o.seed, Rounds: o.rounds, Clients: o.clients, Stateless: len(w.statelessClients),
		Herd: o.herd, Away: o.away.Seconds(), Harm: make(map[string]int), Gaps: make(map[string]restartTimes)}
	for n, how := range harms(w.rng(3), o) {
		w.round.Store(int64(n))
		w.fleet.how.Store(how)
		r.Harm[how]++
		if err := w.chaosRound(how, tasks); err != nil {
			return nil, err
		}
		fmt.Fprintf(o.log, "%3.0f s: round %d of %d (%s %s): %d calls, %d events, %d resumes; without a session %d calls, %d answers to questions; %d tasks\n", time.Since(began).Seconds(), n+1, o.rounds,
			how, w.fleet.victim, w.figures.Calls.Load(), w.figures.Events.Load(), w.figures.Resumes.Load(), w.stateless.Calls.Load(), w.stateless.Answered.Load(), len(tasks.open))
	}
	w.round.Store(int64(o.rounds) + 10) // nothing may take longer now
	if err := w.finish(); err != nil {
		return nil, err
	}
	if err := tasks.finish(); err != nil {
		return nil, err
	}
	if r.Again, r.Attempts, err = tasks.read(); err != nil {
		return nil, err
	}
	r.Tasks, r.Unsure, r.Late = len(tasks.ended), tasks.unsure, tasks.late
	r.Counts, r.Next, r.Seconds = w.figures.counts(), timesOf(w.early), time.Since(began).Seconds()
	for how, all := range w.gaps.all {
		r.Gaps[how] = timesOf(all)
	}
	w.stateless.counts(r.Counts)
	if greedy != nil {
		r.Greedy = greedy.report(o.greedy)
	}
	return r, nil
}

// chaosRound harms the fleet while clients work, and heals it.
func (w *world) chaosRound(how string, tasks *taskSoak) error {
	rng := w.rng(0)
	var crowd *crowd
	if how == byHerd {
		var err error
		if crowd, err = w.newCrowd(w.o.herd); err != nil {
			return w.cause(err)
		}
	}
	after := time.Duration(rng.IntN(1500)) * time.Millisecond
	for _, d := range w.drivers {
		d.load(after)
	}
	for _, v := range w.statelessClients {
		v.load(after)
	}
	created := make(chan struct{})
	go func() {
		defer close(created)
		tasks.create(chaosTasks)
	}()
	w.wait(after)
	if err := w.kill(); err != nil {
		return w.cause(err)
	}
	harmed := time.Now()
	if crowd != nil {
		go crowd.scatter()
	}
	lasts := w.fleet.lasts(rng)
	if how != byAway && how != byCrash {
		for !w.answers() && time.Since(harmed) < patience && w.wait(time.Millisecond) {
		}
		w.early = append(w.early, time.Since(harmed))
	}
	w.wait(lasts - time.Since(harmed))
	if _, err := w.start(); err != nil {
		return w.cause(err)
	}
	w.fleet.harmed.Store(false)
	<-created
	for i, d := range w.drivers {
		if !w.until(func() bool { return d.echo(1000 + i) }) {
			return w.cause(errors.New("a session does not work after the fleet was healed"))
		}
		w.figures.Survivors.Add(1)
	}
	for i, v := range w.statelessClients {
		v.echo(1000 + i)
		v.swap(w.statelessClients[(i+1)%len(w.statelessClients)], rng)
	}
	for _, d := range w.drivers {
		d.settle()
	}
	for _, v := range w.statelessClients {
		v.settle()
	}
	if crowd != nil {
		crowd.whole()
	}
	for i, d := range w.drivers {
		d.replays(rng)
		d.swap(w.drivers[(i+1)%len(w.drivers)], rng)
		d.forget()
	}
	return w.cause(nil)
}
