package main

import (
	"slices"
	"time"
)

// The harms. A harm is what is done to the nodes in one round.
const (
	byKill      = "kill"      // of a node
	byCrowd     = "crowd"     // the same, and many clients come back within a second
	byPause     = "pause"     // of a node (SIGSTOP), for longer than its lease
	byStop      = "stop"      // of a node in order, which is started again later
	byRestart   = "restart"   // of the only node in order, which is started again at once
	byRoll      = "roll"      // all nodes end in order and start again, one after the other
	byPartition = "partition" // of a node from NATS
	byLeader    = "leader"    // the NATS server that leads a stream of events is paused and then killed
	byOutage    = "outage"    // of all NATS servers
	byCrash     = "crash"     // of all NATS servers at once
	byTwin      = "twin"      // a second process has the name of a node, and then goes on alone for a while
)

// allHarms are the harms in the order in which a list of them is shown.
var allHarms = []string{byKill, byCrowd, byPause, byStop, byRestart, byRoll, byPartition, byLeader, byOutage, byCrash, byTwin}

const (
	// standstill is for how long a node is paused, or cut off: longer than its lease of five seconds.
	standstill = 7 * time.Second
	// leaderGone is for how long the leader of a stream is paused before it is killed: longer than an election.
	leaderGone = 8 * time.Second
)

// harmFits reports whether a harm can be done to the nodes of a run.
func (o *options) harmFits(harm string) bool {
	onNATS := o.nodes > 1 && o.proxy == ""
	switch harm {
	case byKill, byPause:
		return o.proxy == ""
	case byRestart:
		return o.nodes == 1
	case byRoll:
		return o.nodes > 1
	case byCrowd:
		return onNATS && o.crowd > 0
	case byLeader:
		return onNATS && o.nats > 1
	case byOutage:
		return onNATS && o.away > 0
	case byStop, byPartition, byCrash, byTwin:
		return onNATS
	}
	return false
}

// restarts reports whether restarts are the only harm. Then no call is made that only the node can end and whose client answers only after that, so
// that a node that waits for anything else does not end.
func (o *options) restarts() bool { return slices.Equal(o.harms, []string{byRestart}) }

// The kinds of visitors. A visitor is a kind of use that clients make of the nodes.
const (
	ofCalls     = "calls"     // plain calls, slow ones, lists, and calls whose client goes away
	ofStreams   = "streams"   // calls that stream, batches, cancels, and resumes of all of them
	ofAsks      = "asks"      // calls that ask their client
	ofUpdates   = "updates"   // of resources and of sessions, on standalone streams and to listeners
	ofTasks     = "tasks"     // that work in steps, and write down which of them ran
	ofStateless = "stateless" // clients of 2026-07-28, which make what of the above is chosen
	ofSSE       = "sse"       // clients of HTTP+SSE
	ofGreed     = "greedy"    // a client that takes all it can get
)

var allVisitors = []string{ofCalls, ofStreams, ofAsks, ofUpdates, ofTasks, ofStateless, ofSSE, ofGreed}

// visitorFits reports whether a kind of visitor can come to the nodes of a run.
func (o *options) visitorFits(kind string) bool {
	switch kind {
	case ofAsks, ofUpdates: // a state and a listener are of one node alone behind a proxy of deploy
		return o.proxy == ""
	case ofTasks: // need the tool ledger, which bench/lab has
		return o.hosted
	case ofSSE:
		return o.nodes == 1
	case ofGreed:
		return o.nodes > 1 && o.proxy == "" && o.greedy > 0
	}
	return slices.Contains(allVisitors, kind)
}

// visited reports whether the run has a kind of visitor.
func (w *world) visited(kind string) bool {
	return w.o.visitorFits(kind) && (len(w.o.visitors) == 0 || slices.Contains(w.o.visitors, kind))
}
