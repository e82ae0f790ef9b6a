package recovery

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"
)

// state is what the judge knows of a process of a fleet.
type state struct {
	away     []absence // without the store, or standing still
	unheard  []absence // without the other nodes, or standing still
	left     time.Time // when it began to give up what it has; zero: not yet
	gone     time.Time // when it had left
	replaced time.Time // when another process began under its name
}

// absence is a time in which something did not work. It goes on if to is zero.
type absence struct {
	from moment
	to   time.Time
}

// until is when the absence was over, at the latest now.
func (a *absence) until() time.Time {
	if a.to.IsZero() {
		return time.Now()
	}
	return a.to
}

// slack bounds the time from when a node sees that another is gone to when it has taken a stream over: its store is slow.
const slack = 2 * time.Minute

func (j *judge) state(p *process) *state {
	s := j.states[p]
	if s == nil {
		s = &state{}
		j.states[p] = s
	}
	return s
}

// reaches notes whether a process reaches the store and hears the others from now on.
func (j *judge) reaches(p *process, store, others bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	s := j.state(p)
	for _, x := range []struct {
		all *[]absence
		ok  bool
	}{{&s.away, store}, {&s.unheard, others}} {
		n := len(*x.all)
		goesOn := n > 0 && (*x.all)[n-1].to.IsZero()
		switch {
		case goesOn && x.ok:
			(*x.all)[n-1].to = time.Now()
		case !goesOn && !x.ok:
			*x.all = append(*x.all, absence{from: j.now()})
		}
	}
}

// leaves notes that a process begins to give up what it has.
func (j *judge) leaves(p *process) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.state(p).left = time.Now()
	j.Note("process %s leaves", p.name)
}

// hasLeft notes that a process has given its entry back.
func (j *judge) hasLeft(p *process) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.state(p).gone = time.Now()
}

// replaces notes that another process begins under the name of this one.
func (j *judge) replaces(p *process) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if s := j.state(p); s.replaced.IsZero() {
		s.replaced = time.Now()
	}
}

// over returns since when the effects of a run may count no longer: its process has ended, gave up what it had, or
// others could take it for dead.
func (j *judge) over(r *run) (since moment, over bool) {
	since, over = j.ended[r.p]
	if j.w.office == nil {
		return since, over
	}
	s := j.state(r.p)
	for i := range s.away { // it may have been away when it died: then it could renew nothing
		a := &s.away[i]
		if end := a.until(); end.After(r.began) && end.Sub(a.from.at) >= lease && (!over || a.from.at.Before(since.at)) {
			return a.from, true
		}
	}
	if !over && !s.left.IsZero() {
		return moment{s.left, j.w.disk.Now()}, true
	}
	return since, over
}

// doubtful reports whether a process that ran a request was away alone for a lease: when it is back, the call ends as lost if its record has expired
// meanwhile and others have taken streams of that process, though they may not have taken this one.
func (j *judge) doubtful(r *request) bool { return j.wasAway(r, lease) }

// storedAgain reports whether a process that ran a request was away for so long that the store may have forgotten the record of its stream, and that of who took
// the stream over. When it is back it cannot know of that: it stores the stream again, and says that the call is lost.
func (j *judge) storedAgain(r *request) bool { return j.wasAway(r, j.w.plan.recordTTL()*3/4) }

// wasAway reports whether a process that ran a request was away for longer than d, until after the run began.
func (j *judge) wasAway(r *request, d time.Duration) bool {
	return slices.ContainsFunc(r.runs, func(run *run) bool {
		return slices.ContainsFunc(j.state(run.p).away, func(a absence) bool {
			return a.until().After(run.began) && a.until().Sub(a.from.at) > d
		})
	})
}

// late reports whether what a process does now may be long overdue: others may have taken what it has.
func (j *judge) late(p *process) bool {
	return j.w.office != nil && j.couldBeGone(p, time.Now().Add(-slack), time.Now())
}

// couldBeGone reports whether others could find at some time from..to that a process has no entry.
func (j *judge) couldBeGone(p *process, from, to time.Time) bool {
	s := j.state(p)
	if before := func(t time.Time) bool { return !t.IsZero() && !t.After(to) }; before(s.gone) || before(s.replaced) {
		return true
	}
	begin := func(a moment) time.Time { return a.at.Add(lease) }
	for i := range s.away {
		a := &s.away[i]
		if first := begin(a.from); first.Before(a.until()) && !first.After(to) && !a.until().Add(2*time.Second).Before(from) {
			return true
		}
	}
	dead, over := j.ended[p]
	return over && p.dead.Load() && !begin(dead).After(to)
}

// calm reports whether nothing has happened to any process or the store since a time.
func (j *judge) calm(since time.Time) bool {
	if j.away > 0 || j.trouble.After(since) {
		return false
	}
	for _, s := range j.states {
		for _, all := range [][]absence{s.away, s.unheard} {
			if n := len(all); n > 0 && all[n-1].until().After(since) {
				return false
			}
		}
		if s.left.After(since) || s.replaced.After(since) {
			return false
		}
	}
	for _, m := range j.ended {
		if m.at.After(since) {
			return false
		}
	}
	return true
}

// writers is the order in which processes became the writers of streams.
type writers struct {
	mu  sync.Mutex // guards all; the store is locked before it
	all []takeover
}

// takeover is a change of a stream's writer.
type takeover struct {
	at            time.Time
	stream        string
	before, after string // boots; before is "" if there was none
	epoch         uint64
	requests      []string
}

// note notes a new writer record.
func (ws *writers) note(path string, before, after []byte) {
	type record struct {
		Boot  string
		Epoch uint64
		Calls []struct{ ID string }
	}
	var was, is record
	if before != nil {
		_ = json.Unmarshal(before, &was)
	}
	if err := json.Unmarshal(after, &is); err != nil {
		panic(err)
	}
	if was.Boot == is.Boot && was.Epoch == is.Epoch {
		return
	}
	t := takeover{at: time.Now(), stream: path[strings.LastIndexByte(path, '.')+1:], before: was.Boot, after: is.Boot, epoch: is.Epoch}
	for _, c := range is.Calls {
		t.requests = append(t.requests, c.ID)
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.all = append(ws.all, t)
}

func (ws *writers) list() []takeover {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return slices.Clone(ws.all)
}

// mayRun judges that a process has taken a call over before it runs it again.
func (j *judge) mayRun(r *run) {
	if j.w.office == nil {
		return
	}
	name, taken := r.request.name, 0
	for _, t := range j.writers.list() {
		if t.before != "" && t.after == r.p.boot && slices.Contains(t.requests, name) {
			taken++
		}
	}
	for _, x := range r.request.runs {
		if x.p == r.p && x.attempt > 1 {
			taken--
		}
	}
	if taken <= 0 {
		j.Fault("%s runs again on %s, which has not taken it over", name, r.p.name)
	}
}

// takeovers judges that no node took a stream from another one that was there.
func (j *judge) takeovers(all []*process) {
	boots := map[string]*process{}
	for _, p := range all {
		boots[p.boot] = p
	}
	for _, t := range j.writers.list() {
		from, to := boots[t.before], boots[t.after]
		if from == nil || from == to {
			continue
		}
		j.Count("takeovers")
		if j.couldBeGone(from, t.at.Add(-slack), t.at) {
			continue
		}
		if s := j.state(from); !s.left.IsZero() && !s.left.After(t.at) {
			j.Count("streams given up")
			continue
		}
		dead, over := j.ended[from]
		if over && !dead.at.After(t.at) {
			j.Fault("process %s takes stream %.4s of %s, whose lease is not over, at %v", to.name, t.stream, from.name, t.at.Sub(j.w.judge.Begin))
			continue
		}
		for _, name := range t.requests {
			r := j.requests[name]
			if r != nil && slices.ContainsFunc(r.runs, func(x *run) bool {
				return x.p == from && !x.began.After(t.at) && (!x.ended || x.end.at.After(t.at))
			}) {
				j.Fault("process %s takes %s of %s, which is there and runs it, at %v", to.name, name, from.name, t.at.Sub(j.w.judge.Begin))
			}
		}
	}
}
