package main

import (
	"bufio"
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

	"github.com/troupe-run/troupe/bench/soak/greed"
)

// greedMemory is the memory that the process has while others are greedy, in bytes.
const greedMemory = 1 << 30

// greedReport is what greedy clients did to a process and to a quiet client.
type greedReport struct {
	Scenario string             `json:"scenario"`
	Seed     uint64             `json:"seed"`
	Greedy   int                `json:"greedy_clients"`
	Seconds  float64            `json:"seconds"`
	Bounded  string             `json:"memory_bounded_by"`
	Peak     float64            `json:"peak_rss_mib"`
	Idle     map[string]float64 `json:"idle_before"`
	After    map[string]float64 `json:"idle_a_minute_after"`
	Alone    quietReport        `json:"quiet_alone"` // a second before each attack
	Attacks  []attackReport     `json:"attacks"`

	Broken []string `json:"broken_promises"` // by count
	Over   []string `json:"over_bounds"`     // in time or memory, which need a machine that does nothing else

	times bool // Over counts
}

// attackReport is one attack, or all at once.
type attackReport struct {
	Name     string                    `json:"name"`
	Outcomes map[string]greed.Outcomes `json:"outcomes"`
	Quiet    quietReport               `json:"quiet"`
	Beside   quietReport               `json:"quiet_beside"` // of a process that nobody attacks, at the same time
	RSS      float64                   `json:"rss_mib"`      // at most
	Back     float64                   `json:"seconds_until_idle"`
	Last     string                    `json:"held_last,omitempty"` // until then
}

// p99Floor is the p99 below which nobody is late: two processors are shared by the server and all of its
// clients, and a goroutine runs for 10 ms before another one has its turn.
const p99Floor = 25 * time.Millisecond

// greedAsk is how long the server waits for answers: what waits for one is held until then.
const greedAsk = 10 * time.Second

// runGreed has greedy clients make each attack beside a quiet client, and then all at once.
func runGreed(ctx context.Context, o options) (*greedReport, error) {
	addr, err := freeAddress(o.seed)
	if err != nil {
		return nil, err
	}
	var key *tokenKey
	if slices.Contains(o.parts, badTokens) {
		if slices.ContainsFunc(o.parts, func(part string) bool { return part != badTokens }) {
			return nil, fmt.Errorf("%s has a server of its own, which takes no attack without a token", badTokens)
		}
		key = &tokenKey{resource: "http://" + addr + "/mcp"}
		config, err := key.configure(o.data + "-auth")
		if err != nil {
			return nil, err
		}
		o.flags = append(o.flags, "--config", config)
	}
	if slices.Equal(o.parts, []string{herd}) {
		o.flags = append(o.flags, "--max-store", "16GiB") // half of its three quarters for events holds 1,000 streams of 4 MB, and those that were not read in time
	}
	p := &process{bin: o.bin, addr: addr, args: append([]string{"serve", "--data", o.data, "--listen", addr, "--set", "conformance=true",
		"--max-memory", strconv.Itoa(greedMemory), "--set", "max-ask=" + greedAsk.String()}, o.flags...)}
	p.log.alarms = []string{"lease not renewed", "connection to nats lost", "level=ERROR", "panic"}
	w := &greedy{o: o, p: p, key: key, began: time.Now()}
	if !o.counts {
		addr, err := freeAddress(o.seed + 1)
		if err != nil {
			return nil, err
		}
		w.beside = &process{bin: o.bin, addr: addr, args: []string{"serve", "--memory", "--listen", addr, "--set", "conformance=true"}}
	}
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	defer w.cancel(errOver)
	if err := w.start(); err != nil {
		return nil, err
	}
	defer w.end()
	w.report = &greedReport{Scenario: "greed", Seed: o.seed, Greedy: o.greedy, Bounded: w.cgroup.String(), times: !o.counts}
	if w.report.Idle, err = metricsOf(p.addr); err != nil {
		return nil, err
	}
	if err := w.attackAll(); err != nil {
		return w.report, err
	}
	w.report.Seconds = time.Since(w.began).Seconds()
	return w.report, nil
}

// verdict is the error of a report with a promise that was not kept.
func (r *greedReport) verdict() error {
	all := r.Broken
	if r.times {
		all = slices.Concat(r.Broken, r.Over)
	}
	if len(all) > 0 {
		return errors.New(strings.Join(all, "\n"))
	}
	return nil
}

// greedy is one run.
type greedy struct {
	o      options
	p      *process
	key    *tokenKey // of the server's clients, nil where they need no token
	cgroup *cgroup
	quiet  *quiet
	// beside is a process that nobody attacks, on the same machine, and calm its quiet client: what that one waits
	// for is what the attackers take from the machine, not from their server. Both are nil when time is not judged.
	beside *process
	calm   *quiet
	began  time.Time
	report *greedReport
	ctx    context.Context
	cancel context.CancelCauseFunc
	peak   int64 // resident bytes, in the whole run
	alarms int   // lines of the log that have been told
}

func (w *greedy) start() error {
	w.cgroup = newCgroup("/sys/fs/cgroup", "/proc/self/cgroup", greedMemory)
	if err := w.p.start(); err != nil {
		return err
	}
	if err := w.cgroup.take(w.p.cmd.Process.Pid); err != nil {
		return err
	}
	if err := w.untilReady(w.p); err != nil {
		return err
	}
	w.quiet = newQuiet("http://" + w.p.addr + "/mcp")
	if w.key != nil {
		w.quiet.as = func(rt http.RoundTripper) http.RoundTripper { return &tokened{to: rt, key: w.key} }
	}
	if w.beside == nil {
		return nil
	}
	if err := w.beside.start(); err != nil {
		return err
	}
	w.calm = newQuiet("http://" + w.beside.addr + "/mcp")
	return w.untilReady(w.beside)
}

func (w *greedy) untilReady(p *process) error {
	for end := time.Now().Add(patience); !(&world{p: p}).ready(); {
		if time.Now().After(end) || !w.wait(5*time.Millisecond) {
			return fmt.Errorf("not ready: %s", p.log.lines(20))
		}
	}
	return nil
}

// both runs f beside the quiet client, and beside that of the process that nobody attacks.
func (w *greedy) both(f func()) (quiet, beside quietReport) {
	if w.calm == nil {
		return w.quiet.run(w.ctx, f), quietReport{}
	}
	beside = w.calm.run(w.ctx, func() { quiet = w.quiet.run(w.ctx, f) })
	return quiet, beside
}

func (w *greedy) end() {
	if w.beside != nil {
		_ = w.beside.kill()
	}
	_ = w.p.kill()
	w.cgroup.close()
}

func (w *greedy) wait(d time.Duration) bool { return (&world{ctx: w.ctx}).wait(d) }

// attackAll makes the attacks and judges them.
func (w *greedy) attackAll() error {
	names := w.o.parts
	if len(names) == 0 {
		for _, a := range greed.All {
			names = append(names, a.Name)
		}
		names = append(names, allAtOnce)
	}
	for _, name := range names {
		if err := w.attack(name); err != nil {
			return err
		}
	}
	w.late()
	if !w.o.counts {
		w.settle("everything", true)
	}
	after, err := metricsOf(w.p.addr)
	if err != nil {
		w.broken("/metrics: %v", err)
	}
	w.report.Idle, w.report.After = shown(w.report.Idle), shown(after)
	w.report.Peak = float64(w.peak) / (1 << 20)
	if w.peak > greedMemory {
		w.over("the process had %.0f MiB", w.report.Peak)
	}
	if n := w.cgroup.kills(); n > 0 {
		w.broken("the kernel killed for memory %d times", n)
	}
	if err := w.p.kill(); err != nil {
		w.broken("%v: %s", err, w.p.log.lines(20))
	}
	return context.Cause(w.ctx)
}

// Names that are not those of one of greed.All.
const (
	allAtOnce = "all"  // all attacks at the same time, by the same clients
	herd      = "herd" // of resumes, which has a server with a store for it
	badTokens = "bad-tokens"
)

// herdPause is how long another's stream may pause while a herd of streams is resumed.
const herdPause = time.Second

// attack has the greedy clients attack for a time, and until they met a limit, beside the quiet one.
func (w *greedy) attack(name string) error {
	alone, _ := w.both(func() { w.wait(w.o.duration / 2) })
	w.quiet.keep()
	w.failures("nobody", &alone)
	r := attackReport{Name: name}
	child, err := w.spawn(name)
	if err != nil {
		return err
	}
	if name == herd { // what is measured is the second in which it comes, and what follows
		if err := child.ready(); err != nil {
			return err
		}
	}
	stop, began := w.watch(), time.Now()
	r.Quiet, r.Beside = w.both(func() {
		if name != herd {
			err = child.ready()
		}
		if err == nil {
			w.wait(w.o.duration)
			if name != herd {
				child.enough()
			}
			r.Outcomes, err = child.stop()
		}
	})
	notReady, rss := stop()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, w.p.log.lines(20))
	}
	r.RSS = float64(rss) / (1 << 20)
	w.peak = max(w.peak, rss)
	w.failures(name, &r.Quiet)
	for what, outcomes := range r.Outcomes {
		a, _, _ := greed.Find(what)
		if len(outcomes) == 0 {
			w.broken("%s: %s did nothing", name, what)
		}
		if name != allAtOnce && !a.Limited(outcomes, w.o.greedy) {
			w.broken("%s reached no limit: %v", what, outcomes)
		}
	}
	if name == herd {
		if n, all := r.Outcomes[herd]["whole"], 100*w.o.greedy; n != all {
			w.broken("of %d streams %d came as a whole", all, n)
		}
		if r.Quiet.Streams.Max > ms(herdPause) {
			w.over("another's stream paused for %.0f ms", r.Quiet.Streams.Max)
		}
	}
	if name == badTokens {
		w.judgeTokens(r.Outcomes[name], time.Since(began))
	}
	if notReady > 0 {
		w.over("%s: /readyz was not 200 %d times", name, notReady)
	}
	if !w.o.counts {
		r.Back, r.Last = w.settle(name, false)
	}
	w.report.Attacks = append(w.report.Attacks, r)
	fmt.Fprintf(w.o.log, "%-18s %s; alone %s, beside %s %s %s; %.0f MiB; idle after %.1f s %s\n", name, &r.Quiet, alone.Calls, r.Beside.Calls, r.Beside.Initializes, r.Beside.Streams, r.RSS, r.Back, r.Last)
	for what, all := range r.Outcomes {
		fmt.Fprintf(w.o.log, "  %s %v\n", what, all)
	}
	for ; w.alarms < len(w.p.log.raised()); w.alarms++ {
		w.over("%s: the log says: %s", name, w.p.log.raised()[w.alarms])
	}
	select {
	case err := <-w.p.exited:
		w.broken("%s: the process ended: %v: %s", name, err, w.p.log.lines(40))
		return w.report.verdict()
	default:
	}
	return context.Cause(w.ctx)
}

// judgeTokens looks whether tokens that do not count are refused, mostly without a look.
func (w *greedy) judgeTokens(answers greed.Outcomes, took time.Duration) {
	came := make(map[string]float64)
	for what, n := range answers {
		status, _, _ := strings.Cut(what, " ")
		if came[status] += float64(n) / took.Seconds(); status != "401" && status != "429" {
			w.broken("bad tokens are answered with %s", what)
		}
	}
	if came["401"] == 0 || came["429"] == 0 {
		w.broken("the answers to bad tokens are %v", answers)
	}
	if all, due := came["401"]+came["429"], float64(w.o.greedy*greed.TokenRate); all < 0.9*due {
		w.over("%.0f of %.0f bad tokens came in a second", all, due)
	}
}

// late compares what the quiet client had to wait for with what it waits for alone, or with what
// the attackers take from the whole machine, if that is more.
func (w *greedy) late() {
	w.report.Alone = w.quiet.sum()
	alone := &w.report.Alone
	for _, r := range w.report.Attacks {
		for _, k := range []struct {
			what                string
			alone, beside, then latency
		}{
			{"calls", alone.Calls, r.Beside.Calls, r.Quiet.Calls},
			{"initializes", alone.Initializes, r.Beside.Initializes, r.Quiet.Initializes},
			{"streams", alone.Streams, r.Beside.Streams, r.Quiet.Streams},
		} {
			most := max(3*k.alone.P99, 3*k.beside.P99, ms(p99Floor))
			if r.Name == badTokens {
				most = 2 * k.alone.P99
			}
			if k.then.P99 > most {
				w.over("%s: the p99 of %s is %.1f ms, alone %.1f ms, of another process %.1f ms", r.Name, k.what, k.then.P99, k.alone.P99, k.beside.P99)
			}
		}
	}
}

func (w *greedy) failures(name string, q *quietReport) {
	if q.Failed > 0 {
		w.broken("beside %s %d requests of the quiet client failed: %s", name, q.Failed, strings.Join(q.Failures, "; "))
	}
	if q.Calls.N == 0 || q.Initializes.N == 0 || q.Streams.N == 0 {
		w.broken("beside %s the quiet client got nothing done: %s", name, q)
	}
}

func (w *greedy) broken(format string, args ...any) {
	w.report.Broken = append(w.report.Broken, fmt.Sprintf(format, args...))
}

func (w *greedy) over(format string, args ...any) {
	w.report.Over = append(w.report.Over, fmt.Sprintf(format, args...))
}

// settle waits until the process holds no more than before, at most a minute, and returns how many seconds that took, and what
// was held last. Sessions stay in memory for a minute; only everything includes them.
func (w *greedy) settle(name string, everything bool) (took float64, last string) {
	for began := time.Now(); ; {
		now, err := metricsOf(w.p.addr)
		took = time.Since(began).Seconds()
		what := w.beyond(now, everything)
		if err != nil {
			what = err.Error()
		}
		if what == "" {
			return took, last
		}
		if last = what; took > 65 {
			w.over("a minute after %s: %s", name, what)
			return took, last
		}
		if !w.wait(200 * time.Millisecond) {
			return took, last
		}
	}
}

// watch samples the process until stop is called, which returns how often it was not ready and the
// most memory that it had.
func (w *greedy) watch() (stop func() (notReady int, rss int64)) {
	ctx, cancel := context.WithCancel(w.ctx)
	done := make(chan struct{})
	var notReady int
	var rss int64
	go func() {
		defer close(done)
		probe := &world{p: w.p, ctx: ctx}
		for i := 0; ; i++ {
			rss = max(rss, residentOf(w.p.cmd.Process.Pid))
			if i%10 == 0 && !probe.ready() {
				notReady++
			}
			if !probe.wait(10 * time.Millisecond) {
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

// attackers are greedy clients in a process of their own.
type attackers struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	said chan string // its lines: ready, enough, and the outcomes
}

// startPolite starts this program with other arguments, in a process with the lowest priority: elsewhere the clients in it would have processors of their own, and
// what they take away from others here must be what the server lets them take.
func (w *greedy) startPolite(args ...string) (cmd *exec.Cmd, in io.WriteCloser, out *bufio.Reader, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, nil, err
	}
	args = append([]string{self}, args...)
	if nice, err := exec.LookPath("nice"); err == nil {
		args = append([]string{nice, "-n", "19"}, args...)
	}
	cmd = exec.CommandContext(w.ctx, args[0], args[1:]...)
	cmd.Stderr = w.o.log
	in, err1 := cmd.StdinPipe()
	said, err2 := cmd.StdoutPipe()
	return cmd, in, bufio.NewReader(said), errors.Join(err1, err2, cmd.Start())
}

// spawn starts greedy clients.
func (w *greedy) spawn(name string) (*attackers, error) {
	cmd, in, out, err := w.startPolite("attack", w.p.addr, strconv.Itoa(w.o.greedy), name)
	if err != nil {
		return nil, err
	}
	a := &attackers{cmd, in, make(chan string, 3)}
	go func() {
		defer close(a.said)
		for {
			line, err := out.ReadString('\n')
			if err != nil {
				return
			}
			a.said <- strings.TrimSpace(line)
		}
	}()
	return a, nil
}

// The lines of attackers before their outcomes.
const (
	saidReady  = "ready"
	saidEnough = "enough"
)

// ready waits until the attackers have begun.
func (a *attackers) ready() error {
	if line := <-a.said; line != saidReady {
		return fmt.Errorf("the attackers did not begin, and said %q", line)
	}
	return nil
}

// enough waits, within patience, until each attack has met a limit, or among all at once has had an answer.
func (a *attackers) enough() {
	select {
	case <-a.said:
	case <-time.After(patience):
	}
}

// stop ends the attackers and returns what became of their requests.
func (a *attackers) stop() (outcomes map[string]greed.Outcomes, err error) {
	err = a.in.Close()
	last := ""
	for line := range a.said {
		last = line
	}
	if err = errors.Join(err, a.cmd.Wait()); err != nil {
		return nil, err
	}
	return outcomes, json.Unmarshal([]byte(last), &outcomes)
}

// runAttack is the program of the attackers: it attacks until its input ends.
func runAttack(args []string, in io.Reader, out, stderr io.Writer) int {
	if len(args) != 3 {
		fmt.Fprintln(stderr, "usage: soak attack ADDRESS GREEDY ATTACK")
		return 2
	}
	clients, err := strconv.Atoi(args[1])
	a, network, ok := greed.Find(args[2])
	attacks, share := []greed.Attack{a}, 1.
	enough := func(a greed.Attack, o greed.Outcomes) bool { return a.Limited(o, clients) }
	if args[2] == allAtOnce {
		attacks, network, share, ok = greed.All, 255, 1./8, true
		enough = func(_ greed.Attack, o greed.Outcomes) bool { return len(o) > 0 } // their connections are too many for some to meet another limit
	}
	if err != nil || !ok {
		fmt.Fprintf(stderr, "soak attack: no attack %q by %q\n", args[2], args[1])
		return 2
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, in)
		cancel()
	}()
	say := func(line string) func() { return func() { fmt.Fprintln(out, line) } }
	outcomes := greed.Run(ctx, args[0], network, clients, share, enough, say(saidReady), say(saidEnough), attacks...)
	if err := json.NewEncoder(out).Encode(outcomes); err != nil {
		fmt.Fprintln(stderr, "soak attack:", err)
		return 1
	}
	return 0
}
