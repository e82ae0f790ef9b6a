package backend

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/host"
	"github.com/troupe-run/troupe/internal/backend/listing"
	"github.com/troupe-run/troupe/internal/backend/pool"
	"github.com/troupe-run/troupe/internal/keeper"
	"github.com/troupe-run/troupe/internal/kernel"
	"github.com/troupe-run/troupe/internal/upstream"
	"github.com/troupe-run/troupe/mcp"
)

// instance is one process, upstream session or in-process session of a backend. As an actor it knows which calls run on it.
type instance struct {
	kernel.Actor
	b       *Backends
	of      *Backend // as it was configured when it began
	id      pool.InstanceID
	kind    pool.Kind
	owner   atomic.Pointer[owner] // nil for a spare, and for what all share
	began   time.Time
	life    context.Context // ends with its stopping
	stop    context.CancelCauseFunc
	ready   chan struct{}                  // closed once conn is there, or never will be
	conn    *upstream.Conn                 // nil if it did not open
	over    chan error                     // gets why the connection ended by itself
	proc    atomic.Pointer[keeper.Process] // nil for what is none
	pid     atomic.Int64                   // of the last process, 0 for what is none
	place   place                          // what it has in the store, for the next process
	found   bool                           // an earlier process has left something for it
	lost    bool                           // that cannot go on
	heir    bool                           // it goes on with what an earlier process has left in the store
	endLink func()                         // ends what else the link has, nil for nothing
	lists   chan struct{}                  // closed once it has listed, or could not
	gone    chan struct{}                  // closed once it has ended
	parted  parting                        // how, once it is gone
	served  atomic.Bool                    // it was given to a call
	stale   [4]atomic.Bool                 // lists that it has said have changed
	wake    chan struct{}                  // that one has

	level    level    // the log level that it was told
	followed followed // of which resources it says when they change

	memoryBytes int64 // bytes that its process had when that was looked at last; the pool's own

	running       []*running // the calls that run, in the order in which they began; the actor's own
	rootQuestions []Event    // questions for roots that wait for a call; the actor's own
}

// owner is whose an instance is: its holder, and the principal that has that, "" where nobody says who calls.
type owner struct{ holder, principal string }

// running is a call that runs on an instance.
type running struct {
	q    *Request
	asks bool      // it is the one of its instance that may be asked
	kept *keptCall // what the keeper has of it, nil if that is nothing
	task string    // the backend's id of the task that it was answered with, "" for none; the actor's own
}

// Messages to an instance.
type (
	callBegan struct{ *running }
	// taskBegan says which task a call was answered with.
	taskBegan struct {
		*running
		task string
	}
	// callEnded has been handled once all that came before the answer was handed on.
	callEnded struct {
		kernel.Reply
		*running
	}
	heard struct{ upstream.Event }
)

// Refused has the call go on: nothing more is handed on.
func (m *callEnded) Refused(error) { m.Done() }

// errStopping is why an instance ends whose end the pool has decided.
type errStopping struct{ reason pool.Reason }

func (e errStopping) Error() string { return "the instance is ended: " + string(e.reason) }

// errKept is why this process leaves an instance to the next one, and errMoved why it leaves one to another process that is there.
var (
	errKept  = errStopping{pool.Kept}
	errMoved = errStopping{pool.Moved}
)

// hasFound reports whether the instance goes on, or has tried to, with what an earlier process has left.
func (in *instance) hasFound() bool {
	select {
	case <-in.ready:
		return in.found
	default:
		return false
	}
}

// isHolderGone reports whether the instance ends because whose it was is gone: another one would be for nobody.
func (in *instance) isHolderGone() bool {
	why := reasonOf(context.Cause(in.life))
	return in.life.Err() != nil && (why == string(pool.Left) || why == string(pool.Moved))
}

// isLeft reports whether another process goes on with the instance, or may.
func (in *instance) isLeft() bool {
	why := context.Cause(in.life)
	return errors.Is(why, errKept) || errors.Is(why, errMoved)
}

// holder is whose instance it is, "" for a spare and for what all share.
func (in *instance) holder() string {
	if of := in.owner.Load(); of != nil {
		return of.holder
	}
	return ""
}

// principal is whose holder that is, "" where nobody says who calls, for a spare, and for what all share.
func (in *instance) principal() string {
	if of := in.owner.Load(); of != nil {
		return of.principal
	}
	return ""
}

// setOwner says whose instance it is from now on; a holder of "" changes nothing.
func (in *instance) setOwner(holder, principal string) {
	if holder != "" {
		in.owner.Store(&owner{holder, principal})
	}
}

// session is the key of the session whose instance it is, "" if it is of none.
func (in *instance) session() string { return sessionOf(in.holder()) }

// Receive implements kernel.Behaviour.
func (in *instance) Receive(m any) {
	switch m := m.(type) {
	case *callBegan:
		in.running = append(in.running, m.running)
	case *taskBegan:
		m.running.task = m.task
	case *callEnded:
		in.running = slices.DeleteFunc(in.running, func(r *running) bool { return r == m.running })
		m.Done()
	case *heard:
		in.deliverEvent(m.Event)
	case *rootsWanted:
		m.waiting, in.rootQuestions = in.rootQuestions, nil
		m.Done()
	case *rootsLate:
		rootAsker{in}.refuseQuestions()
	}
}

// Failed implements kernel.Behaviour. An instance whose actor ends is of no use to anybody.
func (in *instance) Failed(m any, last bool) {
	switch m := m.(type) {
	case *callEnded:
		m.Done()
	case *rootsWanted:
		m.Done()
	case *heard:
		e := in.eventOf(m.Event)
		e.refuseUnheard()
	}
	if last {
		in.giveUp(&upstream.Failure{Why: upstream.ReasonEnded, Text: "what has the backend's instance has failed"})
	}
}

// giveUp has the instance end, because nobody can use it any more.
func (in *instance) giveUp(why error) {
	select {
	case in.over <- why:
	default: // it ends already
	}
}

// deliverEvent gives what the instance says to whom it belongs.
func (in *instance) deliverEvent(said upstream.Event) {
	if lists := listsOf(said.Method); lists != nil && said.ID == nil {
		in.noteStale(lists)
		return
	}
	e := in.eventOf(said)
	if e.answerByPolicy(&in.of.Options) {
		return
	}
	switch r := in.addressee(&e); {
	case r != nil:
		r.kept.noteEvent(&e)
		r.q.Event(e)
	case e.isForRoots() && (rootAsker{in}).wasToldOfRoots():
		rootAsker{in}.putOff(e)
	case in.b.c.Heard != nil && in.isHeardOutside(&e):
		in.b.c.Heard(e)
	default:
		e.refuseUnheard()
	}
}

// addressee returns the call that something is said to: the one that may be asked, or else, of callers who are one, the last one that
// began and takes it; nil where it belongs to no call.
func (in *instance) addressee(e *Event) *running {
	if e.Method == mcp.NotifyResourcesUpdated {
		return nil
	}
	task := taskOf(e)
	if i := slices.IndexFunc(in.running, func(r *running) bool { return task != "" && r.task == task && r.q.Event != nil }); i >= 0 {
		return in.running[i]
	}
	if e.Method == mcp.NotifyTasksStatus {
		return nil
	}
	isOf := func(r *running) bool { return r.q.Event != nil && (task == "" || r.task == "") } // its task may be known in a moment
	for _, r := range in.running {
		if r.asks && isOf(r) {
			return r
		}
	}
	switch {
	case len(in.running) == 0:
		return nil
	case len(in.running) > 1 && in.holder() == "": // several callers, and nothing says whose it is
		return nil
	}
	for _, r := range slices.Backward(in.running) {
		if isOf(r) && (r.q.Asks || !e.IsQuestion()) {
			return r
		}
	}
	return nil
}

// isHeardOutside reports whether what belongs to no call may go to all that the instance serves: what it says to its session, and of
// resources also to the sessions of its principal, or to all where all share it.
func (in *instance) isHeardOutside(e *Event) bool {
	holder := in.holder()
	return sessionOf(holder) != "" || e.Method == mcp.NotifyResourcesUpdated && (strings.HasPrefix(holder, principalPrefix) || in.of.Options.Isolation == host.Shared)
}

// listsOf returns the lists of which a notification says that they have changed, nil for any other.
func listsOf(method string) []listing.Of {
	switch method {
	case mcp.NotifyToolsListChanged:
		return []listing.Of{listing.Tools}
	case mcp.NotifyPromptsListChanged:
		return []listing.Of{listing.Prompts}
	case mcp.NotifyResourcesListChanged:
		return []listing.Of{listing.Resources, listing.Templates}
	}
	return nil
}

func (in *instance) noteStale(lists []listing.Of) {
	for _, of := range lists {
		in.stale[of].Store(true)
	}
	select {
	case in.wake <- struct{}{}:
	default:
	}
}

// awaitConn waits for the connection.
func (in *instance) awaitConn(ctx context.Context) (*upstream.Conn, error) {
	select {
	case <-in.ready:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if in.conn == nil {
		return nil, upstream.ErrNoQuestion
	}
	return in.conn, nil
}

// ask has the instance answer a request.
func (in *instance) ask(ctx context.Context, q *Request, asks bool, late func()) (upstream.Response, error) {
	if q.Method == mcp.MethodResourcesSubscribe && in.isModern() {
		return hearing{in}.followResource(ctx, uriOf(q.Params))
	}
	if (estate{in}).refreshPlace() {
		estate{in}.leaveStanding()
	}
	leveler{in}.tellLevel(ctx, q.Level)
	rootAsker{in}.forwardQuestions(ctx, q)
	r := &running{q: q, asks: asks, kept: estate{in}.keepCall(q, asks)}
	if in.Post(&callBegan{r}) != nil {
		return upstream.Response{}, &upstream.Failure{Why: upstream.ReasonEnded, Outcome: upstream.NotRun, Text: "the backend has ended"}
	}
	if q.Sent != nil {
		q.Sent()
	}
	out := upstream.Request{Method: q.Method, Params: q.Params, Header: q.Header, Progress: q.Progress, Late: late, Event: func(e upstream.Event) { in.deliverToCall(r, e) }}
	if in.isModern() {
		if out.Capabilities, out.Level = q.capabilities(), q.Level; q.Level == "" && !q.modern {
			out.Level = usualLevel
		}
	}
	if q.Follow != nil {
		out.ID = in.conn.NewID()
	}
	var response upstream.Response
	var err error
	if q.Begun != nil {
		response = *q.Begun
	} else {
		defer r.kept.watch(&out)()
		response, err = in.conn.Do(ctx, out)
	}
	if err == nil && q.Follow != nil {
		response, err = (&Following{in: in, r: r, first: out}).followAnswer(ctx, response)
	}
	in.endCall(r)
	if err != nil && !in.isLeft() {
		r.kept.forget()
	}
	if q.Method == mcp.MethodResourcesSubscribe && err == nil && response.Kind == upstream.Complete {
		in.followed.add(uriOf(q.Params))
		hearing{in}.leaveFollowed(0, in.followed.all())
	}
	return response, err
}

// endCall says that a call has its answer, or gets none, and waits until all that came before was handed on.
func (in *instance) endCall(r *running) {
	ended := &callEnded{running: r}
	ended.Init()
	if in.Post(ended) == nil {
		ended.Wait()
	}
}

// deliverToCall takes what the instance says on the stream of a call.
func (in *instance) deliverToCall(r *running, said upstream.Event) {
	e := in.eventOf(said)
	switch {
	case e.answerByPolicy(&in.of.Options):
	case r.q.Event == nil:
		e.refuseUnheard()
	default:
		r.kept.noteEvent(&e)
		r.q.Event(e)
	}
}

// ping asks the instance whether it lives, and tells the pool if it does.
func (in *instance) ping() {
	ctx, cancel := context.WithTimeout(in.life, pingWait)
	defer cancel()
	if in.conn.Ping(ctx) == nil {
		in.b.tellPool(&ponged{in.id})
	}
}

// A parting is how an instance ended.
type parting struct {
	status string // of its process, which clients may know
	// words say why, the status, and what the process wrote last. They are for operators, unless the instance has served nobody: a process
	// may write what one client has asked, and another one must not read it.
	words string
}

// statusWait bounds how long the end of an instance is waited for, to say how its process ended.
const statusWait = 2 * time.Second

// statusAfter says how the process of an instance ended whose end a call has failed with.
func (in *instance) statusAfter(f *upstream.Failure) string {
	if f.Why != upstream.ReasonEnded || !awaitSignal(in.b.c.Clock, in.gone, statusWait) {
		return ""
	}
	return in.parted.status
}

// callError is the error of a call that was handed to the instance, or was about to be.
func (in *instance) callError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	f, ok := errors.AsType[*upstream.Failure](err)
	if !ok {
		return newCallError(in.of.Name, err)
	}
	of := *f
	if text := ends[pool.Reason(reasonOf(context.Cause(in.life)))]; f.Why == upstream.ReasonClosed && text != "" {
		of.Why, of.Text = upstream.ReasonEnded, text
	} else if status := in.statusAfter(f); status != "" {
		of.Text += ": " + status
	}
	return newCallError(in.of.Name, &of)
}

// isModern reports whether the instance, which is open, is of the newer era.
func (in *instance) isModern() bool { return in.conn.Settled().Revision.Stateless() }
