package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

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
				return n + " of " + p.name
			}
		}
		return "0"
	}
	return w.inFlightOf(w.p.addr)
}

func (w *world) inFlightOf(addr string) string {
	m, err := metricsOf(addr)
	if n, ok := m["troupe_calls_in_flight"]; ok {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("an unknown number of (%v)", err)
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
		"servers_after_restart": f.CopiesSurvived.Load(), "short_sessions": f.Visits.Load(),
		"lists_told_again":  f.Repeated.Load(),
		"foreign_ids_tried": f.Foreign.Load(), "sessions_after_restart": f.Survivors.Load(), "questions_never_answered": f.Stranded.Load(),
	}
}

// secondIsRefused starts another process on the same data, which has to say why
// it cannot and end with 1.
func (w *world) secondIsRefused() error {
	addr, err := freeAddress(w.o.seed + 5000)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(w.ctx, 10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, w.p.bin, "serve", "--data", w.o.data, "--listen", addr)
	var said bytes.Buffer
	cmd.Stderr = &said
	err = cmd.Run()
	exit, ended := errors.AsType[*exec.ExitError](err)
	if !ended || exit.ExitCode() != 1 || !strings.Contains(said.String(), "data directory is in use") && !strings.Contains(said.String(), "another process uses the data directory") {
		return fmt.Errorf("a second process on the same data: %v, and said: %s", err, said.String())
	}
	return nil
}
