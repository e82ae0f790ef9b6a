package troupe

import (
	"errors"
	"strings"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/mcp"
)

// ErrUnavailable reports that the store cannot be asked, did not answer, or is full: what was to be stored may or may not be. A handler that
// returns the error, wrapped or not, gives its client the error of a request that may be sent again: -32603 with retryAfterMs, and
// status 503 where there is no session and the call may run again.
var ErrUnavailable error = unavailable{}

// unavailable is an error of the store to those who ask whether one may come again.
type unavailable struct{}

func (unavailable) Error() string { return "store unavailable: try again shortly" }
func (unavailable) Unwrap() error { return store.ErrUnavailable }

// errStore is the text of any other error of the store.
var errStore = errors.New("the store has failed")

// storeError is an error of the store as handlers get it. They may pass its text on to a model, so it has nothing of the store's: no names of
// subjects and keys, which are in the log.
type storeError struct{ err error }

func (e storeError) Error() string {
	if store.IsTransient(e.err) {
		return ErrUnavailable.Error()
	}
	return errStore.Error()
}

// Is reports whether the error is ErrUnavailable.
func (e storeError) Is(target error) bool {
	return target == ErrUnavailable && store.IsTransient(e.err)
}

// Unwrap returns the error with all that is known of it, for the log.
func (e storeError) Unwrap() error { return e.err }

// forHandler returns an error as a handler may see it.
func forHandler(err error) error {
	if _, told := errors.AsType[storeError](err); told || !ofStore(err) {
		return err
	}
	return storeError{err}
}

// ofStore reports whether an error comes from the store.
func ofStore(err error) bool {
	if store.IsTransient(err) {
		return true
	}
	for _, of := range [...]error{store.ErrFenced, store.ErrConflict, store.ErrNotFound, store.ErrDamaged, store.ErrSealed} {
		if errors.Is(err, of) {
			return true
		}
	}
	return false
}

func invalidParams(err error) *mcp.Error {
	return mcp.NewError(mcp.CodeInvalidParams, "invalid params"+mismatchText(err))
}

// mismatchText says which part of a client's JSON does not fit, in JSON's terms. It leaves out
// faults that have a text only in terms of Go.
func mismatchText(err error) string {
	if wrong, ok := errors.AsType[*codec.DecodeError](err); ok {
		return ": " + strings.TrimPrefix(wrong.Error(), "codec: ")
	}
	if errors.Is(err, codec.ErrDuplicate) {
		return ": a member comes twice"
	}
	return ""
}

// must panics with err, a mistake in the program.
func must(err error) {
	if err != nil {
		panic(err.Error())
	}
}

// errNoResult reports a handler that returned neither a result nor an error.
var errNoResult = errors.New("the handler returned no result")

// errBadResult reports a result that breaks the tool's own declaration: a
// mistake of the server that no client can correct.
var errBadResult = errors.New("the handler's result does not fit")
