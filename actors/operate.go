package actors

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/troupe-run/troupe/actors/internal/mrtr"
	"github.com/troupe-run/troupe/actors/internal/request"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/refusal"
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/mcp"
)

// ErrNoCall reports that no call of an id is in flight at the node.
var ErrNoCall = errors.New("actors: there is no such call in flight")

// CallState is what a call in flight does.
type CallState string

// The states of a call.
const (
	CallRuns    CallState = "running"   // nothing has been sent yet
	CallStreams CallState = "streaming" // its response is a stream
	CallWaits   CallState = "waiting"   // for its client, which is to send it again with answers
)

// CallInfo is what an operator is told of a call in flight.
type CallInfo struct {
	ID        string     // names the call at its node, until that ends
	Session   SessionKey // its tenant and its server; the ID is "" for a stateless call
	Method    string     // at most 256 bytes of it
	Target    string     // the name of the tool or prompt, or the URI, at most 256 bytes of it; "" if there is none
	Revision  mcp.Revision
	Client    []byte // clientInfo, raw; nil if the client does not say
	Principal any    // see Call.Principal
	Via       Via
	Trace     string // its span, or that of its client, as a traceparent; "" if there is none
	State     CallState
	Began     time.Time
	Attempt   int
}

// mostShown bounds what is told of a method or a name, which clients choose.
const mostShown = 256

// Calls returns the calls in flight on this node for which which returns true, the oldest first.
// which is called for several calls at the same time, in their turns: it must be quick. A call that
// has become a task is none any more.
func Calls(n *Node, which func(*CallInfo) bool) (all []CallInfo) {
	var mu sync.Mutex // guards all
	visitNode(n, func(r *requestActor) {
		if c, ok := (operatedCall{r}).describeCall(); ok && which(&c) {
			mu.Lock()
			defer mu.Unlock()
			all = append(all, c)
		}
	})
	slices.SortFunc(all, func(a, b CallInfo) int { return cmp.Or(a.Began.Compare(b.Began), strings.Compare(a.ID, b.ID)) })
	return all
}

// EndCalls ends the calls in flight on this node for which which returns true: each has one
// response, that an operator has ended it, and its handler ErrCalledOff as the cause of its
// context. The response does not wait for the handler. EndCalls waits until what has to be stored
// of that is stored, so that no call runs again, or until ctx ends; an error means that it is
// unknown which calls another process may run again. which is called as by Calls.
func EndCalls(ctx context.Context, n *Node, which func(*CallInfo) bool) (ended []CallInfo, err error) {
	var (
		mu     sync.Mutex // guards the rest
		stored []chan error
	)
	visitNode(n, func(r *requestActor) {
		c, ok := (operatedCall{r}).describeCall()
		if !ok || !which(&c) {
			return
		}
		outcome := make(chan error, 1) // the turn does not wait
		mu.Lock()
		ended, stored = append(ended, c), append(stored, outcome)
		mu.Unlock()
		operatedCall{r}.endCall(func(err error) { outcome <- err })
	})
	for _, outcome := range stored {
		select {
		case e := <-outcome:
			err = cmp.Or(err, e)
		case <-ctx.Done():
			return ended, cmp.Or(err, context.Cause(ctx))
		}
	}
	return ended, err
}

// EndCall is EndCalls for one call. ErrNoCall: it is not in flight here.
func EndCall(ctx context.Context, n *Node, id string) (CallInfo, error) {
	ended, err := EndCalls(ctx, n, func(c *CallInfo) bool { return c.ID == id })
	if len(ended) == 0 {
		return CallInfo{}, cmp.Or(err, ErrNoCall)
	}
	return ended[0], err
}

// EndTenants ends on this node what tenants hold: their sessions, for all nodes, and their listeners,
// which are told why. Calls are for EndCalls, before; what is on its way to a client still reaches
// it. EndTenants waits for the store, and returns its first error.
func EndTenants(ctx context.Context, n *Node, why string, tenants []string) (err error) {
	n.listeners.endListeners(why, func(l *listenActor) bool { return slices.Contains(tenants, l.key.Tenant) })
	var all []*sessionActor
	eachSession(n, func(s *sessionActor) {
		if slices.Contains(tenants, s.key.Tenant) {
			all = append(all, s)
		}
	})
	for _, s := range all {
		if _, bound := s.home.(storedHome); !bound {
			sessionEnd{s}.endSession()
			continue
		}
		if _, failed := n.sessions.removeSession(ctx, s); failed != nil {
			err = cmp.Or(err, failed)
			sessionEnd{s}.endSession()
		}
	}
	return err
}

// EndThere has all other nodes end what an operator ends, and returns when they have. An error names
// those that have not said so; a node that is gone has nothing to end.
func EndThere(ctx context.Context, n *Node, e *OperatorEnd) error {
	if n.fleet.mail == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, endWait)
	defer cancel()
	var (
		all  sync.WaitGroup
		mu   sync.Mutex // guards errs
		errs []error
	)
	for part := range slices.Chunk(e.Tenants, mostTenants) {
		all.Go(func() { n.fleet.endThere(ctx, &OperatorEnd{Tenants: part}, &mu, &errs) })
	}
	if e.Calls != (SessionKey{}) {
		n.fleet.endThere(ctx, &OperatorEnd{Calls: e.Calls}, &mu, &errs)
	}
	all.Wait()
	return errors.Join(errs...)
}

func (f *fleet) endThere(ctx context.Context, e *OperatorEnd, mu *sync.Mutex, errs *[]error) {
	var all sync.WaitGroup
	for _, to := range f.mail.Others() {
		all.Go(func() {
			_, err := f.askNode(ctx, to, letterEnd, e)
			if err == nil || errors.Is(err, store.ErrNobody) {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			*errs = append(*errs, fmt.Errorf("node %s may not have ended what it has: %w", to.Node, err))
		})
	}
	all.Wait()
}

// visitNode calls visit for each call of this node, in the call's turn, and returns when that was
// done. Calls that begin meanwhile may be left out.
func visitNode(n *Node, visit func(*requestActor)) {
	var asked []*visitRequest
	ask := func(post func(any) error, wrap func(any) any) {
		m := &visitRequest{visit: visit}
		m.Init()
		if post(wrap(m)) == nil {
			asked = append(asked, m)
		}
	}
	var all []*sessionActor
	eachSession(n, func(s *sessionActor) { all = append(all, s) })
	for _, s := range all {
		s.visitCalls(func(r *requestActor) {
			if r.stateless == nil { // those are below
				ask(r.Post, func(m any) any { return m })
			}
		})
	}
	for _, x := range n.statelessCalls.requestsOf(nil) {
		ask(x.r.Post, func(m any) any { return called{x.generation, m} })
	}
	for _, m := range asked {
		m.Wait()
	}
}

// operatedCall is a request as an operator sees it, and ends it.
type operatedCall struct{ *requestActor }

// describeCall returns what is told of a call. One that has its response is in flight no more.
func (r operatedCall) describeCall() (c CallInfo, ok bool) {
	switch {
	case r.ended || r.call == nil || r.call.Detached() != nil:
		return CallInfo{}, false
	case r.phase == request.Plain:
		c.State = CallRuns
	case r.phase == request.Streaming:
		c.State = CallStreams
	case r.phase == request.Parked:
		c.State = CallWaits
	default:
		return CallInfo{}, false
	}
	p, msg := r.call.peer, r.call.msg
	c.ID = r.pool.boot[:min(len(r.pool.boot), 6)] + "-" + r.Key() + "-" + strconv.FormatUint(r.generation, 36)
	name, _ := codec.Str(msg.Name)
	uri, _ := codec.Str(msg.URI)
	c.Session, c.Method, c.Target = p.key, shown(string(msg.Method)), shown(cmp.Or(name, uri))
	c.Revision, c.Client, c.Principal, c.Via = p.Revision(), slices.Clone(p.Client()), r.call.principal, r.call.via
	c.Trace, c.Began, c.Attempt = cmp.Or(r.call.Span(), r.call.trace.Parent), r.started, r.call.attempt
	return c, true
}

// shown is the beginning of what a client has chosen.
func shown(s string) string {
	if len(s) <= mostShown {
		return s
	}
	return strings.ToValidUTF8(s[:mostShown], "") + "…"
}

// endCall ends a call that describeCall describes. Its client has the response before the handler
// returns, if that ever does. acked is called once no crash can undo it.
func (r operatedCall) endCall(acked func(error)) {
	id := string(r.id)
	data := codec.AppendError(nil, r.id, refusal.CalledOff.Code, refusal.CalledOff.Text, nil)
	rest := data[len(`{"jsonrpc":"2.0","id":`)+len(id):]
	r.used, r.ended = true, true
	r.call.noteEvent(CallEvent{Name: CalledOff})
	if r.phase == request.Parked {
		r.endWaiting(rest)
		acked(nil)
		return
	}
	r.onMark = acked
	r.cancel(ErrCalledOff)
	r.applyEvent(request.Result, response{data: data, code: refusal.CalledOff.Code, exited: true}, nil)
	parkedRequest{r.requestActor}.concludeCall(rest)
	if r.stateless != nil {
		parkedRequest{r.requestActor}.serveNobody()
	}
	r.way.table.parkRequest(r.requestActor, id) // the client may use the id again
	if r.onMark != nil {                        // nothing is being stored
		r.onMark = nil
		acked(nil)
	}
}

// endWaiting ends a call whose client has the questions of the last round: it gets the response when
// it sends the request again, whatever it answers.
func (r operatedCall) endWaiting(rest []byte) {
	p := r.parking
	r.pool.mrtr.outcomes.Put(r.stateless.park, mrtr.Outcome{Round: p.asked, Ended: true, Rest: rest, Until: p.until})
	parkedRequest{r.requestActor}.hideFromRetries()
	r.phase, p.givenUp = request.Dropped, true
	r.cancel(ErrCalledOff)
	parkedRequest{r.requestActor}.wakeHandler(wakeup{err: ErrCalledOff})
}
