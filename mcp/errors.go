package mcp

import (
	"encoding/json"
	"fmt"
)

// The error codes on the wire; [LookupError] says what each means. Codes are never
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

// Error is a JSON-RPC error. Data is any JSON value; empty is none.
type Error struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

var _ error = (*Error)(nil)

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

// NewError returns an error with the code. For an empty message it takes the one of the
// table. The message is sent to the peer: it must not name internals.
func NewError(code int, message string) *Error {
	if message == "" {
		info, _ := LookupError(code)
		message = info.Message
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

// For returns the error for a peer of the revision. It is e itself when nothing has to
// change. Since 2026-07-28 a resource that is not found is [CodeInvalidParams], with the
// same data, and no error makes a user open URLs: [CodeURLElicitationRequired] becomes
// [CodeInvalidRequest].
func (e *Error) For(r Revision) *Error {
	code := e.Code
	switch {
	case !r.Stateless():
	case code == CodeResourceNotFound:
		code = CodeInvalidParams
	case code == CodeURLElicitationRequired:
		code = CodeInvalidRequest
	}
	if code == e.Code {
		return e
	}
	return &Error{Code: code, Message: e.Message, Data: e.Data}
}

// ResourceNotFoundData is the data of the error for a URI that no resource has.
type ResourceNotFoundData struct {
	URI string `json:"uri"`
}

// UnsupportedVersionData is the data of an error with [CodeUnsupportedVersion], and of
// the [CodeInvalidParams] that refuses an initialize without a common version.
type UnsupportedVersionData struct {
	Supported []string `json:"supported"`
	Requested string   `json:"requested"`
}
