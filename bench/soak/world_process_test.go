//go:build full

package main

import (
	"maps"
	"os/exec"
	"slices"
	"testing"
	"time"
)

// worldTest is a short run of a world, which must have seen what it is to prove.
func worldTest(t *testing.T, o options, seen ...string) *worldReport {
	t.Helper()
	o.data, o.counts, o.log = t.TempDir()+"/data", true, t.Output()
	if o.bin, o.hosted = host, !o.socket; o.socket {
		o.bin = troupe
	}
	o.servers, o.nodes = max(o.servers, 1), max(o.nodes, 1)
	r, err := runWorld(t.Context(), o)
	proved(t, r, err)
	for _, what := range seen {
		if r.Counts[what] == 0 {
			t.Errorf("the run had no %s: it proves less than it should", what)
		}
	}
	return r
}

// proved fails the test unless a run has shown what it is to show.
func proved(t *testing.T, r judged, err error) {
	t.Helper()
	if err == nil {
		err = r.verdict()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", r)
}

// TestOneNode kills, pauses and restarts one node while clients of all kinds work with it. go run
// ./bench/soak world has more rounds and other seeds.
func TestOneNode(t *testing.T) {
	r := worldTest(t, options{rounds: 5, clients: 8, seed: 1, harms: list{byKill, byPause, byKill, byRestart, byKill}},
		"stateless_echo", "stateless_count", "stateless_left", "stateless_answered_over_a_restart", "stateless_lost_-32010",
		"stateless_listeners_again", "stateless_updates",
		"resumes", "resumes_from_earlier", "replays_of_answered", "safe_calls_over_a_restart", "answers_given", "batches", "resource_updates", "sse_streamed_call", "sse_question")
	if r.Tasks.Lost == 0 || r.Tasks.Again == 0 || r.Tasks.Attempts < 2 {
		t.Errorf("the tasks prove less than they should: %+v", r.Tasks)
	}
}

// TestRestart restarts one node twice, and no call is made that holds up its end.
func TestRestart(t *testing.T) {
	r := worldTest(t, options{rounds: 2, clients: 4, seed: 4, harms: list{byRestart}}, "safe_calls_over_a_restart", "questions_never_answered")
	if r.Ends.Max == 0 || r.Refused.Max == 0 {
		t.Errorf("no restart was measured: %+v", *r)
	}
}

// TestRestartOnASocket restarts one node on a socket that stays open: no request over a new connection fails.
func TestRestartOnASocket(t *testing.T) {
	if r := worldTest(t, options{rounds: 2, clients: 4, seed: 4, socket: true, harms: list{byRestart}, visitors: list{ofCalls, ofStreams, ofUpdates, ofStateless}}, "connections_in_restarts"); r.Refused.Max > 0 {
		t.Errorf("requests were refused for %v", r.Refused)
	}
}

// TestManyServers kills one node with a hundred servers in it.
func TestManyServers(t *testing.T) {
	worldTest(t, options{rounds: 2, clients: 8, servers: 100, seed: 2, harms: list{byKill}, visitors: list{ofCalls, ofStreams, ofAsks, ofStateless}}, "sessions_after_restart", "safe_calls_over_a_restart")
}

// TestFleet kills and pauses one of three nodes, on one NATS server and on three.
func TestFleet(t *testing.T) {
	r := worldTest(t, options{rounds: 2, clients: 4, nodes: 3, nats: 1, greedy: 1, seed: 1, harms: list{byKill, byPause}}, "resumes", "answers_given", "stateless_answered")
	if r.Tasks.Lost == 0 || r.Tasks.Attempts < 2 {
		t.Errorf("the tasks prove less than they should: %+v", r.Tasks)
	}
	worldTest(t, options{rounds: 1, clients: 4, nodes: 3, nats: 3, seed: 1, harms: list{byKill}, visitors: list{ofCalls, ofStreams, ofTasks}}, "resumes")
}

// TestProxied restarts three nodes in turn behind each proxy, as deploy/proxy has it, and measures
// what passes through.
func TestProxied(t *testing.T) {
	for _, name := range installedProxies(t) {
		t.Run(name, func(t *testing.T) {
			r := worldTest(t, options{rounds: 1, clients: 6, nodes: 3, nats: 1, proxy: name, idle: time.Second, seed: 5, harms: list{byRoll}},
				"resumes", "short_sessions", "stateless_echo", "stateless_count", "stateless_updates", "answers_given", "batches", "sse_call")
			if r.Tasks.Tasks == 0 || r.Through.Events.N == 0 || r.Through.Large.N == 0 {
				t.Errorf("nothing was measured: %+v", *r)
			}
		})
	}
}

// installedProxies are the proxies of deploy/proxy. It skips the test where one is missing.
func installedProxies(t *testing.T) []string {
	t.Helper()
	for name := range proxies {
		_, err := exec.LookPath(name)
		if err != nil {
			_, err = exec.LookPath("/usr/sbin/" + name)
		}
		if err != nil {
			t.Skipf("%s is not installed; .ci/night installs it", name)
		}
	}
	return slices.Sorted(maps.Keys(proxies))
}
