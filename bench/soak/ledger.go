package main

import (
	"context"
	"encoding/json"
	"fmt"
	"github.com/troupe-run/troupe/bench/client"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// The tasks that are made in each round, and how they work: for two seconds, so that those of a
// node that is lost are under way.
const (
	roundTasks = 32
	taskSteps  = 40
	taskStepMS = 50
)

// Bounds of the p99 of the time from when a node is lost to the next step of what it ran.
const (
	pickUpKilled = 10 * time.Second
	// pickUpPaused is more: work may be given once more to a node that stands still, while it asks
	// for some.
	pickUpPaused = 2 * pickUpKilled
)

// ledger is tasks that write down, in a file outside of the store, when each of their steps begins
// and when it is stored.
type ledger struct {
	ctx    context.Context
	client *client.Stateless
	file   string
	steps  int // of each task

	mu     sync.Mutex // guards the fields below
	open   map[string]bool
	ended  map[string]string // what tasks/get said when it had first ended
	unsure int               // creations without an answer
	losses []loss
}

// loss is the loss of a node, or of the only one, which is "".
type loss struct {
	harm, node string
	at         time.Time
}

// ledgerReport is what became of tasks.
type ledgerReport struct {
	Tasks    int                `json:"tasks"`
	Unsure   int                `json:"creations_without_an_answer"`
	Lost     int                `json:"tasks_whose_node_was_lost"`
	Again    int                `json:"steps_that_began_again_before_they_were_stored"`
	Late     int                `json:"steps_begun_by_a_node_that_had_lost_the_task"`
	Attempts int                `json:"most_attempts_of_a_task"`
	PickUps  map[string]latency `json:"loss_to_next_step_ms"` // by harm
}

func newLedger(ctx context.Context, o options, url string) *ledger {
	return &ledger{ctx: ctx, steps: taskSteps, open: make(map[string]bool), ended: make(map[string]string),
		client: client.NewStateless(url, client.NewTransport(), `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`), file: filepath.Join(filepath.Dir(o.data), "ledger")}
}

// createTasks makes n tasks, eight at a time.
func (l *ledger) createTasks(n int) {
	args := fmt.Sprintf(`"name":"ledger","arguments":{"file":%q,"steps":%d,"ms":%d}`, l.file, l.steps, taskStepMS)
	_ = each(n, 8, func(int) error {
		body, err := l.askServer("tools/call", args)
		var made struct{ Result struct{ TaskID string } }
		l.mu.Lock()
		defer l.mu.Unlock()
		if err != nil || json.Unmarshal(body, &made) != nil || made.Result.TaskID == "" {
			l.unsure++
		} else {
			l.open[made.Result.TaskID] = true
		}
		return nil
	})
}

// askServer makes a request, which must be answered within 20 s.
func (l *ledger) askServer(method, params string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(l.ctx, 20*time.Second)
	defer cancel()
	a, err := l.client.SendRequest(ctx, "1", method, params)
	if err != nil {
		return nil, err
	}
	defer a.Close()
	if a.Status != http.StatusOK || a.Events != nil {
		return nil, fmt.Errorf("status %d: %s", a.Status, a.Body)
	}
	return a.Body, nil
}

// readTask reads a task, and checks the result of one that has completed. Nodes that were harmed a
// moment ago may refuse for a while.
func (l *ledger) readTask(id string) (state, body string, err error) {
	var data []byte
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		if data, err = l.askServer("tasks/get", `"taskId":"`+id+`"`); err == nil || time.Now().After(end) || l.ctx.Err() != nil {
			break
		}
	}
	var got struct {
		Result struct {
			Status string
			Result struct {
				StructuredContent struct{ Steps []int }
			}
		}
	}
	if err == nil {
		err = json.Unmarshal(data, &got)
	}
	if err != nil {
		return "", "", fmt.Errorf("task %s, whose id was told: %w", id, err)
	}
	if got.Result.Status == "completed" {
		want := make([]int, l.steps)
		for i := range want {
			want[i] = i + 1
		}
		if !slices.Equal(got.Result.Result.StructuredContent.Steps, want) {
			return "", "", fmt.Errorf("task %s has the result %s", id, data)
		}
	}
	return got.Result.Status, strings.TrimSpace(string(data)), nil
}

// finishAll waits until all tasks have completed, looks at each once more, and judges what they
// have written down.
func (l *ledger) finishAll() (ledgerReport, error) {
	if err := l.awaitAll(); err != nil || len(l.ended) == 0 {
		return ledgerReport{}, err
	}
	return l.judge()
}

func (l *ledger) awaitAll() error {
	deadline := time.Now().Add(10 * time.Minute)
	for id := range l.open {
		for l.ended[id] == "" {
			state, body, err := l.readTask(id)
			switch {
			case err != nil:
				return err
			case state == "completed":
				l.ended[id] = body
			case state != "working" || time.Now().After(deadline):
				return fmt.Errorf("task %s does not complete: %s", id, body)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	for id, body := range l.ended {
		if _, again, err := l.readTask(id); err != nil || again != body {
			return fmt.Errorf("task %s has changed after its end, from %s to %s: %w", id, body, again, err)
		}
	}
	return nil
}

// entry is a line of the ledger.
type entry struct {
	what, task, node string
	step, attempt    int
	ms               int64
}

func (e entry) key() string { return fmt.Sprintf("%s %d", e.task, e.step) }

// readEntries reads the whole lines of the ledger.
func (l *ledger) readEntries() (all []entry, err error) {
	data, err := os.ReadFile(l.file)
	for text := range strings.Lines(string(data)) {
		var e entry
		if n, _ := fmt.Sscan(text, &e.what, &e.task, &e.step, &e.attempt, &e.node, &e.ms); n == 6 {
			all = append(all, e)
		}
	}
	return all, err
}

// judge checks what the tasks have written down. A step may begin again if its node was lost before
// it was stored, and never afterwards, but for a node that does not know yet that it has lost the
// task; what such a node does must not be stored once a later attempt has begun the step.
func (l *ledger) judge() (r ledgerReport, err error) {
	all, err := l.readEntries()
	if err != nil {
		return r, err
	}
	r = ledgerReport{Tasks: len(l.ended), Unsure: l.unsure, PickUps: make(map[string]latency)}
	stored, begun := make(map[string]int), make(map[string]int) // attempts by steps
	for _, e := range all {
		r.Attempts = max(r.Attempts, e.attempt)
		switch key := e.key(); {
		case e.what == "stored" && begun[key] > e.attempt:
			return r, fmt.Errorf("step %d of task %s was stored by attempt %d after attempt %d had begun it", e.step, e.task, e.attempt, begun[key])
		case e.what == "stored":
			stored[key] = e.attempt
		case stored[key] > e.attempt:
			r.Late++
		case stored[key] > 0:
			return r, fmt.Errorf("step %d of task %s began in attempt %d, and attempt %d had stored it", e.step, e.task, e.attempt, stored[key])
		default:
			if begun[key] > 0 {
				r.Again++
			}
			begun[key] = max(begun[key], e.attempt)
		}
	}
	for id := range l.ended {
		for step := 1; step <= l.steps; step++ {
			if key := (entry{task: id, step: step}).key(); stored[key] == 0 && begun[key] == 0 {
				return r, fmt.Errorf("step %d of task %s never ran", step, id)
			}
		}
	}
	took := make(map[string][]time.Duration)
	for _, lost := range l.losses {
		took[lost.harm] = append(took[lost.harm], l.pickUps(all, lost)...)
	}
	for harm, all := range took {
		r.Lost += len(all)
		r.PickUps[harm] = latencyOf(all)
	}
	return r, nil
}

// pickUps returns, for each task that a node had under way when it was lost, after how long its
// next attempt takes a step.
func (l *ledger) pickUps(all []entry, lost loss) (took []time.Duration) {
	at, under, attempts := lost.at.UnixMilli(), make(map[string]bool), make(map[string]int)
	for _, e := range all {
		switch {
		case e.ms <= at && (lost.node == "" || e.node == lost.node) && e.attempt >= attempts[e.task]:
			under[e.task], attempts[e.task] = e.step < l.steps || e.what == "begin", e.attempt
		case e.ms <= at:
			attempts[e.task] = max(attempts[e.task], e.attempt)
			delete(under, e.task)
		case under[e.task] && e.attempt > attempts[e.task]:
			took = append(took, time.UnixMilli(e.ms).Sub(lost.at))
			delete(under, e.task)
		}
	}
	return took
}

// judge adds what of the tasks does not keep what is promised. A node that stood still, or is cut
// off, may begin the step that was next when another node has its task.
func (r *ledgerReport) judge(to *report, fleet bool) {
	most := 0
	if fleet {
		most = 1 + r.Tasks/50
	}
	if r.Late > most {
		to.addBroken("%d steps were begun by a node that had lost the task, at most %d may", r.Late, most)
	}
	for harm, limit := range map[string]time.Duration{byKill: pickUpKilled, byPause: pickUpPaused} {
		if got := r.PickUps[harm].P99; got > ms(limit) {
			to.addOver("after a %s a task goes on after %.0f ms (p99), and %.0f are allowed", harm, got, ms(limit))
		}
	}
}
