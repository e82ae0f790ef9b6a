package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"time"

	"github.com/troupe-run/troupe/bench/program"
)

const (
	// standstill is for how long a node is paused, or cut off: longer than its lease of five
	// seconds.
	standstill = 7 * time.Second
	// leaderGone is for how long the leader of a stream is paused before it is killed: longer than
	// an election.
	leaderGone = 8 * time.Second
)

// harm is what is done to the nodes in one round.
type harm struct {
	name string
	fits func(o *options) bool
	// alone harms the only node, or restarts all, and returns once a session is served again.
	alone func(r *worldRun, rng *rand.Rand) error
	// strike harms the i-th of several nodes, or all NATS servers, and returns who is the victim
	// and what heals it.
	strike func(f *fleet, i int) (victim string, heal func() error, err error)
	lasts  time.Duration // until it is healed; 0: up to three seconds
	silent bool          // nobody answers until then
}

// harms are all harms.
var harms = []harm{
	{name: byKill, fits: func(*options) bool { return true }, alone: killAlone, strike: killNode},
	{name: byPause, fits: func(*options) bool { return true }, alone: pauseAlone, strike: pauseNode, lasts: standstill},
	{name: "stop", fits: onNATS, strike: func(f *fleet, i int) (string, func() error, error) {
		return f.nodes[i].Name, f.nodes[i].Start, f.nodes[i].End()
	}},
	{name: byRestart, fits: func(o *options) bool { return o.nodes == 1 }, alone: restartAlone},
	{name: byRoll, fits: func(o *options) bool { return o.nodes > 1 }, alone: rollNodes},
	{name: "partition", fits: onNATS, strike: cutNode, lasts: standstill},
	{name: "leader", fits: func(o *options) bool { return onNATS(o) && o.nats > 1 }, strike: killLeader, lasts: leaderGone + time.Second},
	{name: byOutage, fits: func(o *options) bool { return onNATS(o) && o.away > 0 }, strike: endNATS(syscall.SIGTERM), silent: true},
	{name: "crash", fits: onNATS, strike: endNATS(syscall.SIGKILL), silent: true},
	{name: "twin", fits: onNATS, strike: startTwin, lasts: standstill},
}

func harmNames() (names []string) {
	for _, h := range harms {
		names = append(names, h.name)
	}
	return names
}

// planHarms draws the harm of each round. Each one is there before one comes again, but an outage
// comes only once. Harms that are named come in their order.
func (o *options) planHarms(rng *rand.Rand) (all []*harm, err error) {
	var deck []*harm
	for _, name := range o.harms {
		i := slices.IndexFunc(harms, func(h harm) bool { return h.name == name && h.fits(o) })
		if i < 0 {
			return nil, fmt.Errorf("harm %q does not fit %d nodes on %d NATS servers", name, o.nodes, o.nats)
		}
		deck = append(deck, &harms[i])
	}
	for len(all) < o.rounds {
		if len(o.harms) == 0 {
			deck = nil
			for i := range harms {
				if h := &harms[i]; h.fits(o) && (h.name != byOutage || !slices.Contains(all, h)) {
					deck = append(deck, h)
				}
			}
			rng.Shuffle(len(deck), func(i, k int) { deck[i], deck[k] = deck[k], deck[i] })
		}
		all = append(all, deck...)
	}
	return all[:o.rounds], nil
}

// killAlone kills the only node, now and then once more while it starts, and starts it.
func killAlone(r *worldRun, rng *rand.Rand) error {
	w := r.world
	w.dying.Store(w.boot.Load())
	if err := w.p.Kill(); err != nil {
		return err
	}
	if rng.IntN(3) == 0 {
		w.wait(time.Duration(rng.IntN(200)) * time.Millisecond)
	}
	if rng.IntN(4) == 0 {
		w.tally.add("killed_while_starting")
		boot := w.boot.Add(1)
		if err := w.p.Start(); err != nil {
			return err
		}
		w.wait(time.Duration(rng.IntN(150)) * time.Millisecond)
		w.dying.Store(boot)
		if err := w.p.Kill(); err != nil {
			return err
		}
	}
	took, err := w.start()
	r.answered = append(r.answered, took)
	return err
}

// pauseAlone has the only node stand still for longer than its lease. Nobody can take over what it
// does, since it holds the data directory: it has to find its lease gone, wait with its writes, and
// go on with what it had.
func pauseAlone(r *worldRun, rng *rand.Rand) error {
	w := r.world
	w.pauses.Add(1)
	w.paused.Store(true)
	if err := w.p.Signal(program.StandStill); err != nil {
		return err
	}
	w.wait(standstill + time.Duration(rng.IntN(1500))*time.Millisecond)
	if err := w.p.Signal(program.Continue); err != nil {
		return err
	}
	went := time.Now()
	if !w.until(w.p.IsReady) {
		w.violated(nil, "not ready %v after it went on", patience)
	}
	r.answered = append(r.answered, time.Since(went))
	w.continued.Store(time.Now().UnixNano())
	w.paused.Store(false)
	return nil
}

// restartAlone has the only node end in order, while calls that may run again wait for answers that
// nobody gives, and starts it at once. The node must not wait for those calls.
func restartAlone(r *worldRun, _ *rand.Rand) error {
	w := r.world
	w.dying.Store(w.boot.Load())
	refused, err := measureRefusals(w)
	if err != nil {
		return err
	}
	began := time.Now()
	w.ending.Store(true)
	err = w.p.End()
	w.ending.Store(false)
	if err != nil {
		return err
	}
	r.ends = append(r.ends, time.Since(began))
	_, err = w.start()
	r.refused = append(r.refused, refused())
	return err
}

// rollNodes has the nodes end in order, start again and become ready, one after the other, as a
// deploy does. No request may fail meanwhile.
func rollNodes(r *worldRun, _ *rand.Rand) error {
	w := r.world
	w.rolling.Store(true)
	defer func() { // what a node kept for a call before is gone
		w.dying.Store(w.boot.Load())
		w.up.Store(w.boot.Add(1))
		w.rolled.Store(time.Now().UnixNano())
		w.rolling.Store(false)
	}()
	for _, p := range w.fleet.nodes {
		began := time.Now()
		if err := p.End(); err != nil {
			return err
		}
		r.ends = append(r.ends, time.Since(began))
		if err := p.StartReady(w.ctx); err != nil {
			return err
		}
		w.wait(time.Second)
	}
	return nil
}

// strikeFleet harms one node or all NATS servers, and heals that after a time.
func (r *worldRun) strikeFleet(h *harm, rng *rand.Rand) (err error) {
	w, f := r.world, r.world.fleet
	w.dying.Store(w.boot.Load())
	w.harmed.Store(true)
	if f.victim, f.heal, err = h.strike(f, w.rngFor(1).IntN(len(f.nodes))); err != nil {
		return err
	}
	struck, lasts := time.Now(), h.lasts
	switch {
	case h.name == byOutage:
		lasts = w.o.away
	case lasts == 0:
		lasts = time.Duration(rng.IntN(3000)) * time.Millisecond
	}
	if !h.silent {
		for !w.answers() && time.Since(struck) < patience && w.wait(time.Millisecond) {
		}
		r.answered = append(r.answered, time.Since(struck))
	}
	w.wait(lasts - time.Since(struck))
	_, err = w.start()
	w.harmed.Store(false)
	return err
}

func killNode(f *fleet, i int) (string, func() error, error) {
	return f.nodes[i].Name, f.nodes[i].Start, f.nodes[i].Kill()
}

// pauseNode goes on by itself: a request may be with the node, and wait for as long.
func pauseNode(f *fleet, i int) (string, func() error, error) {
	paused := f.nodes[i].Running()
	time.AfterFunc(standstill, func() { _ = paused.Signal(program.Continue) })
	return f.nodes[i].Name, func() error { return nil }, paused.Signal(program.StandStill)
}

// cutNode cuts a node off from NATS.
func cutNode(f *fleet, i int) (string, func() error, error) {
	set := func(shut bool) error {
		for _, l := range f.links[i] {
			l.setShut(shut)
		}
		return nil
	}
	return f.nodes[i].Name, func() error { return set(false) }, set(true)
}

func endNATS(with syscall.Signal) func(f *fleet, i int) (string, func() error, error) {
	return func(f *fleet, _ int) (string, func() error, error) {

		return "NATS", func() error { return f.nats.start(context.Background()) }, f.nats.endAll(with)

	}
}

// startTwin starts a second process with the name of a node, which no client reaches, and later
// ends both in favour of a third.
func startTwin(f *fleet, i int) (string, func() error, error) {
	node := f.nodes[i]
	twin, err := newTwin(node)
	if err != nil {
		return "", nil, err
	}
	f.twin = twin
	return node.Name, func() error {
		if err := errors.Join(node.Kill(), twin.Kill()); err != nil {
			return err
		}
		f.twin = nil
		return node.Start()
	}, twin.Start()
}

// killLeader pauses the server that leads the stream of events, or a shard of it, and kills it
// later.
func killLeader(f *fleet, _ int) (string, func() error, error) {
	leader, err := f.nats.leader("events")
	if err != nil {
		return "", nil, err
	}
	killed := make(chan error, 1)
	time.AfterFunc(leaderGone, func() { killed <- leader.Kill() })
	return leader.Name, func() error {
		if err := <-killed; err != nil {
			return fmt.Errorf("kill %s: %w", leader.Name, err)
		}
		return leader.StartReady(context.Background())
	}, leader.Signal(program.StandStill)
}
