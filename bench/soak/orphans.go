package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"

	"github.com/troupe-run/troupe/bench/client"
	"github.com/troupe-run/troupe/bench/program"
)

// orphansReport is what kills left of the processes of backends.
type orphansReport struct {
	report
	Kills  map[string]int     `json:"kills"` // by victim
	Busy   int                `json:"kills_while_one_begins_and_another_ends"`
	Most   int                `json:"processes_at_most"`
	Gone   latency            `json:"sessions_end_to_no_process_ms"`
	Next   latency            `json:"kill_to_next_answer_ms"`
	Idle   map[string]float64 `json:"before"`
	After  map[string]float64 `json:"after"`
	Keeper [2]int             `json:"files_of_the_keeper"` // when it was first looked at, and last
}

// hardToEnd are backends, each with what makes its processes hard to end.
var hardToEnd = map[string]string{
	"good":     "plain",
	"npx":      "wrapper plain",
	"deaf":     "wrapper ignores-eof ignores-term plain",
	"daemons":  "child daemon double zombies plain",
	"all":      "wrapper ignores-eof ignores-term child daemon double zombies plain",
	"stripped": "ignores-eof stripped plain", // a daemon with another environment, which nothing but its keeper finds
}

// The victims of kills.
const (
	theServe   = "serve"
	theKeeper  = "keeper"
	theWrapper = "wrapper" // or the server where there is none
	theServer  = "server"
)

var victims = []string{theServe, theKeeper, theWrapper, theServer}

// boarders are how many sessions there are in a round.
const boarders = 3

// orphansRun is one run.
type orphansRun struct {
	*hosting
	rng    *rand.Rand
	report *orphansReport
	keeper int // whose files are watched
	gone   []time.Duration
	next   []time.Duration
}

// runOrphans kills serve, its keeper, wrappers and servers --rounds times, at most for --time, and looks each time for what is left.
func runOrphans(ctx context.Context, o options) (*orphansReport, error) {
	h, err := newHosting(ctx, o, hardToEnd, nil, "--keep", "20s")
	if err != nil {
		return nil, err
	}
	w := &orphansRun{hosting: h, rng: rand.New(rand.NewPCG(o.seed, 0)), report: &orphansReport{report: newReport("orphans", o), Kills: map[string]int{}}}
	r := w.report
	defer func() { _ = h.p.Kill() }()
	if err := h.p.StartReady(ctx); err != nil {
		return nil, err
	}
	if err := w.awaitListed(); err != nil {
		return nil, err
	}
	began := time.Now()
	for i := 0; i < o.rounds && len(r.Broken) == 0 && (o.time == 0 || time.Since(began) < o.time); i++ {
		if err := w.round(i); err != nil {
			r.addBroken("round %d: %v: %s", i, err, h.p.Log.LastLines(20))
		}
		if i%50 == 49 {
			fmt.Fprintf(o.log, "%4.0f s: %d rounds\n", time.Since(began).Seconds(), i+1)
		}
	}
	if len(r.Broken)+len(r.Over) > 0 {
		fmt.Fprintf(o.log, "the log of serve ends with\n%s\n", h.p.Log.LastLines(60))
	}
	r.Seconds, r.Gone, r.Next = time.Since(began).Seconds(), latencyOf(w.gone), latencyOf(w.next)
	if r.After, err = program.Metrics(h.p.Addr); err != nil {
		r.addBroken("/metrics: %v", err)
	}
	for _, line := range h.p.Log.Alarmed() {
		r.addBroken("the log says: %s", line)
	}
	if err := h.p.End(); err != nil {
		r.addBroken("the end of serve: %v", err)
	}
	w.awaitKeeper()
	r.Idle, r.After = gaugesShown(r.Idle), gaugesShown(r.After)
	return r, context.Cause(ctx)
}

// awaitListed waits until the processes are gone that serve has started at first to hear what their backends list, which stay
// until they are idle. What is still there then is found after the first round.
func (w *orphansRun) awaitListed() error {
	for _, name := range slices.Sorted(maps.Keys(hardToEnd)) {
		b, err := w.board(name)
		if err != nil {
			return err
		}
		if err := b.leave(); err != nil {
			return err
		}
	}
	w.awaitNone(new(report), "")
	return nil
}

// awaitKeeper waits until the keeper has ended, which has nothing to keep any more.
func (w *orphansRun) awaitKeeper() {
	if w.keeper == 0 {
		return
	}
	if err := w.awaitGone(w.keeper); err != nil {
		w.report.addBroken("the keeper, which has nothing to keep when serve has ended: %v", err)
	}
}

// round has sessions begin, kills somebody, checks who goes on with which process, and ends the sessions.
func (w *orphansRun) round(i int) error {
	victim := victims[w.rng.IntN(len(victims))]
	names := slices.Sorted(maps.Keys(hardToEnd))
	if victim == theKeeper {
		names = slices.DeleteFunc(names, func(name string) bool { return name == "stripped" })
	}
	var all []*boarder
	for range boarders {
		b, err := w.board(names[w.rng.IntN(len(names))])
		if err != nil {
			return fmt.Errorf("a session begins: %w", err)
		}
		if w.rng.IntN(2) == 0 {
			b.hold()
		}
		all = append(all, b)
	}
	w.report.Most = max(w.report.Most, len(program.Named(w.named)))
	w.report.Kills[victim]++
	rest := func() error { return nil }
	if w.rng.IntN(2) == 0 {
		var err error
		if rest, err = w.comeAndGo(names); err != nil {
			return fmt.Errorf("a session begins: %w", err)
		}
		w.report.Busy++
	}
	if err := w.strike(victim, all); err != nil {
		return fmt.Errorf("%s: %w", victim, err)
	}
	if err := rest(); err != nil {
		return fmt.Errorf("a session that began or ended meanwhile: %w", err)
	}
	for _, b := range all {
		if err := b.leave(); err != nil {
			return fmt.Errorf("a session ends: %w", err)
		}
	}
	w.gone = append(w.gone, w.awaitNone(&w.report.report, fmt.Sprintf("round %d, %s killed", i, victim)))
	if victim == theWrapper || victim == theServer {
		if err := w.forgive(all[0].of); err != nil {
			return err
		}
	}
	return w.checkLevels(victim)
}

// forgive has serve forget that instances of a backend have ended by themselves soon after their start: after some in a row it
// would start none for a while.
func (w *orphansRun) forgive(backend string) error {
	out, err := exec.CommandContext(w.ctx, w.p.Bin, "backends", "restart", backend, "--data", w.o.data).CombinedOutput()
	if err != nil {
		return fmt.Errorf("troupe backends restart %s: %w: %s", backend, err, out)
	}
	return nil
}

// comeAndGo has one session begin and another end, each with its process, and returns when they may have come to any point of that.
// What it returns ends both.
func (w *orphansRun) comeAndGo(names []string) (rest func() error, err error) {
	goes, err := w.board(names[w.rng.IntN(len(names))])
	if err != nil {
		return nil, err
	}
	comes := &boarder{h: w.hosting, c: client.New(w.p.URL(0), w.rt), of: names[w.rng.IntN(len(names))]}
	var both sync.WaitGroup
	both.Go(func() { _ = goes.leave() })
	both.Go(func() {
		if comes.c.BeginSession(w.ctx, "{}") == nil {
			_ = comes.count()
		}
	})
	client.Sleep(w.ctx, time.Duration(w.rng.IntN(40))*time.Millisecond)
	return func() error {
		both.Wait()
		return errors.Join(goes.leave(), comes.leave())
	}, nil
}

// strike kills a victim of the first boarder, and has all of them count again: those that are not concerned where they were, and
// the others anew.
func (w *orphansRun) strike(victim string, all []*boarder) error {
	var err error
	first := all[0]
	had := make([]boarder, len(all))
	for i, b := range all {
		had[i] = *b
	}
	began := time.Now()
	switch victim {
	case theServe:
		if err = w.p.Kill(); err == nil {
			w.rt.CloseIdleConnections()
			err = w.p.StartReady(w.ctx)
		}
	case theKeeper:
		err = killPID(first.keeper())
	case theWrapper: // whose server answers until the keeper ends it, too
		if err = killPID(first.tops); err == nil {
			err = w.awaitGone(first.pid)
		}
	case theServer:
		err = killPID(first.pid)
	}
	if err != nil {
		return err
	}
	for i, b := range all {
		lost := victim == theKeeper || victim != theServe && i == 0
		if err := b.countAtLast(); err != nil {
			return err
		}
		switch {
		case lost && (b.pid == had[i].pid || b.n != 1):
			return fmt.Errorf("a session of %s counts %d in process %d, and had %d, which was lost", b.of, b.n, b.pid, had[i].pid)
		case !lost && (b.pid != had[i].pid || b.n != had[i].n+1):
			return fmt.Errorf("a session of %s counts %d in process %d, and had counted %d in %d", b.of, b.n, b.pid, had[i].n, had[i].pid)
		}
		if i == 0 {
			w.next = append(w.next, time.Since(began))
		}
		b.tops = w.over(b.pid)
	}
	return nil
}

// awaitGone waits until there is no process of a pid.
func (w *orphansRun) awaitGone(pid int) error {
	for began := time.Now(); ; {
		if _, there := program.Look(pid); !there {
			return nil
		}
		if time.Since(began) > stuckAfter || !client.Sleep(w.ctx, 5*time.Millisecond) {
			return fmt.Errorf("process %d is still there", pid)
		}
	}
}

// killPID kills a process that is not a child of this one.
func killPID(pid int) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return p.Kill()
}

// countAtLast is count for a session whose instance may be lost: until that is known, calls are refused with a code.
func (b *boarder) countAtLast() error {
	for began := time.Now(); ; {
		err := b.count()
		if _, refused := errors.AsType[*refusedError](err); !refused || time.Since(began) > stuckAfter || !client.Sleep(b.h.ctx, 5*time.Millisecond) {
			return err
		}
	}
}

// checkLevels compares the files and goroutines of serve, and the files of the keeper, with those after the first round of each process.
func (w *orphansRun) checkLevels(victim string) error {
	w.rt.CloseIdleConnections()
	now, err := program.Metrics(w.p.Addr)
	if err != nil {
		return err
	}
	r := w.report
	if r.Idle == nil || victim == theServe {
		r.Idle = now
	}
	levels := func(series string) bool { return series == "go_goroutines" || series == "process_open_fds" }
	_, rest := awaitRest(w.ctx, w.p.Addr, time.Minute, func(now map[string]float64) []string { return whatRemains(r.Idle, now, levels) })
	if len(rest) > 0 {
		return fmt.Errorf("serve has more than before: %v", rest)
	}
	return w.checkKeeper()
}

// keeperFiles is how many more files a keeper may have than when it was first looked at.
const keeperFiles = 2

// checkKeeper finds the keeper by an instance of its own, and counts its files.
func (w *orphansRun) checkKeeper() error {
	b, err := w.board("good")
	if err != nil {
		return err
	}
	keeper := b.keeper()
	if err := b.leave(); err != nil {
		return err
	}
	w.awaitNone(&w.report.report, "a session of a good backend")
	first := keeper != w.keeper
	w.keeper = keeper
	for began := time.Now(); ; {
		files := program.Files(keeper)
		if w.report.Keeper[1] = files; first {
			w.report.Keeper[0] = files
		}
		switch {
		case files <= w.report.Keeper[0]+keeperFiles:
			return nil
		case time.Since(began) > stuckAfter || !client.Sleep(w.ctx, 5*time.Millisecond):
			return fmt.Errorf("the keeper has %d files, and had %d", files, w.report.Keeper[0])
		}
	}
}
