package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// stopLease is the lease that the process is stopped for longer than.
const stopLease = time.Second

// stopReport is what a run of stops found.
type stopReport struct {
	Scenario string           `json:"scenario"`
	Seed     uint64           `json:"seed"`
	Rounds   int              `json:"rounds"`
	Clients  int              `json:"clients"`
	Seconds  float64          `json:"seconds"`
	Ready    restartTimes     `json:"continue_to_ready_ms"`
	Counts   map[string]int64 `json:"counts"`
}

// runStop stops the process past its lease once a round. Nobody can take over
// what it does, since it holds the data directory: it has to find its lease
// gone, wait with its writes, and go on with what it had.
func runStop(ctx context.Context, o options) (*stopReport, error) {
	w, err := newWorld(ctx, o, "--set", "lease="+stopLease.String())
	if err != nil {
		return nil, err
	}
	defer w.end()
	began := time.Now()
	if err := w.begin(); err != nil {
		return nil, err
	}
	for r := range o.rounds {
		w.round.Store(int64(r))
		if err := w.stopRound(); err != nil {
			return nil, err
		}
		fmt.Fprintf(o.log, "round %d of %d: %d calls, %d events\n", r+1, o.rounds, w.figures.Calls.Load(), w.figures.Events.Load())
	}
	w.round.Store(int64(o.rounds) + 10)
	if err := w.finish(); err != nil {
		return nil, err
	}
	return &stopReport{
		Scenario: "stop", Seed: o.seed, Rounds: o.rounds, Clients: o.clients, Seconds: time.Since(began).Seconds(),
		Ready: timesOf(w.early), Counts: w.figures.counts(),
	}, nil
}

func (w *world) stopRound() error {
	rng := w.rng(0)
	before := time.Duration(200+rng.IntN(800)) * time.Millisecond
	away := stopLease + time.Duration(300+rng.IntN(1500))*time.Millisecond
	for _, d := range w.drivers {
		d.keepBusy(before+away, w.rng(uint64(d.n+1)<<16))
	}
	w.wait(before)
	w.paused.Store(true)
	if err := w.p.signal(sigStop); err != nil {
		return w.cause(err)
	}
	stopped := time.Now()
	if err := w.secondIsRefused(); err != nil {
		w.violated(nil, "%v", err)
	}
	w.wait(away - time.Since(stopped))
	if err := w.p.signal(sigCont); err != nil {
		return w.cause(err)
	}
	went := time.Now()
	if !w.until(w.ready) {
		w.violated(nil, "not ready %v after it went on", patience)
	}
	w.early = append(w.early, time.Since(went))
	w.paused.Store(false)
	for i, d := range w.drivers {
		d.echo(1000 + i)
		w.figures.Survivors.Add(1)
	}
	for i, d := range w.drivers {
		d.settle()
		d.replays(rng)
		d.swap(w.drivers[(i+1)%len(w.drivers)], rng)
		d.forget()
	}
	return w.cause(nil)
}

// keepBusy starts calls at any time within window.
func (d *driver) keepBusy(window time.Duration, rng *rand.Rand) {
	later := func(f func()) {
		after := time.Duration(rng.Int64N(int64(window)))
		d.tasks.Go(func() {
			if d.w.wait(after) {
				f()
			}
		})
	}
	plan := []*call{d.newSleep(rng)}
	if !d.old {
		plan = append(plan, d.newAsk(rng))
	}
	for range 4 {
		plan = append(plan, d.newCount(rng))
	}
	for _, k := range plan {
		later(func() { d.place(k) })
	}
	if d.old {
		for range 3 {
			b := d.newBatch(rng)
			later(func() { d.placeBatch(b) })
		}
		return
	}
	later(d.touch)
	d.placeTick(d.newTick(rng))
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
	if !ended || exit.ExitCode() != 1 || !strings.Contains(said.String(), "another process uses the data directory") {
		return fmt.Errorf("a second process on the same data: %v, and said: %s", err, said.String())
	}
	return nil
}

func (w *world) ready() bool {
	r, err := http.Get("http://" + w.p.addr + "/readyz")
	if err != nil {
		return false
	}
	_ = r.Body.Close()
	return r.StatusCode == http.StatusOK
}

// timesOf sums up durations.
func timesOf(all []time.Duration) restartTimes {
	if len(all) == 0 {
		return restartTimes{}
	}
	slices.Sort(all)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	return restartTimes{ms(all[len(all)/2]), ms(all[len(all)*99/100]), ms(all[len(all)-1])}
}
