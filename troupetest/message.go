package troupetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/troupe-run/troupe/internal/guard"
	"github.com/troupe-run/troupe/mcp"
)

// request is a request that waits for its response.
type request struct {
	answered     chan<- answer
	acknowledged chan<- struct{} // for subscriptions/listen alone
}

// answer is the response to a request.
type answer struct {
	result json.RawMessage
	err    *mcp.Error
}

// message is any JSON-RPC message.
type message struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *mcp.Error      `json:"error,omitempty"`
}

// object returns the members of a value that encodes to a JSON object.
func object(params any) (map[string]json.RawMessage, error) {
	members := map[string]json.RawMessage{}
	if params == nil {
		return members, nil
	}
	data, err := json.Marshal(params)
	if err == nil {
		err = json.Unmarshal(data, &members)
	}
	return members, err
}

// asError returns err as a JSON-RPC error.
func asError(err error) *mcp.Error {
	if e, ok := errors.AsType[*mcp.Error](err); ok {
		return e
	}
	return mcp.NewError(mcp.CodeInternalError, err.Error())
}

func pass[P any](params json.RawMessage, f func(P)) {
	var p P
	if json.Unmarshal(params, &p) == nil { // never fails: the schema is checked for the server's messages
		f(p)
	}
}

func respond[P, R any](ctx context.Context, params json.RawMessage, f func(context.Context, P) (R, error)) (json.RawMessage, error) {
	var p P
	if err := json.Unmarshal(params, &p); err != nil {
		return nil, err
	}
	r, err := f(ctx, p)
	if err != nil {
		return nil, err
	}
	return json.Marshal(r)
}

// apart runs a function of the test, which may end its goroutine as t.FailNow does: then it returns an error. A panic goes on.
func apart(f func()) error {
	switch failure := guard.Apart(f); {
	case failure == nil:
		return nil
	case failure.Exited():
		return fmt.Errorf("troupetest: a function of the test %s: %v", failure.Did(), failure.Value)
	default:
		panic(fmt.Sprintf("%v\n\n%s", failure.Value, failure.Stack))
	}
}
