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
			w.tally.add("questions_never_answered")
		}
	}
	if !w.until(func() bool { return w.inFlight() == "0" }) && w.ctx.Err() == nil {
		w.violated(nil, "all is answered or cancelled, and %s calls are in flight", w.inFlight())
	}
	return w.cause(nil)
}

// inFlight is how many calls the process, or the first of a fleet that has any, says there are.
func (w *world) inFlight() string {
	nodes := []*process{w.p}
	if w.fleet != nil {
		nodes = w.fleet.nodes
	}
	for _, p := range nodes {
		m, err := metricsOf(p.addr)
		if n, ok := m["troupe_calls_in_flight"]; !ok || n > 0 {
			return fmt.Sprintf("%.0f of %s (%v)", n, p.name, err)
		}
	}
	return "0"
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
