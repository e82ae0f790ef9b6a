package recovery

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/internal/sim"
)

// patience is how long a client goes on after the last fault, once every handler has
// had its time.
const patience = 10 * time.Minute

// world is a history while it happens.
type world struct {
	plan  *plan
	calls map[string]*call // by name
	disk  *sim.Store
	judge *judge
	begin time.Time
	quiet chan struct{}  // closed after the last fault
	over  chan struct{}  // closed when the history has lasted too long
	left  sync.WaitGroup // goroutines that belong to no client

	mu      sync.Mutex // guards the rest
	cur     *process   // the process that clients reach, nil if there is none
	all     []*process
	down    int // outages under way
	full    int
	cutAt   time.Time // when the last power cut was
	flushed sim.Snapshot
	pending int // starts that are still due
}

// history is the outcome of a plan.
type history struct {
	faults []string // faults that the judge found
	tale   []string // events of the history
	sums   map[string]int
}

// happen runs a history.
func happen(t *testing.T, p plan) (h history) {
	t.Helper()
	defer func() { // a bubble that ends with goroutines left behind panics on the goroutine that made it
		if r := recover(); r != nil {
			h.faults = append(h.faults, fmt.Sprint("left behind: ", r))
		}
	}()
	var w *world
	synctest.Test(t, func(t *testing.T) {
		w = &world{plan: &p, calls: make(map[string]*call), disk: sim.New(actors.RecordTTL(time.Duration(p.Limits.Replay)) + 5*time.Second), begin: time.Now(), quiet: make(chan struct{}), over: make(chan struct{})}
		w.judge = newJudge(w)
		defer func() { h = history{w.judge.faults, w.judge.tale(), w.judge.sums} }()
		w.happen()
	})
	return h
}

func (w *world) happen() {
	w.start()
	var harm, clients sync.WaitGroup
	for i, f := range w.plan.Faults {
		harm.Go(func() { w.harm(i, f) })
	}
	for i := range w.plan.Clients {
		cl := &client{w: w, n: i, plan: &w.plan.Clients[i]}
		for k := range cl.plan.Posts {
			for l := range cl.plan.Posts[k].Calls {
				w.calls[callName(i, k, l)] = &cl.plan.Posts[k].Calls[l]
			}
		}
		clients.Go(cl.live)
	}
	harm.Wait()
	close(w.quiet)
	// A client may be silent once more before it comes back.
	limit := time.AfterFunc(w.plan.worst()+patience+7*time.Duration(w.plan.Limits.Replay), func() { close(w.over) })
	clients.Wait()
	limit.Stop()
	w.judge.end()
	w.mu.Lock()
	all := w.all
	w.mu.Unlock()
	for _, p := range all {
		p.die()
	}
	w.left.Wait()
	time.Sleep(time.Minute)
}

func (w *world) current() *process {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cur
}

// start begins the next process, which clients reach from then on.
func (w *world) start() {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.newProcess(len(w.all)+1, "n")
	w.all = append(w.all, p)
	if w.down > 0 {
		p.link.Down()
	}
	w.cur = p
	w.judge.note("process %s starts", p.name)
}

// harm makes fault i happen.
func (w *world) harm(i int, f fault) {
	at := time.Duration(f.At)
	switch f.Do {
	case "power":
		w.power(at, time.Duration(f.Lose), time.Duration(f.For))
		return
	}
	time.Sleep(at)
	w.judge.note("%s for %v", f.Do, time.Duration(f.For))
	switch f.Do {
	case "kill":
		w.kill(time.Duration(f.For), nil)
	case "split":
		w.split(time.Duration(f.For))
	case "outage":
		w.outage(1)
		time.Sleep(time.Duration(f.For))
		w.outage(-1)
		w.judge.note("outage is over")
	case "full":
		w.fill(1)
		time.Sleep(time.Duration(f.For))
		w.fill(-1)
		w.judge.note("there is room again")
	case "jump":
		w.judge.unrenewed(0)
		w.disk.Jump(time.Duration(f.For))
	}
}

// kill ends the current process, and starts the next one after a while. It calls
// between when the process is dead.
func (w *world) kill(rest time.Duration, between func()) {
	w.mu.Lock()
	p := w.cur
	w.cur = nil
	w.pending++
	w.mu.Unlock()
	if p != nil {
		w.judge.ends(p)
		p.die()
	}
	time.Sleep(time.Millisecond)
	if between != nil {
		between()
	}
	time.Sleep(rest)
	w.mu.Lock()
	w.pending--
	last := w.pending == 0
	w.mu.Unlock()
	if last { // otherwise a later fault starts it
		w.start()
	}
}

// power cuts the power: what was written since the last flush is lost.
func (w *world) power(at, lose, rest time.Duration) {
	flushes := max(0, at-lose)
	time.Sleep(flushes)
	snap, when := w.disk.Snapshot(), time.Now()
	time.Sleep(at - flushes)
	w.judge.note("power cut, what is younger than %v is lost", time.Since(when))
	w.mu.Lock()
	for _, p := range w.all { // the cut-off processes, too
		if p != w.cur {
			w.judge.ends(p)
			p.die()
		}
	}
	w.mu.Unlock()
	w.kill(rest, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if when.Before(w.cutAt) { // the disk has been in the state after that cut since then
			snap, when = w.flushed, w.cutAt
		}
		w.disk.Restore(snap)
		w.cutAt, w.flushed = time.Now(), snap
		w.judge.cut(when)
	})
}

// split cuts the current process off from the store, and another process takes its
// place. Later the first one reaches the store again, and goes on until it is killed.
func (w *world) split(rest time.Duration) {
	w.mu.Lock()
	p := w.cur
	w.mu.Unlock()
	if p == nil {
		return
	}
	p.replaced.Store(true)
	w.judge.ends(p)
	p.link.Down()
	w.start()
	p.mu.Lock()
	conns := p.conns
	p.conns = nil
	p.mu.Unlock()
	for c := range conns {
		c.breaks()
	}
	time.Sleep(rest)
	p.link.Up()
	w.judge.note("process %s has the store again", p.name)
	time.Sleep(rest + time.Minute)
	p.die()
}

func (w *world) outage(by int) {
	w.judge.unrenewed(by)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down += by
	for _, p := range w.all {
		switch {
		case p.replaced.Load():
		case w.down > 0:
			p.link.Down()
		default:
			p.link.Up()
		}
	}
}

func (w *world) fill(by int) {
	w.judge.unrenewed(by)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.full += by
	w.disk.Fill(w.full > 0)
}
