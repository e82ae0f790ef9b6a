package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// worldReport is what a run of harms found.
type worldReport struct {
	report
	Nodes    int                `json:"nodes"`
	Proxy    string             `json:"proxy,omitempty"`
	Servers  int                `json:"servers"`
	NATS     int                `json:"nats_servers,omitempty"`
	Old      string             `json:"takes_turns_with,omitempty"`
	Rounds   int                `json:"rounds"`
	Clients  int                `json:"clients"`
	Harms    map[string]int     `json:"harms"`
	Answered latency            `json:"harm_to_next_plain_call_ms"` // of the only node: from when it starts or goes on
	Ends     latency            `json:"signal_to_exit_ms"`
	Refused  latency            `json:"another_client_is_refused_in_a_restart_ms"`
	Left     latency            `json:"connection_closed_to_handler_ended_ms"`
	Through  *throughReport     `json:"through_the_proxy,omitempty"`
	Gaps     map[string]latency `json:"broken_stream_to_next_event_ms"`
	Counts   map[string]int64   `json:"counts"`
	Tasks    ledgerReport       `json:"tasks"`
}

// Bounds of times, which need a machine that does nothing else.
const (
	mostRefused = time.Second            // another client, in a restart
	mostLeft    = 100 * time.Millisecond // until a handler has ended whose client has gone away
)

// judge holds the report against what is promised.
func (r *worldReport) judge(o *options, greedy bool) {
	r.Tasks.judge(&r.report, r.Nodes > 1)
	if greedy && r.Counts["greedy_served"] == 0 { // others beside nobody prove nothing
		r.addBroken("the greedy client was served nothing")
	}
	if o.restarts() && r.Refused.Max > ms(mostRefused) {
		r.addOver("another client is refused for %.0f ms in a restart", r.Refused.Max)
	}
	if r.Through != nil && r.Through.Events.Max > ms(mostLate) {
		r.addOver("an event came %.0f ms after it had been written", r.Through.Events.Max)
	}
	if (r.Nodes == 1 || r.Proxy != "") && r.Left.Max > ms(mostLeft) {
		r.addOver("a handler ended %.0f ms after its client had closed the connection", r.Left.Max)
	}
}

// roundVisitor is a client that works in each round.
type roundVisitor interface {
	startRound(after, window time.Duration)
	checkServed()           // it is served after a harm
	settleRound(all bool)   // it has the answers that are due, or all
	checkKept(*rand.Rand)   // it still has what it got earlier
	finishAll()             // it has everything
	wants(kind string) bool // it takes part in a kind of use
}

// worldRun is one run.
type worldRun struct {
	world    *world
	visitors []roundVisitor
	tasks    *ledger

	answered []time.Duration // from each harm to the next plain call
	ends     []time.Duration // of nodes that were to end in order
	refused  []time.Duration // for which another client was refused, by restarts
}

// runWorld has clients work with one node or several, which are harmed in one way after the other,
// and judges that nothing that was acknowledged is lost, doubled, out of order or foreign.
func runWorld(ctx context.Context, o options) (*worldReport, error) {
	for _, kind := range o.visitors {
		if !o.visitorFits(kind) {
			return nil, fmt.Errorf("visitors %q do not fit %d nodes; there are %s", kind, o.nodes, allVisitors)
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
	w.rt = balancedTransport{w.rt.(*http.Transport)}
	if w.several = o.nodes > 1; w.several {
		w.fleet, err = newFleet(w.ctx, o, w.p.Addr)
	}
	if err != nil {
		return nil, err
	}
	r, began := &worldRun{world: w}, time.Now()
	if err := r.begin(); err != nil {
		return nil, w.cause(err)
	}
	report := &worldReport{report: newReport("world", o), Nodes: o.nodes, Proxy: o.proxy, Servers: o.servers, Old: o.old, Clients: o.clients, Harms: make(map[string]int)}
	if onNATS(&o) {
		report.NATS = o.nats
	}
	wants := r.visitors[0].wants
	stopGreedy := func() {}
	if wants(ofGreed) {
		stopGreedy = startGreedy(w)
	}
	over, sse := make(chan struct{}), new(sync.WaitGroup)
	for i := range max(1, o.clients/4) {
		if rng := rand.New(rand.NewPCG(o.seed, 300+uint64(i))); wants(ofSSE) {
			sse.Go(func() {
				for n := 0; !isClosed(over) && w.wait(time.Duration(rng.IntN(300))*time.Millisecond); n++ {
					visitOverSSE(w, n*o.clients+i, n+i, rng)
				}
			})
		}
	}
	for n, h := range plan {
		if o.time > 0 && time.Since(began) > o.time {
			break
		}
		w.round.Store(int64(n))
		w.harm.Store(h.name)
		report.Harms[h.name]++
		report.Rounds++
		if err := r.runRound(h); err != nil {
			return nil, w.cause(err)
		}
		fmt.Fprintf(o.log, "%3.0f s: round %d of %d (%s): %d calls, %d events, %d resumes; without a session %d calls, %d answers to questions; %d tasks\n", time.Since(began).Seconds(), n+1, o.rounds,
			h.name, w.tally.of("calls"), w.tally.of("events"), w.tally.of("resumes"), w.tally.of("stateless_echo"), w.tally.of("stateless_answered"), len(r.tasks.open))
	}
	w.round.Store(int64(o.rounds) + 10) // nothing may take longer now
	close(over)
	sse.Wait()
	stopGreedy()
	for _, v := range r.visitors {
		v.finishAll()
	}
	if !w.until(func() bool { return w.callsInFlight() == "0" }) {
		w.violated(nil, "all is answered or cancelled, and %s calls are in flight", w.callsInFlight())
	}
	if err := w.cause(nil); err != nil {
		return nil, err
	}
	if report.Tasks, err = r.tasks.finishAll(); err != nil {
		return nil, w.cause(err)
	}
	if o.proxy != "" {
		if report.Through, err = measureThrough(w); err != nil {
			return nil, w.cause(err)
		}
	}
	if wants(ofStateless) {
		if report.Left, err = measureLeft(w); err != nil {
			return nil, w.cause(err)
		}
	}
	report.Counts, report.Seconds = w.tally.counts(), time.Since(began).Seconds()
	report.Answered, report.Ends, report.Refused, report.Gaps = latencyOf(r.answered), latencyOf(r.ends), latencyOf(r.refused), latenciesOf(w.gaps.all)
	report.judge(&o, wants(ofGreed))
	return report, nil
}

// begin starts the nodes and begins the clients that live across all rounds.
func (r *worldRun) begin() error {
	w, o := r.world, &r.world.o
	if _, err := w.start(); err != nil {
		return err
	}
	for n := range o.clients {
		revision := []string{primed, primed, primed, batching}[n%4]
		if o.proxy != "" && n%4 == 1 {
			revision = middle
		}
		v := newSession(w, n, revision, w.p.URL(n*o.servers/o.clients), w.rt)
		if err := v.begin(); err != nil {
			return err
		}
		if r.visitors = append(r.visitors, v); n == 0 {
			w.answers = func() bool {
				return answeredWith(`"text":"first"`)(v.c.SendRequest(w.ctx, v.newID(), "tools/call", `{"name":"echo","arguments":{"text":"first"}}`)) == nil
			}
		}
	}
	without := max(2, o.clients/2)
	for n := 0; n < without && r.visitors[0].wants(ofStateless); n++ {
		v := newStateless(w, n, w.p.URL(n*o.servers/without), w.rt)
		if r.visitors = append(r.visitors, v); v.hears != nil {
			go v.hears.run()
		}
	}
	r.tasks = newLedger(w.ctx, *o, w.p.URL(0))
	return nil
}

// runRound has clients work while a harm is done, and judges what they got.
func (r *worldRun) runRound(h *harm) (err error) {
	w, rng := r.world, r.world.rngFor(0)
	createTasks := func() {
		if r.visitors[0].wants(ofTasks) {
			r.tasks.createTasks(roundTasks / 2)
		}
	}
	createTasks() // these work when the harm comes, and the others may be being made
	after := time.Duration(rng.IntN(1500)) * time.Millisecond
	window := after + 300*time.Millisecond
	if h.name == byRoll || h.name == byPause && w.fleet == nil {
		window = after + standstill
	}
	for _, v := range r.visitors {
		v.startRound(after, window)
	}
	var creating sync.WaitGroup
	creating.Go(createTasks)
	w.wait(after)
	lost := loss{harm: h.name, at: time.Now()}
	w.orderly.Store(h.name == byRestart)
	if w.fleet == nil || h.name == byRoll {
		err = h.alone(r, rng)
	} else {
		err = r.strikeFleet(h, rng)
		lost.node = w.fleet.victim
	}
	if err != nil {
		return err
	}
	if h.name == byKill || w.fleet != nil && h.name == byPause {
		r.tasks.losses = append(r.tasks.losses, lost)
	}
	creating.Wait()
	for _, v := range r.visitors {
		v.checkServed()
	}
	for _, v := range r.visitors {
		v.settleRound(false)
	}
	for _, v := range r.visitors {
		v.checkKept(rng)
	}
	return w.cause(nil)
}
