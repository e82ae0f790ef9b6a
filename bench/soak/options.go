package main

import (
	"io"
	"slices"
	"strings"
	"time"
)

// options are the settings of a run.
type options struct {
	rounds  int
	clients int
	seed    uint64
	time    time.Duration
	bin     string // the program; "" builds it
	data    string // the data directory; "" takes a temporary one
	out     string // where the report goes as JSON, "" nowhere
	counts  bool   // only what is judged by counting matters, and nothing waits for what is kept for a time to be gone
	log     io.Writer

	nodes    int
	proxy    string        // of deploy/proxy, before three nodes; "": one node, or a load balancer of bench/lab before several
	idle     time.Duration // how long streams are silent behind that proxy
	socket   bool          // the only node is given a socket that stays open
	nats     int           // NATS servers
	sync     bool          // NATS flushes each write
	servers  int           // copies of the demo in the only node
	hosted   bool          // the program is bench/lab
	harms    list
	visitors list
	away     time.Duration // how long an outage lasts

	events int // costs behind, resume: how many are stored first

	greedy   int           // greed: clients that take all they can get; world: calls that such a client has with each node at a time
	duration time.Duration // of each attack
	parts    []string      // attacks of greed, or parts of costs; nil is all of them

	old string // world: bench/lab of another release, which takes turns and begins; "": none
}

// list is a flag of words with commas between them.
type list []string

func (l *list) String() string { return strings.Join(*l, ",") }

func (l *list) Set(text string) error {
	*l = strings.FieldsFunc(text, func(r rune) bool { return r == ',' })
	return nil
}

// The harms that are named elsewhere.
const (
	byKill    = "kill"
	byPause   = "pause"
	byRestart = "restart"
	byRoll    = "roll"
	byOutage  = "outage"
)

// onNATS reports whether the nodes share NATS servers.
func onNATS(o *options) bool { return o.nodes > 1 }

// restarts reports whether restarts are the only harm. Then no call is made that only the node can
// end and whose client answers only after that, so that a node that waits for anything else does
// not end.
func (o *options) restarts() bool { return slices.Equal(o.harms, []string{byRestart}) }

// The kinds of use that clients make of the nodes.
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
	case ofTasks: // need the tool ledger, which bench/lab has
		return o.hosted
	case ofSSE:
		return o.nodes == 1 || o.proxy != ""
	case ofGreed:
		return onNATS(o) && o.greedy > 0
	}
	return slices.Contains(allVisitors, kind)
}
