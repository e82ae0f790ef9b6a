package histories

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/test/histories"
	"github.com/troupe-run/troupe/test/kit"
)

const (
	// lease is how long a silent node counts as alive: the default of StoreOptions.Lease.
	lease = 5 * time.Second
	// patience is how long clients go on once every handler has had its time.
	patience = 5 * time.Minute
	// settling is how long a fleet may take to be as if nothing had been, once a fault is over: clients of NATS connect again, leases are
	// renewed, and what was lost is repaired.
	settling = 30 * time.Second
)

// world is a history while it happens.
type world struct {
	t     *testing.T
	plan  *plan
	posts map[string]*post // by name
	nats  *kit.VirtualNATS
	dir   string // where the NATS server keeps its streams
	judge *judge
	over  chan struct{} // closed when the history has lasted too long
	ends  sync.WaitGroup

	// Who holds one of these may wait in virtual time, which stands still while somebody waits for a mutex.
	serving, listing turn // starts and stops of the NATS server; changes of lists

	mu     sync.Mutex // guards the rest
	places []*place
	all    []*process
	down   int // outages under way
	lists  int // how often the lists have changed
}

// turn is a lock that lets virtual time pass while somebody waits for it.
type turn chan struct{}

func (t turn) take() (give func()) {
	t <- struct{}{}
	return func() { <-t }
}

// place is a node: the processes that run under its name, one after the other.
type place struct {
	name    string
	cur     *process // the process that clients reach, nil if there is none
	pending int      // starts that are still due
	starts  bool     // a start is under way, for as long as there is no server
}

// happen runs a history.
func happen(t *testing.T, p plan) (h histories.History) {
	t.Helper()
	var w *world
	done := false
	defer func() { // a bubble that ends with goroutines left behind panics on the goroutine that made it
		if r := recover(); r != nil {
			h.Faults = append(h.Faults, fmt.Sprint("left behind: ", r))
		} else if !done {
			h.Faults = append(h.Faults, "the test failed")
		}
	}()
	var dir string
	kit.BubbleNATS(t, func(o *kit.NATSOptions) { dir = o.StoreDir }, func(t *testing.T, v *kit.VirtualNATS) {
		w = &world{t: t, plan: &p, posts: make(map[string]*post), nats: v, dir: dir, over: make(chan struct{}), serving: make(turn, 1), listing: make(turn, 1)}
		w.judge = newJudge(w)
		defer func() { h = w.judge.History() }()
		w.happen()
	})
	done = true
	return h
}

func (w *world) happen() {
	for i := range w.plan.Nodes {
		w.places = append(w.places, &place{name: string(rune('a' + i))})
	}
	for _, pl := range w.places {
		w.start(pl)
	}
	time.Sleep(2 * time.Second) // until they have heard of each other
	w.judge.settles()
	w.judge.Begin = time.Now()
	var harm, clients sync.WaitGroup
	for i, f := range w.plan.Faults {
		harm.Go(func() { w.harm(i, f) })
	}
	for _, c := range w.plan.Changes {
		harm.Go(func() { w.change(c) })
	}
	for i := range w.plan.Clients {
		for k := range w.plan.Clients[i].Posts {
			w.posts[callName(i, k)] = &w.plan.Clients[i].Posts[k]
		}
	}
	for i := range w.plan.Clients {
		cl := &client{histories.NewVisitor(w.reach, w.plan.rng(fmt.Sprint("route ", i)), w.over), w, i, &w.plan.Clients[i]}
		clients.Go(cl.live)
	}
	harm.Wait()
	limit := time.AfterFunc(w.plan.worst()+patience, func() { close(w.over) })
	clients.Wait()
	limit.Stop()
	w.judge.end()
	for _, p := range w.processes() {
		p.end()
	}
	w.ends.Wait()
	synctest.Wait()
}

// processes are all that have begun.
func (w *world) processes() []*process {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.all)
}

// reach picks the process that a request goes to, nil if there is none. Balancers send few requests to one that they find in trouble.
func (w *world) reach(r *rand.Rand) *process {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []*process
	for _, pl := range w.places {
		if p := pl.cur; p != nil && p.islands.Load() == 0 && (p.rt.Ready() == nil || r.IntN(4) == 0) {
			all = append(all, p)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all[r.IntN(len(all))]
}

// start begins the next process of a node, which clients reach from then on.
func (w *world) start(pl *place) {
	for {
		w.mu.Lock()
		n := len(w.all) + 1
		w.mu.Unlock()
		p, err := newProcess(w, pl, n)
		if err != nil { // there is no NATS server
			w.judge.Note("process %s.%d does not start: %v", pl.name, n, err)
			time.Sleep(time.Second)
			continue
		}
		w.mu.Lock()
		w.all = append(w.all, p)
		pl.cur = p
		if w.down > 0 {
			p.line.Break()
		}
		w.mu.Unlock()
		p.changeLists()
		w.judge.starts(p)
		return
	}
}

// change makes a change happen.
func (w *world) change(c change) {
	time.Sleep(time.Duration(c.At))
	r := w.plan.rng(fmt.Sprint("change ", c.At))
	if c.Do == "resource" {
		if p := w.at(c.Node); p != nil {
			w.judge.changes(updated, p)
			p.server.ResourceUpdated(resource)
		}
		return
	}
	w.mu.Lock()
	w.lists++
	w.mu.Unlock()
	for i := range w.places {
		if p := w.at(c.Node + i); p != nil {
			if i == 0 { // the others change to the same
				w.judge.changes(changed, p)
			}
			p.changeLists()
		}
		time.Sleep(between(r, 0, 2*time.Second))
	}
}

// at is the process of a node.
func (w *world) at(node int) *process {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.places[node%len(w.places)].cur
}

// harm makes fault i happen.
func (w *world) harm(i int, f fault) {
	at, rest := time.Duration(f.At), time.Duration(f.For)
	if f.Do == "power" {
		w.power(at, time.Duration(f.Lose), rest)
		return
	}
	time.Sleep(at)
	pl := w.places[f.Node%len(w.places)]
	p := w.at(f.Node)
	w.judge.Note("%s of %s for %v", f.Do, pl.name, rest)
	switch f.Do {
	case "kill":
		w.kill(rest, nil, pl)
	case "drain":
		w.drain(pl, rest)
	case "outage", "stop":
		w.outage(1)
		if f.Do == "stop" {
			give := w.serving.take()
			w.nats.Stop()
			give()
		}
		time.Sleep(rest)
		w.outage(-1)
		w.judge.Note("outage is over")
	case "lose":
		if p == nil {
			return
		}
		r := w.plan.rng(fmt.Sprint("lose ", i))
		over := w.judge.disturbed(p)
		var mu sync.Mutex // guards r, which all connections of the process use
		p.line.Lose(func() bool {
			mu.Lock()
			defer mu.Unlock()
			return r.IntN(8) < f.Rate
		})
		time.Sleep(rest)
		p.line.Lose(nil)
		over()
		w.judge.Note("process %s gets its messages", p.name)
	case "cut", "refuse", "island":
		if p == nil {
			return
		}
		w.judge.away(p, 1)
		switch f.Do {
		case "cut":
			p.line.Cut()
		case "refuse":
			p.line.Break()
		case "island":
			p.line.Cut()
			p.islands.Add(1)
			w.judge.isolated(p)
			p.leaveClients()
		}
		time.Sleep(rest)
		if f.Do == "island" {
			p.islands.Add(-1)
		}
		w.mu.Lock()
		last := w.judge.away(p, -1)
		if last && w.down == 0 && !p.dead.Load() {
			p.line.Heal()
		}
		w.mu.Unlock()
		w.judge.Note("process %s is back", p.name)
	}
}

// outage has all lines refuse connections, from now on (1), or no more (-1).
func (w *world) outage(by int) {
	w.judge.outage(by)
	defer w.serving.take()()
	w.mu.Lock()
	w.down += by
	starts := w.down == 0
	w.mu.Unlock()
	if starts && w.nats.Server == nil {
		w.nats.Start(w.t)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.all {
		switch {
		case p.dead.Load():
		case w.down > 0:
			p.line.Break()
		case !w.judge.isAway(p):
			p.line.Heal()
		}
	}
}

// kill ends the processes of nodes, and starts the next ones after a while. It calls between when they are dead.
func (w *world) kill(rest time.Duration, between func(), of ...*place) {
	w.mu.Lock()
	var dead []*process
	for _, pl := range of {
		if pl.cur != nil {
			dead = append(dead, pl.cur)
		}
		pl.cur = nil
		pl.pending++
	}
	w.mu.Unlock()
	for _, p := range dead {
		w.judge.ends(p)
		p.die()
	}
	time.Sleep(time.Millisecond)
	if between != nil {
		between()
	}
	w.restart(rest, of...)
}

// drain has a node end in order, and starts its next process after a while.
func (w *world) drain(pl *place, rest time.Duration) {
	w.mu.Lock()
	p := pl.cur
	if p == nil {
		w.mu.Unlock()
		return
	}
	pl.pending++
	w.mu.Unlock()
	w.judge.leaves(p)
	p.drains()
	w.mu.Lock()
	if pl.cur == p {
		pl.cur = nil
	}
	w.mu.Unlock()
	w.judge.ends(p)
	p.end()
	w.restart(rest, pl)
}

// restart starts the next processes of nodes after a while.
func (w *world) restart(rest time.Duration, of ...*place) {
	time.Sleep(rest)
	for _, pl := range of {
		w.mu.Lock()
		pl.pending--
		mine := pl.pending == 0 && !pl.starts && pl.cur == nil // otherwise a later fault starts it, or an earlier one does or did
		if mine {
			pl.starts = true
		}
		w.mu.Unlock()
		if mine {
			w.start(pl)
			w.mu.Lock()
			pl.starts = false
			w.mu.Unlock()
		}
	}
}

// power cuts the power of all: what was written since the last flush is lost.
func (w *world) power(at, lose, rest time.Duration) {
	flushes := max(0, at-lose)
	time.Sleep(flushes)
	snap := w.t.TempDir() + "/flushed"
	if err := os.CopyFS(snap, os.DirFS(w.dir)); err != nil { // a file was replaced meanwhile
		w.judge.Note("no power cut: %v", err)
		return
	}
	when := time.Now()
	time.Sleep(at - flushes)
	w.judge.Note("power cut, what is younger than %v is lost", time.Since(when))
	w.judge.outage(1)
	w.kill(rest, func() {
		defer w.serving.take()()
		w.judge.cut(when)
		w.nats.Stop()
		err := os.RemoveAll(w.dir)
		if err == nil {
			err = os.CopyFS(w.dir, os.DirFS(snap))
		}
		if err != nil {
			w.judge.Fault("power cut: %v", err)
		}
		w.mu.Lock()
		starts := w.down == 0
		w.mu.Unlock()
		if starts {
			w.nats.Start(w.t)
		}
		w.judge.outage(-1)
	}, w.places...)
}
