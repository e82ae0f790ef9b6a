package histories

import (
	"fmt"
	"slices"
	"time"

	"github.com/troupe-run/troupe/test/histories"
)

// state is what the judge knows of a process.
type state struct {
	left, ended time.Time // when it began to leave in order, and when it had ended or was killed
	away        int       // cuts under way
	cut         *trouble  // the one under way
	lone        time.Time // when it last lost its clients
}

// trouble is a time in which something did not work.
type trouble struct {
	p    *process // nil: of all
	from time.Time
	to   time.Time // zero: it goes on
	soft bool      // it takes nobody's lease
}

func (x *trouble) until() time.Time {
	if x.to.IsZero() {
		return time.Now()
	}
	return x.to
}

type powerCut struct{ from, at time.Time }

func (j *judge) state(p *process) *state {
	s := j.states[p]
	if s == nil {
		s = &state{}
		j.states[p] = s
	}
	return s
}

// settles forgets the trouble of the beginning.
func (j *judge) settles() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.troubles = nil
}

// starts notes that a process serves.
func (j *judge) starts(p *process) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.Note("process %s starts", p.name)
	j.troubles = append(j.troubles, &trouble{p: p, from: time.Now(), to: time.Now()})
}

// leaves notes that a process begins to end in order.
func (j *judge) leaves(p *process) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.Note("process %s leaves", p.name)
	if s := j.state(p); s.left.IsZero() {
		s.left = time.Now()
	}
	j.troubles = append(j.troubles, &trouble{p: p, from: time.Now(), to: time.Now()})
}

// ends notes that a process has ended, or is about to be killed. The store knows that at most a lease later.
func (j *judge) ends(p *process) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if s := j.state(p); s.ended.IsZero() {
		s.ended = time.Now()
		j.Note("process %s ends", p.name)
	}
	j.troubles = append(j.troubles, &trouble{p: p, from: time.Now(), to: time.Now().Add(lease)})
}

// away notes that a process is cut off from now on (1), or no more (-1). It reports whether it was the last cut.
func (j *judge) away(p *process, by int) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	s := j.state(p)
	if s.away += by; by > 0 && s.away == 1 {
		s.cut = &trouble{p: p, from: time.Now()}
		j.troubles = append(j.troubles, s.cut)
	}
	if s.away == 0 {
		s.cut.to = time.Now()
	}
	return s.away == 0
}

// disturbed notes that messages to a process may be lost until over is called.
func (j *judge) disturbed(p *process) (over func()) {
	x := &trouble{p: p, from: time.Now(), soft: true}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.troubles = append(j.troubles, x)
	return func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		x.to = time.Now()
	}
}

// isolated notes that a process loses its clients.
func (j *judge) isolated(p *process) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.state(p).lone = time.Now()
}

func (j *judge) isAway(p *process) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.state(p).away > 0
}

// outage notes that no process reaches the store from now on (1), or no more (-1).
func (j *judge) outage(by int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if by > 0 {
		j.troubles = append(j.troubles, &trouble{from: time.Now()})
		return
	}
	for _, x := range j.troubles {
		if x.p == nil && x.to.IsZero() {
			x.to = time.Now()
			return
		}
	}
}

// cut notes a power cut, which may lose what was written since a time.
func (j *judge) cut(from time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.cutsAll = append(j.cutsAll, powerCut{from, time.Now()})
	j.Count("power cuts")
}

// lost reports whether a power cut may have taken back the state of a time.
func (j *judge) lost(at time.Time) bool {
	for _, c := range j.cutsAll {
		if c.from.Add(-time.Second).Before(at) && !at.After(c.at) {
			return true
		}
	}
	return false
}

// over reports whether the effects of a run may count no longer: its process has ended or gave up what it had, or others could take it
// for dead, which they may not after what has kept all of them from the store. Entries are renewed each second, so that one may expire a second less than a lease after the last.
func (j *judge) over(r *run) bool {
	s := j.state(r.p)
	if !s.ended.IsZero() || !s.left.IsZero() || j.lost(r.began) {
		return true
	}
	return j.wasSilent(r, lease-2*time.Second)
}

// endsEarly reports whether a run may not be known any more where it ran, or counts no longer.
func (j *judge) endsEarly(r *run) bool { return j.over(r) || j.forsaken(r) }

// wasSilent reports whether the process of a run was away since it began, for longer than d in all.
func (j *judge) wasSilent(r *run, d time.Duration) bool {
	return j.lasted(r.p, r.began, d)
}

// lasted reports whether a process was away, or all were if it is nil, for longer than d in all, and still so after a time.
func (j *judge) lasted(p *process, after time.Time, d time.Duration) bool {
	return slices.ContainsFunc(j.troubles, func(x *trouble) bool {
		if x.soft || x.p != p {
			return false
		}
		from, to := j.silence(x)
		return to.After(after) && to.Sub(from) > d
	})
}

// silence is for how long the store may not have heard of a process that was away, with the outages just before and after that: it takes up to two seconds to
// reach the store again.
func (j *judge) silence(x *trouble) (from, to time.Time) {
	const reconnect = 2 * time.Second
	from, to = x.from, x.until()
	for again := true; again; {
		again = false
		for _, y := range j.troubles {
			if y.soft || y.p != nil && y.p != x.p || y.from.After(to.Add(reconnect)) || y.until().Before(from.Add(-reconnect)) {
				continue
			}
			if y.from.Before(from) {
				from, again = y.from, true
			}
			if end := y.until(); end.After(to) {
				to, again = end, true
			}
		}
	}
	return from, to
}

// storedAgain reports whether a process that ran a request was away for so long that the store may have forgotten the record of its stream, and that of who took
// the stream over. When it is back it cannot know of that: it stores the stream again, and says that the call is lost. So it does if all were away for as long,
// and others have ever taken streams of it over.
func (j *judge) storedAgain(r *request) bool {
	records := time.Duration(j.w.plan.Replay) // they live for a third more
	return slices.ContainsFunc(r.runs, func(x *run) bool {
		return j.wasSilent(x, records) || j.lasted(nil, x.began, records) && j.lasted(x.p, time.Time{}, lease-2*time.Second)
	})
}

// over0 reports whether any run of a request may count no longer.
func (j *judge) over0(r *request) bool {
	for _, x := range r.runs {
		if j.over(x) {
			return true
		}
	}
	return false
}

// calm reports whether nothing was wrong with any process or the store at a time. mu is held.
func (j *judge) calm(from, to time.Time) bool {
	for _, x := range j.troubles {
		if !x.from.After(to) && !x.until().Before(from) {
			return false
		}
	}
	return true
}

// calmly is calm for those who do not hold mu, from some time before a request until now.
func (j *judge) calmly(began time.Time) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.calm(began.Add(-settling), time.Now())
}

// calmAfter is when the trouble after a time was over: zero if it is not.
func (j *judge) calmAfter(at time.Time) time.Time {
	end := at
	for _, x := range j.troubles {
		if x.to.IsZero() {
			return time.Time{}
		}
		if x.to.After(end) {
			end = x.to
		}
	}
	return end
}

// calmOf is when the trouble of one process that lasted at a time was over.
func (j *judge) calmOf(p *process, at time.Time) time.Time {
	end := at
	for _, x := range j.troubles {
		if (x.p == p || x.p == nil) && !x.from.After(at.Add(settling)) && x.until().After(end) {
			end = x.until()
		}
	}
	return end
}

// served judges that a request got no response, or was refused, though nothing was wrong.
func (j *judge) served(c *reply, what string) {
	if c.p == nil {
		return
	}
	switch {
	case c.status != 0 && !c.refused(), c.mine.Load(), histories.Closed(j.w.over):
	case !j.calmly(c.began):
	case c.status == 0:
		j.Fault("%s to %s got no response, and nothing was wrong, after %v", what, c.p.name, time.Since(c.began))
	default:
		j.Fault("%s is refused by %s, and nothing was wrong: %d %s", what, c.p.name, c.status, c.body)
	}
}

// stops judges that a connection broke though nothing was wrong.
func (j *judge) stops(c *reply, what string) {
	if !c.ended && !c.mine.Load() && !histories.Closed(j.w.over) && j.calmly(time.Now()) {
		j.Fault("%s over %s breaks, and nothing was wrong", what, c.p.name)
	}
}

// hollow judges that the response of a stateless request ended without a response.
func (j *judge) hollow(c *reply, request string) {
	if !c.mine.Load() && !histories.Closed(j.w.over) && j.calmly(time.Now()) {
		j.Fault("the response of %s over %s ends without one", request, c.p.name)
	}
}

// unknown judges that a client's session is unknown.
func (j *judge) unknown(cl *client, method string, c *reply) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, ended := j.gone[cl.n]; !ended && len(j.cutsAll) == 0 {
		j.Fault("%s: the session of client %d is unknown at %s", method, cl.n, c.p.name)
	}
	for _, r := range j.requests {
		if r.of(cl.n) {
			r.forgotten = true
		}
	}
}

// gone judges that a task is unknown.
func (j *judge) taskGone(request string, c *reply) {
	j.mu.Lock()
	defer j.mu.Unlock()
	r := j.requests[request]
	r.forgotten = true
	if _, ended := j.gone[client0(request)]; !ended && len(j.cutsAll) == 0 {
		j.Fault("the task of %s is unknown at %s: %d %s", request, c.p.name, c.status, c.body)
	}
}

func client0(request string) (n int) {
	_, _ = fmt.Sscanf(request, "%d.", &n)
	return n
}

// cancel is a cancel that a process accepted, of a call or of all calls of a session.
type cancel struct {
	request string // "" for all
	client  int
	p       *process
	at      time.Time
}

func (j *judge) cancelled(request string, c *reply) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.Note("%s is cancelled at %s", request, c.p.name)
	j.Count("cancels")
	j.cancels = append(j.cancels, cancel{request, client0(request), c.p, time.Now()})
}

// deletes ends the session.
func (cl *client) deletes() {
	if !cl.Pause(time.Duration(cl.plan.Delete)) {
		return
	}
	j := cl.w.judge
	j.mu.Lock()
	j.Note("client %d ends its session", cl.n)
	j.gone[cl.n] = time.Now()
	for _, r := range j.requests {
		if r.of(cl.n) {
			r.tried, r.forgotten = true, true
		}
	}
	j.mu.Unlock()
	for !cl.Over() {
		c := cl.w.send(cl.Reach(), "DELETE", "/mcp", "", "Mcp-Session-Id", cl.Session())
		if c.status == 200 || c.status == 404 {
			j.mu.Lock()
			j.Count("sessions ended")
			j.cancels = append(j.cancels, cancel{"", cl.n, c.p, time.Now()})
			j.mu.Unlock()
			break
		}
		cl.Pause(500 * time.Millisecond)
	}
	ended := time.Now()
	cl.Pause(3 * time.Second)
	for range 3 {
		c := cl.post(cl.Reach(), `{"jsonrpc":"2.0","id":"late","method":"ping"}`)
		if c.status != 0 && c.status != 404 && !c.refused() && j.calmly(ended) && len(j.cutsAll) == 0 {
			j.Fault("%s serves client %d, whose session has ended: %d %s", c.p.name, cl.n, c.status, c.body)
		}
	}
}

// endings judges that calls ended that were cancelled, or whose session was ended, where they ran.
func (j *judge) endings() {
	for _, c := range j.cancels {
		if !j.calm(c.at.Add(-settling), c.at.Add(2*time.Second)) {
			continue
		}
		for _, r := range j.requests {
			if c.request != r.name && (c.request != "" || !r.of(c.client) || r.po.Task) {
				continue
			}
			for _, x := range r.runs {
				if x.began.After(c.at) || !x.end.IsZero() && x.end.Before(c.at) {
					continue
				}
				j.Count("calls cancelled")
				if x.end.IsZero() || x.end.After(c.at.Add(2*time.Second)) {
					j.Fault("%s was cancelled at %s, and runs on on %s", r.name, c.p.name, x.p.name)
				}
			}
		}
	}
}
