package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/troupe-run/troupe/bench/client"
)

// sessionUser is a place for clients with sessions, which come, work for a while and leave.
type sessionUser struct {
	m   *mixed
	rng *rand.Rand

	// Of the client that is there.
	*driver
	revision string
	conns    *connSet
}

// action is one thing that a client may do.
type action[C any] struct {
	weight int
	fits   func(C) bool // nil: always
	do     func(C)
}

// draw chooses among the actions that fit.
func draw[C any](rng *rand.Rand, actions []action[C], c C) func(C) {
	var fit []func(C)
	for _, d := range actions {
		for n := 0; n < d.weight && (d.fits == nil || d.fits(c)); n++ {
			fit = append(fit, d.do)
		}
	}
	return fit[rng.IntN(len(fit))]
}

// Revisions with sessions. Only the newest has priming events, for which listen waits, and tasks.
const (
	batching  = "2025-03-26"
	middle    = "2025-06-18"
	primed    = client.Revision
	largeText = 10 << 10
	hugeText  = 1 << 20
)

func ofPrimed(v *sessionUser) bool  { return v.revision == primed }
func listening(v *sessionUser) bool { return v.standalone != nil }
func asking(v *sessionUser) bool    { return !v.old }

// sessionActions are the actions of a client with a session.
var sessionActions = []action[*sessionUser]{
	{160, nil, func(v *sessionUser) { v.echoes("call", 20) }},
	{32, nil, func(v *sessionUser) { v.echoes("large_call", largeText) }},
	{3, nil, func(v *sessionUser) { v.echoes("huge_call", hugeText) }},
	{40, nil, (*sessionUser).reads},
	{48, nil, func(v *sessionUser) { v.runs("streamed_call", v.newCount(v.rng)) }},
	{16, nil, func(v *sessionUser) { v.runs("slow_call", v.newSleep(v.rng)) }},
	{1, nil, func(v *sessionUser) { v.runs("flood", v.newFlood(v.rng)) }},
	{12, nil, (*sessionUser).cancels},
	{12, nil, (*sessionUser).replaysOne},
	{36, asking, func(v *sessionUser) { v.asks("question", atOnce) }},
	{8, asking, func(v *sessionUser) { v.asks("question_with_a_pause", soon) }},
	{24, ofPrimed, (*sessionUser).task},
	{80, func(v *sessionUser) bool { return v.old }, func(v *sessionUser) { v.batch(v.newBatch(v.rng)) }},
	{20, func(v *sessionUser) bool { return ofPrimed(v) && !listening(v) }, func(v *sessionUser) { v.m.op("listen", 0, v.subscribe) }},
	{20, listening, (*sessionUser).ticks},
	{28, listening, func(v *sessionUser) {
		v.m.op("update", 0, func() error { v.touch(); v.settle(); return nil })
	}},
	{10, listening, func(v *sessionUser) { v.m.op("listen_again", 0, func() error { v.rotate(); return nil }) }},
}

// visit is one client from its first connection to its last.
func (v *sessionUser) visit() {
	v.conns = newConnSet()
	defer v.conns.breakAll()
	v.driver = &driver{w: v.m.w, n: int(v.m.came.Add(1)), hasNever: true, c: client.New(v.m.w.p.url(0), v.conns)}
	v.revision = []string{batching, middle, primed, primed, primed, primed, primed, primed}[v.rng.IntN(8)]
	v.old = v.revision == batching
	if v.rng.IntN(16) == 0 {
		v.m.op("initialize_and_no_more", 0, func() error {
			return answeredWith(`"protocolVersion"`)(v.c.Call(v.w.ctx, "0", "initialize", `{"protocolVersion":"`+v.revision+`","capabilities":{},"clientInfo":{"name":"troupe-bench","version":"1"}}`))
		})
		return
	}
	capabilities := `{"elicitation":{}}`
	if v.old {
		capabilities = `{}`
	}
	v.m.op("initialize", 0, func() error { return v.c.InitializeAs(v.w.ctx, v.revision, capabilities) })
	for n := 10 + v.rng.IntN(30); n > 0 && v.m.goesOn(); n-- {
		draw(v.rng, sessionActions, v)(v)
		v.w.wait(v.m.pause(v.rng))
	}
	v.leave()
}

// leave ends the session, or leaves it behind: idle, or with a call under way whose stream nobody resumes, or a question that nobody
// answers. The standalone stream, if there is one, breaks off.
func (v *sessionUser) leave() {
	v.aside.Wait()
	var k *call
	switch n := v.rng.IntN(8); {
	case n < 4:
		v.delete()
	case n < 6:
		v.w.tally.add("sessions_left")
	case n == 6 || v.old:
		v.w.tally.add("sessions_left_in_a_call")
		k = v.newCall(v.rng, "count", `{"to":100,"delay_ms":50}`)
		k.to, k.text = 100, "counted to 100"
	default:
		v.w.tally.add("sessions_left_with_a_question")
		k = v.newAsk(v.rng)
		k.when = never
	}
	if k != nil {
		v.place(k)
		select {
		case <-k.f.begun:
		case <-k.ended:
		}
		if k.tool == "ask" && !v.w.until(func() bool { return k.hasAsked() }) && v.w.ctx.Err() == nil {
			v.w.violated(k.f.rec, "%s: %s did not ask", v, k)
		}
		k.f.replaced.Store(true)
	}
	if listening(v) {
		v.standalone.f.replaced.Store(true)
	}
	v.conns.breakAll()
	if k != nil {
		<-k.ended
	}
	if listening(v) {
		<-v.standalone.ended
	}
}

// hasAsked reports that the call has asked its question.
func (k *call) hasAsked() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.question != ""
}

// delete ends the session, which is unknown afterwards.
func (v *sessionUser) delete() {
	if listening(v) {
		v.standalone.f.replaced.Store(true)
	}
	v.m.op("delete", 0, func() error { return answeredWith("")(v.c.Delete(v.w.ctx)) })
	if v.rng.IntN(2) == 0 {
		return
	}
	v.m.op("call_after_delete", 0, func() error {
		a, err := v.c.Call(v.w.ctx, v.newID(), "ping", "")
		if err != nil {
			return err
		}
		defer a.Close()
		if a.Status != http.StatusNotFound {
			return fmt.Errorf("a session that was deleted got %d %s", a.Status, a.Body)
		}
		return nil
	})
}

// runs makes a call and sees it through. What it takes by itself does not count.
func (v *sessionUser) runs(kind string, k *call) {
	v.m.op(kind, k.takes(), func() error { return v.seeThrough(k) })
}

// seeThrough makes a call and waits for its end. The call is judged by itself.
func (v *sessionUser) seeThrough(k *call) error {
	v.place(k)
	<-k.ended
	v.mu.Lock()
	defer v.mu.Unlock()
	v.done = nil // the events of what was answered long ago have gone
	return nil
}

// replaysOne makes a call and resumes it afterwards, after each of its events.
func (v *sessionUser) replaysOne() {
	k := v.newCount(v.rng)
	v.m.op("replayed_call", k.takes(), func() error {
		v.place(k)
		<-k.ended
		v.replays(v.rng)
		return nil
	})
}

// takes is how long the handler of the call works.
func (k *call) takes() time.Duration {
	var in struct {
		Arguments struct {
			To    int
			Delay int `json:"delay_ms"`
			MS    int
		}
	}
	if json.Unmarshal([]byte(k.params), &in) != nil {
		return 0
	}
	return time.Duration(in.Arguments.To*in.Arguments.Delay+in.Arguments.MS) * time.Millisecond
}

// echoes has so many bytes echoed.
func (v *sessionUser) echoes(kind string, n int) {
	v.runs(kind, v.newEcho(v.rng, n))
}

// newEcho makes a call that has so many bytes echoed, which come but once.
func (d *driver) newEcho(rng *rand.Rand, n int) *call {
	text := longText(rng, n)
	k := d.newCall(rng, "echo", `{"text":"`+text+`"}`)
	k.text = text
	return k
}

// longText is n bytes that come but once.
func longText(rng *rand.Rand, n int) string {
	word := fmt.Sprintf("%016x ", rng.Uint64())
	return strings.Repeat(word, n/len(word)+1)
}

func (v *sessionUser) asks(kind string, when answerTime) {
	k := v.newAsk(v.rng)
	k.when, k.long = when, false
	v.runs(kind, k)
}

func (v *sessionUser) cancels() {
	k := v.newCancelled(v.rng)
	v.m.op("cancelled_call", 0, func() error { return v.seeThrough(k) })
}

func (v *sessionUser) ticks() {
	k := v.newTick(v.rng)
	v.m.op("ticks", 0, func() error {
		v.placeTick(k)
		v.settle()
		return nil
	})
}

func (v *sessionUser) batch(b *batch) {
	v.w.tally.add("batches")
	v.m.op("batch", 0, func() error { b.run(); return nil })
}

// reads makes one of the plain requests that need no handler, or hardly one.
func (v *sessionUser) reads() {
	r := [][3]string{
		{"tools/list", "", `"tools":[`},
		{"resources/read", `{"uri":"test://static-text"}`, "This is the content of the static text resource."},
		{"resources/list", "", `"resources":[`},
		{"prompts/get", `{"name":"test_simple_prompt"}`, `"messages":[`},
		{"ping", "", `"result":{}`},
	}[v.rng.IntN(5)]
	v.m.op("read", 0, func() error { return answeredWith(r[2])(v.c.Call(v.w.ctx, v.newID(), r[0], r[1])) })
}

// Each task has so many steps of so many milliseconds.
const (
	mixedSteps  = 3
	mixedStepMS = 5
)

// task has a call become a task of 2025-11-25, and waits for its result.
func (v *sessionUser) task() {
	v.tasked.Store(true)
	v.m.op("task", mixedSteps*mixedStepMS*time.Millisecond, func() error {
		id := v.newID()
		a, err := v.c.Call(v.w.ctx, id, "tools/call", fmt.Sprintf(`{"name":"job","arguments":{"steps":%d,"step_ms":%d},"task":{"ttl":%d}}`, mixedSteps, mixedStepMS, v.m.kept.Milliseconds()))
		if err != nil {
			return err
		}
		answer, err := answerOf(a, id)
		if err != nil {
			return err
		}
		var made struct {
			Result struct{ Task struct{ TaskID string } }
		}
		if json.Unmarshal([]byte(answer), &made) != nil || made.Result.Task.TaskID == "" {
			return fmt.Errorf("no task was made: %d %s", a.Status, answer)
		}
		return answeredWith(fmt.Sprintf(`{"n":%d,`, mixedSteps))(v.c.Call(v.w.ctx, v.newID(), "tasks/result", `{"taskId":"`+made.Result.Task.TaskID+`"}`))
	})
}

// answerOf returns the message that answers a request: the body, or the last event of a stream where that took longer.
func answerOf(a *client.Answer, id string) (string, error) {
	defer a.Close()
	for a.Events != nil {
		e, err := a.Events.Next()
		if err != nil {
			return "", fmt.Errorf("the stream ended without an answer: %w", err)
		}
		if m := parse(e.Data); m.answers(id) {
			return e.Data, nil
		}
	}
	return string(a.Body), nil
}
