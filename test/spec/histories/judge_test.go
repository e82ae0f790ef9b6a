package histories

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/troupe-run/troupe/test/histories"
)

// judge collects what clients and handlers have seen, and finds what must not be. It knows nothing of how the server keeps its promises. It
// does not hold the server to what a power cut may have taken back, except to the meaning of event ids.
type judge struct {
	*histories.Tape
	w *world

	mu        sync.Mutex // guards the rest
	requests  map[string]*request
	tales     map[string]*tale // by stream
	given     map[string][]string
	taken     map[string]string // the first answer that a handler got, by question
	steps     map[string]string // the results of steps that are stored, by request and name
	states    map[*process]*state
	troubles  []*trouble
	cutsAll   []powerCut
	gone      map[int]time.Time // when clients ended their sessions
	cancels   []cancel
	hearings  map[*reply]*hearing
	order     []*hearing // as they began
	news      []news
	toldAll   []toldMessage  // messages to sessions that were stored
	heardTold map[string]int // those that came
	serial    int
}

// request is what the judge knows about one request.
type request struct {
	name      string
	po        *post
	accepted  bool
	tried     bool // a client asked to cancel it
	cut       bool // the client closed its connection, which cancels it
	twice     bool // the client sent a retry twice
	forgotten bool // the client cannot ask for its response, and that is right
	runs      []*run
	via       []*process // to which rounds of it went
	finals    []time.Time
	emitted   int
	first     map[string]time.Time // when each message was sent first
	seen      map[string]bool      // messages that the client of a session has got
	gap       bool                 // the log no longer has all of them
	given     []time.Time          // when its client gave answers that were accepted
}

// run is one run of a handler.
type run struct {
	j       *judge
	serial  int
	request *request
	p       *process
	began   time.Time
	text    string // the result
	out     outcome
	end     time.Time // zero: it runs
	cause   error
}

// tale is everything that was ever seen of one stream.
type tale struct {
	request string            // "" for a standalone stream
	bytes   map[string]string // by event id
	events  []seen            // by their positions
}

type seen struct {
	pos  histories.Position
	id   string
	what string
	at   time.Time
}

func newJudge(w *world) *judge {
	return &judge{w: w, Tape: histories.NewTape(), requests: map[string]*request{}, tales: map[string]*tale{}, given: map[string][]string{}, taken: map[string]string{}, steps: map[string]string{}, states: map[*process]*state{}, gone: map[int]time.Time{}, hearings: map[*reply]*hearing{}, heardTold: map[string]int{}}
}

// posts notes a request that is about to be sent.
func (j *judge) posts(name string, po *post) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.requests[name] = &request{name: name, po: po, first: map[string]time.Time{}, seen: map[string]bool{}}
	j.Note("%s is sent", name)
}

func (j *judge) accepts(name string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.requests[name].accepted = true
}

// declines notes that the server refused a request: nothing may run, unless the store went away when its response had to become a stream.
func (j *judge) declines(name string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	r := j.requests[name]
	r.forgotten = true
	for _, x := range r.runs {
		if j.calm(x.began.Add(-settling), time.Now()) {
			j.Fault("%s is refused, and runs", name)
		}
	}
}

// abandons notes that the client cannot come back for a response.
func (j *judge) abandons(name string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.Note("%s is abandoned", name)
	j.requests[name].forgotten = true
}

// abandonsAll notes that the connection has ended that was a client's session.
func (j *judge) abandonsAll(cl *client) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, r := range j.requests {
		if r.of(cl.n) {
			r.forgotten = true
		}
	}
}

func (r *request) of(client int) bool { return strings.HasPrefix(r.name, fmt.Sprint(client, ".")) }

// tries notes that a client is about to cancel a request.
func (j *judge) tries(name string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.requests[name].tried = true
}

// cuts notes that a client is about to close a connection, which cancels its call.
func (j *judge) cuts(name string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.requests[name].cut = true
}

// repeats notes that a client is about to send a retry twice.
func (j *judge) repeats(name string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.requests[name].twice = true
}

// settled reports whether a request has its response, or needs none.
func (j *judge) settled(name string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	r := j.requests[name]
	return len(r.finals) > 0 || r.tried
}

// begin notes a run of a handler.
func (j *judge) begin(name string, attempt int, p *process) *run {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.serial++
	r := j.requests[name]
	run := &run{j: j, serial: j.serial, request: r, p: p, began: time.Now()}
	if p.dead.Load() {
		return run
	}
	j.Note("%s runs (run %d, attempt %d) on %s", name, run.serial, attempt, p.name)
	for _, x := range r.runs {
		switch {
		case j.lost(x.began):
		case j.keeps(x):
			j.Fault("%s runs again on %s, and run %d of it had returned", name, p.name, x.serial)
		case !r.po.Safe:
			j.Fault("%s runs again, which it may not", name)
		case r.cut, r.twice && slices.ContainsFunc(r.runs, j.endsEarly): // each of the nodes that get the retry of a lost call may run it
		case !j.over(x) && !j.forsaken(x):
			j.Fault("%s runs again on %s, and %s runs it or has run it", name, p.name, x.p.name)
		}
		j.Count("second runs")
	}
	for _, at := range r.finals {
		if !j.lost(at) && !r.twice {
			j.Fault("%s was answered, and runs again on %s", name, p.name)
		}
	}
	r.runs = append(r.runs, run)
	return run
}

func (j *judge) returned(r *run, out outcome, text string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	r.end, r.out, r.text = time.Now(), out, text
	if !r.p.dead.Load() {
		j.Note("run %d returns", r.serial)
	}
}

func (j *judge) failed(r *run, cause error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	r.end, r.cause = time.Now(), cause
	if r.p.dead.Load() {
		return
	}
	j.Note("run %d fails: %v", r.serial, cause)
	if strings.Contains(cause.Error(), "store unavailable") && !j.calm(r.end.Add(-settling), r.end) {
		return // it asks its client just when the store is away
	}
	if _, gone := j.gone[client0(r.request.name)]; gone && strings.Contains(cause.Error(), "the session has ended") {
		return // it was sent while the client tried to end its session
	}
	if j.kind(r.request) == "modern" && slices.ContainsFunc(r.request.runs, func(x *run) bool { return x != r && x.cause == nil }) {
		return // its client went on with another run, to which it had sent the same answers
	}
	if j.forsaken(r) || j.storedAgain(r.request) {
		return
	}
	if !j.over(r) && !r.request.tried && !r.request.cut && !r.request.forgotten && !j.waitsInVain(r.request) {
		j.Fault("%s ends on %s, which nobody took it from: %v", r.request.name, r.p.name, cause)
	}
}

// forsaken reports whether a run has ended because its client lost a process: the one that ran it, or one that passed a round on to that.
func (j *judge) forsaken(r *run) bool {
	kind := j.kind(r.request)
	left := slices.ContainsFunc(append(r.request.via, r.p), func(p *process) bool { return j.state(p).lone.After(r.began) })
	return r.cause != nil && kind != "session" && left &&
		(strings.Contains(r.cause.Error(), "the connection was closed") || kind == "sse" && strings.Contains(r.cause.Error(), "the session has ended"))
}

// goes notes that a round of a stateless call is about to go to a process.
func (j *judge) goes(name string, round int, p *process) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.Note("%s, round %d, goes to %s", name, round, p.name)
	r := j.requests[name]
	r.via = append(r.via, p)
}

// emits notes what a handler is about to send.
func (j *judge) emits(r *run, what string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	r.request.emitted++
	if _, again := r.request.first[what]; !again {
		r.request.first[what] = time.Now()
	}
}

// told notes that a handler has sent a message to its session, and what it learned of it.
func (j *judge) told(r *run, what string, began time.Time, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err == nil && !r.p.dead.Load() {
		j.Count("messages to sessions")
		j.toldAll = append(j.toldAll, toldMessage{client0(r.request.name), what, time.Now()})
	}
}

// gives notes what a client is about to answer.
func (j *judge) gives(question, answer string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.given[question] = append(j.given[question], answer)
}

// takes judges the answer that a handler gets.
func (j *judge) takes(r *run, question, answer string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if r.p.dead.Load() {
		return
	}
	j.Note("run %d is told %s", r.serial, answer)
	switch first, known := j.taken[question]; {
	case !slices.Contains(j.given[question], answer):
		j.Fault("run %d asks %s and gets %q, which nobody said", r.serial, question, answer)
	case known && first != answer && len(j.cutsAll) == 0 && !r.request.cut:
		j.Fault("run %d asks %s and is told %q; an earlier run was told %q", r.serial, question, answer, first)
	case known:
		j.Count("answers found again")
	default:
		j.taken[question] = answer
	}
}

// stored reports whether the steps of a request are stored as long as it may run again: those of a stateless call are not, until something else is.
func (j *judge) stored(r *run) bool {
	return (j.kind(r.request) == "session" || r.request.po.Task) && r.request.po.Safe && len(j.cutsAll) == 0 && !r.p.dead.Load()
}

// does judges that a handler begins a step.
func (j *judge) does(r *run, name string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if by, known := j.steps[r.request.name+"!"+name]; known && j.stored(r) {
		j.Fault("run %d of %s begins step %s, which has the result %q", r.serial, r.request.name, name, by)
	}
}

// did judges the result that a handler gets of a step.
func (j *judge) did(r *run, name, result string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.stored(r) {
		return
	}
	j.Count("steps")
	switch first, known := j.steps[r.request.name+"!"+name]; {
	case known && first != result:
		j.Fault("run %d of %s gets %q of step %s; an earlier run got %q", r.serial, r.request.name, result, name, first)
	case known:
		j.Count("steps found again")
	default:
		j.steps[r.request.name+"!"+name] = result
	}
}

// streams notes which stream answers a request.
func (j *judge) streams(id, name string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.tales[id] != nil {
		j.Fault("stream %.4s answers %s, and another request", id, name)
	}
	j.tales[id] = &tale{request: name, bytes: map[string]string{}}
}

// standalone notes the id of a client's standalone stream.
func (j *judge) standalone(id string, cl *client) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.tales[id] == nil {
		j.tales[id] = &tale{bytes: map[string]string{}}
	}
}

// event judges an event of a stream that comes after the one with the id from, "" if it is the first.
func (j *judge) event(id string, e event, from, name string) (m message) {
	j.mu.Lock()
	defer j.mu.Unlock()
	s := j.tales[id]
	m, ok := read(e.data)
	if !ok || s == nil {
		j.Fault("event %s of %s is %s", histories.Short(e.id), name, e.data)
		return m
	}
	j.Note("%s: %.140s", histories.Short(e.id), e.data)
	pos, after := histories.PositionOf(e.id), histories.PositionOf(from)
	old, known := s.bytes[e.id]
	if known && old != e.data {
		j.Fault("event %s stands for two events: %.100s and %.100s", histories.Short(e.id), old, e.data)
	}
	if !after.Before(pos) {
		j.Fault("event %s comes after %s", histories.Short(e.id), histories.Short(from))
	}
	if s.request != name || name != "" && m.Request != "" && m.Request != name || name != "" && m.Method == "" && m.ID != name {
		j.Fault("event %s on the stream of %q is of %q: %.100s", histories.Short(e.id), s.request, name, e.data)
	}
	r := j.requests[name]
	for _, x := range s.events {
		if after.Before(x.pos) && x.pos.Before(pos) && !j.lost(x.at) && (r == nil || !r.tried) {
			j.Fault("event %s comes after %s, and %s was left out", histories.Short(e.id), histories.Short(from), histories.Short(x.id))
			break
		}
	}
	if known {
		return m
	}
	s.bytes[e.id] = e.data
	j.Count("events")
	what := m.What
	if name == "" && m.Method != "notifications/message" {
		what = ""
	}
	at, _ := slices.BinarySearchFunc(s.events, pos, func(x seen, p histories.Position) int {
		if x.pos.Before(p) {
			return -1
		}
		return 1
	})
	s.events = slices.Insert(s.events, at, seen{pos, e.id, what, time.Now()})
	for i, x := range s.events {
		switch {
		case i == at || what == "" || x.what == "" || j.lost(x.at):
		case x.what == what:
			j.Fault("%s %s is event %s and event %s", name, what, histories.Short(x.id), histories.Short(e.id))
		case name != "" && x.what[0] == what[0] && what[0] != '?' && (i < at) != (number(x.what) < number(what)):
			j.Fault("%s: %s is event %s, and %s is event %s", name, x.what, histories.Short(x.id), what, histories.Short(e.id))
		}
	}
	if r != nil {
		r.seen[what] = true
		if m.Method == "" {
			j.answered(r, "event "+histories.Short(e.id), m)
		}
	}
	return m
}

// number is that of a message: 3 of m3.
func number(what string) int {
	n, _ := strconv.Atoi(what[1:])
	return n
}

// answers judges a response that did not come as an event of a log.
func (j *judge) answers(name, by, data string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	m, ok := read(data)
	r := j.requests[name]
	if !ok || r == nil || m.ID != name {
		j.Fault("%q is answered with %s", name, data)
		return
	}
	j.Note("%s is answered by %s: %.140s", name, by, data)
	j.answered(r, by, m)
}

// answered judges the response to a request.
func (j *judge) answered(r *request, by string, m message) {
	for _, at := range r.finals {
		if !j.lost(at) {
			j.Fault("%s was answered twice, the second time by %s", r.name, by)
		}
	}
	r.finals = append(r.finals, time.Now())
	j.Count("answers")
	switch {
	case m.Code == -32010:
		j.Count("calls lost")
		j.callLost(r)
	case m.Code == 1 || m.Code != 0 && len(r.runs) > 0 && r.runs[len(r.runs)-1].cause != nil:
		if !slices.ContainsFunc(r.runs, func(x *run) bool { return x.cause != nil }) {
			j.Fault("%s is answered with the error of a handler, and none failed", r.name)
		}
	case m.Code != 0:
		if !r.cut && j.calm(time.Now().Add(-settling), time.Now()) {
			j.Fault("%s is answered with error %d", r.name, m.Code)
		}
	default:
		i := slices.IndexFunc(r.runs, func(x *run) bool { return x.text == m.Text })
		if i < 0 {
			j.Fault("%s is answered with %.200s, which no run returned", r.name, m.Text)
			return
		}
		if x := r.runs[i]; strings.HasPrefix(by, "event ") && !r.gap {
			for k := range x.out.Logs {
				if what := fmt.Sprintf("m%d", k+1); !r.seen[what] {
					j.Fault("%s is answered, and %s never came", r.name, what)
					return
				}
			}
		}
	}
}

// callLost judges an error that says that a call's outcome is unknown.
func (j *judge) callLost(r *request) {
	for _, x := range r.runs {
		if j.keeps(x) {
			j.Fault("%s is said to be lost, and run %d of it had returned", r.name, x.serial)
			return
		}
		if !j.over(x) && !j.forsaken(x) && !j.storedAgain(r) && !r.cut { // what has become of one whose client lost the process, another cannot know
			j.Fault("%s is said to be lost, and %s, which runs it, was not", r.name, x.p.name)
			return
		}
	}
	if len(r.runs) == 0 && j.calm(time.Now().Add(-2*settling), time.Now()) {
		j.Fault("%s is said to be lost, and nothing was", r.name)
	}
	if n := len(r.runs); n > 0 && r.po.Safe && !r.cut && len(j.cutsAll) == 0 && !j.ownEnd(r, r.runs[n-1]) && time.Since(r.runs[n-1].began) < time.Duration(j.w.plan.Replay)/2 {
		j.Fault("%s may run again, and is said to be lost", r.name)
	}
}

// keeps reports whether what a run has returned is stored for certain, so that its client gets it whatever happens to the process.
func (j *judge) keeps(x *run) bool {
	stored := x.text != "" && j.kind(x.request) == "session" && j.calm(x.end.Add(-settling), x.end.Add(time.Second))
	return stored && len(j.cutsAll) == 0 && time.Since(x.end) < time.Duration(j.w.plan.Replay)-10*time.Second
}

// denies judges that a client is told that its session, which has just begun, cannot be had.
func (j *judge) denies(client, status int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.cutsAll) == 0 {
		j.Fault("client %d has a session, and its next message got %d", client, status)
	}
}

// ownEnd reports whether the last run of a request can end only with its process, which has left: nobody can resume its response.
func (j *judge) ownEnd(r *request, last *run) bool {
	kind := j.kind(r)
	return kind == "sse" || kind == "modern" && !j.state(last.p).left.IsZero()
}

// kind is that of the client that sent a request.
func (j *judge) kind(r *request) string { return j.w.plan.Clients[client0(r.name)].Kind }

// twins judges two responses to the same request.
func (j *judge) twins(name, one, other string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	r := j.requests[name]
	asks := func(s string) bool { return strings.Contains(s, `"requestState"`) }
	if one == "refused" || other == "refused" || asks(one) && asks(other) || r.cut || slices.ContainsFunc(r.runs, j.endsEarly) {
		return // each of the nodes that get the retry of a lost call may run it
	}
	j.Count("twins")
	j.Fault("%s sent twice has two responses: %.300s and %.300s", name, one, other)
}

// nothing judges that the server told a client that resumed from id that there is nothing more.
func (j *judge) nothing(stream, name, id string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	s, r, pos := j.tales[stream], j.requests[name], histories.PositionOf(id)
	j.Count("nothing more")
	if len(r.finals) == 0 && !r.tried && !j.over0(r) {
		j.Fault("%s came back with %s and was told that it has everything; it is not answered", name, histories.Short(id))
	}
	for _, x := range s.events {
		if pos.Before(x.pos) && !j.lost(x.at) && !r.tried {
			j.Fault("%s came back with %s and was told that nothing follows; %s does", name, histories.Short(id), histories.Short(x.id))
			return
		}
	}
}

// refuses judges that the server refused the id from which a client resumed.
func (j *judge) refuses(stream, name, id string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.Note("%q is refused with %s", name, histories.Short(id))
	j.Count("refusals")
	r, s := j.requests[name], j.tales[stream]
	if r == nil {
		return
	}
	r.gap, r.forgotten = true, true
	if len(j.cutsAll) > 0 || s == nil {
		return
	}
	oldest := time.Now() // it may have been seen long after it was stored
	for _, x := range s.events {
		if x.id != id {
			continue
		}
		oldest = x.at
		if at, known := r.first[x.what]; known && at.Before(oldest) {
			oldest = at
		}
	}
	for _, x := range r.runs {
		switch {
		case x.began.Before(oldest) && histories.PositionOf(id).Num == 0:
			oldest = x.began
		case !x.end.IsZero() && x.end.Before(oldest) && x == r.runs[len(r.runs)-1]:
			oldest = x.end
		}
	}
	if age := time.Since(oldest); age < time.Duration(j.w.plan.Replay)-5*time.Second && r.emitted+len(r.po.Steps) < j.w.plan.Appends-4 {
		j.Fault("%s came back with %s and was refused, after %v and %d messages", name, histories.Short(id), age, r.emitted)
	}
}

// gave notes that a client answered a question of a request, and with which status it was taken.
func (j *judge) gave(name, question, text string, status int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.Note("%s was answered (%s): %d", question, text, status)
	if r := j.requests[name]; r != nil && status/100 == 2 {
		r.given = append(r.given, time.Now())
	}
}

// waitsInVain reports whether a power cut may have taken an answer back. The client does not give it again, so that a later run
// waits for it as long as questions may wait.
func (j *judge) waitsInVain(r *request) bool { return slices.ContainsFunc(r.given, j.lost) }

// hangs judges that a client waited in vain.
func (j *judge) hangs(name string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if r := j.requests[name]; len(r.finals) == 0 && !r.tried && !r.forgotten && !j.waitsInVain(r) {
		j.Fault("%s is never answered", name)
	}
}

// end judges the state at the end of the history.
func (j *judge) end() {
	j.mu.Lock()
	defer j.mu.Unlock()
	for name, r := range j.requests {
		if r.accepted && len(r.finals) == 0 && !r.tried && !r.forgotten && !r.cut && !j.waitsInVain(r) {
			j.Fault("%s was accepted and has no answer", name)
		}
	}
	j.endings()
	j.heardAll()
	j.heardAllTold()
}
