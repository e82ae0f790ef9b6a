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
	"time"

	"github.com/troupe-run/troupe/bench/client"
)

// stateless is a client of 2026-07-28. It has no session: what lives across rounds is what it keeps
// itself, states of calls that wait for it.
type stateless struct {
	visitor
	c      *client.Stateless
	tasker *client.Stateless // takes tasks in place of results
	hears  *listener         // nil: nothing

	mu   sync.Mutex // guards open
	open []*parked
}

func newStateless(w *world, n int, url string, rt http.RoundTripper) *stateless {
	v := &stateless{visitor: visitor{w: w, kind: "stateless client", n: n, rng: w.rngFor(uint64(n+1)<<16 | 1)}}
	v.c = client.NewStateless(url, rt, `{"elicitation":{"form":{}},"sampling":{},"roots":{}}`)
	v.tasker = client.NewStateless(url, rt, `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`)
	if v.wants(ofUpdates) {
		v.hears = &listener{v: v, rng: rand.New(rand.NewPCG(w.o.seed, uint64(n)<<8|1))}
	}
	return v
}

// tryRequest makes a request. It returns nil where the process may not have been up, or was killed:
// nothing is known of the request then. boot is the start that has answered, 0 if that may have
// been one of two.
func (v *stateless) tryRequest(id, method, params string) (a *client.Answer, boot int64) {
	w := v.w
	before, starting := w.currentBoot()
	a, err := v.c.SendRequest(w.ctx, id, method, params)
	if err == nil && a.Status < 500 {
		if w.boot.Load() != before {
			before = 0
		}
		return a, before
	}
	if !w.mayFail(before, starting) {
		v.accuse(nil, "%s %s got %+v and nobody was killed: %v", method, params, a, err)
	}
	if err == nil {
		a.Close()
	}
	return nil, 0
}

// startRound starts what the client does in a round, as that of a session does.
func (v *stateless) startRound(after, window time.Duration) {
	v.rng = v.w.rngFor(uint64(v.n+1)<<16 | 1)
	rng := v.rng
	if v.wants(ofAsks) {
		for range 3 + rng.IntN(3) {
			k := v.newParked(rng)
			v.doWithin(window, func() { v.placeCall(k) })
		}
	}
	if v.wants(ofStreams) {
		for range 1 + rng.IntN(2) {
			to, delay := 5+rng.IntN(20), 10+rng.IntN(30)
			v.doWithin(window, func() { v.count(to, delay) })
		}
	}
	if v.hears != nil {
		touches := 1 + rng.IntN(3)
		v.doWithin(window, func() {
			for range touches {
				v.hears.touchResource()
			}
		})
	}
	if v.isCalm() {
		v.doWithin(window, v.runTask)
	}
	if !v.wants(ofCalls) {
		return
	}
	left, streams := time.Duration(1+rng.IntN(300))*time.Millisecond, rng.IntN(2) == 0
	v.doWithin(window, func() { v.leaveCall(left, streams) })
	end, loop := time.Now().Add(after+300*time.Millisecond), rand.New(rand.NewPCG(rng.Uint64(), 0))
	v.work.Go(func() {
		for i := 1; (time.Now().Before(end) || v.w.rolling.Load()) && v.w.wait(20*time.Millisecond); i++ {
			if v.callEcho(loop); i%4 == 0 && v.w.rolling.Load() && v.wants(ofStreams) {
				v.count(10, 50)
			}
		}
	})
}

// judge reads the answer to a call to its end and judges all that came.
func (v *stateless) judge(k *call, a *client.Answer, boot int64) {
	defer a.Close()
	events := []client.Event{{Data: string(a.Body)}}
	if a.Events != nil {
		events = nil
	}
	for a.Events != nil {
		e, err := a.Events.Next()
		if err != nil {
			if client.Failed(err) != client.Broken || !v.w.isExcused(boot) {
				v.accuse(nil, "%s ended after %d messages: %v", k, len(events), err)
			}
			return
		}
		events = append(events, e)
		if m := parse(e.Data); m.answers(k.id) {
			break
		}
	}
	if err := judgeCalls([]*call{k}, events, false); err != nil {
		v.accuse(nil, "got %d: %v", a.Status, err)
	}
	v.w.tally.add("stateless_" + k.tool)
}

// sendCall makes a call. What of it is lost with the process is lost.
func (v *stateless) sendCall(k *call) {
	k.silent = true
	k.boot = v.w.boot.Load()
	if a, _ := v.tryRequest(k.id, "tools/call", `"name":"`+k.tool+`","arguments":`+k.args); a != nil {
		v.judge(k, a, k.boot)
	}
}

func (v *stateless) callEcho(rng *rand.Rand) { v.sendCall(v.newEcho(rng, drawSize(rng))) }

// count makes a call that streams.
func (v *stateless) count(to, delay int) {
	k := v.newCount(to, delay, "")
	k.token = k.id
	v.sendCall(k)
}

// Calls that go on for hours, before the first byte of whose response, or in mid-stream, the client
// leaves.
const (
	endlessSleep  = `"name":"sleep","arguments":` + forHours
	endlessStream = `"name":"count","arguments":{"to":1000000,"delay_ms":20}`
)

// leaveCall makes a call and closes the connection after a time.
func (v *stateless) leaveCall(after time.Duration, streams bool) {
	boot, starting := v.w.currentBoot()
	call := endlessSleep
	if streams {
		call = endlessStream
	}
	err := v.leaveWhen(call, func() bool { v.w.wait(after); return true })
	if errors.Is(err, context.Canceled) {
		v.w.tally.add("stateless_left")
	} else if !v.w.mayFail(boot, starting) {
		v.accuse(nil, "%s got %v", call, err)
	}
}

// leaveWhen makes a call and closes the connection once it is time, which must be while it is patient.
// It returns how the call ended.
func (v *stateless) leaveWhen(call string, isTime func() bool) error {
	ctx, cancel := context.WithCancel(v.w.ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		a, err := v.c.SendRequest(ctx, v.newID(), "tools/call", call)
		if err == nil && a.Events == nil {
			err = fmt.Errorf("it is answered with %d %s", a.Status, a.Body)
		}
		for err == nil {
			_, err = a.Events.Next()
		}
		ended <- err
	}()
	if !v.w.until(isTime) {
		return errors.New("it did not begin")
	}
	cancel()
	return <-ended
}

// placeCall begins a call that asks and sees it through.
func (v *stateless) placeCall(k *parked) {
	v.mu.Lock()
	v.open = append(v.open, k)
	v.mu.Unlock()
	go func() {
		k.run()
		v.mu.Lock()
		defer v.mu.Unlock()
		v.open = slices.DeleteFunc(v.open, func(o *parked) bool { return o == k })
	}()
}

func (v *stateless) checkServed() { v.callEcho(v.rng) }

// settleRound waits until the calls are answered whose time has come.
func (v *stateless) settleRound(all bool) {
	v.work.Wait()
	due := func() *parked {
		v.mu.Lock()
		defer v.mu.Unlock()
		for _, k := range v.open {
			if all || v.w.round.Load() > k.round {
				return k
			}
		}
		return nil
	}
	if !v.w.until(func() bool { return due() == nil }) {
		v.accuse(nil, "%s was not answered in %v", due(), patience)
	}
}

// checkKept leaves a call: the end of the run looks whether that is noticed.
func (v *stateless) checkKept(rng *rand.Rand) {
	if v.w.fleet == nil {
		v.leaveCall(25*time.Millisecond, rng.IntN(2) == 0)
	}
}

func (v *stateless) finishAll() { v.settleRound(true) }

// runTask has a call become a task, and asks until it has completed.
func (v *stateless) runTask() {
	a, err := v.tasker.SendRequest(v.w.ctx, v.newID(), "tools/call", jobCall)
	var t struct {
		Result struct{ TaskID, Status string }
	}
	for completed := false; err == nil && !completed && v.w.wait(10*time.Millisecond); completed = t.Result.Status == "completed" {
		if err = json.Unmarshal(a.Body, &t); err == nil && (t.Result.TaskID == "" || t.Result.Status != "working" && t.Result.Status != "completed") {
			err = errors.New("it does not work")
		}
		if err == nil {
			a, err = v.tasker.SendRequest(v.w.ctx, v.newID(), "tasks/get", `"taskId":"`+t.Result.TaskID+`"`)
		}
	}
	if err != nil || !strings.Contains(string(a.Body), `{"n":3,`) {
		v.accuse(nil, "a task got %+v: %v", a, err)
	}
	v.w.tally.add("stateless_tasks")
}
