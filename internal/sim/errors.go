package sim

import "errors"

// The errors of operations. They stand for the errors of package cluster with the same
// names.
var (
	ErrNotFound    = errors.New("sim: not found")         // the store has no such record
	ErrConflict    = errors.New("sim: revision conflict") // not done
	ErrFenced      = errors.New("sim: fenced")            // not done: the guard names another revision
	ErrRetry       = errors.New("sim: not done, retry")   // not done
	ErrFull        = errors.New("sim: store full")        // not done
	ErrUnavailable = errors.New("sim: store unavailable") // unknown
)
