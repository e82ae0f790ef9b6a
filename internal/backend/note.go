package backend

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
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
	if in.proc.Load() == nil {
		return
	}
	s := in.conn.State()
	s.Requests, s.Questions = nil, nil // which the keeper remembers one by one
	state, err := s.Marshal()
	if err != nil {
		in.b.c.Log.Warn("an instance of a backend cannot be left to the next process", "backend", in.of.Name, "error", err)
		return
	}
	in.remember(standingName, standing{in.holder(), in.principal(), in.served.Load(), state})
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
	calls, asked := estate{in}.leftOf(texts, state)
	b.stderr.watch(p.ID(), &in.of).Started(p.PID())
	conn, err := upstream.Resume(ctx, upstream.NewLines(newPipe(p, 0)), state, lifetime{in}.options(), func(p upstream.Pending) upstream.Request {
		i := slices.IndexFunc(calls, func(c *leftCall) bool { return c.running.kept.call.ID == p.ID })
		return calls[i].request()
	})
	if err != nil {
		in.Stop()
		in.stop(err)
		lifetime{in}.end("left")
		return err
	}
	in.conn = conn
	hearing{in}.takeOver(texts[followedName])
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
	estate{in}.goOn(calls, asked)
	b.lives.Go(func() { lifetime{in}.serve(false) })
	return nil
}
