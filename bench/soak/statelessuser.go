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

// statelessUser is a place for clients of 2026-07-28, which come, work for a while and leave.
type statelessUser struct {
	m   *mixed
	rng *rand.Rand

	*statelessClient // that is there
	tasker           *client.Stateless
}

// statelessActions are the actions of a client without a session.
var statelessActions = []action[*statelessUser]{
	{160, nil, func(p *statelessUser) { p.echoes("stateless_call", 20) }},
	{32, nil, func(p *statelessUser) { p.echoes("stateless_large_call", largeText) }},
	{3, nil, func(p *statelessUser) { p.echoes("stateless_huge_call", hugeText) }},
	{48, nil, (*statelessUser).counts},
	{40, nil, (*statelessUser).asks},
	{8, nil, (*statelessUser).asksAndGoes},
	{24, nil, (*statelessUser).listens},
	{20, nil, func(p *statelessUser) { p.m.op("stateless_lists", 0, func() error { p.walk(); return nil }) }},
	{24, nil, func(p *statelessUser) {
		p.m.op("stateless_left", 0, func() error {
			p.leave(time.Duration(1+p.rng.IntN(300))*time.Millisecond, p.rng.IntN(2) == 0)
			return nil
		})
	}},
	{24, nil, (*statelessUser).task},
}

// visit is one client from its first connection to its last.
func (p *statelessUser) visit() {
	conns := newConnSet()
	defer conns.breakAll()
	w := p.m.w
	v := &statelessClient{w: w, n: int(p.m.came.Add(1)), url: w.p.url(0)}
	v.c = client.NewStateless(v.url, conns, `{"elicitation":{"form":{}},"sampling":{},"roots":{}}`)
	v.hears = &listener{v: v, rng: rand.New(rand.NewPCG(p.rng.Uint64(), 0))}
	p.statelessClient, p.tasker = v, client.NewStateless(v.url, conns, `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`)
	for n := 10 + p.rng.IntN(50); n > 0 && p.m.goesOn(); n-- {
		draw(p.rng, statelessActions, p)(p)
		w.wait(p.m.pause(p.rng))
	}
}

// echoes has so many bytes echoed.
func (p *statelessUser) echoes(kind string, n int) {
	text := longText(p.rng, n)
	p.m.op(kind, 0, func() error {
		return answeredWith(`"text":"` + text + `"`)(p.c.Call(p.w.ctx, p.newID(), "tools/call", `"name":"echo","arguments":{"text":"`+text+`"}`))
	})
}

func (p *statelessUser) counts() {
	to, delay := 5+p.rng.IntN(20), 10+p.rng.IntN(30)
	p.m.op("stateless_streamed_call", time.Duration(to*delay)*time.Millisecond, func() error { p.count(to, delay); return nil })
}

// asks makes a call that asks once or several times, and gives the answers.
func (p *statelessUser) asks() {
	k := p.newParked(p.rng)
	k.when = atOnce
	p.m.op("stateless_question", 0, func() error { k.run(); return nil })
}

// asksAndGoes makes a call that asks, and never gives an answer.
func (p *statelessUser) asksAndGoes() {
	k := p.newParked(p.rng)
	p.m.op("stateless_question_left", 0, func() error {
		a, err := p.c.Call(p.w.ctx, p.newID(), "tools/call", k.call)
		if err != nil {
			return err
		}
		defer a.Close()
		if err := k.asked(0, a.Body, 1); err != nil {
			return fmt.Errorf("%w: %d %s", err, a.Status, a.Body)
		}
		return nil
	})
}

// listens listens for updates of a resource, has some made, and closes the stream.
func (p *statelessUser) listens() {
	p.m.op("stateless_listen", 0, func() error {
		l := p.hears
		id := p.newID()
		a, boot := p.try(id, "subscriptions/listen", `"notifications":{"resourceSubscriptions":["`+l.resource()+`"]}`)
		if a == nil || p.w.ctx.Err() != nil {
			return nil
		}
		if a.Events == nil || a.Status != http.StatusOK {
			return fmt.Errorf("listen got %d %s", a.Status, a.Body)
		}
		ended := make(chan error, 1)
		go func() {
			defer a.Close()
			err := l.read(a.Events, id, boot)
			l.open.Store(0)
			ended <- err
		}()
		heard := p.w.until(func() bool { return l.open.Load() != 0 || len(ended) > 0 })
		for range 1 + p.rng.IntN(3) {
			l.touch()
		}
		a.Close()
		switch err := <-ended; {
		case !heard:
			return fmt.Errorf("the stream was not acknowledged in %v", patience)
		case err != nil && err != errDropped && !closedHere(err):
			return err
		}
		return nil
	})
}

// closedHere reports that a stream broke because its client has closed it.
func closedHere(err error) bool { return strings.Contains(err.Error(), "closed") }

// task has a call become a task, and asks until it has completed.
func (p *statelessUser) task() {
	p.m.op("stateless_task", mixedSteps*mixedStepMS*time.Millisecond, func() error {
		a, err := p.tasker.Call(p.w.ctx, p.newID(), "tools/call", fmt.Sprintf(`"name":"job","arguments":{"steps":%d,"step_ms":%d}`, mixedSteps, mixedStepMS))
		if err != nil {
			return err
		}
		defer a.Close()
		var t struct {
			Result struct{ TaskID, Status string }
		}
		if json.Unmarshal(a.Body, &t) != nil || t.Result.TaskID == "" {
			return fmt.Errorf("no task was made: %d %s", a.Status, a.Body)
		}
		for end := time.Now().Add(patience); time.Now().Before(end) && p.w.wait(10*time.Millisecond); {
			a, err := p.tasker.Call(p.w.ctx, p.newID(), "tasks/get", `"taskId":"`+t.Result.TaskID+`"`)
			if err != nil {
				return err
			}
			a.Close()
			if t.Result.Status = ""; json.Unmarshal(a.Body, &t) != nil || t.Result.Status != "working" && t.Result.Status != "completed" {
				return fmt.Errorf("task %s: %d %s", t.Result.TaskID, a.Status, a.Body)
			}
			if t.Result.Status == "completed" {
				return answeredWith(fmt.Sprintf(`{"n":%d,`, mixedSteps))(a, nil)
			}
		}
		return fmt.Errorf("task %s did not complete in %v", t.Result.TaskID, patience)
	})
}
