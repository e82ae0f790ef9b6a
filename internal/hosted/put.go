package hosted

import (
	"context"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/mcp"
)

// Put puts questions to the client of a call. It has those with a TTL hosted, as far as the client takes them as tasks; h is nil for a
// client that hosts none.
func Put(ctx context.Context, c Call, h *Host, qs []Question) ([]Outcome, error) {
	outcomes := make([]Outcome, len(qs))
	var plain, tasks []int
	for i := range qs {
		if qs[i].TTL > 0 && h.takesMethod(qs[i].Method) {
			tasks = append(tasks, i)
		} else {
			plain = append(plain, i)
		}
	}
	if tasks == nil {
		return outcomes, putPlain(ctx, c, h, qs, plain, outcomes)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ends := make(chan error, len(tasks))
	for _, i := range tasks {
		go func() {
			out, err := h.Ask(ctx, qs[i])
			outcomes[i] = out
			if err != nil {
				cancel(err)
			}
			ends <- err
		}()
	}
	var err error
	if plain != nil {
		if err = putPlain(ctx, c, h, qs, plain, outcomes); err != nil {
			cancel(err)
		}
	}
	for range tasks {
		if e := <-ends; err == nil {
			err = e
		}
	}
	if err != nil {
		return nil, context.Cause(ctx) // the first error, which ended the other questions
	}
	return outcomes, nil
}

// putPlain asks the questions of qs whose indexes which lists. A client may take some only as tasks (tasks, task support and
// handling): it gets those again.
func putPlain(ctx context.Context, c Call, h *Host, qs []Question, which []int, outcomes []Outcome) error {
	asked := make([]actors.Question, len(which))
	for i, at := range which {
		asked[i] = qs[at].Question
	}
	answers, err := c.Ask(ctx, asked)
	if err != nil {
		return err
	}
	for i, at := range which {
		outcomes[at].Answer = answers[i]
		if refused := answers[i].Err; refused == nil || refused.Code != mcp.CodeInvalidRequest || !h.takesMethod(asked[i].Method) {
			continue
		}
		again := qs[at]
		again.TTL = h.MaxAsk
		if outcomes[at], err = h.Ask(ctx, again); err != nil {
			return err
		}
	}
	return nil
}

// takesMethod reports whether the client takes questions of a method as tasks.
func (h *Host) takesMethod(method string) bool {
	m, ok := protocol.LookupMethod(method)
	return h != nil && ok && m.Task != 0 && h.Caps.Has(m.Task)
}
