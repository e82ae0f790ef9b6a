package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/troupe-run/troupe/bench/client"
)

// worldReport is what a run of harms found.
type worldReport struct {
	Scenario string             `json:"scenario"`
	Nodes    int                `json:"nodes"`
	Proxy    string             `json:"proxy,omitempty"`
	Servers  int                `json:"servers"`
	NATS     int                `json:"nats_servers,omitempty"`
	Old      string             `json:"takes_turns_with,omitempty"`
	Seed     uint64             `json:"seed"`
	Rounds   int                `json:"rounds"`
	Clients  int                `json:"clients"`
	Seconds  float64            `json:"seconds"`
	Harms    map[string]int     `json:"harms"`
	Answered latency            `json:"harm_to_next_plain_call_ms"` // of the only node: from when it starts or goes on
	Ends     latency            `json:"signal_to_exit_ms"`
	Refused  latency            `json:"another_client_is_refused_in_a_restart_ms"`
	Left     latency            `json:"connection_closed_to_handler_ended_ms"`
	Gaps     map[string]latency `json:"broken_stream_to_next_event_ms"`
	Counts   map[string]int64   `json:"counts"`
	SSE      map[string]int64   `json:"http_sse,omitempty"`
	Tasks    ledgerReport       `json:"tasks"`

	times    bool // are judged
	restarts bool // restarts were the only harm
	greedy   bool // a greedy client was to be there
}

// Bounds of times, which need a machine that does nothing else.
const (
	mostRefused = time.Second            // another client, in a restart
	mostLeft    = 100 * time.Millisecond // until a handler has ended whose client has gone away
)

// verdict holds the report against what is promised.
func (r *worldReport) verdict() error {
	err := r.Tasks.verdict(r.Nodes > 1, r.times)
	if r.Counts["greedy_served"] == 0 && r.greedy { // others beside nobody prove nothing
		err = errors.Join(err, errors.New("the greedy client was served nothing"))
	}
	if r.times && r.restarts && r.Refused.Max > ms(mostRefused) {
		err = errors.Join(err, fmt.Errorf("another client is refused for %.0f ms in a restart", r.Refused.Max))
	}
	if r.times && r.Nodes == 1 && r.Left.Max > ms(mostLeft) {
		err = errors.Join(err, fmt.Errorf("a handler ended %.0f ms after its client had closed the connection", r.Left.Max))
	}
	return err
}

// runWorld has clients work with one node or several, which are harmed in one way after the other, and judges that nothing that was
// acknowledged is lost, doubled, out of order or foreign.
func runWorld(ctx context.Context, o options) (*worldReport, error) {
	for _, kind := range o.visitors {
		if !o.visitorFits(kind) {
			return nil, fmt.Errorf("visitors %q do not fit %d nodes behind %q; there are %s", kind, o.nodes, o.proxy, strings.Join(allVisitors, ", "))
		}
	}
	plan, err := o.planHarms(rand.New(rand.NewPCG(o.seed, 3)))
	if err != nil {
		return nil, err
	}
	wait := drainWait
	if o.restarts() {
		wait = 10 * time.Minute // the node ends long before
	}
	w, err := newWorld(ctx, o, "--drain-wait", wait.String())
	if err != nil {
		return nil, err
	}
	defer w.end()
	w.rt, w.gaps.all = balancedTransport{w.rt.(*http.Transport)}, make(map[string][]time.Duration)
	switch {
	case o.proxy != "":
		w.fleet, err = newProxied(w.ctx, o, w.p.addr)
	case o.nodes > 1:
		w.fleet, err = newFleet(w.ctx, o, w.p.addr)
	}
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if err := w.begin(); err != nil {
		return nil, err
	}
	tasks := newLedger(w.ctx, o, w.p.url(0), taskSteps, taskStepMS)
	sse := newLoad(w)
	sseEnd := sse.startSSE(o.clients / 4)
	w.startGreedy()
	r := &worldReport{Scenario: "world", Nodes: o.nodes, Proxy: o.proxy, Servers: o.servers, Old: o.old, Seed: o.seed, Clients: o.clients, Harms: make(map[string]int), Gaps: make(map[string]latency), times: !o.counts, restarts: o.restarts(), greedy: w.visited(ofGreed)}
	if o.nodes > 1 && o.proxy == "" {
		r.NATS = o.nats
	}
	for n, harm := range plan {
		if o.time > 0 && time.Since(began) > o.time {
			break
		}
		w.round.Store(int64(n))
		w.how.Store(harm)
		r.Harms[harm]++
		r.Rounds++
		if err := w.runRound(tasks); err != nil {
			return nil, err
		}
		fmt.Fprintf(o.log, "%3.0f s: round %d of %d (%s): %d calls, %d events, %d resumes; without a session %d calls, %d answers to questions; %d tasks\n", time.Since(began).Seconds(), n+1, o.rounds,
			harm, w.tally.of("calls"), w.tally.of("events"), w.tally.of("resumes"), w.tally.of("stateless_calls"), w.tally.of("stateless_answered"), len(tasks.open))
	}
	w.round.Store(int64(o.rounds) + 10) // nothing may take longer now
	sseEnd()
	if err := w.finish(); err != nil {
		return nil, err
	}
	if w.visited(ofTasks) {
		if err := tasks.finish(); err != nil {
			return nil, w.cause(err)
		}
		if r.Tasks, err = tasks.judge(); err != nil {
			return nil, err
		}
	}
	if r.Left, err = w.measureLeft(); err != nil {
		return nil, w.cause(err)
	}
	r.Counts, r.Answered, r.Ends, r.Refused, r.Seconds = w.tally.counts(), latencyOf(w.answered), latencyOf(w.ends), latencyOf(w.refused), time.Since(began).Seconds()
	for how, all := range w.gaps.all {
		r.Gaps[how] = latencyOf(all)
	}
	r.SSE = sse.done()
	return r, nil
}

// runRound has clients work while the harm of the round is done, and judges what they got.
func (w *world) runRound(tasks *ledger) (err error) {
	rng := w.rng(0)
	if w.crowd = nil; w.harm() == byCrowd {
		if w.crowd, err = w.newCrowd(w.o.crowd); err != nil {
			return w.cause(err)
		}
	}
	create := func(n int) {
		if w.visited(ofTasks) {
			tasks.create(n)
		}
	}
	create(roundTasks / 2) // these work when the harm comes, and the others may be being made
	after := time.Duration(rng.IntN(1500)) * time.Millisecond
	window := after + 300*time.Millisecond
	if w.harm() == byRoll || w.harm() == byPause && w.fleet == nil {
		window = after + standstill
	}
	for _, d := range w.drivers {
		d.load(after, window)
	}
	for _, v := range w.statelessClients {
		v.load(after, window)
	}
	created := make(chan struct{})
	go func() {
		defer close(created)
		create(roundTasks / 2)
	}()
	w.wait(after)
	struck := time.Now()
	if err := w.strike(rng); err != nil {
		return w.cause(err)
	}
	lost := loss{harm: w.harm(), at: struck}
	if w.fleet != nil {
		lost.node = w.fleet.victim
	}
	if w.harm() == byKill || w.harm() == byCrowd || w.fleet != nil && w.harm() == byPause {
		tasks.losses = append(tasks.losses, lost)
	}
	<-created
	return w.judgeRound(rng)
}

// judgeRound checks that every client has what it was promised.
func (w *world) judgeRound(rng *rand.Rand) error {
	for i, d := range w.drivers {
		served := d.echo(1000 + i)
		if !served && w.fleet != nil && w.harm() != byRoll {
			served = w.until(func() bool { return d.echo(1000 + i) })
		}
		if !served {
			return w.cause(errors.New("a session does not work after the harm is over"))
		}
		w.tally.add("sessions_after_restart")
	}
	for i, v := range w.statelessClients {
		v.echo(1000 + i)
		v.swap(w.statelessClients[(i+1)%len(w.statelessClients)], rng)
	}
	w.copiesSurvive()
	for _, d := range w.drivers {
		d.settle()
	}
	for _, v := range w.statelessClients {
		v.settle()
		if w.fleet == nil {
			v.pageAgain(rng)
			v.leave(25*time.Millisecond, rng.IntN(2) == 0) // finish looks whether that is noticed
		}
	}
	if w.crowd != nil {
		w.crowd.whole()
	}
	for i, d := range w.drivers {
		d.replays(rng)
		d.swap(w.drivers[(i+1)%len(w.drivers)], rng)
		if w.fleet == nil && rng.IntN(10) == 0 && !d.old {
			d.rotate()
		}
		d.forget()
	}
	return w.cause(nil)
}

// measureLeft closes the connections of calls that would go on for hours, before the first byte of the answer and in mid-stream, when nothing else
// is in flight, and returns how long it takes until their handlers have ended.
func (w *world) measureLeft() (latency, error) {
	if !w.visited(ofStateless) || w.o.proxy != "" { // HAProxy tells nobody of a client that has left before the first byte
		return latency{}, nil
	}
	c := client.NewStateless(w.p.url(0), w.connectionsOf(99), `{}`)
	var all []time.Duration
	for i := range 2 * leftCalls {
		ctx, leave := context.WithCancel(w.ctx)
		call := `"name":"sleep","arguments":{"ms":3600000}`
		if i%2 == 1 {
			call = `"name":"count","arguments":{"to":1000000,"delay_ms":1000}`
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			a, err := c.Call(ctx, `"x"`, "tools/call", call)
			for err == nil && a.Events != nil {
				_, err = a.Events.Next()
			}
		}()
		begun := w.until(func() bool { return w.inFlight() != "0" })
		left := time.Now()
		leave()
		<-ended
		if !begun || !w.until(func() bool { return w.inFlight() == "0" }) {
			return latency{}, fmt.Errorf("%s was left, and %s calls are in flight (it began: %t):\n%s", call, w.inFlight(), begun, w.logs())
		}
		all = append(all, time.Since(left))
	}
	err := each(principalCalls+100, 50, func(int) error {
		ctx, leave := context.WithTimeout(w.ctx, 50*time.Millisecond)
		defer leave()
		a, err := c.Call(ctx, `"x"`, "tools/call", `"name":"sleep","arguments":{"ms":3600000}`)
		if err == nil {
			a.Close()
			return fmt.Errorf("a call among many that are left got %d %s", a.Status, a.Body)
		}
		return nil
	})
	if err != nil {
		return latency{}, err
	}
	if !w.until(func() bool { return w.inFlight() == "0" }) {
		return latency{}, fmt.Errorf("many calls were left, and %s are in flight", w.inFlight())
	}
	return latencyOf(all), answeredWith(`"text":"free"`)(c.Call(w.ctx, "1", "tools/call", `"name":"echo","arguments":{"text":"free"}`))
}

const (
	// leftCalls are how many calls of each kind are left to measure.
	leftCalls = 10
	// principalCalls are how many calls a principal may have in flight: more than these are left afterwards, and each has to give its place back.
	principalCalls = 1024
)
