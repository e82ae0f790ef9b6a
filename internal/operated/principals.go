package operated

import (
	"context"
	"errors"
	"slices"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/cluster"
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/internal/task"
	"github.com/troupe-run/troupe/internal/worker"
	"github.com/troupe-run/troupe/operator"
)

// endedByOperator is why listeners end.
const endedByOperator = "an operator has ended it"

// Endings are a process as far as somebody other than a client ends what is there.
type Endings struct{ *Process }

// EndPrincipal implements [operator.Operator]. Calls end first, so that each has a response that says so.
func (p *Process) EndPrincipal(ctx context.Context, principal string) (ended operator.Ended, err error) {
	theirs := p.whose(principal)
	if len(theirs.tenants) == 0 {
		return ended, operator.ErrNoPrincipal
	}
	p.Log.Info("an operator ends what a principal has", "principal", principal)
	ends := Endings{p}
	e := &actors.OperatorEnd{Tenants: ends.tenantsOf(theirs)}
	var errs []error
	var sessions []cluster.StoredSession // those of the principal before other nodes end them, too
	for _, tenant := range e.Tenants {
		found, err := p.Store.SessionsOf(ctx, tenant)
		sessions, errs = append(sessions, found...), append(errs, err)
	}
	ended.Calls, err = ends.endCallsHere(ctx, e)
	errs = append(errs, err, actors.EndThere(ctx, p.Node, e))
	ended.Sessions, err = ends.endSessions(ctx, sessions)
	errs = append(errs, err, actors.EndTenants(ctx, p.Node, endedByOperator, e.Tenants)) // what is on its way, and not in the store
	ended.Tasks, err = ends.EndTasks(ctx, func(t *worker.Snapshot) (bool, error) { return p.includesTask(ctx, theirs, t) })
	return ended, errors.Join(append(errs, err)...)
}

// tenantsOf are the tenants of a principal, with those of calls in flight here: their issuers may be
// known to nobody but the program's own authentication.
func (p Endings) tenantsOf(theirs whose) []string {
	all := theirs.tenants
	for _, c := range actors.Calls(p.Node, func(c *actors.CallInfo) bool { return p.includesCall(theirs, c.Session.Tenant, c.Principal) }) {
		if !slices.Contains(all, c.Session.Tenant) {
			all = append(all, c.Session.Tenant)
		}
	}
	return all
}

// CountHeld counts what principals have: sessions in the store, calls on this node of these tenants or of whom holder returns true for, and open tasks in the store.
func (p Endings) CountHeld(ctx context.Context, tenants []string, holder func(principal any) bool) (held operator.Ended, err error) {
	for _, tenant := range tenants {
		found, err := p.Store.SessionsOf(ctx, tenant)
		if err != nil {
			return held, err
		}
		held.Sessions += len(found)
	}
	held.Calls = len(actors.Calls(p.Node, func(c *actors.CallInfo) bool {
		return slices.Contains(tenants, c.Session.Tenant) || holder(c.Principal)
	}))
	for from, more := uint64(0), true; more; more = from != 0 {
		all, next, err := p.Pool.All(ctx, from, Looks)
		if err != nil {
			return held, err
		}
		for i := range all {
			if all[i].Record.State != task.Ended && slices.Contains(tenants, all[i].Key.Tenant) {
				held.Tasks++
			}
		}
		from = next
	}
	return held, nil
}

// EndHere ends on this node what an operator has ended on another one.
func (p Endings) EndHere(ctx context.Context, e *actors.OperatorEnd) error {
	_, err := p.endCallsHere(ctx, e)
	return errors.Join(err, actors.EndTenants(ctx, p.Node, endedByOperator, e.Tenants))
}

// EndSessionsOf ends the sessions of a tenant in the store, on all nodes.
func (p Endings) EndSessionsOf(ctx context.Context, tenant string) error {
	found, failed := p.Store.SessionsOf(ctx, tenant)
	_, err := p.endSessions(ctx, found)
	return errors.Join(failed, err)
}

// endSessions ends sessions in the store, and returns how many have ended, by whomever.
func (p Endings) endSessions(ctx context.Context, all []cluster.StoredSession) (ended int, err error) {
	var errs []error
	for i := range all {
		if err := p.EndStored(ctx, &all[i]); err != nil && !errors.Is(err, store.ErrNotFound) {
			errs = append(errs, err)
			continue
		}
		ended++
	}
	return ended, errors.Join(errs...)
}

// EndTasks cancels the open tasks in the store for which which returns true, and returns how many.
func (p Endings) EndTasks(ctx context.Context, which func(*worker.Snapshot) (bool, error)) (ended int, err error) {
	var errs []error
	for from, more := uint64(0), true; more; more = from != 0 {
		all, next, err := p.Pool.All(ctx, from, Looks)
		errs, from = append(errs, err), next
		for i := range all {
			if all[i].Record.State == task.Ended {
				continue
			}
			theirs, err := which(&all[i])
			if errs = append(errs, err); !theirs {
				continue
			}
			switch _, err := p.Pool.Cancel(ctx, all[i].Key); {
			case err == nil:
				ended++
			case !errors.Is(err, worker.ErrUnknown) && !errors.Is(err, task.ErrEnded):
				errs = append(errs, err)
			}
		}
	}
	return ended, errors.Join(errs...)
}
