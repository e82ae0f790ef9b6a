package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/troupe-run/troupe/bench/client"
)

// overSSE is a client of 2024-11-05 over HTTP+SSE, whose session is its connection. All that it
// gets comes on one stream, between the messages of other calls, once and in order. It comes, works
// for a while and leaves.
type overSSE struct {
	visitor
	c          *client.SSE
	conns      *connSet
	shown      []string // what came last, for a report
	subscribed bool
	boot       int64 // the start of the node in which it came
	pauses     int64 // and how often the node had been paused
	lost       bool  // its connection, as the node was harmed
}

// visitOverSSE is one client from its first connection to its last. It leaves in the way whose turn
// it is.
func visitOverSSE(w *world, n, turn int, rng *rand.Rand) {
	v := &overSSE{visitor: visitor{w: w, kind: "SSE client", n: n, rng: rng}, conns: newConnSet(), boot: w.boot.Load(), pauses: w.pauses.Load()}
	defer v.conns.breakAll()
	ctx, cancel := context.WithCancel(w.ctx)
	defer cancel()
	v.do("connect", func() (err error) {
		late := time.AfterFunc(patience, cancel)
		defer late.Stop()
		v.c, err = client.OpenSSE(ctx, "http://"+w.p.Addr+"/sse", v.conns)
		return err
	})
	way := departures[turn%len(departures)]
	if way.name == "left_uninitialized" {
		v.do("connect_and_no_more", func() error { return v.request("ping", "", `"result":{}}`) })
	} else {
		v.do("initialize", v.initialize)
		for range 10 + rng.IntN(20) {
			a := overSSEActions[rng.IntN(len(overSSEActions))]
			v.do(a.name, func() error { return a.do(v) })
			for w.wait(time.Duration(5+rng.IntN(35))*time.Millisecond) && w.ending.Load() { // a node that ends waits for as long as its clients of HTTP+SSE call
			}
		}
	}
	v.do(way.name, func() error { return way.do(v) })
	v.do("leave", v.leave)
}

type overSSEAction struct {
	name string
	do   func(*overSSE) error
}

var overSSEActions = []overSSEAction{
	{"call", func(v *overSSE) error { return v.callTogether(v.newEcho(v.rng, drawSize(v.rng))) }},
	{"read", (*overSSE).readSome},
	{"streamed_call", func(v *overSSE) error { return v.callTogether(v.newCount(5+v.rng.IntN(20), v.rng.IntN(40), `"t"`)) }},
	{"calls_at_once", func(v *overSSE) error { return v.callTogether(v.newSome(v.rng, 2+v.rng.IntN(3))...) }},
	{"cancelled_call", (*overSSE).cancelCall},
	{"question", func(v *overSSE) error { _, err := v.askAndAnswer(true); return err }},
	{"update", (*overSSE).update},
}

// departures are ways in which a client leaves: what it leaves behind ends with its connection.
// They are taken in turn, so that a short run has each of them.
var departures = []overSSEAction{
	{"left_uninitialized", func(*overSSE) error { return nil }},
	{"left_in_a_call", func(v *overSSE) error {
		k := v.newEndless(v.rng)
		events, err := v.begin(k)
		if err != nil {
			return err
		}
		return v.pingBeside(k, events...)
	}},
	{"left_with_a_question", func(v *overSSE) error {
		k, err := v.askAndAnswer(false)
		if err != nil {
			return err
		}
		return v.pingBeside(k)
	}},
	{"left_idle", func(v *overSSE) error { return v.pingBeside(nil) }},
}

// do does something that must succeed unless the node is harmed.
func (v *overSSE) do(what string, f func() error) {
	if v.lost {
		return
	}
	err := f()
	if v.lost = err != nil || v.w.ctx.Err() != nil; !v.lost {
		v.w.tally.add("sse_" + what)
	} else if !v.w.mayFail(v.boot, v.w.pauses.Load() != v.pauses) && !v.w.mayForget(v.boot) { // its session ends with its node
		v.accuse(nil, "%s: %v; the last messages that came:\n%s", what, err, strings.Join(v.shown, "\n"))
	}
}

// next returns the next message, which must come while the client is patient.
func (v *overSSE) next() (string, error) {
	late := time.AfterFunc(patience, v.c.Close)
	defer late.Stop()
	m, err := v.c.Next()
	v.shown = append(v.shown, fmt.Sprintf("%.300s (%d bytes)", m, len(m)))
	v.shown = v.shown[max(0, len(v.shown)-8):]
	return m, err
}

// collectUntil returns the messages that come, up to the one that is the last.
func (v *overSSE) collectUntil(isLast func(string) bool) (all []client.Event, err error) {
	for {
		data, err := v.next()
		if err != nil {
			return all, err
		}
		if all = append(all, client.Event{Data: data}); isLast(data) {
			return all, nil
		}
	}
}

// isAnswer reports of a message whether it is the answer to the request.
func isAnswer(id string) func(string) bool {
	return func(data string) bool {
		m := parse(data)
		return m.answers(id)
	}
}

// request makes a request whose answer must be the next message, and begin so behind the id.
func (v *overSSE) request(method, params, want string) error {
	id := v.newID()
	if err := v.c.SendRequest(v.w.ctx, id, method, params); err != nil {
		return err
	}
	got, err := v.next()
	if err == nil && !strings.HasPrefix(got, `{"jsonrpc":"2.0","id":`+id+`,`+want) {
		err = fmt.Errorf("%s %s: the answer does not begin with %s", method, id, want)
	}
	return err
}

// pingBeside makes a request. What came before and comes before its answer is of a call that must
// not be answered, or of none.
func (v *overSSE) pingBeside(k *call, before ...client.Event) error {
	id := v.newID()
	if err := v.c.SendRequest(v.w.ctx, id, "ping", ""); err != nil {
		return err
	}
	events, err := v.collectUntil(isAnswer(id))
	if err != nil {
		return err
	}
	if events = append(before, events[:len(events)-1]...); k == nil && len(events) > 0 {
		return fmt.Errorf("what came belongs to nothing: %v", events)
	} else if k == nil {
		return nil
	}
	return judgeCalls([]*call{k}, events, true)
}

func (v *overSSE) initialize() error {
	err := v.request("initialize", `{"protocolVersion":"2024-11-05","capabilities":{"sampling":{},"roots":{}},"clientInfo":{"name":"troupe-bench","version":"1"}}`,
		`"result":{"protocolVersion":"2024-11-05",`)
	if err != nil {
		return err
	}
	return v.c.SendNotification(v.w.ctx, "notifications/initialized", "")
}

func (v *overSSE) readSome() error {
	r := reads[v.rng.IntN(len(reads))]
	id := v.newID()
	if err := v.c.SendRequest(v.w.ctx, id, r[0], r[1]); err != nil {
		return err
	}
	if got, err := v.next(); err != nil || !isAnswer(id)(got) || !strings.Contains(got, r[2]) {
		return fmt.Errorf("%s is not answered next: %w", r[0], err)
	}
	return nil
}

// callTogether makes calls, whose answers come in any order and whose messages come between those
// of the others.
func (v *overSSE) callTogether(all ...*call) error {
	failed := make(chan error, len(all))
	for _, k := range all {
		k.boot = v.w.boot.Load()
		go func() { failed <- v.c.PostAccepted(v.w.ctx, k.request()) }()
	}
	for range all {
		if err := <-failed; err != nil {
			return err
		}
	}
	return v.awaitAnswers(all...)
}

// awaitAnswers collects what comes until calls are answered, and judges it.
func (v *overSSE) awaitAnswers(all ...*call) error {
	left := len(all)
	events, err := v.collectUntil(func(data string) bool {
		if slices.ContainsFunc(all, func(k *call) bool { return isAnswer(k.id)(data) }) {
			left--
		}
		return left == 0
	})
	if err != nil {
		return err
	}
	return judgeCalls(all, events, false)
}

func (v *overSSE) cancel(id string) error {
	return v.c.SendNotification(v.w.ctx, "notifications/cancelled", `{"requestId":`+id+`,"reason":"no longer needed"}`)
}

// begin makes an endless call, waits until it is under way, and returns what came of it.
func (v *overSSE) begin(k *call) ([]client.Event, error) {
	if err := v.c.PostAccepted(v.w.ctx, k.request()); err != nil {
		return nil, err
	}
	if k.tool == "sleep" {
		v.w.wait(time.Duration(v.rng.IntN(100)) * time.Millisecond)
		return nil, nil
	}
	upTo := 1 + v.rng.IntN(5)
	return v.collectUntil(func(data string) bool { return parse(data).Params.Progress == upTo })
}

// cancelCall takes a call back. Nothing of the call is sent once the cancel has been taken, so that
// what comes after the answer to a later request belongs to nothing, which the next action finds.
func (v *overSSE) cancelCall() error {
	k := v.newEndless(v.rng)
	events, err := v.begin(k)
	if err == nil {
		err = v.cancel(k.id)
	}
	if err == nil {
		err = v.pingBeside(k, events...)
	}
	return err
}

// askAndAnswer makes a call that asks one of what a server of 2024-11-05 can ask, and answers at
// once or after another request, or not at all.
func (v *overSSE) askAndAnswer(answers bool) (*call, error) {
	word := fmt.Sprint(v.rng.Int64())
	q := [][5]string{ // the tool, its arguments, its result, what it asks, the answer
		{"ping", `{}`, "the client is there", "ping", `{}`},
		{"roots", `{}`, "file:///" + word, "roots/list", `{"roots":[{"uri":"file:///` + word + `","name":"` + word + `"}]}`},
		{"test_sampling", `{"prompt":"say ` + word + `"}`, "LLM response: " + word, "sampling/createMessage", `{"role":"assistant","content":{"type":"text","text":"` + word + `"},"model":"m"}`},
	}[v.rng.IntN(3)]
	k := v.newCall(q[0], q[1], q[2])
	if err := v.c.PostAccepted(v.w.ctx, k.request()); err != nil {
		return nil, err
	}
	data, err := v.next()
	m := parse(data)
	if err != nil || m.Method != q[3] || q[0] == "test_sampling" && !strings.Contains(data, "say "+word) {
		return nil, fmt.Errorf("no %s came: %w", q[3], err)
	}
	if !answers {
		return k, nil
	}
	if v.rng.IntN(2) == 0 {
		err = v.request("ping", "", `"result":{}}`)
	}
	if err == nil {
		err = v.c.SendAnswer(v.w.ctx, string(m.ID), q[4])
	}
	if err == nil {
		err = v.awaitAnswers(k)
	}
	return k, err
}

// update has the client's resource updated, of which it is told once, before the call is answered
// or after that.
func (v *overSSE) update() error {
	if !v.subscribed {
		if err := v.request("resources/subscribe", `{"uri":"`+v.resource()+`"}`, `"result":{}}`); err != nil {
			return err
		}
		v.subscribed = true
	}
	k := v.newCall("touch", `{"uri":"`+v.resource()+`"}`, "touched "+v.resource())
	if err := v.c.PostAccepted(v.w.ctx, k.request()); err != nil {
		return err
	}
	n := 0
	events, err := v.collectUntil(func(string) bool { n++; return n == 2 })
	if err != nil {
		return err
	}
	update := `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"` + v.resource() + `"}}`
	at := slices.IndexFunc(events, func(e client.Event) bool { return e.Data == update })
	if at < 0 {
		return fmt.Errorf("%s did not come", update)
	}
	return judgeCalls([]*call{k}, slices.Delete(events, at, at+1), false)
}

// leave closes the stream, or breaks all connections of the client.
func (v *overSSE) leave() error {
	if v.rng.IntN(2) == 0 {
		v.c.Close()
	} else {
		v.conns.breakAll()
	}
	return nil
}
