package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/bench/client"
)

// stateless client is one client of 2026-07-28. It has no session: what lives across rounds is
// what it keeps itself, states of calls that wait for it and cursors.
type statelessClient struct {
	w   *world
	n   int
	url string
	c   *client.Stateless
	ids atomic.Int64

	hears *listener

	mu    sync.Mutex // guards the rest
	open  []*parked
	pages []page

	tasks sync.WaitGroup // what the current round has started
}

// page is what one page of a list held, and the cursor that led to it.
type page struct {
	method, cursor, items string
	boot                  int64 // the start that gave the cursor
}

// admit begins a stateless client.
func (w *world) admit(n int, url string) {
	v := &statelessClient{w: w, n: n, url: url, c: client.NewStateless(url, w.connectionsOf(100+n), `{"elicitation":{"form":{}},"sampling":{},"roots":{}}`)}
	v.hears = &listener{v: v, rng: rand.New(rand.NewPCG(w.o.seed, uint64(n)<<8|1))}
	w.statelessClients = append(w.statelessClients, v)
	if w.visited(ofUpdates) {
		go v.hears.run()
	}
}

func (v *statelessClient) String() string { return fmt.Sprintf("stateless client %d", v.n) }

// newID is the raw id of the next request; every third is a number.
func (v *statelessClient) newID() string {
	n := v.ids.Add(1)
	if n%3 == 0 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf(`"v%d-%d"`, v.n, n)
}

// try makes a request. It returns nil where the process may not have been up, or was
// killed: nothing is known of the request then. boot is the start that has answered,
// 0 if that may have been one of two.
func (v *statelessClient) try(id, method, params string) (a *client.Answer, boot int64) {
	w := v.w
	before, starting := w.now()
	a, err := v.c.Call(w.ctx, id, method, params)
	switch {
	case w.ctx.Err() != nil:
	case err == nil && a.Status < 500:
		if w.boot.Load() != before {
			before = 0
		}
		return a, before
	case w.mayFail(before, starting):
	case err != nil:
		w.violated(nil, "%s: %s %s failed and nobody was killed: %v", v, method, params, err)
	default:
		w.violated(nil, "%s: %s %s got %d %s and nobody was killed", v, method, params, a.Status, a.Body)
	}
	if err == nil {
		a.Close()
	}
	return nil, 0
}

// load starts what the stateless client does in the round whose harm comes after a time, as a driver's load does.
func (v *statelessClient) load(after, window time.Duration) {
	rng := v.w.rng(uint64(v.n+1)<<16 | 1)
	later := func(f func()) {
		after := time.Duration(rng.Int64N(int64(window)))
		v.tasks.Go(func() {
			if v.w.wait(after) {
				f()
			}
		})
	}
	if v.w.visited(ofAsks) {
		for range 3 + rng.IntN(3) {
			k := v.newParked(rng)
			later(func() { v.place(k) })
		}
	}
	if v.w.visited(ofStreams) {
		for range 1 + rng.IntN(2) {
			to, delay := 5+rng.IntN(20), 10+rng.IntN(30)
			later(func() { v.count(to, delay) })
		}
	}
	if v.w.visited(ofUpdates) {
		touches := 1 + rng.IntN(3)
		later(func() {
			for range touches {
				v.hears.touch()
			}
		})
	}
	if !v.w.visited(ofCalls) {
		return
	}
	if v.w.o.proxy == "" { // else a cursor is of one node alone
		later(v.walk)
	}
	left, stream := time.Duration(1+rng.IntN(300))*time.Millisecond, rng.IntN(2) == 0
	later(func() { v.leave(left, stream) })
	end := time.Now().Add(after + 300*time.Millisecond)
	v.tasks.Go(func() {
		for i := 0; (time.Now().Before(end) || v.w.rolling()) && v.echo(i); i++ {
			if i%4 == 3 && v.w.rolling() && v.w.visited(ofStreams) {
				v.count(10, 50)
			}
			v.w.wait(20 * time.Millisecond)
		}
	})
}

// echo makes one plain call. It returns false when the run has ended.
func (v *statelessClient) echo(i int) bool {
	id, text := v.newID(), fmt.Sprintf("%s %d.%d", v, v.w.round.Load(), i)
	a, _ := v.try(id, "tools/call", `"name":"echo","arguments":{"text":"`+text+`"}`)
	if a == nil {
		return v.w.ctx.Err() == nil
	}
	defer a.Close()
	if a.Status != http.StatusOK || !strings.HasPrefix(string(a.Body), `{"jsonrpc":"2.0","id":`+id+`,`) || !strings.Contains(string(a.Body), `"text":"`+text+`"`) {
		v.w.violated(nil, "%s: echo %s of %q got %d %s", v, id, text, a.Status, a.Body)
	}
	v.w.tally.add("stateless_calls")
	return true
}

// count makes a call that streams. What of it is lost with the process is lost.
func (v *statelessClient) count(to, delay int) {
	w, id := v.w, v.newID()
	boot := w.boot.Load()
	a, _ := v.try(id, "tools/call", fmt.Sprintf(`"name":"count","arguments":{"to":%d,"delay_ms":%d}`, to, delay))
	if a == nil {
		return
	}
	defer a.Close()
	if a.Events == nil {
		w.violated(nil, "%s: count got %d %s", v, a.Status, a.Body)
		return
	}
	for n := 1; ; n++ {
		e, err := a.Events.Next()
		switch m := parse(e.Data); {
		case w.ctx.Err() != nil:
		case err != nil && client.Failed(err) == client.Broken && w.excused(boot):
		case err != nil:
			w.violated(nil, "%s: count to %d: after %d messages: %v", v, to, n-1, err)
		case m.answers(id):
			if n != to+1 || m.Result == nil || len(m.Result.Content) != 1 || m.Result.Content[0].Text != fmt.Sprintf("counted to %d", to) {
				w.violated(nil, "%s: count to %d is answered after %d messages with %s", v, to, n-1, e.Data)
			}
			w.tally.add("stateless_streams")
		case m.Method == "notifications/progress" && m.Params.Progress == n && m.Params.Total == to && string(m.Params.Token) == id:
			continue
		default:
			w.violated(nil, "%s: count to %d: message %d is %s", v, to, n, e.Data)
		}
		return
	}
}

// leave makes a call that goes on forever, and closes the connection: before the first
// byte of the response, or in mid-stream.
func (v *statelessClient) leave(after time.Duration, stream bool) {
	w := v.w
	boot := w.boot.Load()
	_, starting := w.now()
	ctx, cancel := context.WithTimeout(w.ctx, after)
	defer cancel()
	call := `"name":"sleep","arguments":{"ms":3600000}`
	if stream {
		call = `"name":"count","arguments":{"to":1000000,"delay_ms":20}`
	}
	a, err := v.c.Call(ctx, v.newID(), "tools/call", call)
	for err == nil && a.Events != nil {
		_, err = a.Events.Next()
	}
	switch {
	case w.ctx.Err() != nil:
	case errors.Is(err, context.DeadlineExceeded):
		w.tally.add("stateless_left")
	case !w.mayFail(boot, starting):
		w.violated(nil, "%s: %s got %+v and %v", v, call, a, err)
	}
}

// walk reads a list page by page, for as long as the process lives.
func (v *statelessClient) walk() {
	for cursor, boot := "", int64(0); ; {
		p, next, at := v.page("tools/list", cursor)
		if p == "" {
			return
		}
		if cursor != "" && boot != 0 {
			v.mu.Lock()
			v.pages = append(v.pages, page{"tools/list", cursor, p, boot})
			v.mu.Unlock()
		}
		if cursor, boot = next, at; cursor == "" {
			return
		}
	}
}

// page reads a page: its items, and the cursor of the next.
func (v *statelessClient) page(method, cursor string) (items, next string, boot int64) {
	params := ""
	if cursor != "" {
		params = `"cursor":"` + cursor + `"`
	}
	a, boot := v.try(v.newID(), method, params)
	if a == nil {
		return "", "", 0
	}
	defer a.Close()
	var list struct {
		Result struct {
			Tools      []json.RawMessage
			NextCursor string
		}
	}
	if err := json.Unmarshal(a.Body, &list); err != nil || a.Status != http.StatusOK || len(list.Result.Tools) == 0 {
		v.w.violated(nil, "%s: %s with cursor %q got %d %s (%v)", v, method, cursor, a.Status, a.Body, err)
		return "", "", 0
	}
	v.w.tally.add("stateless_pages")
	return fmt.Sprintf("%s", list.Result.Tools), list.Result.NextCursor, boot
}

// pageAgain reads pages once more by cursors that earlier processes gave.
func (v *statelessClient) pageAgain(rng *rand.Rand) {
	v.mu.Lock()
	var old []page
	for range min(3, len(v.pages)) {
		old = append(old, v.pages[rng.IntN(len(v.pages))])
	}
	v.mu.Unlock()
	for _, p := range old {
		items, _, boot := v.page(p.method, p.cursor)
		switch {
		case items == "":
		case items != p.items:
			v.w.violated(nil, "%s: cursor %q leads to %s, and led to %s", v, p.cursor, items, p.items)
		case boot > p.boot:
			v.w.tally.add("stateless_pages_over_a_restart")
		}
	}
}

// settle waits until the calls are answered whose time has come.
func (v *statelessClient) settle() {
	v.tasks.Wait()
	due := func() *parked {
		v.mu.Lock()
		defer v.mu.Unlock()
		i := slices.IndexFunc(v.open, func(k *parked) bool { return v.w.round.Load() > int64(k.rounds) })
		if i < 0 {
			return nil
		}
		return v.open[i]
	}
	if !v.w.until(func() bool { return due() == nil }) && v.w.ctx.Err() == nil {
		v.w.violated(nil, "%s: %s was not answered in %v", v, due(), patience)
	}
}

// swap has another server refuse a state of this one, as it refuses an invented one.
func (v *statelessClient) swap(other *statelessClient, rng *rand.Rand) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, k := range v.open {
		again := k.again()
		if again == "" || other.url == v.url {
			continue
		}
		stray := strings.Replace(again, k.current(), randomID(rng)+randomID(rng), 1)
		id := v.newID()
		ask := func(params string) func(x *probe) {
			return func(x *probe) { x.keep(other.c.Call(v.w.ctx, id, "tools/call", params)) }
		}
		v.w.same("a state", ask(again), ask(stray), http.StatusOK, badState(id))
		v.w.tally.add("stateless_foreign_states_refused")
		return
	}
}

// badState is the answer to a state that is not good.
func badState(id string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"error":{"code":-32602,"message":"the requestState is not valid for this request"}}`
}
