package loadgen

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// Failure is an operation that did not succeed. Its kind is what a report counts it by.
type Failure struct {
	Kind string // "connection", "timeout", "status 503", "error -32602", "tool error", "wrong answer"
	Text string
}

func (f *Failure) Error() string { return f.Kind + ": " + f.Text }

// wrongAnswer is a failure of a server that answers something else than it was asked.
func wrongAnswer(format string, args ...any) error {
	return &Failure{"wrong answer", fmt.Sprintf(format, args...)}
}

// kindOf is what an error is counted by.
func kindOf(err error) string {
	if f, ok := errors.AsType[*Failure](err); ok {
		return f.Kind
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
		return "timeout"
	}
	return "connection"
}
