package recovery

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/troupe-run/troupe/test/histories"
)

// nothing judges that the server told a client that resumed from id that there is
// nothing more.
func (j *judge) nothing(a *asking, id string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	s, pos := j.tales[a.stream], histories.PositionOf(id)
	j.Count("nothing more")
	for _, r := range s.requests {
		if len(r.finals) == 0 && !r.tried {
			j.Fault("post %s came back with %s and was told that it has everything; %s is not answered", a.name, histories.Short(id), r.name)
			return
		}
	}
	if slices.ContainsFunc(s.requests, j.storedAgain) {
		return
	}
	for _, x := range s.events {
		if pos.Before(x.pos) && !j.lost(x.at) && (x.req == nil || !x.req.tried) {
			j.Fault("post %s came back with %s and was told that nothing follows; %s does", a.name, histories.Short(id), histories.Short(x.id))
			return
		}
	}
}

// refuses judges that the server refused the id from which a client resumed.
func (j *judge) refuses(a *asking, id string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.Note("post %s is refused with %s", a.name, histories.Short(id))
	j.Count("refusals")
	s := j.tales[a.stream]
	for _, r := range s.requests {
		r.forgotten = true
	}
	if j.gone[a.n] || len(j.cuts) > 0 && !s.began.After(j.cuts[len(j.cuts)-1].at) {
		return
	}
	if !j.lives(s) {
		return
	}
	lim := &j.w.plan.Limits
	from := j.emittedAt(s, id)
	appends, bytes, visible, oldest := 0, 0, 0, time.Duration(0)
	for _, r := range s.requests {
		for _, e := range r.emitted {
			stored := e.at
			if !e.visible { // it is noted before it is sent, and the log takes it after what waits there
				stored = stored.Add(promptly)
			}
			if stored.Before(from.at) || e.at.Equal(from.at) && e.what == j.whatOf(s, id) {
				continue
			}
			appends += 1 + e.size/lim.Part
			bytes += e.size + 200
			if e.visible {
				visible++
			}
			oldest = max(oldest, j.age(e.moment))
		}
	}
	if visible > 0 && j.trouble.After(from.at) && j.age(from) > time.Duration(lim.Replay)-2*time.Second {
		return // the clock jumped over the silence in which the stream would have marked the event
	}
	if j.toldLost(s, from.at) && j.age(from) > time.Duration(lim.Replay)-2*time.Second {
		return // what it lacks may be that, and as old
	}
	aged := oldest > time.Duration(lim.Replay)-2*time.Second
	if visible > 0 && (aged || appends > lim.Appends/2 || bytes > lim.Bytes/2) {
		return
	}
	j.Fault("post %s came back with %s and was refused; what follows is %d appends, %d bytes", a.name, histories.Short(id), appends, bytes)
}

// toldLost reports whether a takeover after some time told the client that the outcome of a call is unknown.
func (j *judge) toldLost(s *streamTale, after time.Time) bool {
	for _, r := range s.requests {
		for _, run := range r.runs {
			if end, over := j.over(run); over && !r.call.Safe && end.at.After(after) && !(run.ended && run.end.at.Before(end.at)) {
				return true
			}
		}
	}
	return false
}

// lives reports whether a stream must still exist: a call of it runs, or ran within the
// time for which events are kept.
func (j *judge) lives(s *streamTale) bool {
	var last moment
	for _, r := range s.requests {
		for _, run := range r.runs {
			end, over := j.over(run)
			switch {
			case !run.ended && !over && j.w.office == nil:
				return true
			case !run.ended && !over: // another node goes by the record
				end = j.now()
			case run.ended && (!over || run.end.at.Before(end.at)):
				end = run.end
			}
			if end.at.After(last.at) {
				last = end
			}
		}
	}
	return j.renewed(last.at) && j.age(last) < time.Duration(j.w.plan.Limits.Replay)-2*time.Second
}

// whatOf returns what the event with that id stood for.
func (j *judge) whatOf(s *streamTale, id string) string {
	if i := slices.IndexFunc(s.events, func(x seen) bool { return x.id == id }); i >= 0 {
		return s.events[i].what
	}
	return ""
}

// emittedAt returns when a handler sent what the event with that id stands for: the
// zero time if no handler did.
func (j *judge) emittedAt(s *streamTale, id string) (at moment) {
	what := j.whatOf(s, id)
	if what == "" {
		return at
	}
	for _, r := range s.requests {
		for _, e := range r.emitted {
			if e.what == what {
				return e.moment
			}
		}
	}
	return at
}

// promptly is how soon an event comes over a connection when nothing is wrong but that the store is slow, and how long
// before that nothing must have been wrong.
const promptly, before = 40 * time.Second, 20 * time.Second

// comes judges when an event comes over a connection that was opened at some time.
func (j *judge) comes(stream string, e event, opened time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	s := j.tales[stream]
	sent := j.emittedAt(s, e.id).at
	what := j.whatOf(s, e.id)
	for _, r := range s.requests {
		for _, x := range r.emitted { // the run before may have sent the same, and it was lost with that
			if by := fmt.Appendf(nil, `"run":%d`, x.run); x.run > 0 && x.what == what && (bytes.Contains(e.data, append(by, ',')) || bytes.Contains(e.data, append(by, '}'))) {
				sent = x.at
			}
		}
	}
	if m, ok := read(e.data); ok && m.Method == "" && j.requests[m.ID] != nil {
		for _, run := range j.requests[m.ID].runs {
			if run.result == m.Result {
				sent = run.end.at
			}
		}
	}
	if sent.IsZero() || j.w.office == nil || !j.w.plan.Letters.sure() {
		return
	}
	if opened.After(sent) {
		sent = opened
	}
	if time.Since(sent) > promptly+j.backlog(s, sent) && j.calm(sent.Add(-before)) {
		j.Fault("event %s comes %v after it was sent, over a connection that is there", histories.Short(e.id), time.Since(sent))
	}
}

// backlog is how much longer than promptly it may take to store all that was sent on a stream in the minute before.
func (j *judge) backlog(s *streamTale, sent time.Time) (d time.Duration) {
	for _, r := range s.requests {
		for _, e := range r.emitted {
			if !e.at.After(sent) && sent.Sub(e.at) < time.Minute {
				d += time.Duration(1+e.size/j.w.plan.Limits.Part) * perAppend
			}
		}
	}
	return d
}

// perAppend is how long an append takes on average: some are slow, and some are not acknowledged.
const perAppend = 100 * time.Millisecond

// hangs judges that a client waited in vain.
func (j *judge) hangs(a *asking) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, name := range a.requests {
		r := j.requests[name]
		if len(r.finals) == 0 && !r.tried && !r.forgotten {
			j.Fault("%s is never answered", name)
		}
	}
}

// end judges the state at the end of the history.
func (j *judge) end() {
	all := j.w.processes()
	j.mu.Lock()
	defer j.mu.Unlock()
	for name, r := range j.requests {
		if r.accepted && len(r.finals) == 0 && !r.tried && !r.forgotten {
			j.Fault("%s was accepted and has no answer", name)
		}
	}
	j.takeovers(all)
	j.endings()
}
