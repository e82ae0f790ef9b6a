package history

import (
	"errors"
	"fmt"
	"time"

	"github.com/troupe-run/troupe/internal/attachment"
	"github.com/troupe-run/troupe/internal/lease"
	"github.com/troupe-run/troupe/internal/stream"
	"github.com/troupe-run/troupe/internal/takeover"
)

const opWait = 5 * time.Second // how long an operation of the store, or a question to another node, waits for its outcome

// node is one boot of a node: what package actors and the lease do around the machines.
type node struct {
	w          *world
	place      int
	name, boot string
	up         bool // registered, and serves
	dead       bool
	frozen     bool
	queue      []func() // what happens to a process that stands still
	storeless  bool     // cut off from the store
	deaf       bool     // cut off from the other nodes
	draining   bool

	lease    *lease.Machine
	renewing bool
	confirm  []func(error) // wait for a renewal that is sent from now on
	streams  map[string]*writer
	taking   map[string][]func(*writer, *takeover.Machine, error)
	readings []*reading
	readers  uint64
	far      []*farReader
	among    attachment.Set[string]
	beaten   time.Duration
	away     bool
	ahead    time.Duration // of the store's clock, at the last beat
	asked    time.Duration
}

func (w *world) boot(place int) *node {
	n := &node{w: w, place: place, name: fmt.Sprintf("n%d", place), streams: map[string]*writer{}, taking: map[string][]func(*writer, *takeover.Machine, error){}}
	w.serial++
	n.boot = fmt.Sprintf("%s-%d", n.name, w.serial)
	n.lease = lease.New(n.boot, w.plan.Lease)
	if old := w.nodes[place]; old != nil && !old.dead { // it may go on for a while as if nothing had been
		w.after(w.span(0, 20*time.Second), old.kill)
	}
	w.nodes[place] = n
	w.note("%s begins", n.boot)
	n.register()
	return n
}

// register writes the first entry, over that of an older boot if there is one.
func (n *node) register() {
	sent := n.w.now
	var rev uint64
	var old entry
	again := func() { n.after(time.Second, n.register) }
	n.op(func(s *store) (err error) { old, err = s.entry(n.name); return err }, func(err error) {
		if err != nil && !errors.Is(err, errMissing) {
			again()
			return
		}
		if err != nil {
			old.rev = 0
		}
		n.op(func(s *store) (err error) { rev, err = s.enter(n.name, n.boot, old.rev); return err }, func(err error) {
			if err != nil {
				again()
				return
			}
			n.begin(rev, sent)
		})
	})
}

// begin begins to serve.
func (n *node) begin(rev uint64, sent time.Duration) {
	n.lease.Since = sent
	n.lease.Rev, n.lease.Renewed, n.up, n.ahead = rev, sent, true, n.w.store.skew
	n.w.note("%s serves", n.boot)
	n.beat()
	n.tick()
}

// run has f happen in the process, if it is there, and once it does not stand still.
func (n *node) run(f func()) {
	switch {
	case n.dead:
	case n.frozen:
		n.queue = append(n.queue, f)
	default:
		f()
	}
}

func (n *node) after(d time.Duration, f func()) { n.w.after(d, func() { n.run(f) }) }

func (n *node) thaw() {
	n.frozen = false
	queue := n.queue
	n.queue = nil
	for _, f := range queue {
		n.run(f)
	}
}

func (n *node) serves() bool        { return n.up && !n.dead && !n.frozen }
func (n *node) certain() bool       { return n.lease.Certain(n.w.now) }
func (n *node) skew() time.Duration { return n.w.store.skew }

// op carries out an operation of the store, whose outcome may stay unknown.
func (n *node) op(do func(*store) error, done func(error)) {
	w := n.w
	over := false
	end := func(err error) {
		n.run(func() {
			if !over {
				over = true
				done(err)
			}
		})
	}
	there, back := w.span(100*time.Microsecond, 2*time.Millisecond), w.span(100*time.Microsecond, 2*time.Millisecond)
	lost := false
	if p := &w.plan; w.troubled && w.chance(p.Trouble) {
		switch w.rnd.IntN(5) {
		case 0:
			w.after(there, func() { end(errAgain) })
			return
		case 1:
			lost = true
		case 2:
			there = w.span(there, 9*time.Second) // it may arrive long after it was given up
		case 3:
			back = w.span(back, 3*time.Second)
		case 4:
			w.after(opWait, func() { end(errUnsure) })
			return
		}
	}
	sent := w.now
	unsure := func() { w.after(sent+opWait-w.now, func() { end(errUnsure) }) } // planned only where it comes to that
	if there+back >= opWait {
		unsure()
	}
	w.after(there, func() {
		if n.storeless {
			unsure()
			return
		}
		if err := do(w.store); !lost {
			w.after(back, func() {
				if n.storeless {
					unsure()
					return
				}
				end(err)
			})
			return
		}
		unsure()
	})
}

// tick renews the lease.
func (n *node) tick() {
	n.renew()
	n.after(n.w.plan.Lease/5, n.tick)
}

func (n *node) renew() {
	if n.renewing || n.draining {
		return
	}
	n.renewing = true
	waiting := n.confirm
	n.confirm = nil
	n.lease.Renew(n.w.now)
	var step func()
	step = func() {
		m := n.lease
		var rev uint64
		var e entry
		switch m.Next() {
		case lease.Update, lease.Create:
			over := m.Rev
			if m.Next() == lease.Create {
				over = 0
			}
			n.op(func(s *store) (err error) { rev, err = s.enter(n.name, n.boot, over); return err },
				func(err error) { m.Wrote(rev, errors.Is(err, errConflict), err); step() })
		case lease.Read:
			n.op(func(s *store) (err error) { e, err = s.entry(n.name); return err },
				func(err error) { m.Found(e.boot, e.rev, errors.Is(err, errMissing), err); step() })
		case lease.Over:
			n.renewing = false
			err := m.Err
			if err == nil && !n.certain() {
				err = errUnsure
			}
			for _, f := range waiting {
				f(err)
			}
			if len(n.confirm) > 0 {
				n.renew()
			}
		}
	}
	step()
}

// gone finds out whether a writer has no entry any more, and this node has renewed its own after that was seen.
func (n *node) gone(by takeover.Writer, f func(gone bool, err error)) {
	var e entry
	n.op(func(s *store) (err error) { e, err = s.entry(by.Node); return err }, func(err error) {
		switch {
		case err == nil && e.boot == by.Boot:
			f(false, nil)
		case err == nil || errors.Is(err, errMissing):
			certain := err == nil // another boot has the name
			n.confirm = append(n.confirm, func(err error) {
				if err == nil && !certain && !n.lease.Steady(n.w.now) {
					err = errUnsure
				}
				f(err == nil, err)
			})
			n.renew()
		default:
			f(false, err)
		}
	})
}

// beat is what the heart does each second.
func (n *node) beat() {
	w := n.w
	away := !n.certain() || n.beaten > 0 && w.now-n.beaten > 3*time.Second
	n.beaten, n.away = w.now, n.away || away
	returned := n.away && n.certain()
	if returned {
		n.away = false
	}
	jumped := n.skew()-n.ahead > time.Second
	n.ahead = n.skew()
	for _, id := range sorted(n.streams) {
		if s := n.streams[id]; s.opened && (returned || jumped || w.now >= s.due) {
			s.refresh()
		}
	}
	for _, r := range append([]*farReader(nil), n.far...) {
		if w.now-r.heard > 20*time.Second {
			r.leave()
		}
	}
	if w.now >= n.asked+2500*time.Millisecond {
		n.asked = w.now
		for _, x := range append([]*reading(nil), n.readings...) {
			x.ask()
		}
	}
	n.after(time.Second, n.beat)
}

// send brings a letter to a boot: late, twice or not at all.
func (n *node) send(name, boot string, f func(to *node)) {
	w := n.w
	copies, d := 1, w.span(100*time.Microsecond, time.Millisecond)
	if p := &w.plan; w.troubled && w.chance(p.Letters) {
		switch w.rnd.IntN(3) {
		case 0:
			return
		case 1:
			d = w.span(d, 4*time.Second)
		case 2:
			copies = 2
		}
	}
	for range copies {
		w.after(d, func() {
			for _, to := range w.nodes {
				if to.name == name && to.boot == boot && to.up && !n.deaf && !to.deaf {
					to.run(func() { f(to) })
				}
			}
		})
		d += w.span(0, 500*time.Millisecond)
	}
}

// ask brings a question to a boot. do answers it there, at once or later.
func (n *node) ask(name, boot string, do func(to *node, reply func(error)), done func(error)) {
	over := false
	end := func(err error) {
		if !over {
			over = true
			done(err)
		}
	}
	n.after(opWait, func() { end(errUnsure) })
	n.send(name, boot, func(to *node) {
		do(to, func(err error) { to.send(n.name, n.boot, func(*node) { end(err) }) })
	})
}

// kill ends the process at once.
func (n *node) kill() {
	if n.dead {
		return
	}
	n.w.note("%s is killed", n.boot)
	n.dead, n.up = true, false
	for _, c := range n.w.clients {
		c.hostGone(n)
	}
}

// drain has the node leave in order.
func (n *node) drain() {
	if !n.serves() || n.draining {
		return
	}
	n.w.note("%s drains", n.boot)
	n.draining = true
	for _, id := range sorted(n.streams) {
		n.streams[id].handOver()
	}
	n.after(2*time.Second, func() {
		n.op(func(s *store) error {
			if e, err := s.entry(n.name); err == nil && e.boot == n.boot {
				delete(s.entries, n.name)
				s.absent[n.boot] = n.w.now
			}
			return nil
		}, func(error) { n.kill() })
	})
}

// limits are those of the streams.
func (w *world) limits() stream.Limits { return w.plan.Limits }
