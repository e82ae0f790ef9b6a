package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/troupe-run/troupe/bench/client"
)

// exchange is one POST of a session, of a call or a batch of them, from there to the last of their
// answers.
type exchange struct {
	v       *session
	calls   []*call
	isBatch bool
	f       *follower
	boot    int64
	left    map[string]*call // by raw id: not answered yet
	ended   chan struct{}    // closed
	endedAt time.Time
	long    bool  // may take longer than its round
	round   int64 // from which on it must be answered, for what is long

	cancelAfter time.Duration // 0: never

	// Of a question.
	when  answerTime
	pause time.Duration // before an answer that comes soon

	mu       sync.Mutex // guards the rest
	question string     // raw id, "" before it was asked
	given    bool       // the server has accepted the answer
}

func (v *session) newExchange(rng *rand.Rand, calls ...*call) *exchange {
	x := &exchange{v: v, calls: calls, left: make(map[string]*call), ended: make(chan struct{}), pause: time.Duration(rng.IntN(1000)) * time.Millisecond}
	for _, k := range calls {
		x.left[k.id] = k
	}
	x.f = newFollower(&v.visitor, v.c, rng, x.onEvent)
	return x
}

func (x *exchange) String() string {
	if x.isBatch {
		return fmt.Sprintf("a batch of %d from %s", len(x.calls), x.calls[0])
	}
	return x.calls[0].String()
}

// run sends the calls and follows them to their answers. It returns false when there is nothing to
// resume later.
func (x *exchange) run() bool {
	w, body := x.v.w, x.calls[0].request()
	if x.isBatch {
		body = "[" + strings.Join(requestsOf(x.calls), ",") + "]"
	}
	x.boot = w.boot.Load()
	for _, k := range x.calls {
		k.boot = x.boot
	}
	if x.cancelAfter > 0 {
		x.v.aside.Go(x.cancel)
	}
	a, err := x.v.c.PostMessage(w.ctx, body)
	switch {
	case w.ctx.Err() != nil, x.f.replaced.Load():
		return false
	case err != nil || a.Status >= 500:
		w.tally.add("lost_before_acceptance")
		if !w.mayFail(x.boot, false) {
			x.v.accuse(nil, "%s failed and nobody was killed: %v %+v", x, err, a)
		}
		return false
	case a.Status != http.StatusOK:
		x.v.accuse(nil, "%s got %d %s", x, a.Status, a.Body)
		return false
	case a.Events == nil:
		x.judgeBody(a.Body)
		w.tally.add("answered")
		return false
	case !x.f.follow(a.Events, x.boot):
		w.tally.add("lost_without_an_event")
		return false
	case w.ctx.Err() != nil || x.f.replaced.Load():
		return false
	case x.f.cancelled.Load() && !x.f.over:
		w.tally.add("cancelled")
		x.checkCancelled()
		return false
	}
	x.judgeStream()
	w.tally.add("answered")
	if w.boot.Load() > x.boot && x.calls[0].safe && len(x.f.rec.Connections()) > 1 {
		w.tally.add("safe_calls_over_a_restart")
	}
	return true
}

// judgeBody judges what was answered at once.
func (x *exchange) judgeBody(body []byte) {
	all := []json.RawMessage{body}
	if x.isBatch {
		if err := json.Unmarshal(body, &all); err != nil {
			x.v.accuse(nil, "%s got %s: %v", x, body, err)
		}
	}
	var events []client.Event
	for _, m := range all {
		events = append(events, client.Event{Data: string(m)})
		x.onEvent(client.Event{Data: string(m)})
	}
	if err := judgeCalls(x.calls, events, false); err != nil {
		x.v.accuse(nil, "%s: %v: %s", x, err, body)
	}
}

// onEvent takes the next event.
func (x *exchange) onEvent(e client.Event) (last bool) {
	m := parse(e.Data)
	for id, k := range x.left {
		if !m.answers(id) {
			continue
		}
		k.final = &m
		delete(x.left, id)
		if m.Error != nil && m.Error.Code == codeCallLost {
			x.v.w.tally.add("calls_lost_-32010")
		}
	}
	if m.Method == "elicitation/create" {
		x.noteQuestion(string(m.ID))
	}
	return len(x.left) == 0
}

// judgeStream judges the whole of the stream.
func (x *exchange) judgeStream() {
	events, err := x.f.rec.MergeEvents()
	if err == nil {
		err = judgeCalls(x.calls, events, false)
	}
	if err != nil {
		x.v.accuse(x.f.rec, "%s: %v", x, err)
	}
}

// cancel takes the call back when it is time. A cancel that a kill may have swallowed is not
// repeated: the call is answered then.
func (x *exchange) cancel() {
	w := x.v.w
	if !w.wait(x.cancelAfter) {
		return
	}
	boot, starting := w.currentBoot()
	x.f.cancelled.Store(true)
	if err := x.v.cancelCall(x.calls[0].id); err != nil && !w.mayFail(boot, starting) {
		x.v.accuse(x.f.rec, "cancel of %s: %v", x, err)
	}
}

// checkCancelled resumes a cancelled call after the last of its events: what the log was just
// taking when the cancel came may be there, but nothing that came later, and no answer.
func (x *exchange) checkCancelled() {
	if w := x.v.w; x.f.rec == nil || w.socket && w.isExcused(x.boot) { // the cancel may have crossed the end of the process, which the resume does not notice
		return
	}
	seen, _ := client.ParseID(x.f.lastID()) // Next has looked at it, and at the others
	rest, _ := x.f.replayAfter(x.f.lastID())
	for _, e := range rest {
		p, _ := client.ParseID(e.ID)
		if m := parse(e.Data); m.answers(x.calls[0].id) || p.Append > seen.Append+1 {
			x.v.accuse(x.f.rec, "%s: event %s comes of a cancelled call of which %s came last", x, e.ID, x.f.lastID())
		}
	}
}

// checkReplays resumes what was answered after all of its events, or after one of them.
func (x *exchange) checkReplays(rng *rand.Rand, all bool) {
	w, ids := x.v.w, x.f.ids[max(0, len(x.f.ids)-recent):]
	if !all {
		ids = []string{x.f.earlierID(rng)}
	}
	if len(x.f.ids) > 1200 { // some share an append, but not that many
		w.tally.add("evicted_ids_refused")
		if !w.until(func() bool { return isRefused(w, x.v.c, x.f.ids[0]) }) {
			x.v.accuse(x.f.rec, "%s: an event that is gone can be resumed from", x)
		}
	}
	for _, id := range ids {
		if w.ctx.Err() == nil {
			x.f.checkReplay(id)
		}
	}
	x.judgeStream()
}

// noteQuestion gets the id of the question when it comes for the first time.
func (x *exchange) noteQuestion(id string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.question != "" {
		return // judgeEvents finds it
	}
	x.question = id
	if boot := x.v.w.boot.Load(); x.when != never {
		x.v.aside.Go(func() { x.answer(id, boot) })
	}
}

// openQuestion returns the id of the question while it has no answer.
func (x *exchange) openQuestion() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.given || x.when < inRounds {
		return ""
	}
	return x.question
}

// answer answers when it is time, until the server has accepted it. It answers only while the
// question's stream is connected to the server that runs now.
func (x *exchange) answer(id string, boot int64) {
	w := x.v.w
	for x.v.awaitTime(x.when, boot, x.round, x.pause); w.ctx.Err() == nil; w.tally.add("answers_again") {
		now := x.f.attached.Load()
		for !w.isConnected(now) && w.wait(time.Millisecond) {
			if now = x.f.attached.Load(); isClosed(x.ended) {
				return
			}
		}
		a, err := x.v.c.SendAnswer(w.ctx, id, `{"action":"accept","content":{"answer":"`+x.calls[0].text+`"}}`)
		switch {
		case err != nil && !w.mayFail(now, false) && !w.mayBreak(now), err == nil && a.Status != http.StatusAccepted:
			x.v.accuse(x.f.rec, "the answer to %s got %+v, and nobody was killed: %v", x, a, err)
			return
		case err == nil && w.isConnected(now):
			x.awaitAnswer()
			return
		}
	}
}

// answerTakes is how long an answer may take once that to the question was accepted.
const answerTakes = 15 * time.Second

// awaitAnswer waits for the answer, which has to come now.
func (x *exchange) awaitAnswer() {
	w, patient := x.v.w, answerTakes
	w.tally.add("answers_given")
	x.mu.Lock()
	x.given = true
	x.mu.Unlock()
	if w.fleet != nil || w.harm.Load() == byPause { // the connection may be to a node that stands still
		patient += 20 * time.Second
	}
	select {
	case <-x.ended:
	case <-w.ctx.Done():
	case <-time.After(patient):
		x.v.accuse(x.f.rec, "%s: the answer was accepted (202) and the call goes on waiting", x)
	}
}
