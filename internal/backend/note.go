package backend

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"time"

	"github.com/troupe-run/troupe/host"
	"github.com/troupe-run/troupe/internal/backend/pool"
	"github.com/troupe-run/troupe/internal/keeper"
	"github.com/troupe-run/troupe/internal/upstream"
)

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

// note returns the note of the instance.
func (in estate) note() string {
	data, _ := json.Marshal(note{in.kind.Backend, in.kind.Digest, in.kind.Client}) // of texts
	return string(data)
}

// leaveStanding tells the keeper what the next process needs to go on with the instance.
func (in estate) leaveStanding() {
	if !in.has() {
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

// openDeposit has the instance leave what it has in the store, if it has a session at a URL and is somebody's. It returns what an earlier
// process has left there.
func (in estate) openDeposit(ctx context.Context) (texts map[string][]byte) {
	if in.deposit.Load() != nil || in.passing.Load() {
		return nil
	}
	x := in.b.deposits.open(depositName(&in.of, in.kind, in.holder(), in.b.c.Node), 2*in.of.Options.Pool.Idle, func() { in.b.tell(&hasMoved{in.instance}) })
	if x == nil {
		return nil
	}
	texts, err := x.inherit(ctx)
	if err != nil {
		x.close(ctx, true)
		in.pass(err)
		return nil
	}
	in.deposit.Store(x)
	return texts
}

// pass notes that the instance leaves nothing in the store.
func (in estate) pass(why error) {
	in.passing.Store(true)
	in.b.c.Log.Warn("a session at a backend ends with this process", "backend", in.of.Name, "error", in.of.mask(why.Error()))
}

// refreshDeposit keeps what the instance has in the store from expiring, and has it there if another instance had its place before.
func (in estate) refreshDeposit(ctx context.Context) {
	switch x := in.deposit.Load(); {
	case x != nil:
		x.refresh()
	case in.conn.Session() != "":
		in.openDeposit(ctx)
		in.leaveStanding()
	}
}

// settleDeposit gives up what the instance could leave in the store, if there is no session at its URL.
func (in estate) settleDeposit(ctx context.Context) {
	if x := in.deposit.Load(); x != nil && in.conn.Session() == "" {
		in.deposit.Store(nil)
		x.close(ctx, false)
	}
}

// inherit goes on with the session at a URL that an earlier process has left, if it has left one.
func (in lifetime) inherit(ctx context.Context, address string, texts map[string][]byte) (left remains, ok bool) {
	var s standing
	if json.Unmarshal(texts[standingName], &s) != nil {
		return left, false
	}
	in.found = true
	state, err := upstream.UnmarshalState(s.State)
	if err != nil {
		in.b.c.Log.Info("what an earlier process has left of a session at a backend is of no use", "backend", in.of.Name, "reason", err)
		return left, false
	}
	state.Epoch++ // nobody else gets the ids of this process
	if s.State, err = state.Marshal(); err != nil {
		return left, false
	}
	claimed := maps.Clone(texts)
	claimed[standingName], _ = json.Marshal(s) // of texts
	if err := in.deposit.Load().claim(ctx, claimed); err != nil {
		in.deposit.Swap(nil).close(ctx, true)
		estate(in).pass(err)
		return left, false
	}
	left = estate(in).leftOf(texts, state)
	conn, err := upstream.Resume(ctx, upstream.NewHTTP(in.http(address)), state, in.options(), left.request)
	if err != nil {
		return remains{}, false
	}
	if in.isForgotten(ctx, conn) {
		in.deposit.Load().clear()
		var followed leftFollowed
		if json.Unmarshal(texts[followedName], &followed) == nil { // the next session is told them
			in.b.subscriptions.note(ownership{in.of.Name, in.holder()}, followed.URIs...)
		}
		return remains{}, false
	}
	in.conn, in.heir = conn, true
	in.served.Store(s.Served)
	hearing(in).takeOver(texts[followedName])
	estate(in).leaveStanding() // with the epoch of this process
	return left, true
}

// isForgotten asks a backend whether it knows the session that was left. One that does not has lost what it had of that, as its client is told.
func (in lifetime) isForgotten(ctx context.Context, conn *upstream.Conn) bool {
	bounded, cancel := context.WithTimeout(ctx, pingWait)
	defer cancel()
	f, ok := errors.AsType[*upstream.Failure](conn.Ping(bounded))
	if !ok || f.Why != upstream.ReasonSessionGone {
		return false
	}
	conn.Close(ctx)
	select {
	case <-in.over: // it was the end of that connection alone
	default:
	}
	if session := in.session(); session != "" && in.b.c.Lost != nil {
		go in.b.c.Lost(in.of.Name, session, pool.Exited)
	}
	return true
}

// adoptWait bounds how long calls wait for what an earlier process has left.
const adoptWait = 10 * time.Second

// adopt takes over the instances of an earlier process, and ends those that no backend has.
func (b *Backends) adopt() {
	ctx, cancel := context.WithTimeout(b.life, adoptWait)
	defer cancel()
	client, err := b.keeper(ctx)
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
		b.background(func(ctx context.Context) {
			_, _ = p.Stop(ctx, "left")
			p.Forget()
		})
		return fault
	}
	in := b.newInstance(of, pool.Kind{Backend: n.Backend, Digest: n.Digest, Client: n.Client}, kept.Started)
	in.served.Store(s.Served)
	in.proc.Store(p)
	in.setOwner(s.Holder, s.Principal)
	left := estate{in}.leftOf(texts, state)
	b.stderr.watch(p.ID(), &in.of).Started(p.PID())
	conn, err := upstream.Resume(ctx, upstream.NewLines(newPipe(p, 0)), state, lifetime{in}.options(), left.request)
	if err != nil {
		in.Stop()
		in.stop(err)
		lifetime{in}.end("left")
		return err
	}
	in.conn, in.found = conn, true
	hearing{in}.takeOver(texts[followedName])
	left.offer(b)
	close(in.ready)
	estate{in}.leaveStanding() // with the epoch of this process
	adopted := &isAdopted{in: in}
	adopted.Init()
	if b.pool.Post(adopted) != nil { // this process ends
		in.stop(errKept)
		lifetime{in}.leave(errKept, true)
		return nil
	}
	adopted.Wait()
	lifetime{in}.log(slog.LevelInfo, "an instance of a backend that an earlier process has left goes on", "age", b.c.Clock.Now().Sub(in.began).String())
	estate{in}.goOn(&left)
	if session := in.session(); session != "" && b.c.Adopted != nil {
		b.lives.Go(func() { b.c.Adopted(in.life, in.of.Name, session) })
	}
	b.lives.Go(func() { lifetime{in}.serve(false) })
	return nil
}
