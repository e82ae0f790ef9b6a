package worker

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/task"
)

// Adopt stores a task of a call whose handler runs already. That run is the task's first attempt:
// no other begins beside it, wherever its work is given out, until it ends or its process is gone.
// It takes a place, also if there is none left where the process is about to end, and otherwise
// fails with ErrNoPlace then. The other errors are those of Create. Conclude must be called once,
// when the handler has returned.
func (p *Pool) Adopt(ctx context.Context, n NewTask) (_ *Attempt, made Snapshot, err error) {
	s, err := p.findService(n.Server)
	if err != nil {
		return nil, Snapshot{}, err
	}
	if !p.holdEnd() {
		return nil, Snapshot{}, ErrClosing
	}
	w := &assignment{Work: noWork{}, s: s, who: principalOf(n.Tenant, clientToken(n.From))}
	if !p.places.TakePlace(w.who, n.Ending) {
		p.running.Done()
		return nil, Snapshot{}, ErrNoPlace
	}
	var a *Attempt
	var epoch uint64
	began := time.Now()
	made, err = p.createTask(ctx, n, func(r *task.Record) (err error) {
		if r.Questions = n.Answered; questionsSize(r.Questions) > maxAsked || !leavesRoom(r) {
			return actors.ErrTooMuchInput
		}
		epoch, err = r.AdoptAttempt(p.Node, p.Boot, p.Store.Now())
		return err
	}, func(made Snapshot, size int) {
		a = newAttempt(s, made.Key, known{made.Record, made.Rev, epoch}, w, n.Request, began.UnixNano())
		a.requestSize, a.began = size, began
		a.enterActor(nil)
	})
	if err != nil {
		w.freePlace()
		p.running.Done()
		return nil, Snapshot{}, err
	}
	p.announceChange(made.Key, made.Rev, &made.Record) // so that others open their queues, if it is the first task of the server
	return a, made, nil
}

// ErrNoPlace reports that the client of a call has as many handlers of tasks running as it may have
// now: the call goes on as one, and no task is stored.
var ErrNoPlace = errors.New("worker: there is no place for one task more that runs")

// NewTask is a task that is to be created.
type NewTask struct {
	Tenant, Server string
	From           string   // the address of a client whose tenant others share
	Who            string   // the principal, for people
	Scopes         []string // that the call needs
	Revision       string   // that its creator speaks
	Method, Name   string
	TTL            time.Duration
	Request        Request
	Ending         bool            // it is made of a call, because the process is about to end: see Adopt
	Steps          []Step          // that an adopted call has run
	Answered       []task.Question // of an adopted call: what it has asked before, with the answers
}

// encodeSteps are the steps of a task that is to be created as they are stored, and their size.
func (n *NewTask) encodeSteps() (steps [][]byte, size int, err error) {
	for i := range n.Steps {
		data, err := codec.Marshal(&n.Steps[i])
		if err != nil {
			return nil, 0, fmt.Errorf("worker: step %q: %w", n.Steps[i].Name, err)
		}
		steps, size = append(steps, data), size+len(data)
	}
	return steps, size, nil
}

// Create stores a task and has it run, unless there are too many: ErrTooMany, ErrFull. After an
// error other than store.ErrUnavailable there is none; after that one it is unknown, and nobody has
// its id.
func (p *Pool) Create(ctx context.Context, n NewTask) (Snapshot, error) {
	return p.createTask(ctx, n, func(*task.Record) error { return nil }, func(Snapshot, int) {})
}

// createTask stores a task that begins as first makes it. stored gets it, and the size of its
// request, before anybody is given its work.
func (p *Pool) createTask(ctx context.Context, n NewTask, first func(r *task.Record) error, stored func(s Snapshot, size int)) (_ Snapshot, err error) {
	if err := p.awaitQueue(ctx, n.Server); err != nil {
		return Snapshot{}, err
	}
	key := newKey(n.Tenant, n.Server, p.Tag)
	r := task.New(p.Store.Now(), n.TTL)
	r.Revision, r.Method, r.Name, r.Session, r.From, r.Who, r.Scopes = n.Revision, n.Method, n.Name, n.Request.Session, n.From, n.Who, n.Scopes
	if err := first(&r); err != nil {
		return Snapshot{}, err
	}
	req, err := codec.Marshal(&n.Request)
	if err != nil {
		return Snapshot{}, fmt.Errorf("worker: request of a task: %w", err)
	}
	rec, err := r.Encode()
	if err != nil {
		return Snapshot{}, fmt.Errorf("worker: record of a task: %w", err)
	}
	steps, done, err := n.encodeSteps()
	if err != nil {
		return Snapshot{}, err
	}
	if err := openError(p.books.census.Add(key, principalOf(n.Tenant, clientToken(n.From)), r.Expires())); err != nil {
		return Snapshot{}, err
	}
	c := chargeFor(key, &r, len(req)+len(rec)+done)
	if err := p.Ledger.Charge(c, ForTask); err != nil {
		p.books.census.Remove(key)
		return Snapshot{}, err
	}
	p.books.noteBytes(key, chargeFor(key, &r, len(req)), atEnd) // at once: it may end before Create does
	if done > 0 {
		p.books.noteBytes(key, chargeFor(key, &r, done), atCancellation)
	}
	o := p.actors.beginOffer(key, n.From)
	defer o.settleOffer()
	defer func() {
		if err != nil {
			p.undoCreate(key, c, o.seq)
			return
		}
		p.Ledger.Settle(c, true)
	}()
	if err := p.Store.PutPart(ctx, key.path(), requestPart, req, 0, n.TTL); err != nil {
		return Snapshot{}, err
	}
	for i, data := range steps { // before the record: no run may begin without them
		if err := p.Store.PutPart(ctx, key.path(), stepPart(n.Steps[i].Name), data, 0, n.TTL); err != nil {
			return Snapshot{}, err
		}
	}
	// The work comes first, and the record says which it is: so there is none that nobody ever
	// runs.
	if err := o.makeWork(ctx, n.TTL); err != nil {
		return Snapshot{}, err
	}
	r.Work = o.seq
	if rec, err = r.Encode(); err != nil {
		return Snapshot{}, fmt.Errorf("worker: record of a task: %w", err)
	}
	rev, err := p.Store.Create(ctx, key.recordKey(), rec, n.TTL)
	if err != nil {
		return Snapshot{}, err
	}
	stored(Snapshot{key, r, rev}, len(req))
	p.Serve(n.Server) // it may have been mounted anew
	return Snapshot{key, r, rev}, nil
}

// undoCreate deletes all of a task that could not be created, whose id nobody has, with its work if
// it has any, and gives back what was charged for it, unless it has ended, which did.
func (p *Pool) undoCreate(key Key, c Charge, work uint64) {
	ended := p.books.census.Remove(key).atEnd == 0
	p.keepTrying(func(ctx context.Context) error {
		// The record goes first: without it no attempt begins, and what begins without the request
		// runs nothing.
		if err := p.Store.Delete(ctx, key.recordKey(), 0); err != nil {
			return err
		}
		if err := p.Store.DropPart(ctx, key.path(), "", math.MaxInt); err != nil || work == 0 {
			return err
		}
		return p.Store.Withdraw(ctx, work)
	}, func(err error) { p.Ledger.Settle(c, ended || err != nil) })
}
