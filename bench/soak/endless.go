package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/troupe-run/troupe/bench/client"
)

// forHours are the arguments of a call of sleep that ends only because its client does not want it any more.
const forHours = `{"ms":3600000}`

func (g *sseUser) cancel(id string) error {
	return g.stream.Notify(g.w.ctx, "notifications/cancelled", `{"requestId":`+id+`,"reason":"no longer needed"}`)
}

// newEndless makes a call that goes on for hours: silent, or telling of its progress.
func (g *sseUser) newEndless() *call {
	if g.rng.IntN(2) == 0 {
		return g.newCall(g.rng, "sleep", forHours)
	}
	k := g.newCall(g.rng, "count", `{"to":1000000,"delay_ms":20}`)
	k.to, k.token = 1000000, `"endless"`
	k.params = k.params[:len(k.params)-1] + `,"_meta":{"progressToken":` + k.token + `}}`
	return k
}

// awaits waits until an endless call is under way, and returns what came of it.
func (g *sseUser) awaits(k *call) ([]client.Event, error) {
	upTo := 1 + g.rng.IntN(5)
	if k.tool == "sleep" {
		g.w.wait(time.Duration(g.rng.IntN(100)) * time.Millisecond)
		return nil, nil
	}
	return g.stream.collect(func(data string) bool { return parse(data).Params.Progress == upTo })
}

// cancels takes a call back. Nothing of the call is sent once the cancel has been taken, so that what comes after the answer to a later request belongs
// to nothing, which the next action finds. The id is free once the handler has returned: a silent call shows by that alone that its cancel was heeded.
func (g *sseUser) cancels() {
	k := g.newEndless()
	again := g.newCall(g.rng, "echo", `{"text":"again"}`)
	again.id, again.text = k.id, "again"
	g.op("sse_cancelled_call", 0, func() error {
		if err := g.send(k); err != nil {
			return err
		}
		events, err := g.awaits(k)
		if err != nil {
			return err
		}
		if err := g.cancel(k.id); err != nil {
			return err
		}
		id := g.newID()
		if err := g.stream.Call(g.w.ctx, id, "ping", ""); err != nil {
			return err
		}
		late, err := g.stream.collect(answering(id))
		if err != nil {
			return err
		}
		if err := k.unanswered(append(events, late[:len(late)-1]...)); err != nil {
			return about(k, err)
		}
		if err := g.sendUntilFree(again); err != nil {
			return about(again, err)
		}
		events, err = g.stream.collect(answering(again.id))
		if err != nil {
			return err
		}
		return about(again, again.judge(events))
	})
}

// sendUntilFree sends a call whose id was that of another one, until the id is not in use any more.
func (g *sseUser) sendUntilFree(k *call) error {
	inUse := `{"jsonrpc":"2.0","id":` + k.id + `,"error":{"code":-32600,"message":"the id is in use by a request in flight"}}`
	for end := time.Now().Add(patience); time.Now().Before(end); {
		a, err := g.stream.Post(g.w.ctx, `{"jsonrpc":"2.0","id":`+k.id+`,"method":"tools/call","params":`+k.params+`}`)
		switch {
		case err != nil:
			return err
		case a.Status == http.StatusAccepted && len(a.Body) == 0:
			return nil
		case a.Status != http.StatusBadRequest || string(a.Body) != inUse:
			return fmt.Errorf("it got %d %s", a.Status, a.Body)
		}
		if !g.w.wait(time.Millisecond) {
			return context.Cause(g.w.ctx)
		}
	}
	return fmt.Errorf("its id is in use %v after the other call was cancelled", patience)
}

// unanswered says what is wrong with the messages of a call that must not be answered.
func (k *call) unanswered(events []client.Event) error {
	h, err := k.hear(events)
	if err == nil && h.finals > 0 {
		err = errors.New("it was answered though it goes on for hours")
	}
	return err
}
