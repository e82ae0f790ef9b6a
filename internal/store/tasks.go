package store

import (
	"context"
	"time"
)

// Tasks keeps what tasks have beside their records, and the queue of those that have something to
// run. A task is named by its tenant, server and id, with dots between them.
type Tasks interface {
	// PutPart stores a part of a task if its record has revision rev, or if there is none and rev is
	// 0. Part reads it.
	PutPart(ctx context.Context, task, name string, data []byte, rev uint64, ttl time.Duration) error
	Part(ctx context.Context, task, name string) ([]byte, error)
	// DropPart deletes a part whose size is at most so many bytes, or all parts of a task if name is
	// "".
	DropPart(ctx context.Context, task, name string, size int) error
	// PartsSince reports whether a part was stored after a revision of the record.
	PartsSince(ctx context.Context, task string, rev uint64) (bool, error)
	// Parts lists the names of a task's parts. PartHead reads the beginning of one, and its size.
	Parts(ctx context.Context, task string) ([]string, error)
	PartHead(ctx context.Context, task, name string) (head []byte, size int, err error)

	// ListTasks lists records in the order of their revisions, from a revision on. AllTasks is ListTasks for
	// all tenants and servers. FindTask says whose a task is.
	ListTasks(ctx context.Context, tenant, server string, from uint64, limit int) ([]Task, error)
	AllTasks(ctx context.Context, from uint64, limit int) ([]Task, error)
	FindTask(ctx context.Context, id string) (tenant, server string, err error)

	// Offer stores that a task has something to run, and returns the number of that work. from tells
	// apart those who share a tenant. Withdraw removes work, whoever has it.
	Offer(ctx context.Context, tenant, server, task, from string, ttl time.Duration) (seq uint64, err error)
	Withdraw(ctx context.Context, seq uint64) error
	// HasWork reports whether a task has the work of a number. That it has not is certain after a
	// write to the stream of work.
	HasWork(ctx context.Context, tenant, server, task string, seq uint64) (bool, error)
	// Work opens the queue of a server's work; ErrNoQueue: the store refuses that. Working lists the
	// servers that have any. Retire says that this process serves a server no more.
	Work(ctx context.Context, server string) (Queue, error)
	Working(ctx context.Context) ([]string, error)
	Retire(ctx context.Context, server string) error
	// TakeTurn reports whether this process is the one that compares tasks with their work now.
	// Nobody else is for ttl.
	TakeTurn(ctx context.Context, ttl time.Duration) (bool, error)
	// Reclaim offers the work again that an earlier process of this node had, for as long as had
	// says; 0 leaves one alone.
	Reclaim(ctx context.Context, server string, had func(tenant, task string) time.Duration) error
}

// Task is a task's record in a list.
type Task struct {
	Tenant, Server, ID string
	Rev                uint64
	Data               []byte
}

// Queue gives out the work of a server. One goroutine calls Next.
type Queue interface {
	// Next waits for work. ErrClosed: the queue is. After another error it may be called again.
	Next(ctx context.Context) (Work, error)
	// Poke asks once more whether there is work, which the store may have overlooked; nil says that
	// there is none, or that Next has it.
	Poke() (Work, error)
	Close()
}

// Work is a task that has something to run. Its methods do not wait. Who has it calls Keep at least
// every second, and at the end Done or Later; if not, it is given out again after some seconds.
type Work interface {
	Of() (tenant, task, from string)
	Deliveries() uint64 // how often it was given out
	Seq() uint64        // tells works of a task apart that was offered twice
	Keep() error        // says that it is being done
	Done() error        // removes it
	Later(d time.Duration) error
}
