package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/internal/task"
)

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

// parts are the steps of a task that is to be created as they are stored, and their size.
func (n *NewTask) parts() (steps [][]byte, size int, err error) {
	for i := range n.Steps {
		data, err := codec.Marshal(&n.Steps[i])
		if err != nil {
			return nil, 0, fmt.Errorf("worker: step %q: %w", n.Steps[i].Name, err)
		}
		steps, size = append(steps, data), size+len(data)
	}
	return steps, size, nil
}

// Create stores a task and has it run, unless there are too many: ErrTooMany, ErrFull. After an error other than store.ErrUnavailable there is none; after that one it is
// unknown, and nobody has its id.
func (p *Pool) Create(ctx context.Context, n NewTask) (Snapshot, error) {
	return p.create(ctx, n, func(*task.Record) error { return nil }, func(Snapshot, int) {})
}

// create stores a task that begins as first makes it. stored gets it, and the size of its request, before anybody is given its work.
func (p *Pool) create(ctx context.Context, n NewTask, first func(r *task.Record) error, stored func(s Snapshot, size int)) (_ Snapshot, err error) {
	if err := p.openQueue(ctx, n.Server); err != nil {
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
	if err := openError(p.books.census.Add(key, principal(n.Tenant, token(n.From)), r.Expires())); err != nil {
		return Snapshot{}, err
	}
	steps, done, err := n.parts()
	if err != nil {
		p.books.census.Remove(key)
		return Snapshot{}, err
	}
	c := charge(key, &r, len(req)+len(rec)+done)
	if err := p.Ledger.Charge(c, ForTask); err != nil {
		p.books.census.Remove(key)
		return Snapshot{}, err
	}
	p.books.note(key, charge(key, &r, len(req)), atEnd) // at once: it may end before Create does
	if done > 0 {
		p.books.note(key, charge(key, &r, done), atCancellation)
	}
	o := p.actors.offer(key, n.From)
	defer o.settled()
	defer func() {
		if err != nil {
			p.undo(key, c, o.seq)
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
	// The work comes first, and the record says which it is: so there is none that nobody ever runs.
	if err := o.make(ctx, n.TTL); err != nil {
		return Snapshot{}, err
	}
	r.Work = o.seq
	if rec, err = r.Encode(); err != nil {
		return Snapshot{}, fmt.Errorf("worker: record of a task: %w", err)
	}
	rev, err := p.Store.Create(ctx, key.record(), rec, n.TTL)
	if err != nil {
		return Snapshot{}, err
	}
	stored(Snapshot{key, r, rev}, len(req))
	p.Serve(n.Server) // it may have been mounted anew
	return Snapshot{key, r, rev}, nil
}

// edit changes the record of a task for its client.
func (p *Pool) edit(ctx context.Context, key Key, f func(r *task.Record) error) (Snapshot, error) {
	for {
		r, rev, err := p.readAsked(ctx, key)
		if errors.Is(err, store.ErrNotFound) {
			return Snapshot{}, ErrUnknown
		}
		if err != nil {
			return Snapshot{}, err
		}
		if err := f(&r); err != nil {
			return Snapshot{key, r, rev}, err
		}
		next, err := p.put(ctx, key, &r, rev)
		switch {
		case errors.Is(err, store.ErrConflict):
		case errors.Is(err, store.ErrNotFound):
			return Snapshot{}, ErrUnknown
		default:
			return Snapshot{key, r, next}, err
		}
	}
}

// Cancel ends a task for its client. task.ErrEnded: it has ended before, as the snapshot says.
func (p *Pool) Cancel(ctx context.Context, key Key) (Snapshot, error) {
	s, err := p.edit(ctx, key, func(r *task.Record) error { return r.Cancel(p.Store.Now()) })
	if err == nil {
		p.actors.tellHeld(key, cancelled{})
	}
	if s.Record.How() != task.Cancelled {
		return s, err
	}
	drop := func(ctx context.Context) error { return p.drop(ctx, key, task.Cancelled) }
	if err != nil && !errors.Is(err, task.ErrEnded) { // it may go on, and then needs what it has
		p.keepTrying(func(ctx context.Context) error {
			_, err := p.dropEnded(ctx, key)
			return err
		}, func(error) {})
	} else if drop(ctx) != nil { // now, or before: that may have left something
		p.keepTrying(drop, func(error) {})
	}
	return s, err
}

// Answer takes a client's answers. Keys that nobody has asked for are ignored, and so are answers to a task that
// does not wait.
func (p *Pool) Answer(ctx context.Context, key Key, answers map[string]task.Reply) (Snapshot, error) {
	o := p.actors.offer(key, "")
	defer o.settled()
	var c Charge // of the answers
	s, err := p.edit(ctx, key, func(r *task.Record) error {
		o.from = token(r.From)
		before := *r
		ready, err := r.Answer(answers, p.Store.Now())
		if err == nil && (size(r.Questions) > maxAsked || !leavesRoom(r)) {
			return ErrTooMuch
		}
		if err == nil {
			err = p.books.chargeAnswers(key, &c, &before, r)
		}
		if err == nil && ready {
			err = o.make(ctx, r.Left(p.Store.Now()))
			r.Work = o.seq
		}
		if err == nil && before.Updated == r.Updated && before.State == r.State && before.Unfit == r.Unfit && len(before.Open()) == len(r.Open()) {
			return errUnchanged
		}
		return err
	})
	if c.Bytes > 0 {
		p.books.settle(key, c, err, atEnd)
	}
	if o.seq != 0 {
		p.Serve(key.Server)
	}
	if errors.Is(err, errUnchanged) || errors.Is(err, task.ErrNotWaiting) || errors.Is(err, task.ErrEnded) {
		err = nil
	}
	return s, err
}

var errUnchanged = errors.New("worker: nothing was changed")
