package loadgen

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// longest is the longest latency that a histogram tells apart, three digits of it.
const longest = 10 * time.Minute

// ledger is what a run has come to so far. Any goroutine may call its methods.
type ledger struct {
	mu     sync.Mutex // guards the rest
	took   *hdrhistogram.Histogram
	first  *hdrhistogram.Histogram // latencies of first events
	report *Report
}

func newLedger(o *Options) *ledger {
	l := &ledger{took: newHistogram(), first: newHistogram()}
	l.report = &Report{URL: o.URL, Others: o.Others, Scenario: o.Scenario, Revision: o.Revision, Clients: o.Clients, Rate: o.Rate, Count: o.Count, Tool: o.Tool,
		Errors: make(map[string]int64), Examples: make(map[string]string)}
	if o.sendsText() {
		l.report.Size = o.Size
	}
	return l
}

func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, longest.Microseconds(), 3)
}

// addOperation notes an operation that has ended, and the events that it got.
func (l *ledger) addOperation(took time.Duration, events int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.report.Events += events
	if err != nil {
		l.countError(err)
		return
	}
	l.report.Operations++
	recordLatency(l.took, took)
}

// addFirst notes when the first event of an operation came.
func (l *ledger) addFirst(took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	recordLatency(l.first, took)
}

// addLate notes an operation that began late.
func (l *ledger) addLate() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.report.Late++
}

// addError notes what is wrong beside the operations.
func (l *ledger) addError(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.countError(err)
}

// addEvent notes an event beside the operations.
func (l *ledger) addEvent() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.report.Events++
}

// anyExample is an error that occurred.
func (l *ledger) anyExample() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, text := range l.report.Examples {
		return text
	}
	return "no error"
}

// noteHeld notes what the server keeps for n that have stayed for a time, of which there was
// nothing before.
func (l *ledger) noteHeld(ctx context.Context, o *Options, before usage, n int, stayed time.Duration) error {
	now, err := o.atRest(ctx)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.report.Held = &Held{Count: n, Seconds: inSeconds(stayed), Before: before.mib(), After: now.mib(), Each: float64(now.resident-before.resident) / 1024 / float64(max(1, n))}
	return nil
}

// countError counts an error by its kind. The caller holds mu.
func (l *ledger) countError(err error) {
	kind := kindOf(err)
	if l.report.Errors[kind]++; l.report.Errors[kind] == 1 {
		l.report.Examples[kind] = err.Error()
	}
}

func recordLatency(h *hdrhistogram.Histogram, took time.Duration) {
	_ = h.RecordValue(min(max(1, took.Microseconds()), longest.Microseconds())) // in its bounds
}

// timeRun runs do, and fills in the report what it took: time, latencies and processor time. do
// returns the time that counts.
func (l *ledger) timeRun(o *Options, do func() (time.Duration, error)) error {
	before, err := usageOf(o.PIDs)
	if err != nil {
		return err
	}
	elapsed, problem := do()
	after, err := usageOf(o.PIDs)
	if problem = errors.Join(problem, err); problem != nil {
		return problem
	}
	l.fillReport(max(time.Millisecond, elapsed), before, after)
	return nil
}

// fillReport fills in the report what operations took, and what the server has used for them.
func (l *ledger) fillReport(elapsed time.Duration, before, after usage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.report
	p.Seconds, p.Latency = inSeconds(elapsed), latencyOf(l.took)
	p.PerSecond = float64(p.Operations) / elapsed.Seconds()
	if l.first.TotalCount() > 0 {
		p.First = new(latencyOf(l.first))
	}
	if used := after.cpu - before.cpu; after.resident > 0 {
		p.CPU = float64(used.Microseconds()) / float64(max(1, p.Operations+p.Failed()))
		p.Cores, p.Resident = used.Seconds()/elapsed.Seconds(), after.mib()
	}
}
