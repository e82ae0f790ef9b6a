package protocol

import (
	"cmp"
	"slices"

	"github.com/troupe-run/troupe/mcp"
)

// ResourceNotFoundData is the data of the error for a URI that no resource has.
type ResourceNotFoundData struct {
	URI string `json:"uri"`
}

// UnsupportedVersionData is the data of an error with [mcp.CodeUnsupportedVersion], and of
// the [mcp.CodeInvalidParams] that refuses an initialize without a common version.
type UnsupportedVersionData struct {
	Supported []string `json:"supported"`
	Requested string   `json:"requested"`
}

// ErrorInfo describes a wire error code.
type ErrorInfo struct {
	Code int
	Name string // of the constant, without its prefix

	// HTTPStatus is the status of a legacy response that is only this error,
	// StatelessStatus that of one since 2026-07-28. An error inside a stream or a batch
	// has no status of its own. Refusals before dispatch (a body too large, a store that
	// cannot be reached) have the status of the transport.
	HTTPStatus      int
	StatelessStatus int

	// Retryable says that the request was not carried out, and that the same request may
	// be sent again once the cause is gone. False means that it was not carried out and
	// would fail again, or that the outcome is unknown.
	Retryable bool

	Doc string // what happened, and what that means for the caller
}

var errorTable = []ErrorInfo{
	{mcp.CodeParseError, "ParseError", 400, 400, false,
		"The bytes could not be parsed; nothing was done. The response has no id."},
	{mcp.CodeInvalidRequest, "InvalidRequest", 400, 400, false,
		"JSON, but no JSON-RPC message that is legal at this point; nothing was done."},
	{mcp.CodeMethodNotFound, "MethodNotFound", 200, 404, false,
		"The revision has no such method, or its capability was not declared; nothing was done."},
	{mcp.CodeInvalidParams, "InvalidParams", 200, 200, false,
		"The params do not fit, or name a tool, prompt, task or cursor that does not exist; nothing was done."},
	{mcp.CodeInternalError, "InternalError", 200, 200, false,
		"The handler or the server broke; whether the call took effect is unknown."},
	{mcp.CodeResourceNotFound, "ResourceNotFound", 200, 200, false,
		"No resource has this URI; data holds it. Up to 2025-11-25; later revisions use InvalidParams."},
	{mcp.CodeCallLost, "CallLost", 200, 200, false,
		"The process that ran the call is gone. Only the caller can tell whether repeating it is safe."},
	{mcp.CodeBadEventID, "BadEventID", 400, 400, false,
		"Last-Event-ID is malformed, unknown, of another stream or principal, or too old. The stream cannot be resumed."},
	{mcp.CodeHeaderMismatch, "HeaderMismatch", 400, 400, false,
		"A required header is missing, malformed or differs from the body (2026-07-28); nothing was done."},
	{mcp.CodeMissingCapability, "MissingCapability", 400, 400, false,
		"The request needs a client capability that was not declared; data names it (2026-07-28); nothing was done."},
	{mcp.CodeUnsupportedVersion, "UnsupportedVersion", 400, 400, false,
		"The revision is unknown or not served here; nothing was done. Data lists the supported ones (2026-07-28)."},
	{mcp.CodeURLElicitationRequired, "URLElicitationRequired", 200, 200, true,
		"Data lists the URL elicitations to finish (2025-11-25); nothing was done. Send the request again after that."},
	{mcp.CodeUserRejected, "UserRejected", 200, 200, false,
		"A client's answer to a request its user refused; nothing was done."},
}

var errorsByCode = func() map[int]ErrorInfo {
	byCode := make(map[int]ErrorInfo, len(errorTable))
	for _, info := range errorTable {
		byCode[info.Code] = info
	}
	return byCode
}()

// LookupError describes a code. It returns false for a code that the table does not have;
// a peer may use such codes.
func LookupError(code int) (ErrorInfo, bool) {
	info, ok := errorsByCode[code]
	return info, ok
}

// ErrorInfos returns the whole table by descending code. The slice is the caller's.
func ErrorInfos() []ErrorInfo {
	out := slices.Clone(errorTable)
	slices.SortFunc(out, func(a, b ErrorInfo) int { return cmp.Compare(b.Code, a.Code) })
	return out
}

// HTTPStatus returns the HTTP status of a response that is only this error, in the
// revision's era. It is 200 for a code that the table does not have.
func HTTPStatus(e *mcp.Error, r mcp.Revision) int {
	info, ok := errorsByCode[e.Code]
	switch {
	case !ok:
		return 200
	case r.Stateless():
		return info.StatelessStatus
	}
	return info.HTTPStatus
}
