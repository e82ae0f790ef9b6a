package backend

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/troupe-run/troupe/host"
	"github.com/troupe-run/troupe/internal/backend/pool"
	"github.com/troupe-run/troupe/internal/keeper"
	"github.com/troupe-run/troupe/internal/upstream"
)

// A Backend is a server of others, as it is configured.
type Backend struct {
	Name string
	// Digest is the same for two configurations of which an instance cannot tell which one it runs with.
	Digest  string
	Target  host.Target
	Options host.Options // with their defaults
	// Mask hides secrets in a text of the backend; nil hides nothing.
	Mask func(text string) string
}

func (b *Backend) mask(text string) string {
	if b.Mask == nil {
		return text
	}
	return b.Mask(text)
}

// hasLines reports whether the backend speaks in lines, so that nothing says which call a question is of.
func (b *Backend) hasLines() bool {
	_, isURL := b.Target.URL()
	return !isURL
}

func (b *Backend) isCommand() bool {
	_, _, ok := b.Target.Command()
	return ok
}

// configuredEra is what the configuration says of the backend's era.
func (b *Backend) configuredEra() (era upstream.Era, pinned bool) {
	switch b.Options.Era {
	case host.Legacy:
		return upstream.EraLegacy, true
	case host.Modern:
		return upstream.EraModern, true
	}
	return upstream.EraUnknown, false
}

// How instances are looked after. They are no settings: a backend that does not keep them is one that nobody could use.
const (
	pingEvery  = 30 * time.Second
	pingWait   = 10 * time.Second
	cancelWait = 5 * time.Second
)

var isolations = map[host.Isolation]pool.Isolation{host.BySession: pool.BySession, host.ByPrincipal: pool.ByPrincipal, host.ByCall: pool.ByCall, host.Shared: pool.Shared}

// terms are those of the backend in the pool.
func (b *Backend) terms() pool.Terms {
	p := &b.Options.Pool
	return pool.Terms{
		Isolation: isolations[b.Options.Isolation], Warm: p.Warm, Max: p.Max, PerPrincipal: p.MaxPerPrincipal, Queue: p.Queue,
		StartTimeout: p.StartTimeout, Idle: max(p.Idle, 0), MaxLife: p.MaxLife, Memory: p.MaxMemory,
		PingEvery: pingEvery, PingWait: pingWait, CancelWait: cancelWait,
	}
}

// passedOn are the variables of this process that each command gets.
var passedOn = []string{"HOME", "PATH", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "TZ"}

// spec says how a process of the backend is started.
func (b *Backend) spec(lookup func(string) (string, bool), id, note, dir string) keeper.Spec {
	name, args, _ := b.Target.Command()
	s := keeper.Spec{ID: id, Note: note, Command: append([]string{name}, args...), Dir: dir, Confine: keeperConfinement(&b.Options.Confinement)}
	if b.Options.Dir != "" {
		s.Dir = b.Options.Dir
	}
	for _, variable := range passedOn {
		if value, ok := lookup(variable); ok && b.Options.Env[variable] == "" {
			s.Env = append(s.Env, variable+"="+value)
		}
	}
	for _, variable := range slices.Sorted(maps.Keys(b.Options.Env)) {
		s.Env = append(s.Env, variable+"="+b.Options.Env[variable])
	}
	return s
}

// keeperConfinement is what a keeper is told of a confinement.
func keeperConfinement(c *host.Confinement) keeper.Confine {
	out := keeper.Confine{
		Privileges: keeper.Mode(c.NoNewPrivs),
		Limits:     keeper.Mode(c.Rlimits.Enforce), OpenFiles: uint64(c.Rlimits.OpenFiles), Processes: uint64(c.Rlimits.Processes), AddressSpace: uint64(c.Rlimits.AddressSpace),
		FileSize: uint64(c.Rlimits.FileSize), CPU: uint64((c.Rlimits.CPU + time.Second - 1) / time.Second),
		Files:     keeper.Mode(c.Files.Enforce),
		NoNetwork: keeper.Mode(c.NoNetwork), OwnPIDs: keeper.Mode(c.OwnPIDs),
		Cgroup: keeper.Mode(c.Cgroup.Enforce), Memory: uint64(c.Cgroup.Memory), Threads: uint64(c.Cgroup.Processes), CPUs: c.Cgroup.CPUs,
	}
	if c.Files.Enforce == host.Off {
		return out
	}
	for _, path := range c.Files.Read { // those of the system are the keeper's to add, as far as they are there
		out.Paths = append(out.Paths, keeper.Allowance{Path: path})
	}
	for _, path := range c.Files.Write {
		out.Paths = append(out.Paths, keeper.Allowance{Path: path, Write: true})
	}
	return out
}

// missingConfinement is what a process is not confined to, in a sentence.
func missingConfinement(p *keeper.Process) string { return strings.Join(p.Unenforced(), "; ") }

// awaitSignal waits until something comes from a channel, or it is closed, and reports whether that was before a time was over.
func awaitSignal(clock upstream.Clock, c <-chan struct{}, most time.Duration) bool {
	over := make(chan struct{})
	defer clock.AfterFunc(most, func() { close(over) })()
	select {
	case <-c:
		return true
	case <-over:
		return false
	}
}
