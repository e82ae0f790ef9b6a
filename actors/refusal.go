package actors

import (
	"cmp"
	"errors"
	"iter"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/faults"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/session"
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
	Recall                        // bytes that a record tells a second run of a call
	Replay                        // event ids that cannot be resumed from, expired or never there
	StoreFull                     // new sessions and streams in a store that is nearly full
	StoreOfPrincipal              // the same, of a principal that has its share of a store with little room
	reasons
)

// limitOf is the row of each reason: its label and, unless the handler learns of it, the
// error of the request. Its status is for what is no request of a session, see turnAway.
var limitOf = [reasons]*limits.Row{
	RateOfSession:          limits.CallRate.Row,
	RateOfPrincipal:        limits.PrincipalRate.Row,
	CallsOfSession:         limits.CallsPerSession.Row,
	CallsOfPrincipal:       limits.CallsPerPrincipal.Row,
	CallsOfNode:            limits.CallsPerNode.Row,
	ShareOfNode:            limits.NodeShare.Row,
	SessionsOfPrincipal:    limits.SessionsPerPrincipal.Row,
	StreamsOfSession:       limits.StreamsPerSession.Row,
	StreamsOfPrincipal:     limits.StreamsPerPrincipal.Row,
	ParkedOfSession:        limits.ParkedPerSession.Row,
	ParkedOfPrincipal:      limits.ParkedPerPrincipal.Row,
	SubscriptionsOfSession: limits.SubscriptionsPerSession.Row,
	LogRateOfSession:       limits.LogRate.Row,
	MaxCall:                limits.MaxCall.Row,
	MaxAsk:                 limits.MaxAsk.Row,
	AskRounds:              limits.Rounds.Row,
	AskInput:               limits.StateInput.Row,
	Recall:                 limits.Recall.Row,
	Replay:                 limits.ReplayAge.Row,
	StoreFull:              limits.MaxStore.Row,
	StoreOfPrincipal:       limits.StoreShare.Row,
}

// verdict is why something is refused, and when to come back. The zero value
// refuses nothing.
type verdict struct {
	reason Reason
	wait   time.Duration // of a bucket, until the next token; 0 means a second
}

// Error makes a verdict pass as the error that it is where requests are begun.
func (v verdict) Error() string { return "actors: refused: " + limitOf[v.reason].Counted }

// refusals answers what a node refuses, and counts it by reason.
type refusals [reasons]atomic.Int64

func (rs *refusals) count(r Reason) { rs[r].Add(1) }

// Refusals calls observe with the label of each limit and how often it was hit.
func (n *Node) Refusals(observe func(reason string, count int64)) {
	for r := admitted + 1; r < reasons; r++ {
		observe(limitOf[r].Counted, n.refusals[r].Load())
	}
}

// refuse answers what is not admitted and is no request of a session, and counts that.
func (rs *refusals) refuse(c answerer, id []byte, no verdict) { rs.denial(no).tell(c, id) }

// unavailable answers what is no request of a session, and cannot be served now.
func (rs *refusals) unavailable(c answerer, id []byte) { rs.denial(errUnavailable).tell(c, id) }

// refused answers a request that was not begun and is of no session.
func (rs *refusals) refused(c answerer, err error, id []byte) { rs.denial(err).tell(c, id) }

// turnAway answers a request of a session that was not begun, or was given up before anything was sent. The JSON-RPC
// error says why and when to come back; HTTP says 200, because release 1.x of the Python SDK takes any status but 2xx
// and 404 for the end of the connection, with all its calls.
func (rs *refusals) turnAway(c answerer, err error, id []byte) {
	rs.denial(err).inSession().tell(c, id)
}

// turnAwayAll is turnAway for the requests of a batch: each has its error, in an array. A batch that could never be
// taken has one error and a status, as what is no batch has.
func (rs *refusals) turnAwayAll(c answerer, err error, ids iter.Seq[[]byte]) {
	d := rs.denial(err)
	if d.after == 0 {
		d.tell(c, nil)
		return
	}
	d = d.inSession()
	b := codec.GetBuffer()
	defer b.Free()
	lead := byte('[')
	b.B = b.B[:0]
	for id := range ids {
		b.B = codec.AppendError(append(b.B, lead), id, d.code, d.message, d.data)
		lead = ','
	}
	c.Answer(d.status, append(b.B, ']'))
}

// errUnavailable is why a request is turned away that a node cannot serve now.
var errUnavailable = errors.New("actors: unavailable")

// denial is how a refusal looks to who gets it.
type denial struct {
	status, code int
	message      string
	data         []byte
	after        time.Duration // when to come back, 0 if that would change nothing
}

// denial is that for err, and counts the limit that err names.
func (rs *refusals) denial(err error) denial {
	no, limited := errors.AsType[verdict](err)
	switch {
	case limited:
	case errors.Is(err, session.ErrTooMany):
		no = verdict{reason: CallsOfSession}
	case errors.Is(err, errLongToken):
		return denialOf(faults.LongToken)
	case errors.Is(err, session.ErrDuplicate):
		return denialOf(faults.DuplicateID)
	default:
		return denialOf(faults.Unavailable)
	}
	rs.count(no.reason)
	w := &limitOf[no.reason].Refusal
	after := cmp.Or(no.wait, time.Second)
	return denial{w.Status, w.Code, w.Message, retryAfter(after), after}
}

// denialOf is the denial of a fault.
func denialOf(f *faults.Fault) denial {
	d := denial{status: f.Status, code: f.Code, message: f.Text, after: f.After}
	if d.after > 0 {
		d.data = retryAfter(d.after)
	}
	return d
}

// inSession is the denial as the answer to a request of a session.
func (d denial) inSession() denial {
	d.status = 200
	return d
}

func (d denial) tell(c answerer, id []byte) {
	c.Reject(d.status, d.code, d.message, d.data, id, d.after)
}

// retryAfter is the data of an error that a client is to come back after, in milliseconds, rounded up.
func retryAfter(d time.Duration) []byte {
	ms := int64((d + time.Millisecond - 1) / time.Millisecond)
	return append(strconv.AppendInt([]byte(`{"retryAfterMs":`), ms, 10), '}')
}
