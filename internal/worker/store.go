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
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/internal/task"
)

const idLetters = "abcdefghijklmnopqrstuvwxyz234567"

// idLength is the length of a task's id: 130 random bits, or 65 and a tag of 64 that only the nodes
// of the store can make.
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

func (k Key) path() string      { return k.Tenant + "." + k.Server + "." + k.ID }
func (k Key) recordKey() string { return "task." + k.path() }

var idEncoding = base32.NewEncoding(idLetters).WithPadding(base32.NoPadding)

// newKey makes the key of a new task.
func newKey(tenant, server string, tag func([]byte) []byte) Key {
	b := make([]byte, 17)
	_, _ = rand.Read(b) // never fails
	k := Key{tenant, server, idEncoding.EncodeToString(b)[:idLength]}
	if t := k.idTag(tag); t != "" {
		k.ID = k.ID[:idLength/2] + t
	}
	return k
}

// idTag is the second half of the id that follows from the rest of the key; "" if the node makes
// none.
func (k Key) idTag(tag func([]byte) []byte) string {
	if tag == nil {
		return ""
	}
	half := k
	half.ID = k.ID[:idLength/2]
	return idEncoding.EncodeToString(tag([]byte(half.recordKey())))
}

// hasTag reports whether the id is one that a node of this store has made. One of an earlier
// release is not.
func (k Key) hasTag(tag func([]byte) []byte) bool {
	if !k.Valid() {
		return false
	}
	t := k.idTag(tag)
	return t != "" && subtle.ConstantTimeCompare([]byte(t), []byte(k.ID[idLength/2:])) == 1
}

// principalOf is whose task it is: that of the tenant, or of the client among those who share the
// tenant.
func principalOf(tenant, from string) string {
	if from == "" {
		return tenant
	}
	return tenant + "." + from
}

// clientToken is a short name of a client in the messages of work, "" for none.
func clientToken(from string) string {
	if from == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(from))
	return idEncoding.EncodeToString(sum[:])[:16]
}

// Store keeps tasks and their work.
type Store interface {
	store.Records
	store.Tasks
	// Suspended reports whether this process does not have the lease of its node for certain.
	Suspended() bool
	// Gone reports whether a process is dead, so that its tasks may go on elsewhere. An error
	// leaves that open, or whether one that is there still has its work: after an outage of them
	// all it may not yet have said so.
	Gone(ctx context.Context, node, boot string) (bool, error)
	// Now is the clock by which the store counts lifetimes.
	Now() time.Time
}

// The parts of what a Store returns.
type (
	Stored = store.Task
	Queue  = store.Queue
	Work   = store.Work
)

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
	// ErrTakenOver is the cause when another attempt has the task, or when the task is gone.
	// Nothing that this attempt does counts any more.
	ErrTakenOver = errors.New("the task was taken over")
	// ErrClosing is the cause when the node ends. The task goes on on another one.
	ErrClosing = actors.ErrClosing
)

// Errors of what clients ask of tasks.
var (
	// ErrUnknown reports that there is no such task for this client.
	ErrUnknown = errors.New("worker: no such task")
	// ErrTooMuch reports answers that leave the record of the task no room. None was taken.
	ErrTooMuch = errors.New("worker: the answers are too large")
)

// Step is the result of a step as it is stored.
type Step struct {
	Name    string          `json:"name"`
	Failed  string          `json:"failed,omitempty"` // the text of an error that no attempt tries again
	Attempt int             `json:"attempt"`          // that ran it
	Began   int64           `json:"began"`            // milliseconds since 1970
	Took    int64           `json:"took"`             // milliseconds
	Value   json.RawMessage `json:"value,omitempty"`  // last, so that the beginning of a stored step says all about it
}

// stepPrefix begins the names of parts that have steps.
const stepPrefix = "s-"

// stepPart is the name of the part that has a step.
func stepPart(name string) string {
	sum := sha256.Sum256([]byte(name))
	return stepPrefix + idEncoding.EncodeToString(sum[:])[:26]
}
