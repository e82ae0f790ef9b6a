package recovery

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/test/histories"
	"github.com/troupe-run/troupe/test/sim"
)

// patience is how long a client goes on after the last fault, once every handler has
// had its time.
const patience = 10 * time.Minute

// world is a history while it happens.
type world struct {
	plan   *plan
	calls  map[string]*call // by name
	disk   *sim.Store
	office *sim.Office // nil: the nodes are alone
	judge  *judge
	over   chan struct{}  // closed when the history has lasted too long
	left   sync.WaitGroup // goroutines that belong to no client

	mu      sync.Mutex // guards the rest
	places  []*place
	all     []*process
	down    int // outages under way
	full    int
	cutAt   time.Time // when the last power cut was
	flushed sim.Snapshot
}

// place is a node: the processes that run under its name, one after the other.
type place struct {
	name    string
	cur     *process // the process that clients reach, nil if there is none
	pending int      // starts that are still due
}

// happen runs a history.
func happen(t *testing.T, p plan) (h histories.History) {
	t.Helper()
	defer func() { // a bubble that ends with goroutines left behind panics on the goroutine that made it
		if r := recover(); r != nil {
			h.Faults = append(h.Faults, fmt.Sprint("left behind: ", r))
		}
	}()
	var w *world
	synctest.Test(t, func(t *testing.T) {
		w = &world{plan: &p, calls: make(map[string]*call), disk: sim.New(actors.RecordTTL(time.Duration(p.Limits.Replay)) + 5*time.Second), over: make(chan struct{})}
		w.judge = newJudge(w)
		w.settle()
		defer func() { h = w.judge.History() }()
		w.happen()
	})
	return h
}

func (w *world) happen() {
	for _, pl := range w.places {
		w.start(pl)
	}
	var harm, clients sync.WaitGroup
	for i, f := range w.plan.Faults {
		harm.Go(func() { w.harm(i, f) })
	}
	for i := range w.plan.Clients {
		cl := &client{histories.NewVisitor(w.reach, w.plan.rng(fmt.Sprint("route ", i)), w.over), w, i, &w.plan.Clients[i]}
		for k := range cl.plan.Posts {
			for l := range cl.plan.Posts[k].Calls {
				w.calls[callName(i, k, l)] = &cl.plan.Posts[k].Calls[l]
			}
		}
		clients.Go(cl.live)
	}
	harm.Wait()
	// A client may be silent once more before it comes back.
	limit := time.AfterFunc(w.plan.worst()+patience+7*time.Duration(w.plan.Limits.Replay), func() { close(w.over) })
	clients.Wait()
	limit.Stop()
	w.judge.end()
	for _, p := range w.processes() {
		p.die()
	}
	w.left.Wait()
	time.Sleep(time.Minute)
}

// up reports whether every node has a process.
func (w *world) up() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !slices.ContainsFunc(w.places, func(pl *place) bool { return pl.cur == nil })
}

// processes are all that have begun.
func (w *world) processes() []*process {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.all)
}

// settle makes the nodes of the plan.
func (w *world) settle() {
	if w.plan.Nodes == 0 {
		w.places = []*place{{name: "n"}}
		return
	}
	w.office = sim.NewOffice(w.letters())
	w.disk.Observe(w.judge.writers.note)
	for i := range w.plan.Nodes {
		w.places = append(w.places, &place{name: string(rune('a' + i))})
	}
}

// reach picks the process that a request goes to. Balancers send few requests to one that they find in trouble.
func (w *world) reach(r *rand.Rand) *process {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.office == nil {
		return w.places[0].cur
	}
	var all []*process
	seen := func(t time.Time) bool { return !t.IsZero() && !time.Now().Before(t) }
	for _, pl := range w.places {
		if p := pl.cur; p != nil && !seen(p.leaving) && (!seen(p.shunned) || r.IntN(4) == 0) {
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
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.newProcess(len(w.all)+1, pl)
	w.all = append(w.all, p)
	w.connect(p)
	pl.cur = p
	w.judge.Note("process %s starts", p.name)
}

// pass lets a time of the history pass.
func (w *world) pass(d time.Duration) { time.Sleep(d) }

// harm makes fault i happen.
func (w *world) harm(i int, f fault) {
	at := time.Duration(f.At)
	switch f.Do {
	case "power":
		w.power(at, &f)
		return
	}
	time.Sleep(at)
	pl := w.places[f.Node%len(w.places)]
	w.judge.Note("%s of %s for %v", f.Do, pl.name, time.Duration(f.For))
	switch f.Do {
	case "kill":
		w.kill(time.Duration(f.For), nil, pl)
	case "split":
		w.split(pl, time.Duration(f.For))
	case "storeless", "unheard", "island", "behind", "freeze":
		w.isolate(pl, f.Do, time.Duration(f.For))
	case "drain":
		w.drain(pl, time.Duration(f.For))
	case "outage":
		w.outage(1)
		time.Sleep(time.Duration(f.For))
		w.outage(-1)
		w.judge.Note("outage is over")
	case "full":
		w.fill(1)
		time.Sleep(time.Duration(f.For))
		w.fill(-1)
		w.judge.Note("there is room again")
	case "jump":
		w.judge.unrenewed(0)
		w.disk.Jump(time.Duration(f.For))
	}
}

// kill ends the processes of nodes, and starts the next ones after a while. It calls
// between when they are dead.
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

// restart starts the next processes of nodes after a while, where no fault has put one in place meanwhile.
func (w *world) restart(rest time.Duration, of ...*place) {
	time.Sleep(rest)
	for _, pl := range of {
		w.mu.Lock()
		pl.pending--
		due := pl.pending == 0 && pl.cur == nil
		w.mu.Unlock()
		if due { // otherwise a later fault starts it
			w.start(pl)
		}
	}
}

// power cuts the power: what was written since the last flush is lost, all of it or that of some streams.
func (w *world) power(at time.Duration, f *fault) {
	flushes := max(0, at-time.Duration(f.Lose))
	time.Sleep(flushes)
	snap, when := w.disk.Snapshot(), time.Now()
	time.Sleep(at - flushes)
	w.judge.Note("power cut, what is younger than %v is lost", time.Since(when))
	w.mu.Lock()
	for _, p := range w.all { // the cut-off processes, too
		if p != p.place.cur {
			w.judge.ends(p)
			p.die()
		}
	}
	w.mu.Unlock()
	w.kill(time.Duration(f.For), func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if when.Before(w.cutAt) { // the disk has been in the state after that cut since then
			snap, when = w.flushed, w.cutAt
		}
		if f.Apart != 0 {
			snap = snap.Apart(w.disk.Snapshot(), f.Apart)
		}
		w.disk.Restore(snap)
		w.cutAt, w.flushed = time.Now(), snap
		w.judge.cut(when)
	}, w.places...)
}

// split cuts a node's process off from the store, and another process takes its
// place. Later the first one reaches the store again, and goes on until it is killed.
func (w *world) split(pl *place, rest time.Duration) {
	w.mu.Lock()
	p := pl.cur
	w.mu.Unlock()
	if p == nil {
		return
	}
	p.replaced.Store(true)
	w.judge.ends(p)
	p.link.Down()
	w.start(pl)
	p.mu.Lock()
	conns := p.conns
	p.conns = nil
	p.mu.Unlock()
	for c := range conns {
		c.breaks()
	}
	time.Sleep(rest)
	p.link.Up()
	w.judge.Note("process %s has the store again", p.name)
	time.Sleep(rest + time.Minute)
	p.die()
}

func (w *world) outage(by int) {
	w.judge.unrenewed(by)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down += by
	for _, p := range w.all {
		if !p.replaced.Load() {
			w.connect(p)
		}
	}
}

// connect has a process reach what the faults under way let it reach. The caller holds mu.
func (w *world) connect(p *process) {
	if p.dead.Load() {
		return
	}
	switch {
	case w.down == 0 && p.storeless == 0:
		p.link.Up()
	case w.down == 0 && p.storeless == p.behind:
		p.link.Behind()
	default:
		p.link.Down()
	}
	if p.box != nil {
		p.box.Cut(p.unheard > 0)
	}
	w.judge.reaches(p, w.down == 0 && p.storeless == 0 && p.frozen == 0, p.unheard == 0 && p.frozen == 0)
}

func (w *world) fill(by int) {
	w.judge.unrenewed(by)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.full += by
	w.disk.Fill(w.full > 0)
}
