package store

import "errors"

// Errors of operations, which are returned wrapped. Each says what became of the operation.
var (
	// ErrNotFound: nothing is stored there.
	ErrNotFound = errors.New("not found")
	// ErrConflict: the record is there already, or has another revision. Not done.
	ErrConflict = errors.New("revision conflict")
	// ErrFenced: the stream belongs to another writer, or to none. Not done, and nothing that is
	// written under this revision ever will be.
	ErrFenced = errors.New("stream is lost to another writer")
	// ErrRetry: the store could not decide now. Not done.
	ErrRetry = errors.New("not done, try again")
	// ErrFull: a budget of the store is used up. Not done.
	ErrFull = errors.New("store full")
	// ErrTooBig: the data exceed the limit of what they are. Not done.
	ErrTooBig = errors.New("too big")
	// ErrBadKey: a key has an unknown kind, the wrong number of tokens, or a character that may
	// not occur in one. Not done.
	ErrBadKey = errors.New("bad key")
	// ErrUnavailable: the store is away, or did not answer in time. A read says nothing, and the
	// outcome of a write is unknown.
	ErrUnavailable = errors.New("store unavailable")
	// ErrNobody: nobody takes the letters of that boot of a node. Not delivered.
	ErrNobody = errors.New("nobody takes messages there")
	// ErrNoQueue: the store gives out no work of that server. It comes with ErrUnavailable.
	ErrNoQueue = errors.New("nats allows no consumer of work")
	// ErrDamaged: what is stored there cannot be read, by any node.
	ErrDamaged = errors.New("damaged")
	// ErrSealed: what was to be opened is malformed, changed, sealed for something else, or its
	// key is gone. Callers must not be able to tell these apart.
	ErrSealed = errors.New("cannot be opened")
	// ErrNewer: a newer release wrote it. It is there, and a node of that release can read it: so
	// the error is ErrUnavailable as well.
	ErrNewer error = unavailable("written by a newer release")
	// ErrClosed: the node was closed. Not done. The error is ErrUnavailable as well.
	ErrClosed error = unavailable("node is closed")
)

// unavailable is an error that is ErrUnavailable as well.
type unavailable string

func (e unavailable) Error() string        { return string(e) }
func (e unavailable) Is(target error) bool { return target == ErrUnavailable }

// IsTransient reports whether an error says that the operation was not done, or perhaps not, and
// may succeed when it is tried again.
func IsTransient(err error) bool {
	return errors.Is(err, ErrUnavailable) || errors.Is(err, ErrRetry) || errors.Is(err, ErrFull)
}
