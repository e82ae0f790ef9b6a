package client

import (
	"errors"
	"fmt"
	"net"
	"syscall"
)

// Stage is how far a request got before it failed.
type Stage int

// The stages.
const (
	// Refused: there was no connection, and the server has seen nothing.
	Refused Stage = iota + 1
	// Lost: the connection broke before a byte of the answer came. Whether the
	// server has seen the request is unknown.
	Lost
	// Broken: the connection broke within the answer.
	Broken
)

func (s Stage) String() string {
	switch s {
	case Refused:
		return "refused"
	case Lost:
		return "lost"
	case Broken:
		return "broken"
	}
	return "no stage"
}

// Error reports a connection that failed.
type Error struct {
	Op    string // the HTTP method
	Stage Stage
	Err   error
}

func (e *Error) Error() string {
	return fmt.Sprintf("client: %s %s: %v", e.Op, e.Stage, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// Failed returns the stage of a connection's failure, and 0 for any other error.
func Failed(err error) Stage {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Stage
	}
	return 0
}

// unanswered is the error of a request that got no answer.
func unanswered(op string, err error) error {
	stage := Lost
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "dial" || errors.Is(err, syscall.ECONNREFUSED) {
		stage = Refused
	}
	return &Error{op, stage, err}
}
