// Package operator is what an operator sees of a node of Troupe and the store that it shares with
// others, and does to it: [Operator]. A program has the one of its own node from
// [github.com/troupe-run/troupe.Runtime.Operator]; the command troupe reaches that of a node that
// runs through the socket admin.sock in its data directory.
//
// Whoever has an Operator sees and ends what any client has. Of what clients send, only names are
// told: no arguments, no ids of sessions, which are secrets of their clients, and results and the
// texts of questions only where they are asked for.
package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
)

// Operator is a node, with the sessions and tasks in its store. Its methods may be called from any
// goroutine. An error that is none of this package's says that the store, or the node, could not be
// asked: what was to end may have ended.
type Operator interface {
	// Sessions lists those in the store, in the order in which their records were last written,
	// whichever node serves them. Sessions over HTTP+SSE and stdio are their connections, and not
	// in the store.
	Sessions(ctx context.Context, q Query) (SessionPage, error)
	// Session returns a session by its id, or by the tag of it that lists and logs have, with or
	// without its #. ErrNoSession.
	Session(ctx context.Context, id string) (Session, error)
	// EndSession ends a session on all nodes. Its calls get a response, that an operator has ended
	// them; its id is unknown from then on. ErrNoSession.
	EndSession(ctx context.Context, id string) (Session, error)

	// Calls lists the calls in flight on this node, the oldest first. Other nodes have their own.
	Calls(ctx context.Context, q Query) (CallPage, error)
	// CancelCall ends a call in flight on this node: its client gets one response, that an operator
	// has ended it, whether or not the handler heeds the end of its context. A call that waits for
	// its client has its response when that sends the request again, as long as this process lives.
	// ErrNoCall.
	CancelCall(ctx context.Context, id string) (Call, error)

	// Tasks lists the tasks in the store, in the order in which they last changed. It looks at a
	// bounded number: a page may have fewer than Query.Limit, and still a Next.
	Tasks(ctx context.Context, q Query) (TaskPage, error)
	// Task returns a task, with its result and the texts of its questions if result is set.
	// ErrNoTask.
	Task(ctx context.Context, id string, result bool) (TaskDetail, error)
	// CancelTask ends a task as its client may. ErrNoTask, ErrTaskEnded.
	CancelTask(ctx context.Context, id string) (Task, error)

	// EndPrincipal ends everything that a principal has, named as in Query, on all nodes: calls,
	// which get a response that says so, sessions, listeners and tasks. It may come again at once:
	// [github.com/troupe-run/troupe.Revocations] refuses who must not. ErrNoPrincipal. With another
	// error Ended is what has ended so far.
	EndPrincipal(ctx context.Context, principal string) (Ended, error)

	// Nodes lists the nodes that share the store, with this one.
	Nodes(ctx context.Context) ([]Node, error)
	// Drain begins to end this node in order, as SIGTERM does, and returns how far that is.
	// ErrDraining: it ends already.
	Drain(ctx context.Context) (Draining, error)
	// Draining returns what this node still has to do.
	Draining(ctx context.Context) (Draining, error)
}

// The errors of an Operator: nothing was done.
var (
	ErrNoSession   = errors.New("there is no such session: it may have ended or expired")
	ErrNoCall      = errors.New("there is no such call in flight at this node: it may have ended")
	ErrNoTask      = errors.New("there is no such task: it may have expired")
	ErrTaskEnded   = errors.New("the task has ended")
	ErrNoPrincipal = errors.New("no principal can be named so")
	ErrDraining    = errors.New("the node is draining already")
	ErrQuery       = errors.New("the list cannot be asked for so")
)

// Query says what a list has. The zero value is the first hundred of all, of tasks of those that
// have not ended.
type Query struct {
	// Principal is whose: "SUBJECT of ISSUER", or the Tenant of a Session, Call or Task. A subject alone
	// does where the node knows its issuer, as it does those of Options.Auth and of API keys, whose
	// subjects are their ids. "anon" means all anonymous clients, and "" anybody.
	Principal string
	// Server is the path where it is mounted, or its id; "" means any.
	Server string
	// State is one of TaskStates, or of CallStates for calls. Sessions have none.
	State string
	// Limit is how many at most, up to MaxPage. 0 means 100.
	Limit int
	// From is Next of the page before; 0 for the first one. Calls have one page.
	From uint64
}

// MaxPage is how many a page has at most.
const MaxPage = 1000

// Check returns q with its defaults. ErrQuery says what is wrong with it, for a list whose states are
// states.
func (q Query) Check(states []string) (Query, error) {
	switch {
	case q.State != "" && !slices.Contains(states, q.State):
		return q, fmt.Errorf("%w: state is %q: want one of %q", ErrQuery, q.State, states)
	case q.Limit < 0 || q.Limit > MaxPage:
		return q, fmt.Errorf("%w: limit is %d: want a number from 1 to %d", ErrQuery, q.Limit, MaxPage)
	}
	q.Limit = cmp.Or(q.Limit, 100)
	return q, nil
}

// Ended is how much has ended of what a principal had.
type Ended struct {
	Calls    int `json:"calls"`    // on this node
	Sessions int `json:"sessions"` // in the store
	Tasks    int `json:"tasks"`
}
