package backend

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/troupe-run/troupe/host"
	"github.com/troupe-run/troupe/internal/backend/journal"
	"github.com/troupe-run/troupe/internal/backend/pool"
	"github.com/troupe-run/troupe/mcp"
)

// Counts are the instances of a backend in each state, the calls that wait for one, and the bytes that its processes had when that was
// looked at last: for the counts before these, or to hold them to [host.Pool.MaxMemory].
type Counts struct {
	pool.Counts
	Memory int64
}

// Counts returns those of each backend, by its name; nil once the pool is closed.
func (b *Backends) Counts() (all map[string]Counts) {
	b.pool.visitPool(func(a *poolActor, _ time.Time) {
		a.shown = true
		all = make(map[string]Counts)
		for name, c := range a.pool.Counts() {
			all[name] = Counts{Counts: c}
		}
		for _, in := range a.instances {
			c := all[in.of.Name]
			c.Memory += in.memoryBytes
			all[in.of.Name] = c
		}
	})
	return all
}

// Operations are what an operator sees of Backends, and does to them.
type Operations struct{ *Backends }

// The errors of Operations: nothing was done.
var (
	ErrNoBackend = errors.New("backend: there is none of this name")
	ErrClosed    = errors.New("backend: the node ends")
)

// A Report is how it stands with a backend. Its texts have no secrets, but for those that [Backend] has.
type Report struct {
	Backend
	Pool      pool.Report
	Memory    int64 // bytes that its processes have; 0 where nobody knows
	Known     *Catalogue
	Revisions []mcp.Revision // that its instances speak, as far as it is known; Known has its era
	Instances []InstanceReport
	Ends      []journal.End // of the last instances, the oldest first
	Failed    journal.End   // the last failure, zero if there was none
}

// An InstanceReport is what a Report has of an instance.
type InstanceReport struct {
	pool.Instance
	PID       int // 0 for what is no process, and until it has started
	Holder    HolderKind
	Session   string // whose it is, a secret; "" if it is of none
	Principal string // of that session, or whose it is; "" where nobody says who calls
	Began     time.Time
	Memory    int64
}

// A HolderKind is what an instance belongs to.
type HolderKind string

// The kinds of holders.
const (
	OfSession   HolderKind = "session"
	OfPrincipal HolderKind = "principal"
	OfCall      HolderKind = "call"   // a call without a session
	OfAll       HolderKind = "all"    // everybody shares it
	OfNobody    HolderKind = "nobody" // yet: it is a spare
)

// measureWait bounds how long an operator waits for what memory processes have.
const measureWait = 2 * time.Second

// Reports returns that of each backend, in the order of the configuration. ErrClosed.
func (o Operations) Reports(ctx context.Context) ([]Report, error) {
	if client := o.keep.running(); client != nil {
		patience, cancel := context.WithTimeout(ctx, measureWait)
		measureProcesses(patience, o.Backends, client) // before the pool is asked
		cancel()
	}
	var all []Report
	o.pool.visitPool(func(a *poolActor, now time.Time) { all = a.report(now) })
	if all == nil {
		return nil, ErrClosed
	}
	for i := range all {
		r := &all[i]
		r.Known, r.Revisions = o.catalogues.knownOf(r.Digest)
		r.Ends, r.Failed = o.journals.Ends(r.Name)
	}
	return all, nil
}

// Journal returns the lines of a backend from where a page ended: see [journal.Journals.Read]. ErrNoBackend.
func (o Operations) Journal(name, from string) (journal.Page, error) {
	if _, ok := o.find(name); !ok {
		return journal.Page{}, ErrNoBackend
	}
	return o.journals.Read(name, from), nil
}

// Restart has new instances take the place of those of a backend, which end when their calls have, or atOnce. ErrNoBackend, ErrClosed.
func (o Operations) Restart(name string, atOnce bool) (did pool.Restart, err error) {
	err = ErrClosed
	o.pool.visitPool(func(a *poolActor, now time.Time) {
		if a.closed {
			return
		}
		var known bool
		var todo []pool.Effect
		if did, known, todo = pool.RestartBackend(a.pool, now, name, atOnce); !known {
			err = ErrNoBackend
			return
		}
		err = nil
		const text = "an operator has restarted a backend"
		a.b.c.Log.Info(text, "backend", name, "ended", did.Ended, "ending", did.Ending, "at_once", atOnce)
		a.b.journals.Add(name, journal.Line{At: now, Text: text})
		a.carryOut(todo)
	})
	return did, err
}

// report returns what the pool and the instances know of each backend. It is not nil.
func (a *poolActor) report(now time.Time) []Report {
	all := *a.b.all.Load()
	reports := make([]Report, len(all))
	known := a.pool.Reports(now)
	for i := range all {
		r := &reports[i]
		r.Backend, r.Pool = all[i], known[all[i].Name]
		for _, of := range r.Pool.Instances {
			in := a.instances[of.ID]
			if in == nil {
				continue
			}
			r.Memory += in.memoryBytes
			r.Instances = append(r.Instances, instanceReport(in, of))
		}
	}
	return reports
}

// instanceReport is what operators are told of an instance that the pool tells of.
func instanceReport(in *instance, of pool.Instance) InstanceReport {
	return InstanceReport{
		Instance: of, PID: int(in.pid.Load()), Holder: in.holderKind(of.Calls > 0),
		Session: in.session(), Principal: in.principal(), Began: in.began, Memory: in.memoryBytes,
	}
}

// holderKind is what the instance belongs to, which may serve calls at the moment.
func (in *instance) holderKind(serves bool) HolderKind {
	holder := in.holder()
	switch {
	case in.of.Options.Isolation == host.Shared:
		return OfAll
	case sessionOf(holder) != "":
		return OfSession
	case strings.HasPrefix(holder, principalPrefix):
		return OfPrincipal
	case holder != "", serves:
		return OfCall
	}
	return OfNobody
}
