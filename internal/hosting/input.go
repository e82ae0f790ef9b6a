package hosting

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/mcp"
)

// gatherInput gets what a backend of the newer era asks for before it goes on with a request: the inputResponses with which the request is
// to be sent again. They are nil if it only asks to come again.
func (x *exchange) gatherInput(ctx context.Context, result []byte, round int) (responses []byte, err error) {
	asked := codec.Optional(result, "inputRequests")
	var keys [][]byte
	var qs []actors.Question
	responses = []byte{'{'}
	for key, one := range codec.Members(asked) {
		method, ok := codec.Str(codec.Field(one, "method"))
		if !ok {
			return nil, mcp.NewError(mcp.CodeInternalError, errInput.Error())
		}
		if method == mcp.MethodRootsList && !x.Item.backend.Options.Roots.Forward {
			responses = appendMember(responses, key, x.Item.backend.roots())
			continue
		}
		q, refusal := questionFor(x.Caller, method, codec.Optional(one, "params"))
		if refusal != nil {
			return nil, mcp.Errorf(mcp.CodeInternalError, "the backend asks for what the client cannot give: %s", refusal.Message)
		}
		if name, _ := codec.Str(append(append([]byte{'"'}, key...), '"')); x.Caller.Revision.Stateless() && x.isLiteral(ctx, name, q.Key) {
			q.Key = name // as the client would see it without us
		}
		x.Complete(ctx, &q)
		keys, qs = append(keys, key), append(qs, q)
	}
	switch {
	case len(responses) == 1 && qs == nil:
		return nil, sleep(ctx, firstPause<<round)
	case qs == nil:
		return append(responses, '}'), nil
	}
	answers, err := x.Client.Ask(ctx, qs)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, fmt.Errorf("ask for what a backend needs: %w", err)
	}
	for i, a := range answers {
		if a.Err != nil { // a backend of the newer era has no word for it
			return nil, mcp.Errorf(mcp.CodeInternalError, "the client refused a question of the backend: %s", a.Err.Message)
		}
		responses = appendMember(responses, keys[i], a.Result)
	}
	return append(responses, '}'), nil
}

// isLiteral reports whether a question goes by the key that the backend has given it. That says not which question it is: so the first question with
// a key has it, and a later one, or that of a later run, only if it is the same.
func (x *exchange) isLiteral(ctx context.Context, key, question string) bool {
	first, known := x.literal[key]
	if !known {
		stored, err := x.Remember(ctx, "input "+key, quoted(question))
		if err != nil {
			return false
		}
		if first, known = codec.Str(stored); !known {
			return false
		}
		if x.literal == nil {
			x.literal = make(map[string]string)
		}
		x.literal[key] = first
	}
	return first == question
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// CouldNotAsk is a reason why the client of a call was not asked for what a backend of the newer era needs, if err is one.
func CouldNotAsk(err error) (reason error, ok bool) {
	for _, reason := range []error{actors.ErrNoAnswer, actors.ErrTooManyPending, actors.ErrTooManyRounds, actors.ErrTooMuchInput} {
		if errors.Is(err, reason) {
			return reason, true
		}
	}
	return nil, false
}
