package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/troupe-run/troupe/mcp"
)

// ErrLost is the error of a call whose connection ended before its answer, where that cannot be fetched any more. Whether the call took effect is
// unknown.
var ErrLost = errors.New("the connection ended before the answer: whether the call took effect is unknown")

// StatusError is an HTTP response that is no message of MCP.
type StatusError struct {
	Status int
	Header http.Header
	Body   string // its beginning
	Why    string // it cannot be read; "" if the status says it
}

func (e *StatusError) Error() string {
	status := strings.TrimSpace(fmt.Sprintf("%d %s", e.Status, http.StatusText(e.Status)))
	switch {
	case e.Status == http.StatusUnauthorized:
		if challenge := e.Header.Get("Www-Authenticate"); challenge != "" {
			return fmt.Sprintf("the server wants to know who calls (%s, WWW-Authenticate: %s)", status, challenge)
		}
		return fmt.Sprintf("the server wants to know who calls (%s)", status)
	case e.Status/100 == 3:
		return fmt.Sprintf("the server is somewhere else (%s): %s", status, e.Header.Get("Location"))
	}
	text := fmt.Sprintf("no answer of MCP: %s", status)
	if kind := e.Header.Get("Content-Type"); kind != "" {
		text += ", " + kind
	}
	if e.Why != "" {
		text += ", " + e.Why
	}
	if e.Body != "" {
		text += ": " + e.Body
	}
	return text
}

// isLegacy reports whether a server that answers a request of the newest revision with an error may be one of the time before: it is one
// unless the error is of that revision, or is about something else.
func isLegacy(err error) bool {
	if e, ok := errors.AsType[*mcp.Error](err); ok {
		switch e.Code {
		case mcp.CodeHeaderMismatch, mcp.CodeMissingCapability:
			return false
		}
		return true // CodeUnsupportedVersion too: what the server speaks may have sessions
	}
	if e, ok := errors.AsType[*StatusError](err); ok {
		switch e.Status {
		case http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
			return true
		}
	}
	return false
}

// laterError is the answer of a server that has not carried out a request and asks to come again.
type laterError struct {
	after time.Duration // at least; 0 if the server does not say
	err   error
}

func (e *laterError) Error() string { return e.err.Error() }
func (e *laterError) Unwrap() error { return e.err }

// goneError is a connection that could not be made: the server has seen nothing of the request.
type goneError struct{ err error }

func (e *goneError) Error() string {
	return "the server cannot be reached (" + innermostText(e.err) + ")"
}
func (e *goneError) Unwrap() error { return e.err }

// brokenError is a connection that ended before the answer began.
type brokenError struct{ err error }

func (e *brokenError) Error() string { return "the connection broke (" + innermostText(e.err) + ")" }
func (e *brokenError) Unwrap() error { return e.err }

// innermostText is the innermost text of an error of the network, which is what a person can use.
func innermostText(err error) string {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return "the server closed it"
	}
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Addr != nil {
		return fmt.Sprintf("%v: %v", e.Addr, innermost(e.Err))
	}
	return innermost(err).Error()
}

func innermost(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil || inner.Error() == "" {
			return err
		}
		err = inner
	}
}

// noResponse is the error of a request that got no response.
func noResponse(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if e, ok := errors.AsType[*net.DNSError](err); ok && !e.IsTemporary && !e.IsTimeout {
		return fmt.Errorf("there is no such host: %w", e)
	}
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "dial" {
		return &goneError{err}
	}
	for _, end := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE, net.ErrClosed, io.ErrClosedPipe} {
		if errors.Is(err, end) {
			return &brokenError{err}
		}
	}
	if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
		return &brokenError{err}
	}
	return fmt.Errorf("no answer: %w", innermost(err))
}

// askedLater makes a laterError of the error in a response by which the server asks to come again; it returns any other as it is.
// res is nil for a response within an event stream.
func askedLater(res *http.Response, err error) error {
	after, asked := retryAfter(res)
	if e, ok := errors.AsType[*mcp.Error](err); ok {
		var data struct {
			After *float64 `json:"retryAfterMs"`
		}
		if json.Unmarshal(e.Data, &data) == nil && data.After != nil && *data.After >= 0 {
			return &laterError{max(after, time.Duration(min(*data.After, 1e9))*time.Millisecond), err}
		}
	}
	if err != nil && res != nil && (res.StatusCode == http.StatusServiceUnavailable || res.StatusCode == http.StatusTooManyRequests && asked) {
		return &laterError{after, err}
	}
	return err
}

// retryAfter reads the header Retry-After.
func retryAfter(res *http.Response) (after time.Duration, asked bool) {
	if res == nil {
		return 0, false
	}
	text := res.Header.Get("Retry-After")
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second, true
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, time.Until(at)), true
	}
	return 0, false
}
