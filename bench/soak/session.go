package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/troupe-run/troupe/bench/client"
)

// Revisions with sessions. Only the newest has priming events, for which openStandalone waits, and
// tasks.
const (
	batching = "2025-03-26" // has no questions
	middle   = "2025-06-18"
	primed   = client.Revision
)

// session is a client with a session, which lives across all rounds or comes and goes.
type session struct {
	visitor
	revision string
	c        *client.Client
	rt       http.RoundTripper
	own      *standalone
	asked    bool // one question is never answered

	mu   sync.Mutex  // guards the rest
	open []*exchange // not answered yet
	done []*exchange // answered in this round or one of the last

	aside sync.WaitGroup // cancels of its calls, and answers to their questions
}

func newSession(w *world, n int, revision, url string, rt http.RoundTripper) *session {
	v := &session{visitor: visitor{w: w, kind: "client", n: n, rng: w.rngFor(uint64(n+1) << 16)}, revision: revision, rt: rt}
	v.c = client.New(url, rt)
	return v
}

// begin opens the session, and its own stream on which it is told of its resource.
func (v *session) begin() error {
	capabilities := `{"elicitation":{}}`
	if v.revision == batching {
		capabilities = `{}`
	}
	if err := v.c.BeginSessionAs(v.w.ctx, v.revision, capabilities); err != nil || v.revision != primed || !v.wants(ofUpdates) {
		return err
	}
	if err := answeredWith("")(v.c.SendRequest(v.w.ctx, v.newID(), "resources/subscribe", `{"uri":"`+v.resource()+`"}`)); err != nil {
		return err
	}
	return v.openStandalone()
}

// tryRequest makes a request and returns its answer. It is not answered where it may have failed,
// as the nodes are harmed.
func (v *session) tryRequest(method, params string) (body string, answered bool) {
	boot, starting := v.w.currentBoot()
	id := v.newID()
	a, err := v.c.SendRequest(v.w.ctx, id, method, params)
	if err == nil {
		body, err = lastOf(a)
	}
	switch {
	case err != nil && !v.w.mayFail(boot, starting):
		v.accuse(nil, "%s %.200s failed and nobody was killed: %v", method, params, err)
	case err == nil && (a.Status != http.StatusOK || !strings.HasPrefix(body, `{"jsonrpc":"2.0","id":`+id+`,`)):
		v.accuse(nil, "%s %.200s got %d %.1000s", method, params, a.Status, body)
	}
	return body, err == nil
}

// startRound starts what the session does in a round whose harm comes after a time. All of it has
// been started when window is over, but that plain calls, and short sessions and streams beside
// them, go on while nodes are restarted in turn.
func (v *session) startRound(after, window time.Duration) {
	v.rng = v.w.rngFor(uint64(v.n+1) << 16)
	rng, harm := v.rng, v.w.harm.Load().(string)
	var plan []*exchange
	if v.wants(ofStreams) {
		for range 2 + rng.IntN(3) {
			plan = append(plan, v.newCounting(rng))
		}
		if rng.IntN(4) == 0 {
			x := v.newCounting(rng)
			x.cancelAfter = time.Duration(1+rng.IntN(800)) * time.Millisecond
			plan = append(plan, x)
		}
		if rng.IntN(8) == 0 && v.w.fleet == nil && harm != byPause { // while a node stands still, the log forgets what the client has not read
			plan = append(plan, v.newLong(rng, v.newCount(1500+rng.IntN(1500), 1, ""))) // further than the log reaches back
		}
		for n := rng.IntN(4); v.revision == batching && n < 5; n++ {
			x := v.newExchange(rng, v.newSome(rng, 1+rng.IntN(4))...)
			x.isBatch = true
			plan = append(plan, x)
		}
	}
	if v.wants(ofCalls) {
		plan = append(plan, v.newExchange(rng, v.newSleep(rng)))
	}
	for range 1 + rng.IntN(2) {
		if v.wants(ofAsks) && v.revision != batching {
			plan = append(plan, v.newAsking(rng))
		}
	}
	for _, x := range plan {
		v.doWithin(window, func() { v.placeCall(x) })
	}
	if s := v.own; s != nil {
		v.doWithin(after/2+150*time.Millisecond, func() { s.placeTick(rand.New(rand.NewPCG(uint64(v.n), uint64(v.w.round.Load())))) })
		for range 1 + rng.IntN(3) {
			v.doWithin(window, s.touchResource)
		}
	}
	if v.isCalm() && v.revision == primed {
		v.doWithin(window, v.runTask)
	}
	end, loop := time.Now().Add(after+300*time.Millisecond), rand.New(rand.NewPCG(rng.Uint64(), 0))
	v.work.Go(func() {
		for i := 1; time.Now().Before(end) || v.w.rolling.Load(); i++ {
			switch {
			case i%12 == 0:
				v.openShort()
			case i%6 == 0:
				v.readSome(loop)
			case i%20 == 0 && v.w.rolling.Load() && v.wants(ofStreams):
				v.placeCall(v.newCounting(loop))
			default:
				v.callEcho(loop)
			}
			if !v.w.wait(time.Duration(5+loop.IntN(40)) * time.Millisecond) {
				return
			}
		}
	})
}

// newCounting makes a call that streams: at once, for a while, or for longer than a round.
func (v *session) newCounting(rng *rand.Rand) *exchange {
	to, delay, kind, token := 1+rng.IntN(15), 0, rng.IntN(5), ""
	switch {
	case kind < 3:
		to, delay = 5+rng.IntN(20), 15+rng.IntN(25)
	case kind == 3:
		to, delay = 30+rng.IntN(30), 40+rng.IntN(60)
	}
	if rng.IntN(5) > 0 {
		token = fmt.Sprintf(`"t%d"`, rng.IntN(1000))
	}
	k := v.newCount(to, delay, token)
	if kind == 3 {
		return v.newLong(rng, k)
	}
	x := v.newExchange(rng, k)
	x.f.paced = true
	return x
}

// newLong makes an exchange that may last for some rounds.
func (v *session) newLong(rng *rand.Rand, k *call) *exchange {
	x := v.newExchange(rng, k)
	x.long, x.round, x.f.paced = true, v.w.round.Load()+6, k.to < 1000
	return x
}

// newAsking makes a question. The first of a session is never answered.
func (v *session) newAsking(rng *rand.Rand) *exchange {
	x := v.newExchange(rng, v.newCall("ask", fmt.Sprintf(`{"question":"q%d"}`, rng.IntN(1000)), fmt.Sprintf("answer %s %d", v, rng.Int64())))
	if x.when, x.round = v.drawTime(rng); !v.asked && v.w.round.Load() == 0 && !v.isCalm() {
		x.when, v.asked = never, true
	}
	x.long = x.when >= afterHarm
	return x
}

// openShort makes a call in a session of its own.
func (v *session) openShort() {
	boot, starting := v.w.currentBoot()
	other := client.New(v.w.p.URL(0), v.rt)
	err := other.BeginSession(v.w.ctx, `{}`)
	if err == nil {
		err = answeredWith("a short session")(other.SendRequest(v.w.ctx, "1", "tools/call", `{"name":"echo","arguments":{"text":"a short session"}}`))
	}
	if err == nil {
		err = answeredWith("")(other.EndSession(v.w.ctx))
	}
	if err != nil && !v.w.mayFail(boot, starting) {
		v.accuse(nil, "another session: %v", err)
	}
	v.w.tally.add("short_sessions")
}

// reads are the plain requests that need no handler, or hardly one, and what their results have in
// them.
var reads = [][3]string{
	{"tools/list", "", `"tools":[{`},
	{"resources/read", `{"uri":"test://static-text"}`, `"text":"This is the content of the static text resource."`},
	{"resources/list", "", `"resources":[{`},
	{"prompts/get", `{"name":"test_simple_prompt"}`, `"messages":[{"role":"user",`},
	{"ping", "", `"result":{}`},
}

func (v *session) readSome(rng *rand.Rand) {
	r := reads[rng.IntN(len(reads))]
	if body, answered := v.tryRequest(r[0], r[1]); answered && !strings.Contains(body, r[2]) {
		v.accuse(nil, "%s got %s", r[0], body)
	}
	v.w.tally.add("reads")
}

// callEcho makes one plain call; it reports whether it was answered.
func (v *session) callEcho(rng *rand.Rand) bool {
	text := longText(rng, drawSize(rng))
	body, answered := v.tryRequest("tools/call", `{"name":"echo","arguments":{"text":"`+text+` \u00e4\""}}`)
	if answered && !strings.Contains(body, `"text":"`+text+` ä\""`) {
		v.accuse(nil, "echo of %.100q got %.1000s", text, body)
	}
	if answered {
		v.w.tally.add("echoes")
	}
	return answered
}

// placeCall begins an exchange and follows it.
func (v *session) placeCall(x *exchange) {
	v.mu.Lock()
	v.open = append(v.open, x)
	v.mu.Unlock()
	if v.w.tally.add("calls"); x.isBatch {
		v.w.tally.add("batches")
	}
	go func() {
		kept := x.run()
		v.mu.Lock()
		v.open = slices.DeleteFunc(v.open, func(o *exchange) bool { return o == x })
		if x.endedAt = time.Now(); kept {
			v.done = append(v.done, x)
		}
		v.mu.Unlock()
		close(x.ended)
	}()
}

// firstOpen returns an exchange that is open and matches, or nil.
func (v *session) firstOpen(match func(*exchange) bool) *exchange {
	v.mu.Lock()
	defer v.mu.Unlock()
	if i := slices.IndexFunc(v.open, match); i >= 0 {
		return v.open[i]
	}
	return nil
}

// checkServed checks that the session is served after a harm.
func (v *session) checkServed() {
	if v.callEcho(v.rng) {
		v.w.tally.add("sessions_after_restart")
		return
	}
	if v.w.fleet == nil || !v.w.until(func() bool { return v.callEcho(v.rng) }) {
		v.accuse(nil, "it does not work after the harm is over")
	}
}

// settleRound waits until what is due is answered, or all of it, and what was to come on the
// standalone stream came.
func (v *session) settleRound(all bool) {
	w := v.w
	v.work.Wait() // for what has not begun yet
	isDue := func(x *exchange) bool { return x.when != never && (all || !x.long || w.round.Load() > x.round) }
	if !w.until(func() bool { return v.firstOpen(isDue) == nil }) {
		if x := v.firstOpen(isDue); x != nil {
			v.accuse(x.f.rec, "%s was not answered in %v", x, patience)
		}
	}
	s := v.own
	if s == nil {
		return
	}
	if !w.until(s.isComplete) {
		v.accuse(s.f.rec, "updates or ticks did not come: %d of %d updates", s.updates.Load(), s.wanted.Load())
	}
	if _, err := s.f.rec.MergeEvents(); err != nil {
		v.accuse(s.f.rec, "standalone stream: %v", err)
	}
}

// doneKept is how many answered exchanges a session goes on resuming.
const doneKept = 24

// checkKept resumes what was answered, all of one and a bit of the others.
func (v *session) checkKept(rng *rand.Rand) {
	v.mu.Lock()
	done := slices.Clone(v.done)
	v.mu.Unlock()
	if v.isCalm() {
		done = slices.DeleteFunc(done, func(x *exchange) bool { return time.Since(x.endedAt) > v.w.kept/2 })
	}
	if len(done) == 0 {
		return
	}
	for i, x := range done {
		x.checkReplays(rng, i == len(done)-1)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for ; len(v.done) > doneKept; v.done = v.done[1:] {
		v.c.ForgetStream(v.done[0].f.rec.Stream)
	}
}

// finishAll waits for everything, and checks the unanswered questions: they are still open, and end
// without an answer when they are cancelled.
func (v *session) finishAll() {
	v.settleRound(true)
	for x := v.firstOpen(func(*exchange) bool { return true }); x != nil; x = v.firstOpen(func(*exchange) bool { return true }) {
		isOpen := func() bool { return x.openQuestion() != "" && v.w.isConnected(x.f.attached.Load()) }
		if !v.w.until(isOpen) {
			v.accuse(x.f.rec, "%s is not open any more", x)
		}
		x.f.replaced.Store(true)
		if err := v.cancelCall(x.calls[0].id); err != nil {
			v.accuse(x.f.rec, "cancel of %s: %v", x, err)
		}
		if !v.w.until(func() bool { return isClosed(x.ended) }) {
			v.accuse(x.f.rec, "%s was cancelled and its stream goes on", x)
		}
		if v.w.ctx.Err() != nil {
			return
		}
		x.f.checkReplay(x.f.lastID())
		v.w.tally.add("questions_never_answered")
	}
}

func (v *session) cancelCall(id string) error {
	return v.c.SendNotification(v.w.ctx, "notifications/cancelled", `{"requestId":`+id+`}`)
}

// leave ends the session, or leaves it behind: idle, in calls, or with questions that nobody
// answers.
func (v *session) leave(conns *connSet) {
	v.aside.Wait()
	v.mu.Lock()
	left := slices.Clone(v.open)
	v.mu.Unlock()
	for _, x := range left {
		x.f.replaced.Store(true)
		if x.when == never {
			v.w.tally.add("sessions_left_with_a_question")
		} else {
			v.w.tally.add("sessions_left_in_a_call")
		}
	}
	if v.own != nil {
		v.own.f.replaced.Store(true)
	}
	if v.rng.IntN(2) == 0 {
		err := answeredWith("")(v.c.EndSession(v.w.ctx))
		a, err2 := v.c.SendRequest(v.w.ctx, v.newID(), "ping", "")
		if err = errors.Join(err, err2); err != nil || a.Status != http.StatusNotFound {
			v.accuse(nil, "a session that was deleted got %+v: %v", a, err)
		}
		v.w.tally.add("sessions_deleted")
	}
	conns.breakAll()
	for _, x := range left {
		<-x.ended
	}
}

// jobCall calls for a task of three steps of five milliseconds.
const jobCall = `"name":"job","arguments":{"steps":3,"step_ms":5}`

// runTask has a call become a task of 2025-11-25, and waits for its result.
func (v *session) runTask() {
	body, _ := v.tryRequest("tools/call", fmt.Sprintf(`{%s,"task":{"ttl":%d}}`, jobCall, v.w.kept.Milliseconds()))
	var made struct {
		Result struct{ Task struct{ TaskID string } }
	}
	err := json.Unmarshal([]byte(body), &made)
	if err == nil {
		body, _ = v.tryRequest("tasks/result", `{"taskId":"`+made.Result.Task.TaskID+`"}`)
	}
	if err != nil || !strings.Contains(body, `{"n":3,`) {
		v.accuse(nil, "a task: %v: %s", err, body)
	}
	v.w.tally.add("tasks")
}
