package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/troupe-run/troupe/bench/client"
)

// planHarms draws the harm of each round. Each one is there before one comes again, but an outage comes only once. Harms that are named come
// in their order.
func (o *options) planHarms(rng *rand.Rand) (all []string, err error) {
	for _, harm := range o.harms {
		if !o.harmFits(harm) {
			return nil, fmt.Errorf("harm %q does not fit %d nodes behind %q on %d NATS servers; there are %s", harm, o.nodes, o.proxy, o.nats, strings.Join(allHarms, ", "))
		}
	}
	for len(all) < o.rounds {
		deck := slices.Clone(o.harms)
		if len(deck) == 0 {
			deck = slices.DeleteFunc(slices.Clone(allHarms), func(harm string) bool { return !o.harmFits(harm) || harm == byOutage && slices.Contains(all, harm) })
			rng.Shuffle(len(deck), func(i, k int) { deck[i], deck[k] = deck[k], deck[i] })
		}
		all = append(all, deck...)
	}
	return all[:o.rounds], nil
}

// strike does the harm of the round, and returns once it is over and a session is served again.
func (w *world) strike(rng *rand.Rand) error {
	w.orderly.Store(w.harm() == byRestart)
	switch {
	case w.harm() == byRoll:
		return w.roll()
	case w.fleet != nil:
		return w.strikeFleet(rng)
	case w.harm() == byPause:
		return w.pause(rng)
	case w.harm() == byRestart:
		return w.restart()
	}
	return w.killNode(rng)
}

// killNode kills the only node, now and then once more while it starts, and starts it.
func (w *world) killNode(rng *rand.Rand) error {
	w.dying.Store(w.boot.Load())
	if err := w.p.kill(); err != nil {
		return err
	}
	if rng.IntN(3) == 0 {
		w.wait(time.Duration(rng.IntN(200)) * time.Millisecond)
	}
	if rng.IntN(4) == 0 {
		w.tally.add("killed_while_starting")
		boot := w.boot.Add(1)
		if err := w.p.start(); err != nil {
			return err
		}
		w.wait(time.Duration(rng.IntN(150)) * time.Millisecond)
		w.dying.Store(boot)
		if err := w.p.kill(); err != nil {
			return err
		}
	}
	took, err := w.start()
	w.answered = append(w.answered, took)
	return err
}

// pause has the only node stand still for longer than its lease. Nobody can take over what it does, since it holds the data directory: it has to
// find its lease gone, wait with its writes, and go on with what it had.
func (w *world) pause(rng *rand.Rand) error {
	w.pauses.Add(1)
	w.paused.Store(true)
	if err := w.p.signal(sigStop); err != nil {
		return err
	}
	paused := time.Now()
	if err := w.secondIsRefused(); err != nil {
		w.violated(nil, "%v", err)
	}
	w.wait(standstill + time.Duration(rng.IntN(1500))*time.Millisecond - time.Since(paused))
	if err := w.p.signal(sigCont); err != nil {
		return err
	}
	went := time.Now()
	if !w.until(w.p.isReady) {
		w.violated(nil, "not ready %v after it went on", patience)
	}
	w.answered = append(w.answered, time.Since(went))
	w.continued.Store(time.Now().UnixNano())
	w.paused.Store(false)
	return nil
}

// restart has the only node end in order, while calls that may run again wait for answers that nobody gives, and starts it at once. The node must
// not wait for those calls.
func (w *world) restart() error {
	w.dying.Store(w.boot.Load())
	refused, err := w.measureRefusals()
	if err != nil {
		return err
	}
	began := time.Now()
	w.ending.Store(true)
	err = endInOrder(w.p)
	w.ending.Store(false)
	if err != nil {
		return err
	}
	w.ends = append(w.ends, time.Since(began))
	_, err = w.start()
	w.refused = append(w.refused, refused())
	return err
}

// measureRefusals has another client ping the node, over a new connection each time. stop waits for an answer, and returns for how long there was
// none.
func (w *world) measureRefusals() (stop func() time.Duration, err error) {
	c := client.New(w.p.url(0), &http.Transport{DisableKeepAlives: true})
	if err := c.Initialize(w.ctx, `{}`); err != nil {
		return nil, err
	}
	over, sum := make(chan struct{}), make(chan time.Duration, 1)
	go func() {
		var all time.Duration
		good, refused := time.Now(), false
		for w.ctx.Err() == nil {
			if answeredWith("")(c.Call(w.ctx, "1", "ping", "")) != nil {
				refused = true
			} else {
				if refused {
					all += time.Since(good)
				}
				if good, refused = time.Now(), false; isClosed(over) {
					break
				}
			}
			w.wait(2 * time.Millisecond)
		}
		sum <- all
	}()
	return func() time.Duration { close(over); return <-sum }, nil
}

// endInOrder has a node end in order.
func endInOrder(p *process) error {
	if err := p.signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case err := <-p.exited:
		p.cmd = nil
		return err
	case <-time.After(2 * time.Minute):
		return errors.New("a node that was told to end is there after two minutes: " + p.log.lines(20))
	}
}

// roll has the nodes end in order, start again and become ready, one after the other, as a deploy does. No request may fail meanwhile.
func (w *world) roll() error {
	f := w.fleet
	f.rolling.Store(true)
	defer func() { // what a node kept for a call before is gone
		w.dying.Store(w.boot.Load())
		w.up.Store(w.boot.Add(1))
		f.rolled.Store(time.Now().UnixNano())
		f.rolling.Store(false)
	}()
	for _, p := range f.nodes {
		began := time.Now()
		if err := endInOrder(p); err != nil {
			return err
		}
		w.ends = append(w.ends, time.Since(began))
		if err := p.start(); err != nil {
			return err
		}
		if !w.until(p.isReady) {
			return errors.New("a node is not ready after its restart: " + p.log.lines(20))
		}
		w.wait(time.Second)
	}
	return nil
}

// strikeFleet harms one node or all NATS servers, and heals that after a time.
func (w *world) strikeFleet(rng *rand.Rand) error {
	f := w.fleet
	w.dying.Store(w.boot.Load())
	if err := f.harm(w.harm(), w.rng(1)); err != nil {
		return err
	}
	harmed := time.Now()
	if w.crowd != nil {
		go w.crowd.scatter()
	}
	lasts := f.lasts(w.harm(), rng)
	if w.harm() != byOutage && w.harm() != byCrash {
		for !w.answers() && time.Since(harmed) < patience && w.wait(time.Millisecond) {
		}
		w.answered = append(w.answered, time.Since(harmed))
	}
	w.wait(lasts - time.Since(harmed))
	_, err := w.start()
	f.harmed.Store(false)
	return err
}

// harm does a harm to a fleet on NATS servers, and sets how it is healed.
func (f *fleet) harm(how string, rng *rand.Rand) error {
	f.harmed.Store(true)
	i := rng.IntN(len(f.nodes))
	node := f.nodes[i]
	f.victim, f.heal = node.name, node.start
	switch how {
	case byPause:
		f.heal = func() error { return nil }
		paused := node.cmd.Process
		time.AfterFunc(standstill, func() { _ = paused.Signal(sigCont) }) // a request may be with it, and wait for as long
		return paused.Signal(sigStop)
	case byStop:
		return endInOrder(node)
	case byPartition:
		f.heal = func() error { f.cut(i, false); return nil }
		f.cut(i, true)
		return nil
	case byLeader:
		return f.loseLeader()
	case byOutage, byCrash:
		f.victim, f.heal = "NATS", f.nats.startAll
		with := syscall.SIGTERM
		if how == byCrash {
			with = syscall.SIGKILL
		}
		return f.nats.endAll(with)
	case byTwin:
		return f.startTwin(node)
	}
	return node.kill()
}

// lasts is how long a harm goes on until it is healed.
func (f *fleet) lasts(how string, rng *rand.Rand) time.Duration {
	switch how {
	case byPause, byPartition, byTwin:
		return standstill
	case byLeader:
		return leaderGone + time.Duration(rng.IntN(2000))*time.Millisecond
	case byOutage:
		return f.away
	}
	return time.Duration(rng.IntN(3000)) * time.Millisecond
}

// startTwin starts a second process with the name of a node, which no client reaches, and later ends both in favour of a third.
func (f *fleet) startTwin(node *process) error {
	twin, err := node.twin()
	if err != nil {
		return err
	}
	f.twin, f.heal = twin, func() error {
		if err := errors.Join(node.kill(), twin.kill()); err != nil {
			return err
		}
		f.twin = nil
		return node.start()
	}
	return twin.start()
}

// cut cuts a node off from NATS, or joins it again.
func (f *fleet) cut(node int, off bool) {
	for _, l := range f.links[node] {
		l.setShut(off)
	}
}

// loseLeader pauses the server that leads the stream of events, or a shard of it, and kills it later.
func (f *fleet) loseLeader() error {
	leader, err := f.nats.leader("events")
	if err != nil {
		return err
	}
	f.victim = leader.name
	if err := leader.cmd.Process.Signal(sigStop); err != nil {
		return err
	}
	killed := make(chan error, 1)
	time.AfterFunc(leaderGone, func() { killed <- leader.leave(syscall.SIGKILL) })
	f.heal = func() error {
		if err := <-killed; err != nil {
			return fmt.Errorf("kill %s: %w", leader.name, err)
		}
		if err := leader.start(); err != nil {
			return err
		}
		return f.nats.ready()
	}
	return nil
}
