package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-run/troupe/bench/client"
	"github.com/troupe-run/troupe/bench/program"
	"github.com/troupe-run/troupe/bench/soak/greed"
)

// greedMemory is the memory that the process has while others are greedy, in bytes.
const greedMemory = 1 << 30

// greedReport is what greedy clients did to a process and to a quiet client.
type greedReport struct {
	report
	Greedy  int                `json:"greedy_clients"`
	Peak    float64            `json:"peak_rss_mib"`
	Idle    map[string]float64 `json:"idle_before"`
	After   map[string]float64 `json:"idle_a_minute_after"`
	Alone   map[string]latency `json:"quiet_alone_ms"` // before the attacks: the one with the median p99
	Attacks []attackReport     `json:"attacks"`
}

// attackReport is one attack, or all at once.
type attackReport struct {
	Name    string                  `json:"name"`
	Results map[string]greed.Result `json:"results"`
	Quiet   quietReport             `json:"quiet"`
	Beside  quietReport             `json:"quiet_beside"` // of a process that nobody attacks, at the same time
	RSS     float64                 `json:"rss_mib"`      // at most
	Back    float64                 `json:"seconds_until_idle"`
}

const (
	// p99Floor is the p99 below which nobody is late: two processors are shared by the server and
	// all of its clients, and a goroutine runs for 10 ms before another one has its turn.
	p99Floor = 25 * time.Millisecond
	// greedAsk is how long the server waits for answers: what waits for one is held until then.
	greedAsk = 10 * time.Second
	// heldFor is within what time what is held for clients must be gone.
	heldFor = 65 * time.Second
	// keptMiB is how much more memory a process may have than at its start once it holds nothing
	// for clients: the store keeps events for ten minutes, and an index of them in memory.
	keptMiB = 256
)

// runGreed has greedy clients make each attack beside a quiet client, and then all at once.
func runGreed(ctx context.Context, o options) (*greedReport, error) {
	names := o.parts
	if len(names) == 0 {
		names = append(greed.Names(), greed.AllAtOnce)
	}
	w := &greedRun{o: o, quiet: new(quiet), report: &greedReport{report: newReport("greed", o), Greedy: o.greedy}}
	flags := []string{"--max-memory", strconv.Itoa(greedMemory), "--set", "max-ask=" + greedAsk.String()}
	p, err := plainProcess(o.bin, o.seed, append(flags, "--data", o.data)...)
	if err != nil {
		return nil, err
	}
	if slices.Contains(names, greed.BadTokens) {
		if len(names) > 1 {
			return nil, fmt.Errorf("%s has a server of its own, which takes no attack without a token", greed.BadTokens)
		}
		key := &tokenKey{resource: p.URL(0)}
		config, err := key.configure(o.data + "-auth")
		if err != nil {
			return nil, err
		}
		p.Args = append(p.Args, "--config", config)
		w.quiet.as = func(rt http.RoundTripper) http.RoundTripper { return &tokened{to: rt, key: key} }
	}
	p.Log.Alarms = []string{"lease not renewed", "connection to nats lost", "level=ERROR", "panic"}
	w.p, w.quiet.url = p, p.URL(0)
	all := []*program.Process{p}
	if !o.counts {
		beside, err := plainProcess(o.bin, o.seed+1, "--memory")
		if err != nil {
			return nil, err
		}
		w.calm, all = &quiet{url: beside.URL(0)}, append(all, beside)
	}
	w.ctx, w.cancel = context.WithCancel(ctx)
	defer w.cancel()
	for _, p := range all {
		defer func() { _ = p.Kill() }()
		if err := p.StartReady(w.ctx); err != nil {
			return nil, err
		}
	}
	if w.report.Idle, err = program.Metrics(p.Addr); err != nil {
		return nil, err
	}
	began := time.Now()
	err = w.attackAll(names)
	w.report.Seconds = time.Since(began).Seconds()
	return w.report, err
}

// greedRun is one run.
type greedRun struct {
	o      options
	p      *program.Process
	quiet  *quiet
	calm   *quiet // of a process that nobody attacks, on the same machine: what it waits for is what the attackers take from that. nil when time is not judged
	report *greedReport
	ctx    context.Context
	cancel func()
	alone  []quietReport
	alarms int // lines of the log that have been told
}

// workBeside runs f beside the quiet client, and beside that of the process that nobody attacks.
func (w *greedRun) workBeside(f func()) (quiet, beside quietReport) {
	run := func() { quiet = w.quiet.workDuring(w.ctx, f) }
	if w.calm == nil {
		run()
	} else {
		beside = w.calm.workDuring(w.ctx, run)
	}
	return quiet, beside
}

// attackAll makes the attacks and judges them.
func (w *greedRun) attackAll(names []string) error {
	r := w.report
	for _, name := range names {
		if err := w.makeAttack(name); err != nil {
			return err
		}
	}
	w.judgeTimes()
	if !w.o.counts {
		w.awaitIdle("everything", true)
	}
	after, err := program.Metrics(w.p.Addr)
	if err != nil {
		r.addBroken("/metrics: %v", err)
	}
	r.Idle, r.After = gaugesShown(r.Idle), gaugesShown(after)
	if r.Peak > greedMemory>>20 {
		r.addOver("the process had %.0f MiB", r.Peak)
	}
	if err := w.p.Kill(); err != nil {
		r.addBroken("%v: %s", err, w.p.Log.LastLines(20))
	}
	return context.Cause(w.ctx)
}

// makeAttack has the greedy clients attack for a time, and until they met a limit, beside the quiet
// one.
func (w *greedRun) makeAttack(name string) error {
	report := w.report
	alone, _ := w.workBeside(func() { client.Sleep(w.ctx, w.o.duration/2) })
	w.alone = append(w.alone, alone)
	w.judgeQuiet("nobody", alone)
	r := attackReport{Name: name}
	said, err := w.startAttackers(name)
	if err != nil {
		return err
	}
	stop, began := w.watchProcess(), time.Now()
	r.Quiet, r.Beside = w.workBeside(func() {
		if _, err = said.ReadString('\n'); err == nil {
			err = json.NewDecoder(said).Decode(&r.Results)
		}
	})
	notReady, rss := stop()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, w.p.Log.LastLines(20))
	}
	r.RSS = float64(rss) / (1 << 20)
	report.Peak = max(report.Peak, r.RSS)
	w.judgeQuiet(name, r.Quiet)
	for what, result := range r.Results {
		if len(result.Outcomes) == 0 {
			report.addBroken("%s: %s did nothing", name, what)
		}
		if name != greed.AllAtOnce && !result.Limited {
			report.addBroken("%s reached no limit: %v", what, result.Outcomes)
		}
	}
	if name == greed.BadTokens {
		w.judgeTokens(r.Results[name].Outcomes, time.Since(began))
	}
	if notReady > 0 {
		report.addOver("%s: /readyz was not 200 %d times", name, notReady)
	}
	if !w.o.counts {
		r.Back = w.awaitIdle(name, false)
	}
	report.Attacks = append(report.Attacks, r)
	fmt.Fprintf(w.o.log, "%-18s %s; alone %s; beside %s; %.0f MiB; idle after %.1f s\n", name, r.Quiet, alone, r.Beside, r.RSS, r.Back)
	for what, all := range r.Results {
		fmt.Fprintf(w.o.log, "  %s %v\n", what, all)
	}
	for ; w.alarms < len(w.p.Log.Alarmed()); w.alarms++ {
		report.addOver("%s: the log says: %s", name, w.p.Log.Alarmed()[w.alarms])
	}
	select {
	case err := <-w.p.Exited:
		report.addBroken("%s: the process ended: %v: %s", name, err, w.p.Log.LastLines(40))
		return report.verdict()
	default:
		return context.Cause(w.ctx)
	}
}

// judgeTokens looks whether tokens that do not count are refused, mostly without a look.
func (w *greedRun) judgeTokens(answers greed.Outcomes, took time.Duration) {
	came := make(map[string]float64)
	for what, n := range answers {
		status, _, _ := strings.Cut(what, " ")
		if came[status] += float64(n) / took.Seconds(); status != "401" && status != "429" {
			w.report.addBroken("bad tokens are answered with %s", what)
		}
	}
	if came["401"] == 0 || came["429"] == 0 {
		w.report.addBroken("the answers to bad tokens are %v", answers)
	}
	if all, due := came["401"]+came["429"], float64(w.o.greedy*greed.TokenRate); all < 0.9*due {
		w.report.addOver("%.0f of %.0f bad tokens came in a second", all, due)
	}
}

// judgeTimes compares what the quiet client had to wait for with what it waits for alone, or with
// what the attackers take from the whole machine, if that is more.
func (w *greedRun) judgeTimes() {
	w.report.Alone = make(map[string]latency)
	for kind := range quietLoads {
		var all []latency
		for _, r := range w.alone {
			all = append(all, r.Took[kind])
		}
		slices.SortFunc(all, func(a, b latency) int { return cmp.Compare(a.P99, b.P99) })
		w.report.Alone[kind] = all[len(all)/2]
	}
	for _, r := range w.report.Attacks {
		for kind, alone := range w.report.Alone {
			beside, then := r.Beside.Took[kind], r.Quiet.Took[kind]
			most := max(3*alone.P99, 3*beside.P99, ms(p99Floor))
			if r.Name == greed.BadTokens {
				most = 2 * alone.P99
			}
			if then.P99 > most {
				w.report.addOver("%s: the p99 of %s is %.1f ms, alone %.1f ms, of another process %.1f ms", r.Name, kind, then.P99, alone.P99, beside.P99)
			}
		}
	}
}

// judgeQuiet looks whether the quiet client got all that it asked for.
func (w *greedRun) judgeQuiet(beside string, q quietReport) {
	if q.Failed > 0 || q.isIdle() {
		w.report.addBroken("beside %s requests of the quiet client failed, or it got nothing done: %s: %s", beside, q, strings.Join(q.Failures, "; "))
	}
}

// awaitIdle waits until the process holds no more than before, at most a minute, and returns how
// many seconds that took. Sessions stay in memory for a minute; only everything includes them.
func (w *greedRun) awaitIdle(name string, everything bool) float64 {
	began := time.Now()
	_, rest := awaitRest(w.ctx, w.p.Addr, heldFor, func(now map[string]float64) []string { return w.heldBeyond(now, everything) })
	if len(rest) > 0 {
		w.report.addOver("a minute after %s: %s", name, strings.Join(rest, ", "))
	}
	return time.Since(began).Seconds()
}

// heldBeyond says what the process holds for clients more than at the start.
// Sessions and memory, which go after a minute, count only with everything.
func (w *greedRun) heldBeyond(now map[string]float64, everything bool) []string {
	more := whatRemains(w.report.Idle, now, func(series string) bool {
		switch series {
		case "troupe_calls_in_flight", "troupe_connections_open", "troupe_calls_parked":
			return true
		case `troupe_memory_held_bytes{kind="sessions"}`:
			return everything
		}
		return strings.HasPrefix(series, "troupe_memory_held_bytes{")
	})
	const resident = "process_resident_memory_bytes"
	if everything && now[resident] > w.report.Idle[resident]+keptMiB<<20 {
		more = append(more, fmt.Sprintf("%.0f MiB of memory", now[resident]/(1<<20)))
	}
	return more
}

// watchProcess samples the process until stop is called, which returns how often it was not ready
// and the most memory that it had.
func (w *greedRun) watchProcess() (stop func() (notReady int, rss int64)) {
	ctx, cancel := context.WithCancel(w.ctx)
	done := make(chan struct{})
	var notReady int
	var rss int64
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			_, now := w.p.Used()
			if rss = max(rss, now); i%10 == 0 && !w.p.IsReady() {
				notReady++
			}
			if !client.Sleep(ctx, 10*time.Millisecond) {
				return
			}
		}
	}()
	return func() (int, int64) {
		cancel()
		<-done
		return notReady, rss
	}
}

// startAttackers starts greedy clients in a process of the lowest priority: elsewhere they would
// have processors of their own, and what they take away from others here must be what the server
// lets them take. It returns what that says: a line when all have begun, and their results.
func (w *greedRun) startAttackers(name string) (*bufio.Reader, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := []string{self, "attack", w.p.Addr, strconv.Itoa(w.o.greedy), name, w.o.duration.String()}
	if nice, err := exec.LookPath("nice"); err == nil {
		args = append([]string{nice, "-n", "19"}, args...)
	}
	cmd := exec.CommandContext(w.ctx, args[0], args[1:]...)
	cmd.Stderr = w.o.log
	said, err := cmd.StdoutPipe()
	if err = cmp.Or(err, cmd.Start()); err != nil {
		return nil, err
	}
	context.AfterFunc(w.ctx, func() { _ = cmd.Wait() })
	return bufio.NewReader(said), nil
}

// runAttack is the program of the attackers.
func runAttack(args []string, out, stderr io.Writer) int {
	if len(args) != 4 {
		fmt.Fprintln(stderr, "usage: soak attack ADDRESS GREEDY ATTACK DURATION")
		return 2
	}
	clients, err := strconv.Atoi(args[1])
	duration, err2 := time.ParseDuration(args[3])
	results, err3 := greed.Run(context.Background(), args[0], args[2], clients, duration, func() { fmt.Fprintln(out, "ready") })
	if err := errors.Join(err, err2, err3, json.NewEncoder(out).Encode(results)); err != nil {
		fmt.Fprintln(stderr, "soak attack:", err)
		return 1
	}
	return 0
}
