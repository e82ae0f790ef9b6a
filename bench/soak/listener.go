package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/bench/client"
)

// listener keeps a subscriptions/listen stream open for a stateless client, and opens another when
// it breaks.
type listener struct {
	v       *stateless
	rng     *rand.Rand
	serial  int64        // of the stream that is, or was last, open
	open    atomic.Int64 // the serial of the stream that is acknowledged and open, 0 if none is
	boot    atomic.Int64 // the start that has it
	updates atomic.Int64

	leaves  atomic.Bool // it goes away for good
	current atomic.Pointer[client.Answer]
}

// leave has the client go away for good.
func (l *listener) leave() {
	l.leaves.Store(true)
	if a := l.current.Load(); a != nil {
		a.Close()
	}
}

// run listens until the run ends or the client leaves.
func (l *listener) run() {
	w := l.v.w
	for w.ctx.Err() == nil && !l.leaves.Load() {
		id, before := l.v.newID(), w.boot.Load()
		a, boot := l.v.tryRequest(id, "subscriptions/listen", `"notifications":{"resourceSubscriptions":["`+l.v.resource()+`"]}`)
		if a != nil && a.Events == nil {
			l.v.accuse(nil, "listen got %d %s", a.Status, a.Body)
			return
		}
		if a != nil {
			if l.current.Store(a); l.leaves.Load() {
				a.Close()
			}
			err := l.readUpdates(a.Events, id, boot)
			a.Close()
			l.open.Store(0)
			switch {
			case errors.Is(err, errDropped), l.leaves.Load():
			case client.Failed(err) == client.Broken && w.mayBreak(before):
			case errors.Is(err, errToldToLeave) && w.mayEnd(before): // the node ends in order, or others live without it
			default:
				l.v.accuse(nil, "a listener ended and nobody was killed: %v", err)
			}
		}
		w.wait(time.Duration(1+l.rng.IntN(20)) * time.Millisecond)
	}
}

// errToldToLeave reports that the server has ended a listener because it ends itself, or cannot
// know of updates.
var errToldToLeave = errors.New("the server has sent the client away")

// readUpdates reads the messages of a listener. The client goes away now and then.
func (l *listener) readUpdates(events *client.Events, id string, boot int64) error {
	meta, uri := `"params":{"_meta":{"io.modelcontextprotocol/subscriptionId":`+id+`},`, l.v.resource()
	want := `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged",` + meta + `"notifications":{"resourceSubscriptions":["` + uri + `"]}}}`
	for n := 0; ; n++ {
		e, err := events.Next()
		switch {
		case err != nil:
			return err
		case strings.Contains(e.Data, `"reason":"the server is shutting down"`), strings.Contains(e.Data, `"reason":"this node has lost its store: listen again"`):
			return errToldToLeave
		case e.Data != want:
			return fmt.Errorf("message %d is %s, want %s", n, e.Data, want)
		}
		want = `{"jsonrpc":"2.0","method":"notifications/resources/updated",` + meta + `"uri":"` + uri + `"}}`
		if n > 0 {
			l.updates.Add(1)
			l.v.w.tally.add("stateless_updates")
			if l.rng.IntN(8) == 0 {
				return errDropped
			}
			continue
		}
		if l.serial++; l.serial > 1 {
			l.v.w.tally.add("stateless_listeners_again")
		}
		if boot != 0 {
			l.boot.Store(boot)
			l.open.Store(l.serial)
		}
	}
}

// touchResource has the client's resource updated. The stream that was open before and is open
// afterwards has to tell.
func (l *listener) touchResource() {
	serial, boot, before := l.open.Load(), l.boot.Load(), l.updates.Load()
	if serial == 0 {
		return
	}
	a, at := l.v.tryRequest(l.v.newID(), "tools/call", `"name":"touch","arguments":{"uri":"`+l.v.resource()+`"}`)
	if a == nil {
		return
	}
	defer a.Close()
	if !strings.Contains(string(a.Body), `"text":"touched `) {
		l.v.accuse(nil, "touch got %d %s", a.Status, a.Body)
	}
	isTold := func() bool { return l.updates.Load() > before || l.open.Load() != serial }
	if at == boot && !l.v.w.until(isTold) {
		l.v.accuse(nil, "%s was touched and no update came", l.v.resource())
	}
}
