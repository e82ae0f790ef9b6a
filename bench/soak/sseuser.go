package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/troupe-run/troupe/bench/client"
)

// sseUser is a place for clients of 2024-11-05 over HTTP+SSE, whose session is their connection. They come, work for a while and leave.
type sseUser struct {
	m    *mixed
	rng  *rand.Rand
	turn int // of the ways to leave

	// Of the client that is there.
	*driver    // makes and judges its calls, and has no connection of its own
	conns      *connSet
	stream     *sseStream
	subscribed bool
	boot       int64 // the start of the node in which it came
	pauses     int64 // and how often the node had been paused
	lost       bool  // its connection, as the node was harmed
}

// sseActions are the actions of a client over HTTP+SSE.
var sseActions = []action[*sseUser]{
	{160, nil, func(g *sseUser) { g.echoes("sse_call", 20) }},
	{32, nil, func(g *sseUser) { g.echoes("sse_large_call", largeText) }},
	{3, nil, func(g *sseUser) { g.echoes("sse_huge_call", hugeText) }},
	{40, nil, (*sseUser).reads},
	{48, nil, func(g *sseUser) { g.runs("sse_streamed_call", g.newCount(g.rng)) }},
	{24, nil, func(g *sseUser) { g.runs("sse_slow_call", g.newSleep(g.rng)) }},
	{1, nil, func(g *sseUser) { g.runs("sse_flood", g.newFlood(g.rng)) }},
	{24, nil, (*sseUser).batch},
	{24, nil, (*sseUser).atOnce},
	{24, nil, (*sseUser).cancels},
	{36, nil, (*sseUser).asks},
	{28, nil, (*sseUser).updates},
}

// visit is one client from its first connection to its last.
func (g *sseUser) visit() {
	g.driver = &driver{w: g.m.w, n: int(g.m.came.Add(1)), hasNever: true}
	g.conns, g.stream, g.subscribed, g.lost = newConnSet(), nil, false, false
	g.boot, g.pauses = g.w.boot.Load(), g.w.pauses.Load()
	defer g.conns.breakAll()
	g.op("sse_connect", 0, func() (err error) { g.stream, err = g.w.openSSE(g.conns); return err })
	if g.stream == nil {
		return
	}
	way := departures[g.turn%len(departures)]
	g.turn++
	if way.fresh {
		g.op("sse_connect_and_no_more", 0, g.useUninitialized)
	} else {
		g.op("sse_initialize", 0, g.initialize)
		for n := 10 + g.rng.IntN(20); n > 0 && g.m.goesOn() && !g.lost; n-- {
			draw(g.rng, sseActions, g)(g)
			for g.w.wait(g.m.pause(g.rng)) && g.w.ending.Load() { // a node that ends waits for as long as its clients of HTTP+SSE call
			}
		}
	}
	g.leave(way)
}

// op is mixed.op with the client and its last messages in the error.
func (g *sseUser) op(kind string, least time.Duration, f func() error) {
	if g.lost {
		return
	}
	g.lost = !g.m.op(kind, least, func() error {
		err := f()
		if err != nil && g.w.mayFail(g.boot, g.w.pauses.Load() != g.pauses) {
			return errExcused
		}
		if err != nil {
			return g.stream.with(fmt.Errorf("%s: %w", g, err))
		}
		return nil
	})
}

func (g *sseUser) initialize() error {
	id := g.newID()
	got, err := g.stream.ask(id, "initialize", `{"protocolVersion":"2024-11-05","capabilities":{"sampling":{},"roots":{}},"clientInfo":{"name":"troupe-bench","version":"1"}}`)
	if err != nil {
		return err
	}
	if !strings.HasPrefix(got, `{"jsonrpc":"2.0","id":`+id+`,"result":{"protocolVersion":"2024-11-05",`) {
		return fmt.Errorf("initialize got %s", got)
	}
	return g.stream.Notify(g.w.ctx, "notifications/initialized", "")
}

// useUninitialized uses a connection that is not initialized: it may ping, and nothing else.
func (g *sseUser) useUninitialized() error {
	id := g.newID()
	if err := g.stream.expect(id, "ping", "", `{"jsonrpc":"2.0","id":`+id+`,"result":{}}`); err != nil {
		return err
	}
	id = g.newID()
	return g.stream.expect(id, "tools/list", "", `{"jsonrpc":"2.0","id":`+id+`,"error":{"code":-32600,"message":"initialize first"}}`)
}

// send sends a call.
func (g *sseUser) send(k *call) error {
	k.boot = g.w.boot.Load()
	return g.stream.Call(g.w.ctx, k.id, "tools/call", k.params)
}

// runs makes a call and sees it through. What it takes by itself does not count.
func (g *sseUser) runs(kind string, k *call) {
	g.op(kind, k.takes(), func() error {
		if err := g.send(k); err != nil {
			return err
		}
		events, err := g.stream.collect(answering(k.id))
		if err != nil {
			return err
		}
		return about(k, k.judge(events))
	})
}

// about says which call an error is about.
func about(k *call, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", k, err)
	}
	return nil
}

// echoes has so many bytes echoed.
func (g *sseUser) echoes(kind string, n int) {
	g.runs(kind, g.newEcho(g.rng, n))
}

// reads makes one of the plain requests that need no handler, or hardly one.
func (g *sseUser) reads() {
	r := [][3]string{
		{"tools/list", "", `{"tools":[{`},
		{"resources/read", `{"uri":"test://static-text"}`, `{"contents":[{"uri":"test://static-text","mimeType":"text/plain","text":"This is the content of the static text resource."}]}}`},
		{"resources/list", "", `{"resources":[{`},
		{"prompts/get", `{"name":"test_simple_prompt"}`, `{"description":"A prompt without arguments.","messages":[{"role":"user","content":{"type":"text","text":"This is a simple prompt for testing."}}]}}`},
		{"ping", "", `{}}`},
	}[g.rng.IntN(5)]
	g.op("sse_read", 0, func() error {
		id := g.newID()
		got, err := g.stream.ask(id, r[0], r[1])
		if want := `{"jsonrpc":"2.0","id":` + id + `,"result":` + r[2]; err == nil && !strings.HasPrefix(got, want) {
			err = fmt.Errorf("%s: the answer does not begin with %s", r[0], want)
		}
		return err
	})
}

// atOnce makes several calls, whose answers come in any order and whose messages come between those of the others.
func (g *sseUser) atOnce() {
	b := g.newBatch(g.rng)
	for len(b.members) < 2 {
		b = g.newBatch(g.rng)
	}
	g.op("sse_calls_at_once", b.takes(), func() error {
		var sending sync.WaitGroup
		failed := make(chan error, len(b.members))
		for _, k := range b.members {
			sending.Go(func() { failed <- g.send(k) })
		}
		sending.Wait()
		for range b.members {
			if err := <-failed; err != nil {
				return err
			}
		}
		events, err := g.stream.collect(func(data string) bool { return b.event(client.Event{Data: data}) })
		if err != nil {
			return err
		}
		return b.judge(events)
	})
}

// takes is how long the longest call of the batch works.
func (b *batch) takes() (most time.Duration) {
	for _, k := range b.members {
		most = max(most, k.takes())
	}
	return most
}

// batch sends several calls as one message, with a notification and sometimes a call that is cancelled, which has no answer. The others are
// answered by one message, an array, after all that they send.
func (g *sseUser) batch() {
	b := g.newBatch(g.rng)
	var messages []string
	for _, k := range b.members {
		k.boot = g.w.boot.Load()
		messages = append(messages, `{"jsonrpc":"2.0","id":`+k.id+`,"method":"tools/call","params":`+k.params+`}`)
	}
	messages = append(messages, `{"jsonrpc":"2.0","method":"notifications/of_a_batch"}`)
	cancelled := ""
	if g.rng.IntN(3) == 0 {
		cancelled = g.newID()
		messages = append(messages, `{"jsonrpc":"2.0","id":`+cancelled+`,"method":"tools/call","params":{"name":"sleep","arguments":`+forHours+`}}`)
	}
	g.rng.Shuffle(len(messages), func(i, j int) { messages[i], messages[j] = messages[j], messages[i] })
	g.op("sse_batch", b.takes(), func() error {
		if err := g.stream.Send(g.w.ctx, "["+strings.Join(messages, ",")+"]"); err != nil {
			return err
		}
		if cancelled != "" {
			if err := g.cancel(cancelled); err != nil {
				return err
			}
		}
		events, err := g.stream.collect(func(data string) bool { return strings.HasPrefix(data, "[") })
		if err != nil {
			return err
		}
		var answers []json.RawMessage
		if err := json.Unmarshal([]byte(events[len(events)-1].Data), &answers); err != nil {
			return err
		}
		events = events[:len(events)-1]
		for _, e := range events {
			if m := parse(e.Data); m.Method == "" {
				return fmt.Errorf("an answer to a call of a batch came by itself: %s", e.Data)
			}
		}
		for _, a := range answers {
			if m := parse(string(a)); m.Method != "" {
				return fmt.Errorf("a message came among the answers to a batch: %s", a)
			}
			events = append(events, client.Event{Data: string(a)})
		}
		return b.judge(events)
	})
}

// updates has the client's resource updated, of which it is told once, before the call is answered or after that.
func (g *sseUser) updates() {
	k := g.newCall(g.rng, "touch", `{"uri":"`+g.resource()+`"}`)
	k.text = "touched " + g.resource()
	g.op("sse_update", 0, func() error {
		if !g.subscribed {
			id := g.newID()
			if err := g.stream.expect(id, "resources/subscribe", `{"uri":"`+g.resource()+`"}`, `{"jsonrpc":"2.0","id":`+id+`,"result":{}}`); err != nil {
				return err
			}
			g.subscribed = true
		}
		if err := g.send(k); err != nil {
			return err
		}
		n := 0
		events, err := g.stream.collect(func(string) bool { n++; return n == 2 })
		if err != nil {
			return err
		}
		update := `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"` + g.resource() + `"}}`
		at := slices.IndexFunc(events, func(e client.Event) bool { return e.Data == update })
		if at < 0 {
			return fmt.Errorf("%s did not come", update)
		}
		return about(k, k.judge(slices.Delete(events, at, at+1)))
	})
}
