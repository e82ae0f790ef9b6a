package codec

import (
	"strconv"

	"github.com/troupe-run/troupe/internal/limits"
)

// Kind says what a scanned message is.
type Kind uint8

// The kinds of messages. A response that carries an error is an ErrorResponse, one that carries a result a Result.
const (
	Invalid Kind = iota
	Request
	Notification
	Result
	ErrorResponse
	Batch
)

// String returns the kind's name in lower case.
func (k Kind) String() string {
	switch k {
	case Request:
		return "request"
	case Notification:
		return "notification"
	case Result:
		return "result"
	case ErrorResponse:
		return "error response"
	case Batch:
		return "batch"
	}
	return "invalid"
}

// Message holds the raw spans of one scanned message. Every span aliases the scanned bytes, so it is valid only as
// long as they are and must not be written to. A span is nil if its member is absent.
type Message struct {
	Kind Kind

	// N is the number of elements of a Batch, else 0.
	N int

	// Values is how many JSON values the message has, with those that hold others, but without the message itself, params
	// and _meta. It bounds the memory that decoding the message takes.
	Values int

	// ID is the id as it was sent, quotes included: 1, -3, "abc", 12345678901234567890.
	ID []byte

	// Method is the method without its quotes. It aliases the input unless the method was written with escapes.
	Method []byte

	// Params, Result and Err are the members params, result and error.
	Params, Result, Err []byte

	// ProgressToken is params._meta.progressToken as it was sent; 0 and "" are legal and not nil.
	ProgressToken []byte

	// ProtocolVersion is params._meta["io.modelcontextprotocol/protocolVersion"] as it was sent, of whatever type. A
	// request that has it is one of 2026-07-28 or later.
	ProtocolVersion []byte

	// Members of params that most methods use. Scan checks that they are valid JSON, not their types.
	Name, URI, Arguments, Meta, Cursor []byte

	// State and Responses are params.requestState and params.inputResponses. A request has them when its client sends it
	// again with the input that it needed (2026-07-28).
	State, Responses []byte

	// Task is params.task: its client wants the request to become a task (2025-11-25).
	Task []byte
}

// Limits bound what Scan accepts.
type Limits struct {
	// MaxDepth is how deep arrays and objects may nest, the envelope (and the array of a batch) included.
	// 0 means the default of internal/limits; more than 1024 counts as 1024.
	MaxDepth int `option:"Limits.MaxDepth"`

	// MaxBatch is how many messages a batch may hold. 0 means the default.
	MaxBatch int `option:"Limits.MaxBatch"`

	// MaxValues is how many values a message may hold, see Message.Values; those of a batch count together. 0 means the
	// default.
	MaxValues int `option:"Limits.MaxValues"`
}

func (lim Limits) depth() int {
	return min(limits.MaxDepth.Or(lim.MaxDepth), maxDepth)
}

func (lim Limits) batch() int {
	return limits.MaxBatch.Or(lim.MaxBatch)
}

func (lim Limits) values() int {
	return limits.MaxValues.Or(lim.MaxValues)
}

// maxDepth is the largest MaxDepth.
const maxDepth = 1024

// Error codes of JSON-RPC 2.0 that Scan returns.
const (
	codeParse   = -32700
	codeInvalid = -32600
)

// ScanError says why Scan refused a message. Do not act on any part of that message.
type ScanError struct {
	// Code is -32700 if the bytes are not valid JSON and -32600 if they are no valid message.
	Code int

	// Reason is a short constant sentence that may be sent to the peer.
	Reason string

	// Offset is the place of the fault in the scanned bytes.
	Offset int

	// ID is the raw id if exactly one was seen before the fault and it is valid, else nil. It aliases the input.
	ID []byte
}

// Limit names the member of Limits that the message exceeds: "depth", "batch" or "values". It is "" for any
// other fault.
func (e *ScanError) Limit() string {
	switch e.Reason {
	case reasonDepth:
		return "depth"
	case reasonBatchTooLong:
		return "batch"
	case reasonValues:
		return "values"
	}
	return ""
}

// Error describes the fault with its offset.
func (e *ScanError) Error() string {
	return "codec: " + e.Reason + " at offset " + strconv.Itoa(e.Offset)
}

var _ error = (*ScanError)(nil)
