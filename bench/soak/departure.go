package main

import (
	"fmt"

	"github.com/troupe-run/troupe/bench/client"
)

// departure is a way in which a client over HTTP+SSE leaves.
type departure struct {
	name  string
	fresh bool // before it has initialized
	in    func(*sseUser) (*call, []client.Event, error)
}

// departures are taken in turn, so that a short run has each of them. What a client leaves behind ends with its connection.
var departures = []departure{
	{"sse_left_uninitialized", true, nil},
	{"sse_left_in_a_call", false, (*sseUser).beginsCall},
	{"sse_left_with_a_question", false, (*sseUser).beginsQuestion},
	{"sse_left_in_a_batch", false, (*sseUser).beginsBatch},
	{"sse_left", false, nil},
	{"sse_left_in_a_call", false, (*sseUser).beginsCall},
	{"sse_left", false, nil},
}

// leave closes the stream, or breaks all connections of the client. Nothing may have come that does not belong to what the client has left behind, and
// its session is unknown soon afterwards, even to messages over other connections.
func (g *sseUser) leave(way departure) {
	var k *call
	var came []client.Event
	if way.in != nil {
		g.op("sse_left_behind", 0, func() (err error) { k, came, err = way.in(g); return err })
	}
	if g.lost {
		g.conns.breakAll()
		g.stream.drain()
		return
	}
	again := g.conns
	if g.rng.IntN(2) == 0 {
		g.stream.Close()
	} else {
		g.conns.breakAll()
		again = newConnSet()
		defer again.breakAll()
	}
	came = append(came, g.stream.drain()...)
	if g.w.ctx.Err() != nil {
		return
	}
	switch {
	case k != nil:
		if err := k.unanswered(came); err != nil {
			g.w.violated(nil, "%v", g.stream.with(fmt.Errorf("%s: %s, which it has left behind: %w", g, k, err)))
		}
	case len(came) > 0:
		g.w.violated(nil, "%v", g.stream.with(fmt.Errorf("%s: what came before it left belongs to nothing", g)))
	}
	g.w.tally.add(way.name)
	if g.rng.IntN(2) == 0 {
		g.op("sse_message_after_close", 0, func() error { return g.stream.gone(again, g.newID) })
	}
}

// beginsCall begins a call that goes on for hours.
func (g *sseUser) beginsCall() (*call, []client.Event, error) {
	k := g.newEndless()
	if err := g.send(k); err != nil {
		return nil, nil, err
	}
	came, err := g.awaits(k)
	return k, came, err
}

// beginsQuestion has a question asked, and does not answer it.
func (g *sseUser) beginsQuestion() (*call, []client.Event, error) {
	k, q := g.newQuestion()
	if err := g.send(k); err != nil {
		return nil, nil, err
	}
	_, err := g.awaitQuestion(q)
	return k, nil, about(k, err)
}

// beginsBatch sends a batch of which one call goes on for hours, so that the others are not answered either.
func (g *sseUser) beginsBatch() (*call, []client.Event, error) {
	k := g.newCall(g.rng, "sleep", forHours)
	return k, nil, g.stream.Send(g.w.ctx, `[{"jsonrpc":"2.0","id":`+k.id+`,"method":"tools/call","params":`+k.params+`},`+
		`{"jsonrpc":"2.0","id":`+g.newID()+`,"method":"tools/call","params":{"name":"echo","arguments":{"text":"unheard"}}}]`)
}
