package actors

import (
	"strconv"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/mcp"
)

// Reason names the limit that something was refused for.
type Reason uint8

// The reasons, one per limit.
const (
	admitted               Reason = iota
	RateOfSession                 // calls per second of a session
	RateOfPrincipal               // calls per second of a principal
	CallsOfSession                // in flight in a session
	CallsOfPrincipal              // in flight, of a principal
	CallsOfNode                   // in flight on the node
	ShareOfNode                   // in flight, of a principal on a node that is nearly full
	SessionsOfPrincipal           // new sessions of a principal
	StreamsOfSession              // event streams of a session
	StreamsOfPrincipal            // event streams of a principal
	ParkedOfSession               // questions that wait for the client of a session
	ParkedOfPrincipal             // questions that wait for a principal
	SubscriptionsOfSession        // resources that a session subscribes to
	LogRateOfSession              // log messages per second of a session
	MaxCall                       // time that a call may run
	MaxAsk                        // time that a question may wait
	AskRounds                     // how often a call has its request sent again
	AskInput                      // bytes of answers that a client carries for a call
	Replay                        // event ids that cannot be resumed from, expired or never there
	StoreFull                     // new sessions and streams in a store that is nearly full
	reasons
)

// wire is how a client learns of a refusal; a zero status means that the handler
// does.
var wire = [reasons]struct {
	label   string
	status  int
	code    int
	message string
}{
	RateOfSession:          {"session-rate", 429, mcp.CodeInvalidRequest, "too many calls per second in this session"},
	RateOfPrincipal:        {"principal-rate", 429, mcp.CodeInvalidRequest, "too many calls per second from this client"},
	CallsOfSession:         {"session-calls", 429, mcp.CodeInvalidRequest, "too many requests in flight in this session"},
	CallsOfPrincipal:       {"principal-calls", 429, mcp.CodeInvalidRequest, "too many requests in flight from this client"},
	CallsOfNode:            {"node-calls", 503, mcp.CodeInternalError, "too many requests in flight on this node"},
	ShareOfNode:            {"node-share", 503, mcp.CodeInternalError, "this node is busy, and this client has its share of it"},
	SessionsOfPrincipal:    {"principal-sessions", 429, mcp.CodeInvalidRequest, "too many new sessions from this client"},
	StreamsOfSession:       {"session-streams", 429, mcp.CodeInvalidRequest, "too many open streams in this session"},
	StreamsOfPrincipal:     {"principal-streams", 429, mcp.CodeInvalidRequest, "too many open streams from this client"},
	ParkedOfSession:        {label: "session-parked"},
	ParkedOfPrincipal:      {label: "principal-parked"},
	SubscriptionsOfSession: {label: "session-subscriptions"},
	LogRateOfSession:       {label: "log-rate"},
	MaxCall:                {label: "call-time"},
	MaxAsk:                 {label: "ask-time"},
	AskRounds:              {label: "ask-rounds"},
	AskInput:               {label: "ask-input"},
	Replay:                 {label: "replay"},
	StoreFull:              {"store-full", 503, mcp.CodeInternalError, "temporarily unavailable: try again shortly"},
}

// verdict is why something is refused, and when to come back. The zero value
// refuses nothing.
type verdict struct {
	reason Reason
	wait   time.Duration // of a bucket, until the next token; 0 means a second, and is not told in the data
}

// Error makes a verdict pass as the error that it is where requests are begun.
func (v verdict) Error() string { return "actors: refused: " + wire[v.reason].label }

// refusals counts what a node has refused, by reason.
type refusals [reasons]atomic.Int64

func (c *refusals) count(r Reason) { c[r].Add(1) }

// Refusals calls observe with the label of each limit and how often it was hit.
func (n *Node) Refusals(observe func(reason string, count int64)) {
	for r := admitted + 1; r < reasons; r++ {
		observe(wire[r].label, n.refusals[r].Load())
	}
}

// refuse answers a request that is not admitted, and counts that.
func (n *Node) refuse(c Conn, id []byte, no verdict) {
	n.refusals.count(no.reason)
	w, after, data := &wire[no.reason], time.Second, []byte(nil)
	if no.wait > 0 {
		after = no.wait
		ms := int64((no.wait + time.Millisecond - 1) / time.Millisecond)
		data = append(strconv.AppendInt([]byte(`{"retryAfterMs":`), ms, 10), '}')
	}
	c.Reject(w.status, w.code, w.message, data, id, after)
}
