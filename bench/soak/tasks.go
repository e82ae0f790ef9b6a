package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// Each task has so many steps of so many milliseconds, and so many tasks are under way when the process is killed.
const (
	taskSteps      = 20
	taskStepMS     = 5
	taskPopulation = 200
)

// ledgerWords is how many words a whole line of the ledger has.
const ledgerWords = 6

// tasksReport is what a run of kills under tasks found.
type tasksReport struct {
	Scenario string       `json:"scenario"`
	Seed     uint64       `json:"seed"`
	Rounds   int          `json:"rounds"`
	Seconds  float64      `json:"seconds"`
	Tasks    int          `json:"tasks"`
	Unsure   int          `json:"creations_without_an_answer"`
	Again    int          `json:"steps_that_began_again_before_they_were_stored"`
	Attempts int          `json:"most_attempts_of_a_task"`
	PickUp   restartTimes `json:"ready_to_first_step_ms"`
	Restart  restartTimes `json:"restart_to_ready_ms"`
}

// taskSoak is a population of tasks over the lives of a process.
type taskSoak struct {
	ctx    context.Context
	p      *process
	client *http.Client
	rng    *rand.Rand
	file   string // in which the tasks write what they do
	steps  int    // of each task
	stepMS int

	retries bool // a request may fail, as one of several nodes was lost a moment ago

	mu     sync.Mutex // guards the fields below
	open   map[string]bool
	ended  map[string]string // what tasks/get said when it had first ended
	unsure int
	late   int // steps that a process began which had stood still, and that another had stored meanwhile
}

// newTaskSoak returns a population without tasks, which draws from a stream of the run's seed.
func newTaskSoak(ctx context.Context, o options, stream uint64, steps, stepMS int) *taskSoak {
	return &taskSoak{ctx: ctx, rng: rand.New(rand.NewPCG(o.seed, stream)), steps: steps, stepMS: stepMS, open: make(map[string]bool), ended: make(map[string]string),
		client: &http.Client{Timeout: 20 * time.Second}, file: filepath.Join(filepath.Dir(o.data), "ledger")}
}

// runTasks kills a process over and over while it runs tasks, and checks that each task whose id was told completes, that no step that
// was stored ran again, and that what had ended stays as it was.
func runTasks(ctx context.Context, o options) (*tasksReport, error) {
	p, err := newProcess(o.bin, o.data, o.seed, "--servers", "1")
	if err != nil {
		return nil, err
	}
	s := newTaskSoak(ctx, o, 1, taskSteps, taskStepMS)
	s.p = p
	defer func() { _ = p.kill() }()
	began := time.Now()
	r := &tasksReport{Scenario: "tasks", Seed: o.seed, Rounds: o.rounds}
	var pickUps, restarts []time.Duration
	for n := range o.rounds + 1 {
		first := n == 0
		working, before, err := s.working()
		if err != nil {
			return nil, err
		}
		took, pickUp, err := s.start(len(working) > 0)
		if err != nil {
			return nil, s.explain(err)
		}
		if !first {
			restarts = append(restarts, took)
		}
		if len(working) > 0 {
			pickUps = append(pickUps, pickUp)
		}
		if n == o.rounds {
			break
		}
		// The process dies while tasks are created, while they work, or when some have ended.
		created := make(chan struct{})
		go func() {
			s.create(taskPopulation - len(working))
			close(created)
		}()
		time.Sleep(time.Duration(20+s.rng.IntN(350)) * time.Millisecond)
		if n%2 == 1 {
			if err := s.progress(working, before); err != nil {
				return nil, s.explain(err)
			}
		}
		if err := p.kill(); err != nil {
			return nil, s.explain(err)
		}
		<-created
		fmt.Fprintf(o.log, "round %d of %d: %d tasks, %d were under way at its start\n", n+1, o.rounds, len(s.open), len(working))
	}
	if err := s.finish(); err != nil {
		return nil, s.explain(err)
	}
	r.Tasks, r.Unsure, r.Seconds, r.PickUp, r.Restart = len(s.ended), s.unsure, time.Since(began).Seconds(), timesOf(pickUps), timesOf(restarts)
	if r.Again, r.Attempts, err = s.read(); err == nil && s.late > 0 {
		err = fmt.Errorf("%d steps began in an attempt that was over", s.late)
	}
	if err != nil {
		return nil, s.explain(err)
	}
	return r, nil
}

// progress waits until each of some tasks has stored a step that the ledger has behind its first bytes. One that is lost five times in a row without
// a step ends as lost, which on a slow machine would come to pass.
func (s *taskSoak) progress(tasks map[string]bool, first int) error {
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		data, err := os.ReadFile(s.file)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		left := maps.Clone(tasks)
		for line := range strings.Lines(string(data[min(first, len(data)):])) {
			if words := strings.Fields(line); len(words) == ledgerWords && words[0] == "stored" {
				delete(left, words[1])
			}
		}
		if len(left) < 10 { // one whose last step was stored, and not written down, only ends
			maps.DeleteFunc(left, func(id string, _ bool) bool {
				state, _, err := s.get(id)
				return err == nil && state != "working"
			})
		}
		if len(left) == 0 {
			return nil
		}
		if time.Since(began) > 2*time.Minute {
			return fmt.Errorf("%d of %d tasks have stored no step within 2 minutes of the start: %s", len(left), len(tasks), s.states())
		}
	}
}

// explain adds the end of the process's log.
func (s *taskSoak) explain(err error) error {
	return fmt.Errorf("%w\n--- the end of the log\n%s", err, s.p.log.lines(15))
}

// working are the tasks that have begun and not stored their last step, as they have written down, in a ledger of so many bytes.
func (s *taskSoak) working() (under map[string]bool, size int, err error) {
	data, err := os.ReadFile(s.file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, 0, err
	}
	under = make(map[string]bool)
	for line := range strings.Lines(string(data)) {
		words := strings.Fields(line)
		if len(words) == ledgerWords && words[0] == "begin" {
			under[words[1]] = true
		}
		if len(words) == ledgerWords && words[0] == "stored" && words[2] == fmt.Sprint(s.steps) {
			delete(under, words[1])
		}
	}
	return under, len(data), nil
}

// start starts the process and waits until it is ready; and, if tasks wait for it, until one of them takes its next step.
func (s *taskSoak) start(waiting bool) (ready, pickUp time.Duration, err error) {
	before := s.written()
	began := time.Now()
	if err := s.p.start(); err != nil {
		return 0, 0, err
	}
	if err := s.answers(s.p); err != nil {
		return 0, 0, err
	}
	ready = time.Since(began)
	for began = time.Now(); waiting && s.written() == before; {
		if time.Since(began) > 10*time.Second {
			return 0, 0, fmt.Errorf("no task went on within 10 s of the start: %s", s.states())
		}
		time.Sleep(time.Millisecond)
	}
	return ready, time.Since(began), nil
}

// answers waits until a process takes requests.
func (s *taskSoak) answers(p *process) error {
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if r, err := s.client.Get("http://" + p.addr + "/readyz"); err == nil {
			_ = r.Body.Close()
			if r.StatusCode == http.StatusOK {
				return nil
			}
		}
	}
	return errors.New("the process was not ready within 30 s")
}

// states counts what the tasks are, and shows one that has failed.
func (s *taskSoak) states() string {
	n, example := make(map[string]int), ""
	for id := range s.open {
		state, body, err := s.get(id)
		if err != nil {
			state = err.Error()
		}
		if n[state]++; state == "failed" {
			example = body
		}
	}
	return fmt.Sprintf("%v %s", n, example)
}

// written is how much the tasks have written down.
func (s *taskSoak) written() int64 {
	st, err := os.Stat(s.file)
	if err != nil {
		return 0
	}
	return st.Size()
}

// create makes tasks, several at a time.
func (s *taskSoak) create(n int) { // in eights
	args := fmt.Sprintf(`{"name":"ledger","arguments":{"file":%q,"steps":%d,"ms":%d}`, s.file, s.steps, s.stepMS)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range n / 8 {
				body, err := s.ask("tools/call", "ledger", args)
				var made struct {
					Result struct {
						TaskID string `json:"taskId"`
					} `json:"result"`
				}
				s.mu.Lock()
				if err != nil || json.Unmarshal(body, &made) != nil || made.Result.TaskID == "" {
					s.unsure++
				} else {
					s.open[made.Result.TaskID] = true
				}
				s.mu.Unlock()
			}
		})
	}
	wg.Wait()
}

// ask sends a stateless request. params lacks its _meta and its last brace.
func (s *taskSoak) ask(method, name, params string) ([]byte, error) {
	body := `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":` + params + `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientInfo":{"name":"soak","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}}}`
	r, err := http.NewRequestWithContext(s.ctx, http.MethodPost, s.p.url(0), strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	for k, v := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Mcp-Name": name} {
		r.Header.Set(k, v)
	}
	res, err := s.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d: %s", res.StatusCode, data)
	}
	return data, err
}

// finish waits until all tasks have completed, and looks at each once more.
func (s *taskSoak) finish() error {
	deadline := time.Now().Add(2 * time.Minute)
	for id := range s.open {
		for {
			state, body, err := s.get(id)
			if err != nil && s.retries && time.Now().Before(deadline) {
				time.Sleep(50 * time.Millisecond)
				continue
			}
			if err != nil {
				return err
			}
			if state == "completed" {
				s.ended[id] = body
				break
			}
			if state != "working" || time.Now().After(deadline) {
				return fmt.Errorf("task %s does not complete: %s", id, body)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	for id, body := range s.ended {
		if _, again, err := s.get(id); err != nil || again != body {
			return fmt.Errorf("task %s has changed after its end, from %s to %s: %w", id, body, again, err)
		}
	}
	return nil
}

// get reads a task, and checks the result of one that has completed.
func (s *taskSoak) get(id string) (state, body string, err error) {
	data, err := s.ask("tasks/get", id, `{"taskId":"`+id+`"`)
	if err != nil {
		return "", "", fmt.Errorf("task %s, whose id was told: %w", id, err)
	}
	var got struct {
		Result struct {
			Status string `json:"status"`
			Result struct {
				Structured struct {
					Steps []int `json:"steps"`
				} `json:"structuredContent"`
			} `json:"result"`
		} `json:"result"`
	}
	if err := json.Unmarshal(data, &got); err != nil {
		return "", "", fmt.Errorf("task %s: %w", id, err)
	}
	if got.Result.Status == "completed" {
		want := make([]int, s.steps)
		for i := range want {
			want[i] = i + 1
		}
		if !slices.Equal(got.Result.Result.Structured.Steps, want) {
			return "", "", fmt.Errorf("task %s has the result %s", id, data)
		}
	}
	return got.Result.Status, string(bytes.TrimSpace(data)), nil
}

// read checks what the tasks have written down. A step may begin again if the process died before it was stored, and never
// afterwards.
func (s *taskSoak) read() (again, attempts int, err error) {
	f, err := os.Open(s.file)
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	stored, begun := make(map[string]int), make(map[string]bool)
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var what, id string
		var step, attempt int
		if _, err := fmt.Sscan(lines.Text(), &what, &id, &step, &attempt); err != nil {
			return 0, 0, fmt.Errorf("ledger: %q: %w", lines.Text(), err)
		}
		attempts = max(attempts, attempt)
		key := fmt.Sprintf("%s %d", id, step)
		switch {
		case what == "begin" && stored[key] > attempt:
			s.late++
		case what == "begin" && stored[key] > 0:
			return 0, 0, fmt.Errorf("step %d of task %s began in attempt %d, and attempt %d had stored it", step, id, attempt, stored[key])
		case what == "begin" && begun[key]:
			again++
		case what == "begin":
			begun[key] = true
		default:
			stored[key] = attempt
		}
	}
	for id := range s.ended {
		for step := 1; step <= s.steps; step++ {
			if key := fmt.Sprintf("%s %d", id, step); stored[key] == 0 && !begun[key] {
				return 0, 0, fmt.Errorf("step %d of task %s never ran", step, id)
			}
		}
	}
	return again, attempts, lines.Err()
}
