// Package operator is what an operator is told of a process and does to it through the socket of
// package admin: its node and the others on the store, and the sessions and tasks of all principals.
//
// The methods of its types may be called from any goroutine.
package operator

import (
	"context"
	"log/slog"
	"runtime/debug"
	"sync"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/cluster"
	"github.com/troupe-run/troupe/internal/admin"
	"github.com/troupe-run/troupe/internal/worker"
)

// Process is the process that is looked at.
type Process struct {
	Store *cluster.Node
	Node  *actors.Node
	Tasks *worker.Pool
	Log   *slog.Logger
	// Served returns the server of an id that is served here and its path, nil and "" if there is none.
	Served func(id string) (svc *actors.Service, path string)
	// Leaving reports whether the process drains. Dismiss has it drain, and reports whether nobody has before.
	Leaving func() bool
	Dismiss func() (first bool)
}

// Operated is the process as package admin serves it, but for keys and revocations.
func (p *Process) Operated() admin.Operated {
	return admin.Operated{Tasks: tasks{p}, Sessions: sessions{p}, Fleet: fleet{p}}
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

// EndSession ends a session in the store. store.ErrNotFound: it has ended.
func (p *Process) EndSession(ctx context.Context, s *cluster.StoredSession) error {
	svc, _ := p.Served(s.Server)
	return p.Node.EndSession(ctx, svc, actors.SessionKey{Tenant: s.Tenant, Server: s.Server, ID: s.ID})
}
