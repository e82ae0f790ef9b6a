package operated

import (
	"context"
	"errors"
	"strings"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/internal/telemetry"
	"github.com/troupe-run/troupe/operator"
)

// Calls implements [operator.Operator].
func (p *Process) Calls(_ context.Context, q operator.Query) (page operator.CallPage, err error) {
	if q, err = q.Check(operator.CallStates); err != nil {
		return operator.CallPage{}, err
	}
	theirs := p.whose(q.Principal)
	found := actors.Calls(p.Node, func(c *actors.CallInfo) bool {
		return (q.State == "" || string(c.State) == q.State) && p.includesCall(theirs, c.Session.Tenant, c.Principal)
	})
	page.Calls = []operator.Call{}
	for i := range found {
		switch {
		case !p.isOf(found[i].Session.Server, q.Server):
		case len(page.Calls) == q.Limit:
			page.More++
		default:
			page.Calls = append(page.Calls, p.describeCall(&found[i]))
		}
	}
	return page, nil
}

// describeCall is what is told of a call.
func (p *Process) describeCall(c *actors.CallInfo) operator.Call {
	_, _, who := p.Names(c.Principal)
	out := operator.Call{
		ID: c.ID, Node: p.Store.Name(), State: string(c.State), Method: c.Method, Target: c.Target, Server: p.pathOf(c.Session.Server),
		Tenant: c.Session.Tenant, Principal: who, Address: c.Via.Client, Revision: c.Revision.String(), Client: clientName(c.Client),
		Attempt: c.Attempt, Began: c.Began,
	}
	if c.Session.ID != "" {
		out.Session = telemetry.Hash(c.Session.ID)
	}
	if parts := strings.Split(c.Trace, "-"); len(parts) == 4 { // a traceparent
		out.Trace = parts[1]
	}
	return out
}

// CancelCall implements [operator.Operator].
func (p *Process) CancelCall(ctx context.Context, id string) (operator.Call, error) {
	ended, err := actors.EndCall(ctx, p.Node, id)
	if errors.Is(err, actors.ErrNoCall) {
		return operator.Call{}, operator.ErrNoCall
	}
	if ended.ID != "" {
		Endings{p}.noteEnded(&ended)
	}
	return p.describeCall(&ended), err
}

// noteEnded logs that an operator has ended a call.
func (p Endings) noteEnded(c *actors.CallInfo) {
	p.Log.Info("an operator has ended a call", "call", c.ID, "server", c.Session.Server, "method", c.Method, "target", c.Target, "tenant", c.Session.Tenant)
}

// endCallsHere ends calls on this node, and returns how many.
func (p Endings) endCallsHere(ctx context.Context, e *actors.OperatorEnd) (int, error) {
	theirs := whose{tenants: e.Tenants}
	ctx, cancel := context.WithTimeout(ctx, actors.EndWait) // what else ends does not wait for a stream that is stuck
	defer cancel()
	ended, err := actors.EndCalls(ctx, p.Node, func(c *actors.CallInfo) bool {
		return c.Session == e.Calls && e.Calls.ID != "" || theirs.includes(c.Session.Tenant)
	})
	for i := range ended {
		p.noteEnded(&ended[i])
	}
	return len(ended), err
}
