package backend

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/host"
	"github.com/troupe-run/troupe/internal/backend/journal"
	"github.com/troupe-run/troupe/internal/backend/listing"
	"github.com/troupe-run/troupe/internal/backend/pool"
	"github.com/troupe-run/troupe/internal/guard"
	"github.com/troupe-run/troupe/internal/keeper"
	"github.com/troupe-run/troupe/internal/kernel"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/upstream"
	"github.com/troupe-run/troupe/mcp"
)

// Config is what Backends are made with.
type Config struct {
	// Kernel has the actors: one of PoolKind, and one of InstanceKind for each instance. nil is a kernel of their own.
	Kernel                 *kernel.Kernel
	PoolKind, InstanceKind kernel.Kind
	// Processes connects to what has the processes of commands. It is asked once there is a backend that is one, and again after what it
	// returned has ended. stderr is for keeper.Options. nil has no commands.
	Processes func(ctx context.Context, stderr func(id string, line []byte, dropped int)) (*keeper.Client, error)
	// Catalogues keep what backends list beyond this process; nil keeps it here alone.
	Catalogues Catalogues
	Bounds     pool.Bounds // of the node, over all backends
	Observer   Observer    // nil counts nothing
	Info       []byte      // what backends are told of us: clientInfo as raw JSON
	HTTP       *http.Client
	Clock      upstream.Clock                                     // nil is the system's
	Log        *slog.Logger                                       // nil discards
	Lookup     func(name string) (string, bool)                   // variables of this process; nil is os.LookupEnv
	Estates    Estates                                            // keep the sessions at URLs beyond this process; nil lets them end with it
	Node       string                                             // the name of this node, which outlives this process, among those with the same Estates
	Dir        string                                             // where commands run that name no directory; "" is that of this process
	Heard      func(Event)                                        // gets what a backend says beside any call: to a session, or of resources. It must not block. nil refuses and drops it
	Changed    func(backend, session string, lists []listing.Of)  // a list is no longer what it was: for one session, or for all if that is ""
	Lost       func(backend, session string, reason pool.Reason)  // the instance of a session is gone, with what it held
	Adopted    func(ctx context.Context, backend, session string) // a process goes on that an earlier one has left for a session, which may have ended meanwhile
}

// Backends are those of a node. Make them with New.
type Backends struct {
	c             Config
	life          context.Context
	end           context.CancelFunc
	pool          poolActor
	catalogues    *catalogues
	subscriptions subscriptions
	stderr        *stderr
	journals      *journal.Journals
	wants         atomic.Uint64
	processes     atomic.Uint64
	kept          atomic.Int64 // processes that are left to the next process
	keep          keeping
	left          leftCalls
	deposits      *deposits
	all           atomic.Pointer[[]Backend]
	adopting      sync.Once
	adopted       chan struct{}  // closed once what an earlier process has left is adopted, or cannot be
	lives         sync.WaitGroup // of instances, and of what runs in the background
}

// New returns Backends, of which there are none yet.
func New(c Config) *Backends {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Kernel == nil {
		c.Kernel, c.PoolKind, c.InstanceKind = kernel.New(kernel.Config{Log: c.Log, Kinds: []string{"pool", "instance"}}), 0, 1
	}
	if c.Clock == nil {
		c.Clock = systemClock{}
	}
	if c.Observer == nil {
		c.Observer = noObserver{}
	}
	if c.Lookup == nil {
		c.Lookup = os.LookupEnv
	}
	if c.Dir == "" {
		c.Dir, _ = os.Getwd() // else the root, which a keeper starts in
	}
	b := &Backends{c: c, catalogues: newCatalogues(), adopted: make(chan struct{})}
	b.life, b.end = context.WithCancel(context.Background())
	b.subscriptions.of = make(map[ownership]map[string]bool)
	b.left.of = make(map[string]*leftCall)
	b.deposits = newDeposits(c.Estates, c.Clock, c.Log, func(f func(context.Context)) { b.lives.Go(func() { f(b.life) }) })
	b.journals = journal.New(limits.BackendLog.Value(), c.Clock.Now())
	b.stderr = &stderr{log: c.Log, journals: b.journals, now: c.Clock.Now, of: make(map[string]*complainer)}
	b.pool = poolActor{b: b, pool: pool.New(c.Bounds), instances: make(map[pool.InstanceID]*instance), waiting: make(map[pool.WantID]*lease)}
	c.Kernel.Start(&b.pool.Actor, c.PoolKind, "", &b.pool)
	b.all.Store(&[]Backend{})
	return b
}

// systemClock is the clock of package time.
type systemClock struct{}

func (systemClock) Now() time.Time                                  { return time.Now() }
func (systemClock) AfterFunc(d time.Duration, f func()) func() bool { return time.AfterFunc(d, f).Stop }

// Configure has exactly these backends, in this order. Instances of those that are as they were go on. The first time what an earlier
// process has left is adopted.
func (b *Backends) Configure(ctx context.Context, all []Backend) {
	m := &configured{all: slices.Clone(all)}
	names := make([]string, len(all))
	for i := range all {
		names[i] = all[i].Name
	}
	b.journals.Configure(names)
	m.Init()
	if b.pool.Post(m) == nil {
		m.Wait()
	}
	for i := range m.before {
		if !slices.ContainsFunc(all, func(of Backend) bool { return of.Digest == m.before[i].Digest }) {
			b.catalogues.forgetDigest(m.before[i].Digest)
		}
	}
	for i := range all {
		b.loadCatalogues(ctx, &all[i])
	}
	b.adopting.Do(func() {
		b.lives.Go(func() {
			defer close(b.adopted)
			if b.c.Processes != nil && slices.ContainsFunc(all, func(of Backend) bool { return of.isCommand() }) {
				b.adoptProcesses()
			}
		})
	})
}

// loadCatalogues takes in what was stored of a backend.
func (b *Backends) loadCatalogues(ctx context.Context, of *Backend) {
	if b.c.Catalogues == nil {
		return
	}
	data, err := b.c.Catalogues.Load(ctx, of.Digest)
	if err == nil && data != nil {
		err = b.catalogues.load(of, data)
	}
	if err != nil {
		b.c.Log.Warn("what a backend lists was not found: it is asked for it", "backend", of.Name, "error", err)
	}
}

// find finds a backend by its name.
func (b *Backends) find(name string) (*Backend, bool) {
	all := *b.all.Load()
	i := slices.IndexFunc(all, func(of Backend) bool { return of.Name == name })
	if i < 0 {
		return nil, false
	}
	return &all[i], true
}

// A Request is what is asked of a backend.
type Request struct {
	Method string
	Params []byte // raw JSON, an object; nil for none
	Header http.Header
	Asks   bool // the backend may ask the caller
	Safe   bool // it may run once more when its instance is lost
	// Level is the log level that its caller wants, "" for none: an instance of the older era is told it before, and one of the newer era with the request.
	Level string
	// Key names the call for as long as anybody may wait for its answer, over the processes that run it; "" is a call whose answer nobody can
	// get in another process. Again says that an earlier process has begun it: what its instance has answered meanwhile, or will, is
	// the answer, and without that it is lost, unless it is safe.
	Key   string
	Again bool
	// Progress gets the params of each progress notification, and Event what else belongs to the call. They are called in the order in
	// which it came, and must not block. nil asks for no progress, and refuses questions.
	Progress func(params []byte)
	Event    func(Event)
	Sent     func() // called when the request is about to be handed to an instance, once for each; nil does nothing
	// Tasks says that the answer may be a task (2026-07-28), which a backend makes only for who declares that.
	Tasks bool
	// Follow makes of the answer that of the call, while the caller still has the instance: the end of a task, of which the answer only
	// says that there is one. nil takes the answer as it is. Begun is the answer that an earlier run of the call has had: it is followed,
	// and nothing is asked; nil asks.
	Follow func(ctx context.Context, on *Following, answer upstream.Response) (upstream.Response, error)
	Begun  *upstream.Response

	told   []byte // the capabilities of its caller
	modern bool   // its caller speaks 2026-07-28
	looks  bool   // nothing is asked: its caller wants to know what the instance lists
}

// mostTries is how often a request is handed to an instance: it was not run, or it is safe and was lost.
const mostTries = 3

// Call gives a caller an instance of a backend, asks it, and gives it back. What did not run is asked of another instance; what is lost is
// asked once more if it is safe. An error of the backend is no error of Call, but a Response. The error is an *[Error], or the
// cause of the end of ctx, which also tells the backend to give up.
//
// What only changes what instances say by themselves, logging/setLevel and resources/unsubscribe, is told to those that the caller has, and begins none.
func (b *Backends) Call(ctx context.Context, name string, c Caller, q Request) (upstream.Response, error) {
	if err := b.awaitAdoption(ctx); err != nil {
		return upstream.Response{}, err
	}
	if isTold(q.Method) {
		return tellInstances(ctx, b, name, &c, &q)
	}
	var lost error // a try after which nobody knows whether the backend ran it: none after it changes that
	if q.Again {
		begun := q.Begun
		r, err := joinLeft(ctx, b, name, &c, &q)
		f, _ := errors.AsType[*upstream.Failure](err)
		if err == nil || ctx.Err() != nil || f == nil || !q.Safe && begun == nil {
			return r, err
		}
		lost, q.Begun = err, begun
	}
	for try := 1; ; try++ {
		l, err := b.leaseInstance(ctx, name, &c, &q)
		if err != nil {
			return upstream.Response{}, cmp.Or(lost, err)
		}
		r, err := b.callOn(ctx, l, &q)
		if err == nil {
			noteSubscription(b, l, &q, &r)
			return r, nil
		}
		f, _ := errors.AsType[*upstream.Failure](err)
		if ctx.Err() != nil || f == nil || try == mostTries || !mayTryAgain(f, q.Safe) || l.in.isHolderGone() {
			if err = l.in.callError(ctx, err); errors.Is(err, upstream.ErrUnsent) {
				err = cmp.Or(lost, err)
			}
			return upstream.Response{}, err
		}
		if f.Outcome == upstream.Lost {
			lost = newCallError(name, err)
		}
		q.Begun = nil // what was begun is lost with its instance
	}
}

// joinLeft waits for the answer of a call that an earlier process has begun, if its instance goes on.
func joinLeft(ctx context.Context, b *Backends, name string, c *Caller, q *Request) (upstream.Response, error) {
	left := b.left.claim(q.Key)
	if left == nil {
		goes, err := Inherit(ctx, b, name, *c)
		for errors.Is(err, errUnknownLeft) && !awaitSignal(b.c.Clock, ctx.Done(), depositAgain) { // its answer may be there
			goes, err = Inherit(ctx, b, name, *c)
		}
		if goes {
			left = b.left.claim(q.Key)
		}
	}
	if left == nil {
		return upstream.Response{}, newCallError(name, &upstream.Failure{Why: upstream.ReasonEnded, Text: "its instance was lost"})
	}
	r, err := left.join(ctx, q)
	if err != nil || q.Follow == nil {
		return r, err
	}
	return followLeft(ctx, b, left.in, c, q, r)
}

// awaitAdoption waits until it is known what an earlier process has left.
func (b *Backends) awaitAdoption(ctx context.Context) error {
	select {
	case <-b.adopted:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// mayTryAgain reports whether a request that failed may be asked of another instance.
func mayTryAgain(f *upstream.Failure, safe bool) bool {
	switch f.Why {
	case upstream.ReasonEnded, upstream.ReasonClosed, upstream.ReasonSessionGone, upstream.ReasonUnreachable:
		return f.Outcome == upstream.NotRun || safe
	}
	return false
}

// callOn asks the instance of a lease, and gives it back.
func (b *Backends) callOn(ctx context.Context, l *lease, q *Request) (upstream.Response, error) {
	r, err := l.in.ask(ctx, q, l.want.Askable, func() { b.tellPool(&withdrawn{l}) })
	f, _ := errors.AsType[*upstream.Failure](err)
	if f != nil && (f.Why == upstream.ReasonEnded && l.in.of.hasLines() || f.Why == upstream.ReasonSessionGone) {
		b.tellPool(&hasBroken{l.in, f}) // before another want could get it
		l.in.giveUp(f)
	}
	b.giveBack(l, inDoubt(f) && l.in.of.hasLines())
	return r, err
}

// inDoubt reports whether a backend may still be at a call that has failed.
func inDoubt(f *upstream.Failure) bool {
	return f != nil && f.Why == upstream.ReasonCancelled && f.Outcome == upstream.Lost
}

// Notify sends a notification to the instances of a session, but for those of the newer era, which know of no session.
func (b *Backends) Notify(ctx context.Context, name, session, method string, params []byte) error {
	for _, in := range instancesOf(b, name, sessionHolder(session)) {
		conn, err := in.awaitConn(ctx)
		if err == nil && !in.isModern() { // which has no session
			err = conn.Notify(ctx, method, params)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// SessionGone says that nobody will call for a session again: its instances end. One that has moved is another node's now, to which its sessions at URLs
// are left.
func (b *Backends) SessionGone(session string, moved bool) {
	holder, why := sessionHolder(session), pool.Left
	if moved {
		why = pool.Moved
	}
	b.subscriptions.forgetHolder(holder)
	b.tellPool(&holderGone{holder, why})
}

// Inherit begins an instance for a caller that goes on with what an earlier process, or another node, has left in the store, unless it has one. It reports
// false if it has none and nothing lay there; where what lay there was of no use, the loss has been told. With an error it is not known what lies there.
func Inherit(ctx context.Context, b *Backends, name string, c Caller) (bool, error) {
	of, ok := b.find(name)
	if !ok {
		return false, nil
	}
	if err := b.awaitAdoption(ctx); err != nil {
		return false, err
	}
	holder, _ := c.holderOf(of.Options.Isolation, 0)
	if holder != "" && slices.ContainsFunc(instancesOf(b, name, holder), (*instance).hasFound) {
		return true, nil
	}
	if left, err := b.deposits.hasDeposit(ctx, depositName(of, c.kindOf(of), holder, b.c.Node)); err != nil || !left {
		return false, err
	}
	l, err := b.leaseInstance(ctx, name, &c, &Request{})
	if err != nil {
		return false, err
	}
	defer b.giveBack(l, false)
	return l.in.found, nil
}

// Catalogue returns what is known of what a backend lists for a caller.
func (b *Backends) Catalogue(name string, c Caller) (*Catalogue, bool) {
	of, ok := b.find(name)
	if !ok {
		return nil, false
	}
	holder, _ := c.holderOf(of.Options.Isolation, 0)
	return b.catalogues.find(c.kindOf(of), holder)
}

// Knows reports whether what Catalogue returns was listed for a caller with the same capabilities. A server may list otherwise for others.
func (b *Backends) Knows(name string, c Caller) bool {
	of, ok := b.find(name)
	if !ok {
		return false
	}
	holder, _ := c.holderOf(of.Options.Isolation, 0)
	return b.catalogues.has(c.kindOf(of), holder)
}

// Learn is Catalogue, but begins an instance and waits for its lists unless they are known for such a caller. The error is an *[Error], or the cause of the
// end of ctx.
func (b *Backends) Learn(ctx context.Context, name string, c Caller) (*Catalogue, error) {
	if known, ok := b.Catalogue(name, c); ok && b.Knows(name, c) {
		return known, nil
	}
	l, err := b.leaseInstance(ctx, name, &c, &Request{looks: true})
	if err != nil {
		return nil, err
	}
	defer b.giveBack(l, false)
	select {
	case <-l.in.lists:
	case <-l.in.life.Done():
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if known, ok := b.Catalogue(name, c); ok {
		return known, nil
	}
	return nil, &Error{Backend: name, Reason: string(upstream.ReasonListing), Text: "it does not show its lists"}
}

// Close ends all instances, or leaves processes that a keeper has to the next process for as long as keep says. It waits for that until
// ctx ends.
func (b *Backends) Close(ctx context.Context, keep time.Duration) {
	b.tellPool(&shutDown{keep > 0})
	over := make(chan struct{})
	go func() {
		b.lives.Wait()
		close(over)
	}()
	select {
	case <-over:
	case <-ctx.Done():
	}
	if n := b.kept.Load(); n > 0 {
		b.c.Log.Info("commands of backends live on, for the next process with the same data directory; with a keep of 0 they end with this one", "processes", n, "keep", keep.String())
	}
	b.end()
	b.pool.Stop()
	b.keep.close(ctx, max(keep, 0))
}

// tellPool sends a message to the pool. It is lost once the pool is closed, when nobody waits for it.
func (b *Backends) tellPool(m any) { _ = b.pool.Post(m) }

// runInBackground does something that nobody waits for, but the end of the process.
func (b *Backends) runInBackground(f func(ctx context.Context)) {
	b.lives.Go(func() {
		ctx, cancel := context.WithTimeout(b.life, 30*time.Second)
		defer cancel()
		f(ctx)
	})
}

// containPanic runs code of the program, whose panic is logged and goes no further.
func (b *Backends) containPanic(f func()) error {
	failure := guard.Apart(f)
	if failure == nil {
		return nil
	}
	b.c.Kernel.CountPanic()
	b.c.Log.Error("a server in this process "+failure.Did(), failure.Attrs()...)
	return errors.New("it " + failure.Did())
}

// newProcessID names a process for its keeper, which may have those of an earlier process of this node.
func (b *Backends) newProcessID() string {
	return strconv.FormatInt(b.c.Clock.Now().UnixNano(), 36) + "-" + strconv.FormatUint(b.processes.Add(1), 10)
}

// noteSubscription remembers what a request has settled that an instance has answered.
func noteSubscription(b *Backends, l *lease, q *Request, r *upstream.Response) {
	lasts := l.want.Holder != "" && !l.once || l.in.of.Options.Isolation == host.Shared
	if q.Method == mcp.MethodResourcesSubscribe && r.Kind == upstream.Complete && lasts {
		b.subscriptions.note(ownership{l.in.of.Name, l.want.Holder}, uriOf(q.Params))
	}
}

// isTold reports whether a request only changes what instances say by themselves: those that a caller has are told, and none begins for
// that.
func isTold(method string) bool {
	return method == mcp.MethodLoggingSetLevel || method == mcp.MethodResourcesUnsubscribe
}

// tellInstances asks those instances that a caller has what changes what they say by themselves. The first refusal is the answer.
func tellInstances(ctx context.Context, b *Backends, name string, c *Caller, q *Request) (upstream.Response, error) {
	answer := upstream.Response{Result: []byte("{}")}
	of, ok := b.find(name)
	if !ok {
		return answer, nil
	}
	holder, lasts := c.Holder(of.Options.Isolation)
	if !lasts {
		return answer, nil
	}
	uri := uriOf(q.Params)
	if q.Method == mcp.MethodResourcesUnsubscribe {
		b.subscriptions.forgetResource(ownership{name, holder}, uri)
	}
	for _, in := range instancesOf(b, name, holder) {
		if _, err := in.awaitConn(ctx); err != nil {
			continue // it has not begun, or this request has been given up
		}
		if q.Method == mcp.MethodLoggingSetLevel {
			level, _ := codec.Str(codec.Field(q.Params, "level"))
			leveler{in}.tellLevel(ctx, level)
			continue
		}
		if r, err := (hearing{in}).unfollowResource(ctx, uri); err == nil && r.Kind == upstream.Refused && answer.Kind != upstream.Refused {
			answer = r
		}
	}
	if ctx.Err() != nil {
		return upstream.Response{}, context.Cause(ctx)
	}
	return answer, nil
}

// instancesOf returns the instances that serve a holder now.
func instancesOf(b *Backends, name, holder string) (all []*instance) {
	b.pool.visitPool(func(a *poolActor, _ time.Time) { all = a.findAll(name, holder) })
	return all
}

// newInstance returns an instance that has not begun.
func (b *Backends) newInstance(of *Backend, k pool.Kind, began time.Time) *instance {
	in := &instance{b: b, of: of, kind: k, began: began, ready: make(chan struct{}), over: make(chan error, 1), lists: make(chan struct{}), wake: make(chan struct{}, 1), gone: make(chan struct{})}
	in.level.turn, in.followed.wake = make(chan struct{}, 1), make(chan struct{}, 1)
	in.life, in.stop = context.WithCancelCause(b.life)
	b.c.Kernel.Start(&in.Actor, b.c.InstanceKind, of.Name, in)
	return in
}

// keeping is the connection to what has the processes.
type keeping struct {
	mu     sync.Mutex // guards client, and is held while it is made
	client *keeper.Client
}

// keeperClient returns the connection to what has the processes, and makes it if there is none.
func (b *Backends) keeperClient(ctx context.Context) (*keeper.Client, error) {
	if b.c.Processes == nil {
		return nil, errors.New("this server was given nothing that could keep them")
	}
	b.keep.mu.Lock()
	defer b.keep.mu.Unlock()
	if c := b.keep.client; c != nil && c.Err() == nil {
		return c, nil
	}
	c, err := b.c.Processes(ctx, b.stderr.write)
	if err != nil {
		return nil, err
	}
	b.keep.client = c
	go b.replaceKeeper(c)
	return c, nil
}

// running returns the connection to what has the processes, nil if there is none.
func (k *keeping) running() *keeper.Client {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.client == nil || k.client.Err() != nil {
		return nil
	}
	return k.client
}

// replaceKeeper begins another keeper as soon as one has ended by itself: whoever begins it ends what a killed one has left, which
// nobody else would until a command is started.
func (b *Backends) replaceKeeper(c *keeper.Client) {
	select {
	case <-c.Ended():
	case <-b.life.Done():
		return
	}
	if !errors.Is(c.Err(), keeper.ErrEnded) {
		return
	}
	ctx, cancel := context.WithTimeout(b.life, adoptWait)
	defer cancel()
	if _, err := b.keeperClient(ctx); err != nil && b.life.Err() == nil {
		b.c.Log.Warn("nobody keeps the processes of backends: they cannot be started", "error", err)
	}
}

// close lets the keeper keep what it has for a while.
func (k *keeping) close(ctx context.Context, keep time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.client == nil {
		return
	}
	_ = k.client.Bye(ctx, keep) // it keeps what it was told to keep otherwise
	_ = k.client.Close()
}
