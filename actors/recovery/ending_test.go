package recovery

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/test/histories"
)

const (
	// soon is after what time a node knows that a session has ended, or a call was cancelled, if it hears the one that does.
	soon = 2 * time.Second
	// atLast is after what time it knows that a session has ended if it does not: it looks every 30 s, and the store is slow.
	atLast = time.Minute
	// slowReplay is how long a replay may take that has begun: the store is slow.
	slowReplay = 20 * time.Second
)

// deletes ends the session.
func (cl *client) deletes() {
	if !cl.Pause(time.Duration(cl.plan.Delete)) {
		return
	}
	cl.w.judge.deletes(cl)
	for !cl.Over() {
		p := cl.Reach()
		c := cl.patient(p.delete(cl.Session()))
		if c != nil && c.begun(cl.w.over) && (c.status == 200 || c.status == 404) {
			if c.status == 200 {
				cl.w.judge.deleted(cl, p)
			}
			return
		}
		cl.Pause(300 * time.Millisecond)
	}
}

// cancel is a cancel that a process accepted.
type cancel struct {
	r  *request
	p  *process
	at time.Time
}

// deletion is the end of a session, which a process has accepted.
type deletion struct {
	client int
	p      *process
	at     time.Time
}

// deletes notes that a client is about to end its session.
func (j *judge) deletes(cl *client) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.Note("client %d ends its session", cl.n)
	j.gone[cl.n] = true
	for _, r := range j.requests {
		r.tried, r.forgotten = r.tried || j.isOf(r, cl.n), r.forgotten || j.isOf(r, cl.n)
	}
}

func (j *judge) isOf(r *request, client int) bool {
	return strings.HasPrefix(r.name, fmt.Sprint(client, "."))
}

// deleted notes that the session of a client has ended.
func (j *judge) deleted(cl *client, p *process) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.Note("the session of client %d has ended", cl.n)
	j.Count("sessions ended")
	j.deletions = append(j.deletions, deletion{cl.n, p, time.Now()})
}

// serves judges that a process has served a request of a session, which began at some time.
func (j *judge) serves(cl *client, p *process, began time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, d := range j.deletions {
		if d.client == cl.n && len(j.cuts) == 0 && began.After(d.at.Add(j.knows(d.p, p, d.at))) {
			j.Fault("process %s serves client %d, whose session has ended %v before", p.name, cl.n, began.Sub(d.at))
		}
	}
}

// knows returns after what time a process must know what another one knew at a time.
func (j *judge) knows(from, to *process, at time.Time) time.Duration {
	switch {
	case from == to || j.heard(from, to, at):
		return soon
	case j.within(to, at, atLast):
		return atLast
	}
	return 1 << 60
}

// heard reports whether a process gets the letters that another one sends at a time.
func (j *judge) heard(from, to *process, at time.Time) bool {
	for _, p := range []*process{from, to} {
		if !j.within(p, at, soon) {
			return false
		}
		for i := range j.state(p).unheard {
			if a := &j.state(p).unheard[i]; !a.from.at.After(at.Add(soon)) && !a.until().Before(at.Add(-soon)) {
				return false
			}
		}
	}
	return j.w.plan.Letters.sure()
}

// within reports whether a process was there for d after a time, and some time before that, with its store.
func (j *judge) within(p *process, at time.Time, d time.Duration) bool {
	if dead, over := j.ended[p]; over && !dead.at.After(at.Add(d)) {
		return false
	}
	s := j.state(p)
	if !s.left.IsZero() && !s.left.After(at.Add(d)) {
		return false
	}
	return !slices.ContainsFunc(s.away, func(a absence) bool {
		return !a.from.at.After(at.Add(d)) && !a.until().Before(at.Add(-2*lease))
	})
}

// endings judges that calls ended that were cancelled, or whose session was ended, where they ran.
func (j *judge) endings() {
	if j.w.office == nil {
		return
	}
	runs := func(r *run, at time.Time) bool { return !r.ended || r.end.at.After(at) }
	for _, c := range j.cancels {
		for _, run := range c.r.runs {
			if run.p == c.p || !runs(run, c.at) || run.began.After(c.at) || !j.heard(c.p, run.p, c.at) {
				continue
			}
			j.Count("cancels elsewhere")
			if until := c.at.Add(soon); time.Now().After(until) && runs(run, until) {
				j.Fault("%s was cancelled at %s, and runs on on %s", c.r.name, c.p.name, run.p.name)
			}
		}
		open := func(run *run) bool { // it may be answered
			_, over := j.over(run)
			return over || !run.ended || !errors.Is(run.cause, actors.ErrCancelled)
		}
		if all := c.r.runs; len(c.r.finals) > 0 && len(all) > 0 && !slices.ContainsFunc(all, open) {
			j.Fault("every run of %s was cancelled, and it is answered by %s", c.r.name, histories.Short(c.r.finals[0].id))
		}
	}
	for _, d := range j.deletions {
		if len(j.cuts) > 0 {
			continue
		}
		for _, r := range j.requests {
			if !j.isOf(r, d.client) {
				continue
			}
			for _, run := range r.runs {
				if until := d.at.Add(j.knows(d.p, run.p, d.at)); time.Now().After(until) && runs(run, until) {
					j.Fault("the session of %s was ended at %s, and it runs on on %s", r.name, d.p.name, run.p.name)
				}
			}
		}
	}
}
