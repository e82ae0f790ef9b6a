package transport

import (
	"cmp"
	"errors"
	"net/http"
	"strconv"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/refusal"
	"github.com/troupe-run/troupe/mcp"
)

// maxEventID is the length of the longest Last-Event-ID, in bytes, that is passed on.
var maxEventID = limits.EventID.Value()

// maxEchoed is how many bytes of a header's value an error repeats.
const maxEchoed = 128

// refuseStatelessMethod refuses a method that has no meaning without sessions.
var refuseStatelessMethod = func() *refusal.Refusal {
	refused := *refusal.Method
	refused.Allow = "POST, OPTIONS"
	return &refused
}()

// preflight is no refusal: it says that the request has been answered.
var preflight = new(refusal.Refusal)

// authRefusal returns the refusal of a request that is not authenticated.
func authRefusal(err error) *refusal.Refusal {
	if refused, ok := errors.AsType[*refusal.Refusal](err); ok {
		return refused
	}
	return refusal.Auth
}

// memoryRefusal returns the refusal of a request that nothing counts. Over HTTP/2 it has no body: a client that gives no window would
// keep the response, and there was no memory for the request already.
func memoryRefusal(refused *refusal.Refusal, of *http.Request) *refusal.Refusal {
	bare := *refused
	bare.Bare = of.ProtoMajor == 2
	return &bare
}

// refusalWithID returns the refusal with the id of m, if m is a request.
func refusalWithID(m *codec.Message, refused *refusal.Refusal) *refusal.Refusal {
	if m.Kind == codec.Request {
		return refused.For(m.ID)
	}
	return refused
}

// refuseMessage refuses bytes that are no JSON-RPC message, with the reason and id that the scan found. The place of a fault of
// syntax is counted from 1; other reasons name the member.
func refuseMessage(e *codec.ScanError) *refusal.Refusal {
	text := e.Reason
	if e.Code == mcp.CodeParseError {
		text += ", at byte " + strconv.Itoa(e.Offset+1)
	}
	return &refusal.Refusal{Status: http.StatusBadRequest, Code: e.Code, Label: cmp.Or(e.Limit(), "message"), Text: text, ID: e.ID}
}

// refuseSize refuses a message of more bytes than max, the setting max-body.
func refuseSize(max int64) *refusal.Refusal {
	refused := *refusal.TooLarge
	refused.Text += ": max-body allows " + strconv.FormatInt(max, 10) + " bytes"
	return &refused
}
