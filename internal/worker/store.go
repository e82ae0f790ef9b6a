package worker

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/internal/task"
)

const idLetters = "abcdefghijklmnopqrstuvwxyz234567"

// idLength is the length of a task's id: 130 random bits, or 65 and a tag of 64 that only the nodes of the store can make.
const idLength = 26

// The names of a task's parts, beside those of its steps.
const (
	requestPart = "req"
	outcomePart = "out" // of an outcome that is too large for the record
)

// Key names a task.
type Key struct{ Tenant, Server, ID string }

// Valid reports whether the id is one that a Pool may have made. No other one is looked up.
func (k Key) Valid() bool {
	return len(k.ID) == idLength && strings.Trim(k.ID, idLetters) == ""
}

// Digest is what logs have of the task's id: it may be all that it takes to read the task.
func (k Key) Digest() string {
	sum := sha256.Sum256([]byte(k.ID))
	return hex.EncodeToString(sum[:4])
}

func (k Key) path() string   { return k.Tenant + "." + k.Server + "." + k.ID }
func (k Key) record() string { return "task." + k.path() }

var idEncoding = base32.NewEncoding(idLetters).WithPadding(base32.NoPadding)

// newKey makes the key of a new task.
func newKey(tenant, server string, tag func([]byte) []byte) Key {
	b := make([]byte, 17)
	_, _ = rand.Read(b) // never fails
	k := Key{tenant, server, idEncoding.EncodeToString(b)[:idLength]}
	if t := k.tag(tag); t != "" {
		k.ID = k.ID[:idLength/2] + t
	}
	return k
}

// tag is the second half of the id that follows from the rest of the key; "" if the node makes none.
func (k Key) tag(tag func([]byte) []byte) string {
	if tag == nil {
		return ""
	}
	half := k
	half.ID = k.ID[:idLength/2]
	return idEncoding.EncodeToString(tag([]byte(half.record())))
}

// tagged reports whether the id is one that a node of this store has made. One of an earlier release is not.
func (k Key) tagged(tag func([]byte) []byte) bool {
	if !k.Valid() {
		return false
	}
	t := k.tag(tag)
	return t != "" && subtle.ConstantTimeCompare([]byte(t), []byte(k.ID[idLength/2:])) == 1
}

// principal is whose task it is: that of the tenant, or of the client among those who share the tenant.
func principal(tenant, from string) string {
	if from == "" {
		return tenant
	}
	return tenant + "." + from
}

// token is a short name of a client in the messages of work, "" for none.
func token(from string) string {
	if from == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(from))
	return idEncoding.EncodeToString(sum[:])[:16]
}

// Store keeps tasks and their work. Its methods are safe for concurrent use, and return the errors of package actors, wrapped.
type Store interface {
	// Get reads a record. ErrNotFound is certain, which may cost a write. Peek is for keys that may be made up, on which none is spent.
	Get(ctx context.Context, key string) (data []byte, rev uint64, err error)
	Peek(ctx context.Context, key string) (data []byte, rev uint64, err error)
	Create(ctx context.Context, key string, data []byte, ttl time.Duration) (rev uint64, err error)
	Update(ctx context.Context, key string, data []byte, rev uint64, ttl time.Duration) (uint64, error)
	// Delete removes a record, if there is one, whatever revision it has if rev is 0.
	Delete(ctx context.Context, key string, rev uint64) error
	// PutPart stores a part of a task if its record has revision rev, or if there is none and rev is 0. Part reads it.
	PutPart(ctx context.Context, task, name string, data []byte, rev uint64, ttl time.Duration) error
	Part(ctx context.Context, task, name string) ([]byte, error)
	// DropPart deletes a part whose size is at most so many bytes, or all parts of a task if name is "".
	DropPart(ctx context.Context, task, name string, size int) error
	// PartsSince reports whether a part was stored after a revision of the record.
	PartsSince(ctx context.Context, task string, rev uint64) (bool, error)
	// Tasks lists records in the order of their revisions, from a revision on.
	Tasks(ctx context.Context, tenant, server string, from uint64, limit int) ([]Stored, error)
	// AllTasks is Tasks for all tenants and servers. FindTask says whose a task is.
	AllTasks(ctx context.Context, from uint64, limit int) ([]Stored, error)
	FindTask(ctx context.Context, id string) (tenant, server string, err error)
	// Parts lists the names of a task's parts. PartHead reads the beginning of one, and its size.
	Parts(ctx context.Context, task string) ([]string, error)
	PartHead(ctx context.Context, task, name string) (head []byte, size int, err error)
	// Offer stores that a task has something to run, and returns the number of that work. From tells apart those who share a tenant. Withdraw removes work, whoever has it.
	Offer(ctx context.Context, tenant, server, task, from string, ttl time.Duration) (seq uint64, err error)
	Withdraw(ctx context.Context, seq uint64) error
	// HasWork reports whether a task has the work of a number. That it has not is certain after a write to the stream of work.
	HasWork(ctx context.Context, tenant, server, task string, seq uint64) (bool, error)
	// Work opens the queue of a server's work; ErrNoQueue: the store refuses that. Working lists the servers that have any. Retire says that this process
	// serves a server no more.
	Work(ctx context.Context, server string) (Queue, error)
	Working(ctx context.Context) ([]string, error)
	Retire(ctx context.Context, server string) error
	// TakeTurn reports whether this process is the one that compares tasks with their work now. Nobody else is for ttl.
	TakeTurn(ctx context.Context, ttl time.Duration) (bool, error)
	// Reclaim offers the work again that an earlier process of this node had, for as long as had says; 0 leaves one alone.
	Reclaim(ctx context.Context, server string, had func(tenant, task string) time.Duration) error
	// Suspended reports whether this process does not have the lease of its node for certain.
	Suspended() bool
	// Gone reports whether a process is dead, so that its tasks may go on elsewhere. An error leaves that open, or whether one that is there still has
	// its work: after an outage of them all it may not yet have said so.
	Gone(ctx context.Context, node, boot string) (bool, error)
	// Now is the clock by which the store counts lifetimes.
	Now() time.Time
}

// Stored is a task's record in a list.
type Stored struct {
	Tenant, Server, ID string
	Rev                uint64
	Data               []byte
}

// Queue gives out the work of a server. One goroutine calls Next.
type Queue interface {
	Next(ctx context.Context) (Work, error)
	// Poke asks once more whether there is work, which the store may have overlooked; nil says that there is none, or that Next has it.
	Poke() (Work, error)
	Close()
}

// Work is a task that has something to run. Its methods do not wait.
type Work interface {
	Of() (tenant, task, from string)
	Deliveries() uint64 // how often it was given out
	Seq() uint64        // tells works of a task apart that was offered twice
	Keep() error        // says that it is being done
	Done() error        // removes it
	Later(d time.Duration) error
}

// Request is what a task was made of. A later attempt gets it as the first one did, on any node.
type Request struct {
	Message      json.RawMessage `json:"message"`                // the request of the client
	Principal    json.RawMessage `json:"principal,omitempty"`    // who made it
	Client       json.RawMessage `json:"client,omitempty"`       // its clientInfo
	Capabilities json.RawMessage `json:"capabilities,omitempty"` // what the client can do
	Session      string          `json:"session,omitempty"`      // in which it was made
}

// Snapshot is a task as it was read.
type Snapshot struct {
	Key    Key
	Record task.Record
	Rev    uint64
}

// The causes for which the context of an attempt ends.
var (
	// ErrCancelled is the cause when the task was cancelled by its client.
	ErrCancelled = actors.ErrCancelled
	// ErrExpired is the cause when the task's lifetime is over.
	ErrExpired = errors.New("the task has expired")
	// ErrTakenOver is the cause when another attempt has the task, or when the task is gone. Nothing that this attempt
	// does counts any more.
	ErrTakenOver = errors.New("the task was taken over")
	// ErrClosing is the cause when the node ends. The task goes on on another one.
	ErrClosing = actors.ErrClosing
)

// Errors of what clients ask of tasks.
var (
	// ErrNoQueue reports that the store does not give out the work of a server, so that nothing would run a task. None was made.
	ErrNoQueue = errors.New("worker: the store gives out no work")
	// ErrUnknown reports that there is no such task for this client.
	ErrUnknown = errors.New("worker: no such task")
	// ErrTooMuch reports answers that leave the record of the task no room. None was taken.
	ErrTooMuch = errors.New("worker: the answers are too large")
)
