// Package guard tells how code ended that belongs to the program that embeds Troupe: by a return, by a panic, or by the end of
// its goroutine. runtime.Goexit cannot be stopped as a panic can: only deferred functions run afterwards, and the goroutine is
// gone. So code whose goroutine others need runs [Apart], and what has to follow all other code is deferred.
package guard

import (
	"errors"
	"runtime/debug"
)

// errEnded is the value of code that has ended its goroutine.
var errEnded = errors.New("it called runtime.Goexit, as testing.T.FailNow, testing.T.SkipNow and testify's require do: it must return, with an error where it has one")

// Failure is the end of code that has not returned.
type Failure struct {
	// Value is the value of the panic, or an error that says what has ended the goroutine.
	Value any
	Stack string
}

// Caught returns the failure of code that has not returned. A deferred function calls it with what recover has returned,
// which is nil if the goroutine ends.
func Caught(recovered any) *Failure {
	if recovered == nil {
		recovered = errEnded
	}
	return &Failure{recovered, string(debug.Stack())}
}

// Exited reports whether the code has ended its goroutine.
func (f *Failure) Exited() bool { return f.Value == errEnded }

// Did says what the code did, for the log.
func (f *Failure) Did() string {
	if f.Exited() {
		return "ended its goroutine"
	}
	return "panicked"
}

// Attrs are the attributes of a log record about the failure.
func (f *Failure) Attrs() []any { return []any{"panic", f.Value, "stack", f.Stack} }

// Apart runs f on a goroutine of its own and waits for it. It returns nil if f has returned.
func Apart(f func()) *Failure {
	failure := make(chan *Failure, 1)
	go func() {
		returned := false
		defer func() {
			if returned {
				failure <- nil
			} else {
				failure <- Caught(recover())
			}
		}()
		f()
		returned = true
	}()
	return <-failure
}
