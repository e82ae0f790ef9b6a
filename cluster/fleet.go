package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-run/troupe/internal/letter"
	"github.com/troupe-run/troupe/internal/program"
	"github.com/troupe-run/troupe/internal/store"
)

// givenSettings are those that the node was given. What it was not given it takes as it is.
func (o *Options) givenSettings() map[string]string {
	all := make(map[string]string)
	for _, s := range o.Alike {
		all[s.Name] = s.Value
	}
	if o.sized {
		all["max-store"] = strconv.FormatInt(o.MaxStore, 10)
	}
	if o.Shards != 0 {
		all["shards"] = strconv.Itoa(o.Shards)
	}
	if o.Remote.Replicas != 0 {
		all["nats-replicas"] = strconv.Itoa(o.Remote.Replicas)
	}
	return all
}

// checkOthers refuses to join a node whose letters this one cannot read, and one which has other settings. Of two that start together, the one that registered first stays: before
// is the revision of the first entry of this boot, or 0 while it has none.
func (n *Node) checkOthers(ctx context.Context, before uint64) error {
	all, err := n.readEntries(ctx)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		e := all[name]
		if name == n.name || before != 0 && e.First > before {
			continue
		}
		if e.Letters < letter.Oldest {
			return n.remoteFault(fmt.Errorf("node %s, which is there, is of an earlier release: it writes messages of version %d to other nodes, and this one reads versions %d to %d", name, max(e.Letters, 1), letter.Oldest, letter.Version),
				"end all processes of that release first; what is stored stays")
		}
		if what := describeUnlike(e.Settings, n.opts.givenSettings()); what != "" {
			return n.remoteFault(fmt.Errorf("node %s, which is there, has other settings: %s", name, what),
				"give this one the same, or end all others first")
		}
	}
	return nil
}

// describeUnlike names the settings that both have, and not alike.
func describeUnlike(there, here map[string]string) string {
	var what []string
	for _, name := range slices.Sorted(maps.Keys(here)) {
		if other, ok := there[name]; ok && other != here[name] {
			what = append(what, fmt.Sprintf("%s is %s there and %s here", name, other, here[name]))
		}
	}
	return strings.Join(what, ", ")
}

// readEntries reads the entries of all nodes that are there, but for those that a newer release wrote in a form of its own.
func (n *Node) readEntries(ctx context.Context) (map[string]entry, error) {
	subjects, err := n.listSubjects(ctx, "nodes", "nodes.*")
	if err != nil {
		return nil, err
	}
	all := make(map[string]entry, len(subjects))
	for subject := range subjects {
		data, rev, err := n.getRecord(ctx, n.streamName("nodes"), subject)
		switch {
		case errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrDamaged) || errors.Is(err, store.ErrNewer):
			continue
		case err != nil:
			return nil, err
		}
		if e, ok := readEntry(data, rev); ok {
			all[strings.TrimPrefix(subject, n.subjectOf("nodes."))] = e
		}
	}
	return all, nil
}

// readEntry decodes an entry of revision rev.
func readEntry(data []byte, rev uint64) (e entry, ok bool) {
	if json.Unmarshal(data, &e) != nil {
		return e, false
	}
	e.First = cmp.Or(e.First, rev) // The first one is written before its revision is known.
	e.Programs.Read(rev)
	return e, true
}

// Serves says which servers the node has, by their ids, and what they are. A node that is heard and has others for a minute, or the same with other tools, is
// logged: its clients find there what they do not find here, or the other way round.
func (n *Node) Serves(all map[string]program.Program) {
	l := n.lease
	l.mu.Lock()
	defer l.mu.Unlock()
	l.claims = program.Of(all, l.claims)
	l.serves, l.programs = l.claims.Digests()
	if l.entry.Servers, l.entry.Programs = l.claims.IDs(), l.claims; !l.claims.Few() {
		l.entry.Servers, l.entry.Programs = nil, nil
	}
}

// admission bounds the time to find out whether others have another program, when a server is mounted.
const admission = 2 * time.Second

// Admits returns ErrRemote if another node serves another program under an id of this one, and did so first. It writes the entry to find that out; where that
// fails nobody can tell, and the later of two logs it as soon as it can, and must not serve (Clash).
func (n *Node) Admits(ctx context.Context) error {
	if n.mail == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, admission)
	defer cancel()
	err := n.lease.confirmRenewal(ctx)
	var all map[string]entry
	if err == nil {
		all, err = n.readEntries(ctx)
	}
	if err != nil {
		n.log.Warn("whether other processes on the NATS servers are the same program is not known yet", "error", err)
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if name == n.name {
			continue
		}
		if what := n.lease.earlierProgram(all[name].Programs); what != "" {
			return n.remoteFault(fmt.Errorf("node %s, which is there, is another program: %s", name, what),
				"give one of the two servers another id, or the processes another prefix, or end all others first")
		}
	}
	return nil
}

// earlierProgram says which other programs another node had before this one.
func (l *lease) earlierProgram(there program.Claims) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.entry.Programs.Earlier(there)
}

// Clash says that another node serves another program under an id of this one, and did so first; nil if none is known.
func (n *Node) Clash() error {
	if what := n.clash.Load(); what != nil {
		return fmt.Errorf("another program is on the same NATS servers: %s", *what)
	}
	return nil
}

// strangers are the nodes that were heard and do not serve what this one serves.
type strangers map[store.Address]*strange

type strange struct {
	since time.Time // or when it was logged
	read  [2]uint64 // what this node and that one served when its entry was read; zeros: it was not
	clash string    // see lease.earlierProgram
}

// strangerAfter is how long nodes may serve something else than this one, as while they are started one by one.
const strangerAfter = time.Minute

// lookAtStrangers reads the entries of strangers, and logs those that have been so for long.
func (s strangers) lookAtStrangers(ctx context.Context, n *Node) {
	l := n.lease
	l.mu.Lock()
	self, mine := beat{serves: l.serves, programs: l.programs}, l.claims
	l.mu.Unlock()
	now, found, clash := time.Now(), n.mail.hearts.servingOtherwise(self, n.mail.Others()), (*string)(nil)
	maps.DeleteFunc(s, func(p store.Address, _ *strange) bool { _, still := found[p]; return !still })
	for p, b := range found {
		x := s[p]
		if x == nil {
			x = &strange{since: now}
			s[p] = x
		}
		long := now.Sub(x.since) >= strangerAfter
		if serve := [2]uint64{self.programs, b.programs}; serve != x.read || long {
			data, rev, err := n.getRecord(ctx, n.streamName("nodes"), n.subjectOf("nodes."+p.Node))
			if e, ok := readEntry(data, rev); err == nil && ok && e.Boot == p.Boot {
				before := x.clash
				x.clash = l.earlierProgram(e.Programs)
				if _, is := e.Programs.Digests(); is == b.programs || len(e.Programs) == 0 { // Otherwise its heart was quicker than its entry.
					x.read = serve
				}
				if x.clash != "" && (x.clash != before || long) {
					n.log.LogAttrs(ctx, slog.LevelError, "this process must not serve: another program is on the same NATS servers", slog.String("node", p.Node), slog.String("what", x.clash))
				}
				if long {
					n.sayStrange(ctx, p, &e, mine)
				}
			}
		}
		if long {
			x.since = now
		}
		if what := x.clash; what != "" { // a copy, as Clash reads it meanwhile
			clash = &what
		}
	}
	n.clash.Store(clash)
}

// sayStrange logs what another node serves otherwise than this one.
func (n *Node) sayStrange(ctx context.Context, p store.Address, e *entry, mine program.Claims) {
	node := slog.String("node", p.Node)
	if !mine.Few() || len(e.Servers) == 0 {
		n.log.LogAttrs(ctx, slog.LevelWarn, "another process on the same NATS servers does not serve the same, or as another program, or with other tools", node)
		return
	}
	if there, here := withoutThose(e.Servers, mine.IDs()), withoutThose(mine.IDs(), e.Servers); len(there)+len(here) > 0 {
		n.log.LogAttrs(ctx, slog.LevelWarn, "another process on the same NATS servers does not serve the same: requests to some paths fail there or here",
			node, slog.Any("only_there", there), slog.Any("only_here", here))
	}
	if others := mine.OtherTools(e.Programs); len(others) > 0 {
		n.log.LogAttrs(ctx, slog.LevelWarn, "another process on the same NATS servers has other tools, as while a new release takes the place of an old one", node, slog.Any("servers", others))
	}
}

// withoutThose returns what is in a and not in b.
func withoutThose(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return slices.Contains(b, s) })
}
