package nodestore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/cluster"
	"github.com/troupe-run/troupe/internal/worker"
)

// Tasks keeps the tasks of a node, and their work, in a cluster. Its errors wrap those of package actors.
type Tasks struct{ Store }

// NewTasks returns the tasks of a node.
func NewTasks(n *cluster.Node) Tasks { return Tasks{New(n)} }

var _ worker.Store = Tasks{}

// PutPart stores a part of a task, if its record has revision rev.
func (s Tasks) PutPart(ctx context.Context, task, name string, data []byte, rev uint64, ttl time.Duration) error {
	return storeError(s.n.PutPart(ctx, task, name, data, rev, ttl))
}

// Part reads a part of a task.
func (s Tasks) Part(ctx context.Context, task, name string) ([]byte, error) {
	data, err := s.n.Part(ctx, task, name)
	return data, storeError(err)
}

// DropPart deletes a part of a task, or all.
func (s Tasks) DropPart(ctx context.Context, task, name string, size int) error {
	return storeError(s.n.DropPart(ctx, task, name, size))
}

// PartsSince reports whether a part of a task was stored after a revision.
func (s Tasks) PartsSince(ctx context.Context, task string, rev uint64) (bool, error) {
	since, err := s.n.PartsSince(ctx, task, rev)
	return since, storeError(err)
}

// Tasks lists the tasks of a tenant at a server.
func (s Tasks) Tasks(ctx context.Context, tenant, server string, from uint64, limit int) ([]worker.Stored, error) {
	return listed(s.n.Tasks(ctx, tenant, server, from, limit))
}

// AllTasks lists the tasks of all.
func (s Tasks) AllTasks(ctx context.Context, from uint64, limit int) ([]worker.Stored, error) {
	return listed(s.n.AllTasks(ctx, from, limit))
}

func listed(found []cluster.StoredTask, err error) ([]worker.Stored, error) {
	all := make([]worker.Stored, len(found))
	for i, t := range found {
		all[i] = worker.Stored(t)
	}
	return all, storeError(err)
}

// FindTask says whose a task is.
func (s Tasks) FindTask(ctx context.Context, id string) (tenant, server string, err error) {
	tenant, server, err = s.n.FindTask(ctx, id)
	return tenant, server, storeError(err)
}

// Parts lists the parts of a task.
func (s Tasks) Parts(ctx context.Context, task string) ([]string, error) {
	names, err := s.n.Parts(ctx, task)
	return names, storeError(err)
}

// PartHead reads the beginning of a part of a task.
func (s Tasks) PartHead(ctx context.Context, task, name string) ([]byte, int, error) {
	head, size, err := s.n.PartHead(ctx, task, name)
	return head, size, storeError(err)
}

// Offer stores that a task has something to run.
func (s Tasks) Offer(ctx context.Context, tenant, server, task, from string, ttl time.Duration) (uint64, error) {
	seq, err := s.n.Offer(ctx, tenant, server, task, from, ttl)
	return seq, storeError(err)
}

// HasWork reports whether a task has the work of a number.
func (s Tasks) HasWork(ctx context.Context, tenant, server, task string, seq uint64) (bool, error) {
	has, err := s.n.HasWork(ctx, tenant, server, task, seq)
	return has, storeError(err)
}

// Withdraw removes work.
func (s Tasks) Withdraw(ctx context.Context, seq uint64) error {
	return storeError(s.n.Withdraw(ctx, seq))
}

// TakeTurn reports whether this node compares tasks with their work now.
func (s Tasks) TakeTurn(ctx context.Context, ttl time.Duration) (bool, error) {
	mine, err := s.n.TakeTurn(ctx, ttl)
	return mine, storeError(err)
}

// Working lists the servers that have work.
func (s Tasks) Working(ctx context.Context) ([]string, error) {
	servers, err := s.n.Working(ctx)
	return servers, storeError(err)
}

// Work opens the queue of a server's work.
func (s Tasks) Work(ctx context.Context, server string) (worker.Queue, error) {
	q, err := s.n.Work(ctx, server)
	if errors.Is(err, cluster.ErrNoConsumer) {
		return nil, fmt.Errorf("%w: %w", worker.ErrNoQueue, storeError(err))
	}
	if err != nil {
		return nil, storeError(err)
	}
	return queue{q}, nil
}

// Retire says that this node serves a server no more.
func (s Tasks) Retire(ctx context.Context, server string) error {
	return storeError(s.n.Retire(ctx, server))
}

// Gone reports whether a process is dead. A node that has not had its own lease for long enough cannot tell of one that is there whether it still has its work.
func (s Tasks) Gone(ctx context.Context, node, boot string) (bool, error) {
	gone, err := s.n.Gone(ctx, cluster.Peer{Node: node, Boot: boot})
	if err == nil && !gone && !s.n.Steady() {
		return false, fmt.Errorf("%w: whether a process has been without the store for long", actors.ErrUnavailable)
	}
	return gone, storeError(err)
}

// Reclaim offers the work again that an earlier process of this node had.
func (s Tasks) Reclaim(ctx context.Context, server string, had func(tenant, task string) time.Duration) error {
	return storeError(s.n.Reclaim(ctx, server, had))
}

type queue struct{ *cluster.WorkQueue }

func (q queue) Next(ctx context.Context) (worker.Work, error) {
	w, err := q.WorkQueue.Next(ctx)
	if err != nil {
		return nil, storeError(err)
	}
	return work{w}, nil
}

func (q queue) Poke() (worker.Work, error) {
	w, err := q.WorkQueue.Poke()
	if w == nil || err != nil {
		return nil, storeError(err)
	}
	return work{w}, nil
}

type work struct{ *cluster.Work }

func (w work) Of() (tenant, task, from string) { return w.Tenant, w.Task, w.From }
func (w work) Deliveries() uint64              { return w.Work.Deliveries }
func (w work) Seq() uint64                     { return w.Work.Seq }
