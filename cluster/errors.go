package cluster

import "errors"

// Errors about a data directory. Open returns them with a text that names the
// path and what to do. It leaves the directory as it was.
var (
	// ErrLocked: another process, or another Node of this one, holds the directory.
	ErrLocked = errors.New("data directory is in use")
	// ErrNewer: a newer release wrote the data. Get, Writer, Read and Body also return
	// it, for a single record.
	ErrNewer = errors.New("written by a newer release")
	// ErrDamaged: the data cannot be read. Get, Writer, Read and Body also return it.
	ErrDamaged = errors.New("damaged")
	// ErrForeign: the directory holds files, and none says that it is a data
	// directory.
	ErrForeign = errors.New("not a data directory")
	// ErrWritable: users other than that of the process, and root, may put files into the directory, or it is another user's.
	ErrWritable = errors.New("others may write it")
)

// ErrRemote: the NATS servers of Options.Remote cannot be used. Open returns it with a text that says why and what to do.
var ErrRemote = errors.New("nats cannot be used")

// Errors of calls. Each says what became of the operation.
var (
	// ErrNotFound: there is no such record.
	ErrNotFound = errors.New("not found")
	// ErrConflict: the record exists (Create) or has another revision
	// (Update, Delete, Rewrite, OpenStream). Not done.
	ErrConflict = errors.New("revision conflict")
	// ErrUnavailable: NATS is missing or did not answer in time. Repeat a read;
	// the outcome of a write is unknown.
	ErrUnavailable = errors.New("store unavailable")
	// ErrFull: the store's byte budget is used up. Not done.
	ErrFull = errors.New("store full")
	// ErrFenced: the stream belongs to another writer, or to none. Not done, and
	// no later append under this revision will be.
	ErrFenced = errors.New("stream is lost to another writer")
	// ErrRetry: the store could not decide now. Not done; try again.
	ErrRetry = errors.New("not done, try again")
	// ErrTooBig: a record, append or body exceeds its limit. Not done.
	ErrTooBig = errors.New("too big")
	// ErrBadKey: a key or stream name has an unknown kind, the wrong number of
	// tokens, or a character that may not occur in one. Not done.
	ErrBadKey = errors.New("bad key")
	// ErrNobody: nobody takes the messages of that boot of a node. Not delivered.
	ErrNobody = errors.New("nobody takes messages there")
	// ErrNoConsumer: the servers allow no consumer of work, as where the account has as many as it may. It comes with ErrUnavailable.
	ErrNoConsumer = errors.New("nats allows no consumer of work")
	// ErrClosed: the node was closed. Not done. It wraps ErrUnavailable.
	ErrClosed error = closedError{}
)

type closedError struct{}

func (closedError) Error() string        { return "node is closed" }
func (closedError) Is(target error) bool { return target == ErrUnavailable }
