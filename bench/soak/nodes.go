package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Tasks of nodes work for two seconds, so that all of a process that dies within the first are under way.
const (
	nodesSteps      = 100
	nodesStepMS     = 20
	nodesPopulation = 80
	// nodesPickUp bounds the p99 of the time from the death of a process to the next step of what it ran.
	nodesPickUp = 10 * time.Second
	// nodesFrozen is the same for a process that stands still: work may be given to it once more, while it asks for some.
	nodesFrozen = 2 * nodesPickUp
)

// nodesReport is what a run of kills and stops of one of two processes found.
type nodesReport struct {
	Scenario string       `json:"scenario"`
	Servers  int          `json:"nats_servers"`
	Seed     uint64       `json:"seed"`
	Rounds   int          `json:"rounds"`
	Seconds  float64      `json:"seconds"`
	Tasks    int          `json:"tasks"`
	Lost     int          `json:"tasks_whose_process_died_or_stood_still"`
	Unsure   int          `json:"creations_without_an_answer"`
	Again    int          `json:"steps_that_began_again_before_they_were_stored"`
	Late     int          `json:"steps_begun_by_a_process_that_stood_still_meanwhile"`
	Attempts int          `json:"most_attempts_of_a_task"`
	Killed   restartTimes `json:"death_to_next_step_elsewhere_ms"`
	Stopped  restartTimes `json:"standstill_to_next_step_elsewhere_ms"`
}

// verdict holds the report against what is promised.
func (r *nodesReport) verdict() error {
	if r.Late > r.Lost/100 {
		return fmt.Errorf("%d steps were begun by a process that had stood still, after another had stored them", r.Late)
	}
	for _, c := range []struct {
		what  string
		took  float64
		limit time.Duration
	}{{"a death", r.Killed.P99, nodesPickUp}, {"a standstill", r.Stopped.P99, nodesFrozen}} {
		if limit := float64(c.limit.Milliseconds()); c.took > limit {
			return fmt.Errorf("after %s a task goes on elsewhere after %.0f ms (p99), and %.0f are allowed", c.what, c.took, limit)
		}
	}
	return nil
}

// nodesSoak is two processes on one store.
type nodesSoak struct {
	*taskSoak
	nodes  [2]*process
	killed []time.Duration
	frozen []time.Duration
	lost   int
}

// runNodes has two processes work on tasks over one NATS store, and kills one of them, or stops it until the other has all its
// tasks and lets it go on. Each task whose id was told completes, no step that was stored runs again, and what the
// process does that comes back late changes nothing.
func runNodes(ctx context.Context, o options) (*nodesReport, error) {
	nats, err := startNATS(ctx, o)
	if err != nil {
		return nil, err
	}
	defer nats.end()
	s := &nodesSoak{taskSoak: newTaskSoak(ctx, o, 2, nodesSteps, nodesStepMS)}
	for i := range s.nodes {
		name := fmt.Sprintf("node-%d", i+1)
		if s.nodes[i], err = newProcess(o.bin, filepath.Join(o.data, name), o.seed+uint64(i)*1000, "--servers", "1", "--nats", nats.url(), "--node", name); err != nil {
			return nil, err
		}
		defer func() { _ = s.nodes[i].kill() }()
		if err := s.ready(s.nodes[i]); err != nil {
			return nil, err
		}
	}
	began := time.Now()
	r := &nodesReport{Scenario: "nodes", Servers: o.nats, Seed: o.seed, Rounds: o.rounds}
	for n := range o.rounds {
		if err := s.round(n); err != nil {
			return nil, fmt.Errorf("round %d: %w\n--- the end of the other's log\n%s", n+1, s.explain(err), s.nodes[0].log.lines(15))
		}
		fmt.Fprintf(o.log, "round %d of %d: %d tasks, %d lost their process\n", n+1, o.rounds, len(s.open), s.lost)
	}
	if err := s.finish(); err != nil {
		return nil, s.explain(err)
	}
	r.Tasks, r.Lost, r.Unsure, r.Seconds, r.Killed, r.Stopped = len(s.ended), s.lost, s.unsure, time.Since(began).Seconds(), timesOf(s.killed), timesOf(s.frozen)
	if r.Again, r.Attempts, err = s.read(); err != nil {
		return nil, s.explain(err)
	}
	r.Late = s.late
	return r, s.unfenced()
}

// ready starts a process and waits until it takes requests.
func (s *nodesSoak) ready(p *process) error {
	s.p = p
	_, _, err := s.start(false)
	return err
}

// round makes tasks on both nodes, and loses one of the nodes.
func (s *nodesSoak) round(n int) error {
	victim, other := s.nodes[s.rng.IntN(2)], s.nodes[0]
	if victim == other {
		other = s.nodes[1]
	}
	for _, p := range []*process{victim, other} {
		s.p = p
		s.create(nodesPopulation / 2)
	}
	time.Sleep(time.Duration(s.rng.IntN(800)) * time.Millisecond)
	s.p = other
	stop := n%2 == 1
	lostAt := time.Now()
	if stop {
		if err := victim.signal(sigStop); err != nil {
			return err
		}
	} else if err := victim.kill(); err != nil {
		return err
	}
	time.Sleep(50 * time.Millisecond) // what it had written is in the file
	took, err := s.pickUps(victim.node(), lostAt)
	if err != nil {
		return err
	}
	s.lost += len(took)
	if stop {
		s.frozen = append(s.frozen, took...)
		if err := victim.signal(sigCont); err != nil {
			return err
		}
		return s.answers(victim)
	}
	s.killed = append(s.killed, took...)
	if err := s.ready(victim); err != nil {
		return err
	}
	s.p = other
	return nil
}

// entry is a line of the ledger.
type entry struct {
	what, task, node string
	step, attempt    int
	ms               int64
}

// entries reads the whole lines of the ledger.
func (s *nodesSoak) entries() (all []entry, err error) {
	data, err := os.ReadFile(s.file)
	if err != nil {
		return nil, err
	}
	for text := range strings.Lines(string(data)) {
		var e entry
		if n, _ := fmt.Sscan(text, &e.what, &e.task, &e.step, &e.attempt, &e.node, &e.ms); n == ledgerWords {
			all = append(all, e)
		}
	}
	return all, nil
}

// pickUps waits until each task that a node had under way when it was lost goes on elsewhere, and returns after how long it does.
func (s *nodesSoak) pickUps(node string, lost time.Time) ([]time.Duration, error) {
	for end := time.Now().Add(60 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		all, err := s.entries()
		if err != nil {
			return nil, err
		}
		under := make(map[string]bool)
		next := make(map[string]int64)
		newest := make(map[string]int)
		for _, e := range all {
			if e.attempt < newest[e.task] { // of a process that had stood still: see late
				continue
			}
			newest[e.task] = e.attempt
			switch {
			case e.ms > lost.UnixMilli() && e.node != node:
				if _, there := next[e.task]; !there && under[e.task] {
					next[e.task] = e.ms
				}
			case e.node == node && e.what == "begin":
				under[e.task] = true
			case e.node == node && e.step == s.steps || e.node != node:
				delete(under, e.task)
			}
		}
		if len(next) == len(under) {
			var took []time.Duration
			for _, ms := range next {
				took = append(took, time.UnixMilli(ms).Sub(lost))
			}
			return took, nil
		}
		if time.Now().After(end) {
			return nil, s.stuck(all, under, next)
		}
	}
}

// stuck tells what is known of a task that does not go on.
func (s *nodesSoak) stuck(all []entry, under map[string]bool, next map[string]int64) error {
	id := ""
	for task := range under {
		if _, on := next[task]; !on {
			id = task
		}
	}
	var last []entry
	for _, e := range all {
		if e.task == id {
			last = append(last, e)
		}
	}
	_, body, err := s.get(id)
	return fmt.Errorf("%d of %d tasks of the lost node do not go on within a minute; task %s is %s (%v), and last did %+v", len(under)-len(next), len(under), id, body, err, last[max(0, len(last)-6):])
}

// unfenced looks for a step of an attempt that was stored after a later attempt had begun the same step.
func (s *nodesSoak) unfenced() error {
	all, err := s.entries()
	if err != nil {
		return err
	}
	begun := make(map[string]int)
	for _, e := range all {
		key := fmt.Sprintf("%s %d", e.task, e.step)
		if e.what == "begin" {
			begun[key] = max(begun[key], e.attempt)
		} else if begun[key] > e.attempt {
			return fmt.Errorf("step %d of task %s was stored by attempt %d after attempt %d had begun it", e.step, e.task, e.attempt, begun[key])
		}
	}
	return nil
}
