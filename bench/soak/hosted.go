package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/troupe-run/troupe/bench/client"
	"github.com/troupe-run/troupe/bench/loadgen"
	"github.com/troupe-run/troupe/bench/program"
)

// hostedReport is what hosting costs beside speaking to the server directly. Times are in milliseconds but for what says otherwise.
type hostedReport struct {
	report
	Direct    latency `json:"direct_echo_ms"`
	Hosted    latency `json:"hosted_echo_ms"`
	CPU       float64 `json:"serve_and_keeper_us_for_a_call"`
	Serve     float64 `json:"of_which_serve_us"`
	Cold      latency `json:"direct_start_to_first_answer_ms"`
	Started   latency `json:"session_to_first_answer_with_a_start_ms"`
	Warm      latency `json:"first_call_warm_ms"`
	Handshake latency `json:"handshake_ms"`
	Lists     latency `json:"three_lists_ms"`
	Sessions  int     `json:"sessions_held"`
	Instance  float64 `json:"kib_for_an_idle_instance"`
	OfKeeper  float64 `json:"of_which_keeper_kib"`
	OfSession float64 `json:"kib_for_a_session_without_an_instance"`
}

// The bounds of what hosting may cost.
const (
	echoBeyond     = 0.3 // of the median over that of the direct one
	warmWithin     = 5.0
	coldBeyond     = 50.0
	knownWithin    = 10.0 // handshake and lists
	instanceWithin = 64.0 // KiB
)

const echoText = "what is said to a server that hosts another, which says it again, with as many bytes as others are measured"

// The backends of the run: one that is started for its session, and one that is kept ready.
const (
	started = "started"
	warm    = "warm"
)

// callsInRow are how many calls one of two makes before it is the other's turn.
const callsInRow = 250

// hostedRun is one run.
type hostedRun struct {
	*hosting
	report *hostedReport

	direct, hosted, cold, begun, warm, handshake, lists []time.Duration
	cpu, serve                                          time.Duration
}

// runHosted measures in turn, --rounds times.
func runHosted(ctx context.Context, o options) (*hostedReport, error) {
	flags := []string{"--keep", "1s"}
	for _, setting := range []string{"pending-per-principal=0", "streams-per-principal=0", "connections-per-address=0"} {
		flags = append(flags, "--set", setting)
	}
	h, err := newHosting(ctx, o, map[string]string{started: "plain", warm: "plain"}, map[string]string{started: ", max: 0, max-per-principal: 0", warm: ", warm: 1"}, flags...)
	if err != nil {
		return nil, err
	}
	w := &hostedRun{hosting: h, report: &hostedReport{report: newReport("hosted", o), Sessions: o.clients}}
	defer func() { _ = h.p.Kill() }()
	if err := h.p.StartReady(ctx); err != nil {
		return nil, err
	}
	began := time.Now()
	if err := w.measure(); err != nil {
		return nil, errors.Join(err, context.Cause(ctx))
	}
	if err := w.p.End(); err != nil {
		w.report.addBroken("the end of serve: %v", err)
	}
	w.report.Seconds = time.Since(began).Seconds()
	w.judge()
	return w.report, context.Cause(ctx)
}

func (w *hostedRun) measure() error {
	direct, err := w.boardDirectly()
	if err != nil {
		return err
	}
	defer func() { _ = direct.leave() }()
	b, err := w.board(started)
	if err != nil {
		return err
	}
	both := []int{w.p.Running().Pid, b.keeper()}
	for range callsInRow { // before anything counts
		if err := errors.Join(callEcho(direct), callEcho(b)); err != nil {
			return err
		}
	}
	for i := range w.o.rounds {
		if err := w.measureCalls(direct, b, both); err != nil {
			return err
		}
		if err := w.measureStarts(); err != nil {
			return err
		}
		fmt.Fprintf(w.o.log, "round %d of %d\n", i+1, w.o.rounds)
	}
	return w.measureMemory(both)
}

// measureCalls has both make some calls, one after the other.
func (w *hostedRun) measureCalls(direct, b *boarder, both []int) error {
	for range callsInRow {
		began := time.Now()
		if err := callEcho(direct); err != nil {
			return err
		}
		w.direct = append(w.direct, time.Since(began))
	}
	serve, _ := loadgen.Used(both[0])
	keeper, _ := loadgen.Used(both[1])
	for range callsInRow {
		began := time.Now()
		if err := callEcho(b); err != nil {
			return err
		}
		w.hosted = append(w.hosted, time.Since(began))
	}
	serve2, _ := loadgen.Used(both[0])
	keeper2, _ := loadgen.Used(both[1])
	w.serve += serve2 - serve
	w.cpu += serve2 - serve + keeper2 - keeper
	return nil
}

// callEcho has a text echoed.
func callEcho(b *boarder) error {
	text, err := b.call("echo", `{"text":"`+echoText+`"}`)
	if err == nil && text != echoText {
		err = fmt.Errorf("an echo is %q", text)
	}
	return err
}

// measureStarts measures what comes before the first answer: with a process that must be started, directly and by serve; with one that
// is ready; and with none.
func (w *hostedRun) measureStarts() error {
	began := time.Now()
	direct, err := w.boardDirectly()
	if err == nil {
		err = callEcho(direct)
	}
	w.cold = append(w.cold, time.Since(began))
	if err == nil {
		err = direct.leave()
	}
	if err != nil {
		return err
	}

	began = time.Now()
	c := client.New(w.p.URL(0), w.rt)
	if err := c.BeginSession(w.ctx, "{}"); err != nil {
		return err
	}
	w.handshake = append(w.handshake, time.Since(began))
	before := len(program.Named(w.named))
	began = time.Now()
	for i, method := range []string{"tools/list", "prompts/list", "resources/list"} {
		if err := answeredWith(`"result"`)(c.SendRequest(w.ctx, fmt.Sprint(i+1), method, "{}")); err != nil {
			return err
		}
	}
	w.lists = append(w.lists, time.Since(began))
	if now := len(program.Named(w.named)); now > before {
		w.report.addBroken("handshake and lists of what is known have started %d processes", now-before)
	}

	began = time.Now()
	b, err := w.board(started)
	if err != nil {
		return err
	}
	w.begun = append(w.begun, time.Since(began))
	if err := b.leave(); err != nil {
		return err
	}

	if err := w.awaitWarm(); err != nil {
		return err
	}
	b = &boarder{h: w.hosting, c: c, of: warm, ids: 10}
	began = time.Now()
	if err := callEcho(b); err != nil {
		return err
	}
	w.warm = append(w.warm, time.Since(began))
	return b.leave()
}

// awaitWarm waits until a process of the warm backend is ready that nobody has. The first of its kind is wanted by a call.
func (w *hostedRun) awaitWarm() error {
	series := fmt.Sprintf(`troupe_backend_instances{backend=%q,state="idle"}`, warm)
	for began := time.Now(); ; {
		now, err := program.Metrics(w.p.Addr)
		switch {
		case err != nil:
			return err
		case now[series] > 0:
			return nil
		case len(w.warm) == 0:
			b, err := w.board(warm)
			if err == nil {
				err = b.leave()
			}
			if err != nil {
				return err
			}
		}
		if time.Since(began) > stuckAfter || !client.Sleep(w.ctx, 20*time.Millisecond) {
			return fmt.Errorf("no process is kept ready: %v", now)
		}
	}
}

// settleFor is how long serve and its keeper are left alone before a look at their memory.
const settleFor = 3 * time.Second

// measureMemory holds sessions without instances, and then gives each one.
func (w *hostedRun) measureMemory(both []int) error {
	if w.o.clients == 0 {
		return nil
	}
	var resident [3][2]int64
	look := func(i int) {
		client.Sleep(w.ctx, settleFor)
		for j, pid := range both {
			_, resident[i][j] = loadgen.Used(pid)
		}
	}
	look(0)
	all := make([]*boarder, w.o.clients)
	err := each(len(all), 4, func(i int) error {
		all[i] = &boarder{h: w.hosting, c: client.New(w.p.URL(0), w.rt), of: started}
		return all[i].c.BeginSession(w.ctx, "{}")
	})
	if err != nil {
		return err
	}
	look(1)
	if err := each(len(all), 4, func(i int) error { return all[i].count() }); err != nil {
		return err
	}
	look(2)
	kib := func(from, to int, of int) float64 {
		return float64(resident[to][of]-resident[from][of]) / 1024 / float64(len(all))
	}
	r := w.report
	r.OfKeeper = kib(1, 2, 1)
	r.Instance = kib(1, 2, 0) + r.OfKeeper
	r.OfSession = kib(0, 1, 0)
	return each(len(all), 4, func(i int) error { return all[i].leave() })
}

// judge sums up what was measured, and compares it with the bounds.
func (w *hostedRun) judge() {
	r := w.report
	calls := float64(len(w.hosted))
	r.CPU, r.Serve = float64(w.cpu.Microseconds())/calls, float64(w.serve.Microseconds())/calls
	r.Direct, r.Hosted, r.Cold, r.Started = latencyOf(w.direct), latencyOf(w.hosted), latencyOf(w.cold), latencyOf(w.begun)
	r.Warm, r.Handshake, r.Lists = latencyOf(w.warm), latencyOf(w.handshake), latencyOf(w.lists)
	for _, b := range []struct {
		what        string
		is, atMost  float64
		unit        string
		notMeasured bool
	}{
		{"the median of an echo over that of a direct one", r.Hosted.P50 - r.Direct.P50, echoBeyond, "ms", false},
		{"the median of the first call with a process that is ready", r.Warm.P50, warmWithin, "ms", false},
		{"the median of a start over that of a direct one", r.Started.P50 - r.Cold.P50, coldBeyond, "ms", false},
		{"the median of handshake and lists", r.Handshake.P50 + r.Lists.P50, knownWithin, "ms", false},
		{"an idle instance", r.Instance, instanceWithin, "KiB", r.Sessions == 0},
	} {
		if !b.notMeasured && b.is > b.atMost {
			r.addOver("%s is %.3f %s, and may be %g", b.what, b.is, b.unit, b.atMost)
		}
	}
}

// boardDirectly has a backend of its own, without serve.
func (w *hostedRun) boardDirectly() (*boarder, error) {
	b := &boarder{h: w.hosting, c: client.New("http://direct/mcp", &client.Direct{Command: []string{w.bin, "plain"}})}
	return b, b.c.BeginSession(w.ctx, "{}")
}
