package recovery

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/histories"
)

// judge collects what clients and handlers have seen, and finds what must not be. It
// knows nothing of how the server keeps its promises. It does not hold the server to
// what a power cut may have taken back, except to the meaning of event ids.
type judge struct {
	*histories.Tape
	w       *world
	writers writers

	mu        sync.Mutex // guards the rest
	requests  map[string]*request
	tales     map[string]*streamTale
	given     map[string][]string // answers by question
	accepted  map[string]answered // by question
	taken     map[string]taken    // the first answer that a handler got, by question
	ended     map[*process]moment // when the effects of a process ceased to count
	states    map[*process]*state
	gone      map[int]bool     // clients that end their sessions
	hearings  map[int]*hearing // by client
	cancels   []cancel
	deletions []deletion
	cuts      []cutOff
	trouble   time.Time // the last time at which the store was away, full or at another time
	away      int       // how many of these hold now
	serial    int
}

// moment is a time on both clocks.
type moment struct{ at, store time.Time }

// cutOff is a power cut, which may lose what was written from..at.
type cutOff struct{ from, at time.Time }

type taken struct {
	what string
	at   time.Time
}

// request is what the judge knows about one request.
type request struct {
	name      string
	call      *call
	accepted  bool
	tried     bool      // a client asked to cancel it
	cancelled time.Time // when it was, for certain
	finals    []final
	runs      []*run
	emitted   []emission
	forgotten bool // the client cannot ask for its response any more, and that is right
	input     int  // bytes of answers
}

type final struct {
	id string // of the event
	at time.Time
}

// emission is something that a handler sent to the client, or got from it.
type emission struct {
	what string
	moment
	size    int
	visible bool
	run     int // by its serial, of a message
}

// run is one run of a handler.
type run struct {
	j       *judge
	serial  int
	request *request
	p       *process
	attempt int
	began   time.Time
	result  string
	ended   bool
	end     moment
	cause   error
}

// streamTale is everything that was ever seen of one stream.
type streamTale struct {
	requests   []*request
	standalone bool
	bytes      map[string]string // by event id
	events     []seen            // by their positions
	began      time.Time
}

type seen struct {
	pos  histories.Position
	id   string
	what string // request and content, "" if nothing distinguishes it from others
	req  *request
	at   time.Time
}

// message is the part of an event that the judge reads.
type message struct {
	ID, Method, Request, What string
	Code                      int
	Result                    string
}

func newJudge(w *world) *judge {
	return &judge{w: w, Tape: histories.NewTape(), requests: map[string]*request{}, tales: map[string]*streamTale{}, given: map[string][]string{}, accepted: map[string]answered{}, taken: map[string]taken{}, ended: map[*process]moment{}, states: map[*process]*state{}, gone: map[int]bool{}, hearings: map[int]*hearing{}}
}

func (j *judge) now() moment { return moment{time.Now(), j.w.disk.Now()} }

// age returns how old the store may think something of moment m is: its clock may have
// gone back before the store got it.
func (j *judge) age(m moment) time.Duration {
	return max(time.Since(m.at), j.w.disk.Now().Sub(m.store))
}

// lost reports whether a power cut may have taken back the state of a time.
func (j *judge) lost(at time.Time) bool {
	return slices.ContainsFunc(j.cuts, func(c cutOff) bool { return c.from.Before(at) && !at.After(c.at) })
}

func (j *judge) cut(from time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.cuts = append(j.cuts, cutOff{from, time.Now()})
	j.Count("power cuts")
	j.trouble = time.Now()
}

// unrenewed notes that records may not be renewed as they should: from now on (1), until
// now (-1), or just now (0).
func (j *judge) unrenewed(by int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.trouble = time.Now()
	j.away += by
}

// renewed reports whether records that had to be renewed at a time, and as often before
// that, were renewed.
func (j *judge) renewed(at time.Time) bool {
	return j.away == 0 && j.trouble.Before(at.Add(-j.w.plan.recordTTL()))
}

// ends says that the effects of the process count no longer: it is about to die, or
// another process takes its place.
func (j *judge) ends(p *process) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, ok := j.ended[p]; !ok {
		j.ended[p] = j.now()
		j.Note("process %s ends", p.name)
	}
}

// counts reports whether the effects of a process count.
func (j *judge) counts(p *process) bool {
	_, over := j.ended[p]
	return !over
}

// posts notes requests that are about to be sent.
func (j *judge) posts(names []string, calls []call) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for i, name := range names {
		r := &request{name: name, call: &calls[i]}
		for client := range j.gone {
			if j.isOf(r, client) {
				r.tried, r.forgotten = true, true
			}
		}
		j.requests[name] = r
	}
	j.Note("%v are sent", names)
}

func (j *judge) accepts(names []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, name := range names {
		j.requests[name].accepted = true
	}
}

// abandons notes that the client cannot come back for the responses.
func (j *judge) abandons(names []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, name := range names {
		j.requests[name].forgotten = true
	}
}

// forgets judges that a client's session is unknown.
func (j *judge) forgets(cl *client) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.cuts) == 0 && !j.gone[cl.n] {
		j.Fault("the session of client %d is unknown", cl.n)
	}
	prefix := strconv.Itoa(cl.n) + "."
	for name, r := range j.requests {
		if strings.HasPrefix(name, prefix) {
			r.forgotten = true
		}
	}
}

// tries notes that a client is about to cancel a request.
func (j *judge) tries(name string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.requests[name].tried = true
}

// cancelled notes that the server accepted the cancel.
func (j *judge) cancelled(name string, p *process, took time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	r := j.requests[name]
	j.Note("%s is cancelled, after %v", name, took)
	if p != nil && took < soon {
		j.cancels = append(j.cancels, cancel{r, p, time.Now()})
	}
	if took > 4*time.Second || p == nil || !j.counts(p) {
		return // it may not have reached the log
	}
	for _, run := range r.runs {
		if _, over := j.over(run); run.p == p && !over && (!run.ended || errors.Is(run.cause, actors.ErrCancelled)) {
			r.cancelled = time.Now()
			j.Count("cancels")
		}
	}
}

// begin notes a run of a handler.
func (j *judge) begin(name string, attempt int, p *process) *run {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.serial++
	r := j.requests[name]
	run := &run{j: j, serial: j.serial, request: r, p: p, attempt: attempt, began: time.Now()}
	if !j.counts(p) {
		return run
	}
	j.Note("%s runs (run %d, attempt %d) on %s", name, run.serial, attempt, p.name)
	if len(r.runs) > 0 {
		switch {
		case !r.call.Safe:
			j.Fault("%s runs again, which it may not", name)
		case !r.cancelled.IsZero() && !j.lost(r.cancelled) && !j.late(p):
			j.Fault("%s was cancelled and runs again", name)
		}
		for _, f := range r.finals {
			if !j.lost(f.at) && !j.late(p) {
				j.Fault("%s was answered with %s and runs again", name, histories.Short(f.id))
			}
		}
	}
	if attempt > 1 {
		j.mayRun(run)
	}
	if r.runs = append(r.runs, run); len(r.runs) > 1 {
		j.Count("second runs")
	}
	return run
}

func (j *judge) returned(r *run, result string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	r.ended, r.end, r.result = true, j.now(), result
	if !r.p.dead.Load() {
		j.Note("run %d returns", r.serial)
		r.request.emitted = append(r.request.emitted, emission{"final", r.end, len(result), true, 0})
	}
}

func (j *judge) failed(r *run, cause error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	r.ended, r.end, r.cause, r.result = true, j.now(), cause, "error"
	if r.p.dead.Load() {
		return
	}
	j.Note("run %d fails: %v", r.serial, cause)
	r.request.emitted = append(r.request.emitted, emission{"final", r.end, 100, true, 0})
	if _, over := j.over(r); !over && errors.Is(cause, actors.ErrStreamLost) && r.request.accepted {
		j.Fault("%s runs on %s, which nobody took it from, and was lost: %v", r.request.name, r.p.name, cause)
	}
}

// emits notes what a handler is about to send.
func (j *judge) emits(r *run, what string, size int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !r.p.dead.Load() { // a process that was cut off may still store it later
		r.request.emitted = append(r.request.emitted, emission{r.request.name + " " + what, j.now(), size, true, r.serial})
	}
}

// gives notes what a client is about to answer.
func (j *judge) gives(request, what, answer string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.given[what] = append(j.given[what], answer)
	r := j.requests[request]
	r.emitted = append(r.emitted, emission{"answer", j.now(), len(answer), false, 0})
	r.input += len(answer)
}

// takes judges the answer that a handler gets.
func (j *judge) takes(r *run, what, answer string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.counts(r.p) {
		return
	}
	var got response
	_ = json.Unmarshal([]byte(answer), &got)
	j.Note("run %d is told %d for %s", r.serial, got.N, what)
	switch first, known := j.taken[what]; {
	case got.To != what:
		j.Fault("run %d asks %s and gets the answer to %s", r.serial, what, got.To)
	case !slices.Contains(j.given[what], answer):
		j.Fault("run %d asks %s and gets %.60s, which nobody said", r.serial, what, answer)
	case known && first.what != answer && !j.lost(first.at):
		j.Fault("run %d asks %s and is told %.60s; an earlier run was told %.60s", r.serial, what, answer, first.what)
	case known && first.what == answer:
		j.Count("answers found again")
	default:
		j.taken[what] = taken{answer, time.Now()}
	}
}

// answered is when a question came to its client, and when an answer to it was accepted.
type answered struct{ asked, at time.Time }

// gave notes that a process has accepted an answer to a question that came at asked.
func (j *judge) gave(what string, asked time.Time, p *process) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, known := j.accepted[what]; !known && j.counts(p) {
		j.accepted[what] = answered{asked, time.Now()}
	}
}

// unanswered judges that a handler is told that its questions were not answered.
func (j *judge) unanswered(r *run, since time.Time, whats []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, over := j.over(r); over || !j.counts(r.p) {
		return
	}
	for _, what := range whats {
		a, ok := j.accepted[what]
		if !ok || a.at.Before(since) || j.lost(a.at) || j.lost(a.asked) { // it may not have been for this run, which has asked again
			return
		}
	}
	j.Fault("run %d is told that nobody answers %v; all were answered", r.serial, whats)
}

// inVain judges that no process took an answer for a while.
func (j *judge) inVain(what string, since time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.w.office != nil && j.calm(since.Add(-slack)) && j.w.plan.Letters.sure() {
		j.Fault("the answer to %s is taken nowhere", what)
	}
}

// streams notes which stream answers requests.
func (j *judge) streams(id string, names []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.tales[id] != nil {
		j.Fault("stream %.4s answers %v, and other requests", id, names)
	}
	s := &streamTale{bytes: map[string]string{}, began: time.Now()}
	for _, name := range names {
		s.requests = append(s.requests, j.requests[name])
	}
	j.tales[id] = s
}

// primes judges a priming event.
func (j *judge) primes(id, event, from string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if from != "" && event != from {
		j.Fault("a stream resumed with %s is primed with %s", histories.Short(from), histories.Short(event))
	}
}

// event judges an event that comes after the one from, "" if it is the first.
func (j *judge) event(id string, e event, from string) (m message) {
	j.mu.Lock()
	defer j.mu.Unlock()
	s := j.tales[id]
	m, ok := read(e.data)
	if !ok {
		j.Fault("event %s is %s", histories.Short(e.id), e.data)
		return m
	}
	if !strings.HasPrefix(e.id, id+".") {
		j.Fault("event %s on stream %.4s", histories.Short(e.id), id)
		return m
	}
	j.Note("%s: %.100s", histories.Short(e.id), e.data)
	pos, after := histories.PositionOf(e.id), histories.PositionOf(from)
	if old, known := s.bytes[e.id]; known && old != string(e.data) {
		j.Fault("event %s stands for two events: %.100s and %.100s", histories.Short(e.id), old, e.data)
	}
	if !after.Before(pos) {
		j.Fault("event %s comes after %s", histories.Short(e.id), histories.Short(from))
	}
	r := j.requests[m.Request]
	if m.Method == "" {
		r = j.requests[m.ID]
	}
	if r != nil && !s.standalone && !slices.Contains(s.requests, r) {
		j.Fault("event %s is of %s, which has another stream", histories.Short(e.id), r.name)
	}
	j.skips(s, after, pos, e.id)
	what := ""
	if r != nil && m.Method != "" {
		what = r.name + " " + m.What
	}
	if _, known := s.bytes[e.id]; !known {
		s.bytes[e.id] = string(e.data)
		j.Count("events")
		for _, old := range s.events {
			if what != "" && old.what == what && !j.lost(old.at) {
				j.Fault("%s was event %s and is event %s", what, histories.Short(old.id), histories.Short(e.id))
			}
		}
		at, _ := slices.BinarySearchFunc(s.events, pos, func(x seen, p histories.Position) int {
			if x.pos.Before(p) {
				return -1
			}
			return 1
		})
		s.events = slices.Insert(s.events, at, seen{pos, e.id, what, r, time.Now()})
		j.inOrder(s, at)
		if m.Method == "" && r != nil {
			j.answers(r, e.id, m)
		}
	}
	return m
}

// skips judges that nothing is left out between two events.
func (j *judge) skips(s *streamTale, after, pos histories.Position, id string) {
	if slices.ContainsFunc(s.requests, j.storedAgain) {
		return
	}
	for _, x := range s.events {
		if after.Before(x.pos) && x.pos.Before(pos) && !j.lost(x.at) && (x.req == nil || !x.req.tried) {
			j.Fault("event %s comes after %d.%d, and %s was left out", histories.Short(id), after.Num, after.K, histories.Short(x.id))
			return
		}
	}
}

// answers judges the response to a request.
func (j *judge) answers(r *request, id string, m message) {
	again := m.Code == mcp.CodeCallLost && j.storedAgain(r)
	for _, f := range r.finals {
		if !j.lost(f.at) && !again {
			j.Fault("%s was answered twice, by %s and %s", r.name, histories.Short(f.id), histories.Short(id))
		}
	}
	r.finals = append(r.finals, final{id, time.Now()})
	j.Count("answers")
	if !r.cancelled.IsZero() && !j.lost(r.cancelled) && !again {
		j.Fault("%s was cancelled and is answered by %s", r.name, histories.Short(id))
	}
	switch {
	case m.Code == mcp.CodeCallLost:
		j.Count("calls lost")
		j.callLost(r)
	case m.Code != 0:
		if !slices.ContainsFunc(r.runs, func(run *run) bool { return run.cause != nil }) {
			j.Fault("%s is answered with error %d, and no run failed", r.name, m.Code)
		}
	default:
		if !slices.ContainsFunc(r.runs, func(run *run) bool { return run.result == m.Result }) {
			j.Fault("%s is answered with %.200s, which no run returned", r.name, m.Result)
		}
	}
}

// callLost judges an error that says that a call's outcome is unknown.
func (j *judge) callLost(r *request) {
	var end moment // of the newest process that ran it
	for _, run := range r.runs {
		if e, over := j.over(run); !over {
			if !j.doubtful(r) {
				j.Fault("%s is said to be lost, and the process that runs it was not", r.name)
			}
			return
		} else if e.at.After(end.at) {
			end = e
		}
	}
	if !r.call.Safe || len(j.cuts) > 0 || r.input > 30<<10 {
		return
	}
	replay := time.Duration(j.w.plan.Limits.Replay)
	if j.renewed(end.at) && j.age(end) < replay/2 {
		j.Fault("%s may run again, and is said to be lost", r.name)
	}
}

// plain judges a response that came without a stream.
func (j *judge) plain(raw json.RawMessage, names []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	m, ok := read(raw)
	r := j.requests[m.ID]
	if !ok || r == nil || !slices.Contains(names, m.ID) {
		j.Fault("%v were answered with %s", names, raw)
		return
	}
	j.Note("%s is answered at once", r.name)
	j.answers(r, "plain", m)
}

func read(data []byte) (m message, ok bool) {
	var raw struct {
		ID     string
		Method string
		Params struct{ Request, What string }
		Result json.RawMessage
		Error  *struct{ Code int }
	}
	if err := json.Unmarshal(data, &raw); err != nil {
		return m, false
	}
	m = message{ID: raw.ID, Method: raw.Method, Request: raw.Params.Request, What: raw.Params.What, Result: string(raw.Result)}
	if raw.Error != nil {
		m.Code = raw.Error.Code
	}
	return m, true
}
