package history

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/troupe-run/troupe/internal/stream"
)

// plan is what a history is drawn with.
type plan struct {
	Seed       uint64
	Nodes      int
	Lease      time.Duration
	ReplayAge  time.Duration
	ResumeWait time.Duration
	Limits     stream.Limits
	Flow       int           // bytes on the way to a reader on another node
	Trouble    int           // operations of the store that go wrong, of 1,000
	Letters    int           // letters that are lost, late or come twice, of 1,000
	Cuts       int           // events after which a client loses its connection, of 1,000
	Faults     time.Duration // until when faults happen
	Long       bool
}

func (p *plan) recordTTL() time.Duration { return p.ReplayAge * 4 / 3 }

// eventTTL is how long the store keeps an event: longer than a record by more than a writer lets the clock go back.
func (p *plan) eventTTL() time.Duration { return p.recordTTL() + 10*time.Second }

// alphabet is that of ids.
const alphabet = "abcdefghijklmnopqrstuvwxyz234567"

// newWorld draws a history.
func newWorld(seed uint64, told bool) *world {
	w := &world{rnd: rand.New(rand.NewPCG(seed, 0x7472)), told: told, troubled: true}
	w.judge = newJudge(w)
	p := &w.plan
	*p = plan{Seed: seed, Nodes: 3, Lease: 5 * time.Second, ReplayAge: w.span(30*time.Second, 3*time.Minute), ResumeWait: w.span(2*time.Second, 30*time.Second), Flow: 300, Cuts: 60, Faults: w.span(10*time.Second, 90*time.Second)}
	p.Limits = stream.Limits{Appends: 6 + w.rnd.IntN(20), Bytes: 1200 + w.rnd.IntN(2000), Part: 200, Batch: 1 + w.rnd.IntN(5)}
	if w.chance(200) {
		p.Nodes = 1 + w.rnd.IntN(2)
	}
	if w.chance(600) {
		p.Trouble = w.rnd.IntN(100)
	}
	if w.chance(600) {
		p.Letters = w.rnd.IntN(200)
	}
	if p.Long = seed%80 == 0; p.Long {
		p.Limits, p.Cuts, p.Flow = stream.Limits{}, 2, 0
		p.Limits = stream.Limits{Appends: stream.Ring, Bytes: 4 << 20, Part: 256 << 10, Batch: 1 + w.rnd.IntN(3)}
		p.Flow = 4096
	}
	w.store = newStore(w)
	w.nodes = make([]*node, p.Nodes)
	for i := range w.nodes {
		w.boot(i)
	}
	calls := 1 + w.rnd.IntN(4)
	if p.Long {
		calls = 1
	}
	for i := range calls {
		w.call(i)
	}
	for range w.rnd.IntN(7) {
		w.after(w.span(500*time.Millisecond, p.Faults), w.harm)
	}
	w.after(p.Faults, w.heal)
	return w
}

// call draws a call.
func (w *world) call(i int) {
	id := make([]byte, stream.IDLength)
	for k := range id {
		id[k] = alphabet[w.rnd.IntN(len(alphabet))]
	}
	c := &client{w: w, n: i, id: string(id), safe: w.chance(600), begin: w.span(100*time.Millisecond, w.plan.Faults/2), answered: map[string]bool{}}
	steps := 1 + w.rnd.IntN(12)
	if w.chance(200) {
		steps += w.rnd.IntN(40)
	}
	pace := w.span(0, 3*time.Second)
	if w.plan.Long {
		steps, pace = 1010+w.rnd.IntN(200), 40*time.Millisecond
	}
	for range steps {
		st := step{wait: w.span(0, pace), ask: !w.plan.Long && w.chance(150), size: w.rnd.IntN(100), sync: w.plan.Long || w.chance(600)}
		switch {
		case w.chance(30) && !w.plan.Long:
			st.size = 300 + w.rnd.IntN(500) // in parts
		case w.chance(40) && !w.plan.Long:
			st.wait = w.span(0, 2*w.plan.recordTTL()) // it keeps silent beyond the lifetime of its record
		case w.chance(100):
			st.wait = 0
		}
		c.steps = append(c.steps, st)
	}
	w.clients = append(w.clients, c)
	w.judge.calls[c.id] = c
	w.judge.tales[c.id] = &tale{c: c, events: map[string]string{}, appends: map[uint64]stored{}, ever: map[uint64]bool{}, answers: map[int]string{}}
	w.after(c.begin, c.come)
}

// harm does some harm to a node, to all, or to the store.
func (w *world) harm() {
	n := w.nodes[w.rnd.IntN(len(w.nodes))]
	for_ := w.span(200*time.Millisecond, 8*time.Second)
	switch {
	case w.chance(200):
		for_ = w.span(5*time.Second, 40*time.Second)
	case w.chance(60):
		for_ = w.span(w.plan.recordTTL(), 2*w.plan.recordTTL())
	}
	restart := func(n *node) {
		w.after(for_/2, func() {
			if w.nodes[n.place] == n {
				w.boot(n.place)
			}
		})
	}
	what := ""
	switch w.rnd.IntN(13) {
	case 0, 1:
		what = "kill"
		n.kill()
		restart(n)
	case 2, 3:
		what = "freeze"
		w.while(for_, func(on bool) {
			if on {
				n.frozen = true
			} else {
				n.thaw()
			}
		})
	case 4:
		what = "storeless"
		w.while(for_, func(on bool) { n.storeless = on })
	case 5:
		what = "unheard"
		w.while(for_, func(on bool) { n.deaf = on })
	case 6:
		what = "island"
		w.while(for_, func(on bool) { n.storeless, n.deaf = on, on })
	case 7:
		what = "drain"
		for _, id := range sorted(n.streams) {
			w.judge.tales[id].drained = true
		}
		n.drain()
		w.after(3*time.Second, func() { restart(n) })
	case 8:
		what = "outage"
		nodes := append([]*node(nil), w.nodes...)
		w.while(for_, func(on bool) {
			for _, n := range nodes {
				n.storeless = on
			}
		})
	case 9:
		what = "full"
		w.while(for_, func(on bool) { w.store.full = on })
	case 10:
		what = "jump"
		by := w.span(-w.plan.recordTTL()*2, w.plan.recordTTL()*2)
		if w.chance(500) {
			by = w.span(-10*time.Second, 10*time.Second)
		}
		w.store.skew += by
		w.judge.jumps += by.Abs()
	case 11:
		what = "power"
		before := w.store.clone()
		w.after(w.span(0, 2*time.Second), func() {
			w.note("the power is cut")
			w.judge.cuts++
			for _, n := range w.nodes {
				n.kill()
				restart(n)
			}
			skew, full := w.store.skew, w.store.full // of the machine, not of what is stored
			*w.store = *before
			w.store.skew, w.store.full = skew, full
		})
	case 12:
		what = "replace" // the process is cut off for good, and another one takes its name
		n.storeless, n.deaf = true, true
		w.after(for_, func() {
			if w.nodes[n.place] == n {
				for _, c := range w.clients {
					c.hostGone(n)
				}
				w.boot(n.place)
				n.storeless, n.deaf = false, false
			}
		})
	}
	w.note("%s: %s, for %v", n.boot, what, for_)
	w.judge.count(what)
}

// while turns something on, and off again.
func (w *world) while(d time.Duration, f func(on bool)) {
	f(true)
	w.after(d, func() { f(false) })
}

// heal ends all faults.
func (w *world) heal() {
	w.note("all is well from now on")
	w.troubled = false
	w.store.full = false
	for i, n := range w.nodes {
		n.storeless, n.deaf = false, false
		if n.frozen {
			n.thaw()
		}
		if n.dead {
			w.boot(i)
		}
	}
}

// happen has a history happen, and judges its end.
func happen(seed uint64, told bool) *world {
	w := newWorld(seed, told)
	const patience = time.Hour
	limit := w.plan.Faults + patience
	for w.next(limit) && !w.quiet() {
		if w.events > 2_000_000 {
			w.judge.fault("it does not come to an end")
			break
		}
	}
	for _, c := range w.clients {
		if c.end == "" {
			w.judge.fault("client %d waits, though nothing is wrong any more", c.n)
		}
	}
	w.mix(uint64(len(w.judge.faults)))
	return w
}

// quiet reports whether nothing can happen any more that matters.
func (w *world) quiet() bool {
	if w.now < w.plan.Faults {
		return false
	}
	for _, c := range w.clients {
		if c.end == "" {
			return false
		}
	}
	return true
}

func (w *world) String() string {
	return fmt.Sprintf("seed %d: %d events, %v", w.plan.Seed, w.events, w.now)
}
