package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// killReport is what a run of kills found.
type killReport struct {
	Scenario  string           `json:"scenario"`
	Old       string           `json:"takes_turns_with,omitempty"`
	Seed      uint64           `json:"seed"`
	Rounds    int              `json:"rounds"`
	Clients   int              `json:"clients"`
	Stateless int              `json:"stateless_clients"`
	Servers   int              `json:"servers"`
	Seconds   float64          `json:"seconds"`
	Restart   restartTimes     `json:"restart_to_first_answer_ms"`
	Counts    map[string]int64 `json:"counts"`
}

type restartTimes struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// runKill kills the process once a round.
func runKill(ctx context.Context, o options) (*killReport, error) {
	w, err := newWorld(ctx, o)
	if err != nil {
		return nil, err
	}
	defer w.end()
	began := time.Now()
	if err := w.begin(); err != nil {
		return nil, err
	}
	for n := range max(2, o.clients/2) {
		w.admit(n, w.p.url(n*o.servers/max(2, o.clients/2)))
	}
	for r := range o.rounds {
		w.round.Store(int64(r))
		if err := w.killRound(); err != nil {
			return nil, err
		}
		fmt.Fprintf(o.log, "round %d of %d: %d calls, %d events, %d resumes; without a session %d calls, %d answers to questions\n", r+1, o.rounds,
			w.figures.Calls.Load(), w.figures.Events.Load(), w.figures.Resumes.Load(), w.stateless.Calls.Load(), w.stateless.Answered.Load())
	}
	w.round.Store(int64(o.rounds) + 10) // nothing may take longer now
	if err := w.finish(); err != nil {
		return nil, err
	}
	counts := w.figures.counts()
	w.stateless.counts(counts)
	return &killReport{
		Scenario: "kill", Old: o.old, Seed: o.seed, Rounds: o.rounds, Clients: o.clients, Stateless: len(w.statelessClients), Servers: o.servers,
		Seconds: time.Since(began).Seconds(), Restart: timesOf(w.early), Counts: counts,
	}, nil
}

func (w *world) killRound() error {
	rng := w.rng(0)
	killAfter := time.Duration(rng.IntN(1500)) * time.Millisecond
	down := time.Duration(0)
	if rng.IntN(3) == 0 {
		down = time.Duration(rng.IntN(200)) * time.Millisecond
	}
	for _, d := range w.drivers {
		d.load(killAfter)
	}
	for _, v := range w.statelessClients {
		v.load(killAfter)
	}
	w.wait(killAfter)
	if err := w.kill(); err != nil {
		return w.cause(err)
	}
	w.wait(down)
	if rng.IntN(4) == 0 {
		if err := w.killStarting(time.Duration(rng.IntN(150)) * time.Millisecond); err != nil {
			return w.cause(err)
		}
	}
	took, err := w.start()
	if err != nil {
		return w.cause(err)
	}
	w.early = append(w.early, took)
	for i, d := range w.drivers {
		if !d.echo(1000 + i) {
			return w.cause(errors.New("a session did not work after the restart"))
		}
		w.figures.Survivors.Add(1)
	}
	for i, v := range w.statelessClients {
		v.echo(1000 + i)
		v.swap(w.statelessClients[(i+1)%len(w.statelessClients)], rng)
	}
	w.copiesSurvive()
	for _, d := range w.drivers {
		d.settle()
	}
	for _, v := range w.statelessClients {
		v.settle()
		v.pageAgain(rng)
		v.leave(25*time.Millisecond, rng.IntN(2) == 0) // finish looks whether that is noticed
	}
	for i, d := range w.drivers {
		d.replays(rng)
		d.swap(w.drivers[(i+1)%len(w.drivers)], rng)
		if rng.IntN(10) == 0 && !d.old {
			d.rotate()
		}
		d.forget()
	}
	return w.cause(nil)
}

// killStarting starts the process and kills it again before, or just after, it
// serves.
func (w *world) killStarting(after time.Duration) error {
	w.figures.KillsInStart.Add(1)
	w.boot.Add(1)
	if err := w.p.start(); err != nil {
		return err
	}
	w.wait(after)
	return w.kill()
}

// cause is why the run has ended, else err.
func (w *world) cause(err error) error {
	if cause := context.Cause(w.ctx); cause != nil {
		return cause
	}
	return err
}

// settle waits until the round's calls are answered and its ticks have come.
func (d *driver) settle() {
	w := d.w
	due := func(k *call) bool {
		return k.when != never && (!k.long || w.round.Load() > int64(k.rounds))
	}
	// Calls that wait for the window are not open yet: tasks covers them.
	d.tasks.Wait()
	if !w.until(func() bool { return len(d.unanswered(due)) == 0 }) && w.ctx.Err() == nil {
		k := d.unanswered(due)[0]
		w.violated(k.f.rec, "%s: %s %s was not answered in %v", d, k, k.params, patience)
	}
	if !w.until(func() bool { return len(d.openBatches()) == 0 }) && w.ctx.Err() == nil {
		b := d.openBatches()[0]
		w.violated(b.f.rec, "%s: %s was not answered in %v", d, b, patience)
	}
	if d.old {
		return
	}
	if s := d.standalone; !w.until(s.complete) && w.ctx.Err() == nil {
		w.violated(s.f.rec, "%s: ticks that were answered did not come", d)
	}
	if !w.until(func() bool { return d.updates.Load() >= d.wanted.Load() }) && w.ctx.Err() == nil {
		w.violated(d.standalone.f.rec, "%s: a resource was touched and no update came: %d of %d", d, d.updates.Load(), d.wanted.Load())
	}
	if _, err := d.standalone.f.rec.Merge(); err != nil && w.ctx.Err() == nil {
		w.violated(d.standalone.f.rec, "%s: standalone stream: %v", d, err)
	}
}

// finish waits for everything, and checks the unanswered questions: they
// are still open, and end without an answer when they are cancelled.
func (w *world) finish() error {
	for _, v := range w.statelessClients {
		v.settle()
	}
	for _, d := range w.drivers {
		d.settle()
		for _, k := range d.unanswered(func(k *call) bool { return k.when == never }) {
			open := func() bool { return k.openQuestion() != "" && w.connected(k.f.attached.Load()) }
			if !w.until(open) && w.ctx.Err() == nil {
				w.violated(k.f.rec, "%s: %s is not open any more", d, k)
				continue
			}
			k.f.replaced.Store(true)
			if err := d.c.Notify(w.ctx, "notifications/cancelled", `{"requestId":`+k.id+`}`); err != nil {
				return w.cause(err)
			}
			select {
			case <-k.ended:
			case <-time.After(patience):
				w.violated(k.f.rec, "%s: %s was cancelled and its stream goes on", d, k)
			}
			k.replay(k.f.ids[len(k.f.ids)-1])
			w.figures.Stranded.Add(1)
		}
	}
	if !w.until(func() bool { return w.inFlight() == "0" }) && w.ctx.Err() == nil {
		w.violated(nil, "all is answered or cancelled, and %s calls are in flight", w.inFlight())
	}
	return w.cause(nil)
}

// inFlight is how many calls the process says there are.
func (w *world) inFlight() string {
	if w.fleet != nil {
		for _, p := range w.fleet.nodes {
			if n := w.inFlightOf(p.addr); n != "0" {
				return n + " of " + p.node()
			}
		}
		return "0"
	}
	return w.inFlightOf(w.p.addr)
}

func (w *world) inFlightOf(addr string) string {
	r, err := http.NewRequestWithContext(w.ctx, http.MethodGet, "http://"+addr+"/metrics", nil)
	if err != nil {
		return err.Error()
	}
	resp, err := w.rt.RoundTrip(r)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if n, ok := strings.CutPrefix(lines.Text(), "troupe_calls_in_flight "); ok {
			return n
		}
	}
	return "no"
}

func (f *figures) counts() map[string]int64 {
	return map[string]int64{
		"events": f.Events.Load(), "connections": f.Connections.Load(), "resumes": f.Resumes.Load(),
		"resumes_from_earlier": f.EarlierResumes.Load(), "replays_of_answered": f.Replays.Load(),
		"calls": f.Calls.Load(), "answered": f.Answered.Load(), "lost_before_acceptance": f.Lost.Load(),
		"lost_without_an_event": f.Unprimed.Load(), "unavailable": f.Unavailable.Load(),
		"safe_calls_over_a_restart": f.Reruns.Load(), "calls_lost_-32010": f.CallsLost.Load(),
		"echoes": f.Echoes.Load(), "answers_given": f.AnswersGiven.Load(), "answers_again": f.AnswersAgain.Load(),
		"dropped_by_client": f.Dropped.Load(), "cancelled": f.Cancelled.Load(), "evicted_ids_refused": f.Evicted.Load(), "killed_while_starting": f.KillsInStart.Load(),
		"batches": f.Batches.Load(), "resources_touched": f.Touched.Load(), "resource_updates": f.Updates.Load(),
		"servers_after_restart": f.CopiesSurvived.Load(),
		"lists_told_again":      f.Repeated.Load(),
		"foreign_ids_tried":     f.Foreign.Load(), "sessions_after_restart": f.Survivors.Load(), "questions_never_answered": f.Stranded.Load(),
	}
}
