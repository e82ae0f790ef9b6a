//go:build full

package main

import (
	"os/exec"
	"testing"
)

// worldTest is a short run of a world, which must have seen what it is to prove.
func worldTest(t *testing.T, o options, seen ...string) *worldReport {
	t.Helper()
	o.data, o.counts, o.log = t.TempDir()+"/data", true, t.Output()
	if o.bin = host; o.proxy != "" {
		o.bin = troupe
	}
	o.hosted, o.servers, o.nodes = o.proxy == "", max(o.servers, 1), max(o.nodes, 1)
	r, err := runWorld(t.Context(), o)
	if err == nil {
		err = r.verdict()
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, what := range seen {
		if r.Counts[what] == 0 {
			t.Errorf("the run had no %s: it proves less than it should", what)
		}
	}
	t.Logf("%+v", *r)
	return r
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

// TestProxied restarts two nodes in turn behind nginx and HAProxy, as deploy has them.
func TestProxied(t *testing.T) {
	for _, name := range []string{"nginx", "haproxy"} {
		t.Run(name, func(t *testing.T) {
			_, err := exec.LookPath(name)
			if err != nil {
				_, err = exec.LookPath("/usr/sbin/" + name)
			}
			if err != nil {
				t.Skipf("%s is not installed; .ci/run installs it", name)
			}
			worldTest(t, options{rounds: 1, clients: 6, nodes: 2, proxy: name, seed: 5, harms: list{byRoll}}, "resumes", "short_sessions", "stateless_echo", "stateless_count")
		})
	}
}
