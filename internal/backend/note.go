package backend

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/host"
	"github.com/troupe-run/troupe/internal/backend/pool"
	"github.com/troupe-run/troupe/internal/keeper"
	"github.com/troupe-run/troupe/internal/upstream"
)

// A memory has texts by their names, for the next process.
type memory interface {
	// Remember puts a text in the place of the one with its name, nil for none.
	Remember(name string, text []byte) error
}

// An estate is what an instance would leave to the next process, as far as its keeper remembers it, or for a session at a URL the store.
type estate struct{ *instance }

// A note is what the keeper has of an instance from its start on, for the next process.
type note struct {
	Backend string `json:"backend"`
	Digest  string `json:"digest"`
	Client  string `json:"client"`
}

// A standing is what the keeper is told of an instance that has begun to serve, and whenever that changes. Who has none cannot be adopted.
type standing struct {
	Holder    string          `json:"holder,omitempty"`
	Principal string          `json:"principal,omitempty"`
	Served    bool            `json:"served,omitempty"` // it was given to a call
	State     json.RawMessage `json:"state"`
}

// standingName is the name by which a keeper remembers a standing.
const standingName = "standing"

// encodeNote returns the note of the instance.
func (in estate) encodeNote() string {
	data, _ := json.Marshal(note{in.kind.Backend, in.kind.Digest, in.kind.Client}) // of texts
	return string(data)
}

// leaveStanding tells the keeper what the next process needs to go on with the instance.
func (in estate) leaveStanding() {
	if !in.hasMemory() {
		return
	}
	s := in.conn.State()
	s.Requests, s.Questions = nil, nil // which are remembered one by one
	state, err := s.Marshal()
	if err != nil {
		in.b.c.Log.Warn("an instance of a backend cannot be left to the next process", "backend", in.of.Name, "error", err)
		return
	}
	in.remember(standingName, standing{in.holder(), in.principal(), in.served.Load(), state})
}

// A place is what an instance has in the store for as long as it lives. The zero value is none.
type place struct {
	stores atomic.Pointer[deposit] // where the instance leaves what it has; nil where nothing is to be left
	taken  atomic.Bool             // it is known whether there is a place

	mu      sync.Mutex // guards the rest
	deposit *deposit   // of which the instance has the name, nil if there is none
	over    bool       // the instance ends
}

// takePlace gives the instance its place in the store, if there is one for whose it is, and nobody has it. With stores it leaves there what it has.
func (in estate) takePlace(stores bool) *deposit {
	p := &in.place
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taken.Load() || p.over {
		return nil
	}
	name := depositName(in.of, in.kind, in.holder(), in.b.c.Node)
	p.deposit = in.b.deposits.open(in.life, name, 2*in.of.Options.Pool.Idle, func() { in.b.tellPool(&hasMoved{in.instance}) })
	p.taken.Store(p.deposit != nil || name == "" && in.holder() != "")
	if stores {
		p.stores.Store(p.deposit)
	}
	return p.deposit
}

// end returns the place of an instance that ends, nil if it has none, and will have none.
func (p *place) end() *deposit {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	return p.deposit
}

// refreshPlace keeps what the instance has in the store from expiring, and gives it its place if another instance had that before, or it was nobody's. It
// reports whether the instance has got a place where its standing is not yet.
func (in estate) refreshPlace() (got bool) {
	if x := in.place.stores.Load(); x != nil {
		x.refresh()
		return false
	}
	if in.place.taken.Load() || in.of.hasLines() {
		return false
	}
	stores := in.conn.Session() != ""
	return in.takePlace(stores) != nil && stores
}

// settlePlace removes what the instance could leave in the store, if there is no session at its URL.
func (in estate) settlePlace(ctx context.Context) {
	if x := in.place.stores.Load(); x != nil && in.conn.Session() == "" {
		in.place.stores.Store(nil)
		x.removeStored(ctx)
	}
}

// hasMemory reports whether there is one.
func (in estate) hasMemory() bool { return in.memory() != nil }

// memory returns what remembers what the instance leaves, nil if nothing does.
func (in estate) memory() memory {
	if p := in.proc.Load(); p != nil {
		return p
	}
	if x := in.place.stores.Load(); x != nil {
		return x
	}
	return nil
}

// remember has a value remembered by a name, or forgotten if it is nil. What is too large, or too much, is lost with this process.
func (in estate) remember(name string, value any) {
	to := in.memory()
	if to == nil {
		return
	}
	var text []byte
	if value != nil {
		text, _ = json.Marshal(value) // of texts, numbers and bytes
	}
	if err := to.Remember(name, text); err != nil && text != nil {
		kind, _, _ := strings.Cut(name, " ")
		in.b.c.Log.Debug("what an instance of a backend has would be lost with this process", "backend", in.of.Name, "what", kind, "error", err)
	}
}

// errNoUse says that nothing can be done with what an earlier process has left.
var errNoUse = errors.New("it is of no use to this release")

// inheritSession goes on with the session at a URL that an earlier process has left, if it has left one; what is lost with one that cannot go on is told. With an
// error it is not known whether there is one, or another process has it.
func (in lifetime) inheritSession(ctx context.Context, address string) (left remains, ok bool, err error) {
	in.b.deposits.awaitLeaving(ctx, depositName(in.of, in.kind, in.holder(), in.b.c.Node))
	x := estate(in).takePlace(true)
	if x == nil {
		return left, false, nil
	}
	var s standing
	var state *upstream.State
	var followed []byte
	var why error
	found, err := x.takeOver(ctx, func(texts map[string][]byte) map[string][]byte {
		followed = texts[followedName]
		state, why = takeStanding(texts[standingName], &s)
		if why != nil {
			return map[string][]byte{followedName: followed}
		}
		left = estate(in).leftOf(texts, state)
		claimed := maps.Clone(texts)
		claimed[standingName], _ = json.Marshal(s) // of texts
		return claimed
	})
	if err != nil || !found {
		return remains{}, false, err
	}
	in.found = true
	if why == nil {
		why = in.resumeSession(ctx, address, state, &left)
	}
	if why != nil {
		in.b.c.Log.Info("a session at a backend that an earlier process, or another node, has left is lost", "backend", in.of.Name, "reason", in.of.mask(why.Error()))
		in.lost = true
		var uris leftFollowed
		if json.Unmarshal(followed, &uris) == nil { // the next session is told them
			in.b.subscriptions.note(ownership{in.of.Name, in.holder()}, uris.URIs...)
		}
		return remains{}, false, nil
	}
	in.heir = true
	in.served.Store(s.Served)
	hearing(in).restoreFollowed(followed)
	estate(in).leaveStanding()
	return left, true, nil
}

// takeStanding reads how an instance was left, and has s say that this process has it.
func takeStanding(text []byte, s *standing) (*upstream.State, error) {
	*s = standing{}
	if json.Unmarshal(text, s) != nil {
		return nil, errNoUse
	}
	state, err := upstream.UnmarshalState(s.State)
	if err != nil {
		return nil, err
	}
	state.Epoch++ // nobody else gets the ids of this process
	s.State, err = state.Marshal()
	return state, err
}

// resumeSession takes up a session at a URL, unless the backend has forgotten it.
func (in lifetime) resumeSession(ctx context.Context, address string, state *upstream.State, left *remains) error {
	conn, err := upstream.Resume(ctx, upstream.NewHTTP(in.httpOptions(address)), state, in.connOptions(), left.request)
	if err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, pingWait)
	defer cancel()
	if f, ok := errors.AsType[*upstream.Failure](conn.Ping(bounded)); ok && f.Why == upstream.ReasonSessionGone {
		conn.Close(ctx)
		select {
		case <-in.over: // it was the end of that connection alone
		default:
		}
		return f
	}
	in.conn = conn
	return nil
}

// tellLost has the next session have the place of the one that was left and is lost, of which its client is told.
func (in lifetime) tellLost() {
	in.place.deposit.setTexts(nil)
	if session := in.session(); session != "" && in.b.c.Lost != nil {
		go in.b.c.Lost(in.of.Name, session, pool.Exited)
	}
}

// adoptWait bounds how long calls wait for what an earlier process has left.
const adoptWait = 10 * time.Second

// adoptProcesses takes over the instances of an earlier process, and ends those that no backend has.
func (b *Backends) adoptProcesses() {
	ctx, cancel := context.WithTimeout(b.life, adoptWait)
	defer cancel()
	client, err := b.keeperClient(ctx)
	if err != nil {
		b.c.Log.Warn("nobody keeps the processes of backends: they cannot be started", "error", err)
		return
	}
	all, err := client.List(ctx)
	if err != nil {
		b.c.Log.Warn("what an earlier process has left is unknown", "error", err)
		return
	}
	for _, kept := range all {
		if kept.Held {
			continue
		}
		if err := b.adoptOne(ctx, client, kept); err != nil {
			b.c.Log.Info("a process that an earlier one has left was ended", "process", kept.PID, "reason", err)
		}
	}
}

// Errors of adoption.
var (
	errUnfit    = errors.New("it had not begun to serve")
	errNotOurs  = errors.New("its backend is not configured any more, or otherwise")
	errServed   = errors.New("the call that it was for is gone")
	errHasEnded = errors.New("it has ended")
)

// adoptOne takes over one instance. One that cannot be used any more is ended, and its error says why.
func (b *Backends) adoptOne(ctx context.Context, client *keeper.Client, kept keeper.Kept) error {
	p, err := client.Adopt(ctx, kept.ID, 0)
	if err != nil {
		return err
	}
	var n note
	var s standing
	fault := json.Unmarshal([]byte(kept.Note), &n)
	texts := p.Remembered()
	if stood := texts[standingName]; fault == nil && stood != nil {
		fault = json.Unmarshal(stood, &s)
	}
	of, configured := b.find(n.Backend)
	switch {
	case kept.Exited, kept.Ending:
		fault = errHasEnded
	case fault != nil:
	case len(s.State) == 0:
		fault = errUnfit
	case !configured || of.Digest != n.Digest:
		fault = errNotOurs
	case s.Served && of.Options.Isolation == host.ByCall:
		fault = errServed
	}
	var state *upstream.State
	if fault == nil {
		state, fault = upstream.UnmarshalState(s.State)
	}
	if fault != nil {
		b.runInBackground(func(ctx context.Context) {
			_, _ = p.Stop(ctx, "left")
			p.Forget()
		})
		return fault
	}
	in := b.newInstance(of, pool.Kind{Backend: n.Backend, Digest: n.Digest, Client: n.Client}, kept.Started)
	in.served.Store(s.Served)
	in.proc.Store(p)
	in.pid.Store(int64(p.PID()))
	in.setOwner(s.Holder, s.Principal)
	left := estate{in}.leftOf(texts, state)
	b.stderr.watch(p.ID(), in.of).Started(p.PID())
	conn, err := upstream.Resume(ctx, upstream.NewLines(newPipe(p, 0)), state, lifetime{in}.connOptions(), left.request)
	if err != nil {
		in.Stop()
		in.stop(err)
		lifetime{in}.endServer("left")
		return err
	}
	in.conn, in.found = conn, true
	hearing{in}.restoreFollowed(texts[followedName])
	left.offer(b)
	close(in.ready)
	estate{in}.leaveStanding() // with the epoch of this process
	adopted := &isAdopted{in: in}
	adopted.Init()
	if b.pool.Post(adopted) != nil { // this process ends
		in.stop(errKept)
		lifetime{in}.endInstance(errKept, true)
		return nil
	}
	adopted.Wait()
	lifetime{in}.log(slog.LevelInfo, "an instance of a backend that an earlier process has left goes on", "age", b.c.Clock.Now().Sub(in.began).String())
	estate{in}.resumeLeft(&left)
	if session := in.session(); session != "" && b.c.Adopted != nil {
		b.lives.Go(func() { b.c.Adopted(in.life, in.of.Name, session) })
	}
	b.lives.Go(func() { lifetime{in}.runUntilEnd(false) })
	return nil
}
