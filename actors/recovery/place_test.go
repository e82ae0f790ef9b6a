package recovery

import (
	"context"
	"time"
)

const (
	// noticed is after what time a balancer sends little to a node that is in trouble, and nothing to one that leaves.
	noticed = 3 * time.Second
	// drainWait is how long a node waits for its calls before it leaves.
	drainWait = 10 * time.Second
)

// isolate keeps a node's process from the store (storeless), from the other nodes (unheard), or from both (island; behind: beside a server
// that does not know yet that it leads nobody) for a while, or has it stand still (freeze).
func (w *world) isolate(pl *place, how string, d time.Duration) {
	w.mu.Lock()
	p := pl.cur
	w.mu.Unlock()
	if p == nil {
		return
	}
	w.afflict(p, how, 1)
	w.pass(d)
	w.afflict(p, how, -1)
	w.judge.Note("%s of process %s is over", how, p.name)
}

// afflict begins (1) or ends (-1) a fault of a process.
func (w *world) afflict(p *process, how string, by int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.dead.Load() {
		return
	}
	switch how {
	case "storeless":
		p.storeless += by
	case "unheard":
		p.unheard += by
	case "island":
		p.storeless += by
		p.unheard += by
	case "behind":
		p.storeless += by
		p.behind += by
		p.unheard += by
	case "freeze":
		p.frozen += by
	}
	switch {
	case p.storeless+p.frozen == 0:
		p.shunned = time.Time{}
	case p.shunned.IsZero():
		p.shunned = time.Now().Add(noticed)
	}
	if p.frozen > 0 {
		p.freeze()
	}
	w.connect(p)
	if p.frozen == 0 {
		p.thaw()
	}
}

// drain ends a node's process in order, and starts the next one after a while.
func (w *world) drain(pl *place, rest time.Duration) {
	w.mu.Lock()
	p := pl.cur
	if p == nil || !p.leaving.IsZero() {
		w.mu.Unlock()
		return
	}
	p.leaving = time.Now().Add(noticed)
	pl.pending++
	w.mu.Unlock()
	w.pass(noticed) // it serves on
	w.judge.leaves(p)
	ctx, cancel := context.WithTimeout(context.Background(), drainWait)
	defer cancel()
	p.node.Finish(ctx, true, nil, nil)
	p.node.HandOver(ctx, nil)
	end, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = p.node.Close(end) // it may have no store: then it ends as it is
	linked{p.link, p.boot}.notes(p.boot)
	p.link.Leave()
	w.judge.hasLeft(p)
	w.mu.Lock()
	if pl.cur == p {
		pl.cur = nil
	}
	w.mu.Unlock()
	w.judge.ends(p)
	p.die()
	w.restart(rest, pl)
}
