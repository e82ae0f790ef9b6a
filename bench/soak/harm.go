package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"time"
)

// What may happen to a fleet.
const (
	byKill   = "kill"   // of a node
	byHerd   = "herd"   // the same, and many clients come back within a second
	byStop   = "stop"   // of a node, for longer than its lease
	byDrain  = "drain"  // of a node
	byCut    = "cut"    // of a node, from NATS
	byLeader = "leader" // of a stream of events: stopped and then killed
	byAway   = "away"   // all NATS servers
	byCrash  = "crash"  // of all NATS servers at once
	byTwin   = "twin"   // a second process with the name of a node, which then goes on alone for a while
)

const (
	// standstill is for how long a node stands still, or is cut off: longer than its lease.
	standstill = 7 * time.Second
	// headless is for how long the leader of a stream stands still before it is killed: longer than an election.
	headless = 8 * time.Second
)

// known are all of them.
var known = []string{byKill, byHerd, byStop, byDrain, byCut, byLeader, byAway, byCrash, byTwin}

// harms draws what happens in each round of a run. Each kind is there before one comes again, but NATS is away only once. Who names
// harms gets these, in their order.
func harms(rng *rand.Rand, o options) (all []string) {
	for len(all) < o.rounds {
		if len(o.attacks) > 0 {
			all = append(all, o.attacks...)
			continue
		}
		deck := []string{byKill, byStop, byCut, byDrain, byCrash, byTwin}
		if o.nats > 1 {
			deck = append(deck, byLeader)
		}
		if o.herd > 0 {
			deck = append(deck, byHerd)
		}
		if o.away > 0 && !slices.Contains(all, byAway) {
			deck = append(deck, byAway)
		}
		rng.Shuffle(len(deck), func(i, k int) { deck[i], deck[k] = deck[k], deck[i] })
		all = append(all, deck...)
	}
	return all[:o.rounds]
}

// harm does what is due to the fleet, and says with heal how it is ended.
func (f *fleet) harm(rng *rand.Rand) error {
	f.harmed.Store(true)
	i := rng.IntN(len(f.nodes))
	node := f.nodes[i]
	f.victim, f.heal = node.node(), node.start
	switch f.how.Load() {
	case byStop:
		f.heal = func() error { return nil }
		stopped := node.cmd.Process
		time.AfterFunc(standstill, func() { _ = stopped.Signal(sigCont) }) // a request may be with it, and wait for as long
		return stopped.Signal(sigStop)
	case byDrain:
		return drain(node)
	case byCut:
		f.heal = func() error { f.cut(i, false); return nil }
		f.cut(i, true)
		return nil
	case byLeader:
		return f.behead()
	case byAway:
		f.victim, f.heal = "NATS", f.nats.back
		return f.nats.leave(syscall.SIGTERM)
	case byCrash:
		f.victim, f.heal = "NATS", f.nats.back
		return f.nats.leave(syscall.SIGKILL)
	case byTwin:
		return f.double(node)
	}
	return node.kill()
}

// lasts is how long the harm goes on until it is healed.
func (f *fleet) lasts(rng *rand.Rand) time.Duration {
	switch f.how.Load() {
	case byStop, byCut, byTwin:
		return standstill
	case byLeader:
		return headless + time.Duration(rng.IntN(2000))*time.Millisecond
	case byAway:
		return f.away
	}
	return time.Duration(rng.IntN(3000)) * time.Millisecond
}

// drain has a node end in order.
func drain(p *process) error {
	if err := p.signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case err := <-p.exited:
		p.cmd = nil
		return err
	case <-time.After(time.Minute):
		return errors.New("a node that was told to end is there after a minute")
	}
}

// double starts a second process with the name of a node, which no client reaches, and later ends both in favour of a third.
func (f *fleet) double(node *process) error {
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
	for _, l := range f.lines[node] {
		l.setCut(off)
	}
}

// behead stops the server that leads the stream of events, or a shard of it, and kills it later.
func (f *fleet) behead() error {
	leader, err := f.nats.leader("events")
	if err != nil {
		return err
	}
	f.victim = leader.name
	if err := leader.cmd.Process.Signal(sigStop); err != nil {
		return err
	}
	killed := make(chan error, 1)
	time.AfterFunc(headless, func() { killed <- leader.leave(syscall.SIGKILL) })
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

// leave ends all servers, and back starts them again.
func (s *natsServers) leave(with syscall.Signal) error {
	for _, n := range s.all {
		if err := n.leave(with); err != nil {
			return err
		}
	}
	return nil
}

func (s *natsServers) back() error {
	for _, n := range s.all {
		if err := n.start(); err != nil {
			return err
		}
	}
	return s.ready()
}
