package hosting

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/troupe-run/troupe/internal/admin"
	"github.com/troupe-run/troupe/internal/backend"
	"github.com/troupe-run/troupe/internal/backend/journal"
	"github.com/troupe-run/troupe/internal/backend/listing"
	"github.com/troupe-run/troupe/internal/backend/pool"
	"github.com/troupe-run/troupe/internal/hostfile"
	"github.com/troupe-run/troupe/internal/telemetry"
)

// Operated are the backends of a node as an operator sees them.
type Operated struct{ n *Node }

var _ admin.Backends = Operated{}

// NewOperated returns the backends of a node as an operator sees them.
func NewOperated(n *Node) Operated { return Operated{n} }

// operations are those of the backends that run; ok is false as long as there are none.
func (o Operated) operations() (_ backend.Operations, ok bool) {
	running := o.n.configuredBackends()
	return backend.Operations{Backends: running}, running != nil
}

// errEnds is why nothing is told of backends.
var errEnds = errors.New("the node ends, and so do its backends")

// operatedError is an error of operations as an operator is told of it.
func operatedError(err error) error {
	switch {
	case errors.Is(err, backend.ErrNoBackend):
		return admin.ErrNoBackend
	case errors.Is(err, backend.ErrClosed):
		return errEnds
	}
	return err
}

// Backends implements [admin.Backends].
func (o Operated) Backends(ctx context.Context) ([]admin.Backend, error) {
	all := []admin.Backend{}
	of, ok := o.operations()
	if !ok {
		return all, nil
	}
	reports, err := of.Reports(ctx)
	for i := range reports {
		all = append(all, describeBackend(&reports[i], time.Now()))
	}
	return addWrong(all, o.n.allWrong()), operatedError(err)
}

// Backend implements [admin.Backends].
func (o Operated) Backend(ctx context.Context, name string) (admin.BackendDetail, error) {
	of, ok := o.operations()
	if !ok {
		return admin.BackendDetail{}, admin.ErrNoBackend
	}
	reports, err := of.Reports(ctx)
	if err != nil {
		return admin.BackendDetail{}, operatedError(err)
	}
	wrong := o.n.allWrong()
	for i := range reports {
		if reports[i].Name == name {
			d := describeWhole(&reports[i], time.Now())
			d.Backend = addWrong([]admin.Backend{d.Backend}, wrong)[0]
			return d, nil
		}
	}
	for _, b := range addWrong(nil, wrong) {
		if b.Name == name {
			return admin.BackendDetail{Backend: b, Options: []string{}, Running: []admin.BackendInstance{}, Ended: []admin.BackendEnd{}}, nil
		}
	}
	return admin.BackendDetail{}, admin.ErrNoBackend
}

// addWrong adds those that cannot be used, behind the others: to the one of the same name, which goes on as it was, or each by itself.
func addWrong(all []admin.Backend, wrong []WrongBackend) []admin.Backend {
	for _, w := range wrong {
		if i := slices.IndexFunc(all, func(b admin.Backend) bool { return b.Name == w.Name }); i >= 0 {
			all[i].Wrong = w.Why
			continue
		}
		all = append(all, admin.Backend{Name: w.Name, Era: "unknown", State: admin.BackendWrong, Wrong: w.Why})
	}
	return all
}

// BackendLog implements [admin.Backends].
func (o Operated) BackendLog(_ context.Context, name, from string) (admin.BackendLog, error) {
	of, ok := o.operations()
	if !ok {
		return admin.BackendLog{}, admin.ErrNoBackend
	}
	page, err := of.Journal(name, from)
	l := admin.BackendLog{Lines: []admin.BackendLine{}, Missed: page.Missed, Next: page.Next}
	for _, line := range page.Lines {
		l.Lines = append(l.Lines, admin.BackendLine{Time: line.At, PID: line.Of.PID(), Stderr: line.Stderr, Text: line.Text})
	}
	return l, operatedError(err)
}

// RestartBackend implements [admin.Backends].
func (o Operated) RestartBackend(_ context.Context, name string, atOnce bool) (admin.BackendRestart, error) {
	of, ok := o.operations()
	if !ok {
		return admin.BackendRestart{}, admin.ErrNoBackend
	}
	did, err := of.Restart(name, atOnce)
	return admin.BackendRestart{Ended: did.Ended, Ending: did.Ending, Calls: did.Calls, Failures: did.Failures, Refused: did.Opened, Reason: did.Detail}, operatedError(err)
}

// describeBackend is what a list tells of a backend.
func describeBackend(r *backend.Report, now time.Time) admin.Backend {
	p := &r.Pool
	target, _ := hostfile.ShowBackend(r.Target, r.Options)
	b := admin.Backend{
		Name: r.Name, Target: target, Era: "unknown", Waiting: p.Waiting, Memory: r.Memory,
		Instances: admin.InstanceCounts{Starting: p.Starting, Idle: p.Idle, Serving: p.Serving, Stopping: p.Stopping, Max: max(r.Options.Pool.Max, 0)},
	}
	if r.Known != nil {
		b.Era = r.Known.Settled.Found.String()
	}
	if pinned := string(r.Options.Era); pinned != "" {
		b.Era = pinned
	}
	for _, revision := range r.Revisions {
		b.Revisions = append(b.Revisions, revision.String())
	}
	b.State = stateOf(p)
	if b.State == admin.BackendDown {
		b.Reason, b.Refused = p.Detail, p.Open
		if p.Until.After(now) {
			b.Retry = &p.Until
		}
	}
	if f := r.Failed; f.Failed != "" {
		b.LastFailure = &admin.BackendFailure{Time: f.At, Text: strings.TrimSuffix(f.Failed+": "+f.Status, ": ")}
	}
	return b
}

// stateOf is the state of a backend.
func stateOf(p *pool.Report) string {
	switch {
	case p.Idle+p.Serving > 0:
		return admin.BackendRunning
	case p.Starting > 0:
		return admin.BackendStarting
	case p.Failures > 0:
		return admin.BackendDown
	}
	return admin.BackendStopped
}

// describeWhole is all that is told of a backend.
func describeWhole(r *backend.Report, now time.Time) admin.BackendDetail {
	d := admin.BackendDetail{Backend: describeBackend(r, now), Running: []admin.BackendInstance{}, Ended: []admin.BackendEnd{}}
	_, d.Options = hostfile.ShowBackend(r.Target, r.Options)
	if r.Known != nil {
		n := func(of listing.Of) int { return len(r.Known.Items[of]) }
		d.Lists = &admin.BackendLists{Tools: n(listing.Tools), Prompts: n(listing.Prompts), Resources: n(listing.Resources), Templates: n(listing.Templates)}
	}
	for i := range r.Instances {
		d.Running = append(d.Running, describeInstance(&r.Instances[i]))
	}
	for _, e := range r.Ends {
		d.Ended = append(d.Ended, describeEnd(&e))
	}
	return d
}

// describeInstance is what is told of an instance. The id of a session is a credential of its client: the tag of it is told that logs have.
func describeInstance(in *backend.InstanceReport) admin.BackendInstance {
	out := admin.BackendInstance{PID: in.PID, State: string(in.Activity), Ends: in.Ends, Holder: string(in.Holder), Since: in.Began, Calls: in.Calls, Memory: in.Memory}
	switch in.Holder {
	case backend.OfSession:
		tenant, id, _ := strings.Cut(in.Session, "/")
		out.Session, out.Tenant = telemetry.Hash(id), tenant
	case backend.OfPrincipal:
		out.Tenant = cmp.Or(in.Principal, "anon")
	}
	return out
}

func describeEnd(e *journal.End) admin.BackendEnd {
	return admin.BackendEnd{Time: e.At, PID: e.PID, Reason: e.Reason, LivedMS: e.Lived.Milliseconds(), Status: e.Status}
}
