package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/troupe-run/troupe/bench/loadgen"
)

// A group is a kind of scenario: how it is measured, and what its table shows.
type group string

const (
	calls    group = "calls"    // echo in a closed loop; the only ones that run if none is named
	sizes    group = "sizes"    // the same with texts of several sizes, for a plot
	sessions group = "sessions" // sessions that are held without a connection, and calls beside them
	rest     group = "rest"     // sessions that nobody has used for more than a minute
	streams  group = "streams"  // idle event streams, and calls beside them
	waiting  group = "waiting"  // calls that wait for the user's answer, and listeners, within a budget
	beside   group = "beside"   // calls alone, and then beside who disturbs them
	nodes    group = "nodes"    // calls to several nodes in turn
	hosted   group = "hosted"   // calls of a server that troupe hosts
)

// memory names the groups sessions and streams.
const memory = "memory"

// noise is how many calls a second the noisy client begins: ten times what troupe serve lets an
// address have.
const noise = 10_000

// restFor is how long sessions rest in [rest]: longer than the minute for which troupe keeps what
// it may need for the next request.
const restFor = 75 * time.Second

// A scenario is a load.
type scenario struct {
	name     string
	group    group
	revision string
	clients  int
	size     int     // of the text, in bytes
	count    int     // of what is held, or of nodes
	bench    string  // the scenario of the load generator that begins what is held
	budget   float64 // bytes that each of them may take in heap and stacks; 0 is no budget
	rate     float64 // of the calls in a second; 0 is a closed loop
}

var scenarios = []scenario{
	{name: "echo-32", group: calls, revision: loadgen.DefaultRevision, clients: 32, size: 105},
	{name: "echo-256", group: calls, revision: loadgen.DefaultRevision, clients: 256, size: 105},
	{name: "stateless-32", group: calls, revision: loadgen.Stateless, clients: 32, size: 105},
	{name: "echo-10k", group: calls, revision: loadgen.DefaultRevision, clients: 32, size: 10_000},

	{name: "size-100", group: sizes, revision: loadgen.DefaultRevision, clients: 8, size: 100},
	{name: "size-1k", group: sizes, revision: loadgen.DefaultRevision, clients: 8, size: 1000},
	{name: "size-10k", group: sizes, revision: loadgen.DefaultRevision, clients: 8, size: 10_000},
	{name: "size-100k", group: sizes, revision: loadgen.DefaultRevision, clients: 8, size: 100_000},
	{name: "size-1m", group: sizes, revision: loadgen.DefaultRevision, clients: 8, size: 1_000_000},

	holdScenario(sessions, "sessions-0", "hold", 0),
	holdScenario(sessions, "sessions-1k", "hold", 1000),
	holdScenario(sessions, "sessions-10k", "hold", 10_000),
	holdScenario(sessions, "sessions-50k", "hold", 50_000),
	holdScenario(rest, "sessions-10k-rest", "hold", 10_000),
	holdScenario(streams, "streams-0", "streams", 0),
	holdScenario(streams, "streams-1k", "streams", 1000),
	holdScenario(streams, "streams-5k", "streams", 5000),
	holdScenario(streams, "streams-9500", "streams", 9500), // with ulimit -n 20000

	{name: "parked-2k", group: waiting, bench: "parked", revision: loadgen.Stateless, clients: 32, size: 105, count: 2000, budget: 12 << 10},
	{name: "listen-5k", group: waiting, bench: "streams", revision: loadgen.Stateless, clients: 32, size: 105, count: 5000, budget: 5 << 10},

	{name: "slow", group: beside, revision: loadgen.DefaultRevision, clients: 32, size: 105, count: 1000, bench: "streams", rate: 500},
	{name: "noisy", group: beside, revision: loadgen.DefaultRevision, clients: 32, size: 105, rate: 100},

	{name: "hosted-1", group: hosted, revision: loadgen.DefaultRevision, clients: 1, size: 105},
	{name: "hosted-8", group: hosted, revision: loadgen.DefaultRevision, clients: 8, size: 105},

	{name: "nodes-1", group: nodes, revision: loadgen.DefaultRevision, clients: 32, size: 105, count: 1},
	{name: "nodes-2", group: nodes, revision: loadgen.DefaultRevision, clients: 32, size: 105, count: 2},
	{name: "nodes-3", group: nodes, revision: loadgen.DefaultRevision, clients: 32, size: 105, count: 3},
}

func holdScenario(g group, name, bench string, count int) scenario {
	return scenario{name: name, group: g, bench: bench, revision: loadgen.DefaultRevision, clients: 32, size: 105, count: count}
}

// holds reports whether the memory of the server is looked at.
func (s scenario) holds() bool {
	return s.group == sessions || s.group == rest || s.group == streams || s.group == waiting
}

func (s scenario) String() string {
	load := fmt.Sprintf("echo of %d bytes, %d clients, revision %s", s.size, s.clients, s.revision)
	switch {
	case s.name == "slow":
		return fmt.Sprintf("%s, %g/s, among %d event streams, of which one reads slowly", load, s.rate, s.count)
	case s.name == "noisy":
		return fmt.Sprintf("%s, %g/s, beside a client of another address that calls %d times a second", load, s.rate, noise)
	case s.group == nodes:
		return fmt.Sprintf("%s, to each of %d nodes in turn; processor time and memory are those of all nodes and NATS", load, s.count)
	case s.group == hosted:
		return load + "; processor time is that of the server and of its keeper, without the processes that are hosted"
	case s.group == rest:
		return fmt.Sprintf("%d sessions held, %v after the last request; %s", s.count, restFor, load)
	case s.group == waiting:
		return fmt.Sprintf("%d of %s held twice, revision %s, at most %g bytes each in heap and stacks", s.count, s.bench, s.revision, s.budget)
	case s.holds():
		return fmt.Sprintf("%d %s held; %s", s.count, s.group, load)
	}
	return load
}

// scenariosNamed returns the scenarios that names are of: each the name of a scenario or a group,
// with commas between. None are those of [calls].
func scenariosNamed(names string) (chosen []scenario, err error) {
	if names == "" {
		names = string(calls)
	}
	left := strings.Split(names, ",")
	known := make(map[string]bool)
	for _, s := range scenarios {
		of := []string{s.name, string(s.group)}
		if s.group == sessions || s.group == streams {
			of = append(of, memory)
		}
		if slices.ContainsFunc(of, func(name string) bool { return slices.Contains(left, name) }) {
			chosen = append(chosen, s)
		}
		for _, name := range of {
			known[name] = true
		}
	}
	for _, name := range left {
		if !known[name] {
			return nil, fmt.Errorf("no scenario is called %q", name)
		}
	}
	return chosen, nil
}
