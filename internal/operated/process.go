// Package operated is a process as its operator sees it and changes it: [Process] implements
// [operator.Operator] for its node and the others on the store, and the calls, sessions and tasks of
// all principals.
//
// The methods of its types may be called from any goroutine.
package operated

import (
	"context"
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/cluster"
	"github.com/troupe-run/troupe/internal/worker"
	"github.com/troupe-run/troupe/operator"
)

// Process is the process that is looked at.
type Process struct {
	Store *cluster.Node
	Node  *actors.Node
	Pool  *worker.Pool // of tasks
	Log   *slog.Logger
	// Served returns the server of an id that is served here and its path, nil and "" if there is none.
	Served func(id string) (svc *actors.Service, path string)
	// Leaving reports whether the process drains. Dismiss has it drain, and reports whether nobody has before.
	Leaving func() bool
	Dismiss func() (first bool)
	// Tenants are those of a principal as an operator names it: see operator.Query. Names are the subject
	// and the whole name of the principal of a call, and what is shown of that; "" if it is anonymous.
	Tenants func(name string) []string
	Names   func(principal any) (subject, full, shown string)
}

var _ operator.Operator = (*Process)(nil)

// whose says which tenants a query is about.
type whose struct {
	anybody bool
	tenants []string
	name    string
}

func (p *Process) whose(principal string) whose {
	if principal == "" {
		return whose{anybody: true}
	}
	return whose{tenants: p.Tenants(principal), name: principal}
}

// includes reports whether a tenant is one of them.
func (w whose) includes(tenant string) bool { return w.anybody || slices.Contains(w.tenants, tenant) }

// includesCall reports whether a call is of one of them, or its principal is named so. Its issuer may be
// known to the program alone.
func (p *Process) includesCall(w whose, tenant string, principal any) bool {
	if w.includes(tenant) {
		return true
	}
	subject, full, _ := p.Names(principal)
	return w.name != "" && (subject == w.name || full == w.name)
}

// includesTask is the same of a task, whose maker is read only where its name begins as it was named.
func (p *Process) includesTask(ctx context.Context, w whose, t *worker.Snapshot) (bool, error) {
	if w.includes(t.Key.Tenant) {
		return true, nil
	}
	if w.name == "" || !strings.HasPrefix(t.Record.Who, w.name) {
		return false, nil
	}
	maker, err := p.Pool.Maker(ctx, t.Key)
	subject, full, _ := p.Names(maker)
	return subject == w.name || full == w.name, err
}

// isOf reports whether a server is that of a query, which names its path or its id.
func (p *Process) isOf(server, wanted string) bool {
	return wanted == "" || server == wanted || p.pathOf(server) == wanted
}

// pathOf returns the path of a server, or its id if it is not served here.
func (p *Process) pathOf(id string) string {
	if _, path := p.Served(id); path != "" {
		return path
	}
	return id
}

// release is the version of this module in the program, as other nodes are told.
var release = sync.OnceValue(func() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	const module = "github.com/troupe-run/troupe"
	if info.Main.Path == module {
		return info.Main.Version
	}
	for _, d := range info.Deps {
		if d.Path == module {
			return d.Version
		}
	}
	return ""
})

// Load is what the node tells the others of itself.
func (p *Process) Load() cluster.Load {
	s := p.Node.Stats()
	return cluster.Load{Draining: p.Leaving(), Calls: s.InFlight, Streams: s.Streams, Sessions: s.Sessions, Release: release()}
}
