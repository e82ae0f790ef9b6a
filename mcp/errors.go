package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
)

// The error codes on the wire. docs/errors.md says what each means. Codes are never
// reused. -32000 to -32019 are ours to define, -32020 to -32099 are the protocol's.
const (
	CodeParseError             = -32700
	CodeInvalidRequest         = -32600
	CodeMethodNotFound         = -32601
	CodeInvalidParams          = -32602
	CodeInternalError          = -32603
	CodeResourceNotFound       = -32002
	CodeCallLost               = -32010
	CodeBadEventID             = -32011
	CodeHeaderMismatch         = -32020
	CodeMissingCapability      = -32021
	CodeUnsupportedVersion     = -32022
	CodeURLElicitationRequired = -32042
	CodeUserRejected           = -1
)

// defaultMessages has what an error says that has no message of its own.
var defaultMessages = map[int]string{
	CodeParseError:             "the message is not valid JSON",
	CodeInvalidRequest:         "the message is not a valid request",
	CodeMethodNotFound:         "method not found",
	CodeInvalidParams:          "invalid params",
	CodeInternalError:          "internal error",
	CodeResourceNotFound:       "resource not found",
	CodeCallLost:               "the node running this call was lost; whether it took effect is unknown",
	CodeBadEventID:             "the event id cannot be resumed from",
	CodeHeaderMismatch:         "the headers do not match the body",
	CodeMissingCapability:      "the client lacks a capability this request needs",
	CodeUnsupportedVersion:     "Unsupported protocol version",
	CodeURLElicitationRequired: "the user must open a URL first",
	CodeUserRejected:           "the user rejected the request",
}

// Error is a JSON-RPC error. Data is any JSON value; empty is none.
type Error struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

var _ error = (*Error)(nil)

// ErrInexpressible is wrapped by the errors for questions that the client's revision has
// no form for. They were not converted, and must not be sent.
var ErrInexpressible = errors.New("the client's revision cannot express this")

// Error returns the message and the code. For a nil *Error, returned as an error by
// mistake, it says so.
func (e *Error) Error() string {
	if e == nil {
		return "a nil *mcp.Error"
	}
	return fmt.Sprintf("%s (%d)", e.Message, e.Code)
}

// Is reports whether target is an [*Error] with the same code, so that errors.Is
// works with the values of [NewError].
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && e != nil && t != nil && t.Code == e.Code
}

// NewError returns an error with the code. For an empty message it takes the
// usual one of the code. The message is sent to the peer: it must not name internals.
func NewError(code int, message string) *Error {
	if message == "" {
		message = defaultMessages[code]
	}
	return &Error{Code: code, Message: message}
}

// Errorf returns an error with the code and a formatted message, which is sent to the
// peer like that of [NewError].
func Errorf(code int, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// WithData returns a copy of e that carries the value, encoded. A value that cannot
// be encoded is left out: an error must always reach its caller.
func (e *Error) WithData(v any) *Error {
	out := *e
	out.Data = nil
	if data, err := encode(v); err == nil {
		out.Data = data
	}
	return &out
}
