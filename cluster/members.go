package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/internal/letter"
	"github.com/troupe-run/troupe/internal/program"
	"github.com/troupe-run/troupe/internal/store"
)

// Member is what is known of a boot of a node.
type Member struct {
	store.Address
	Self    bool
	Heard   time.Duration // how long ago; below 0: not at all, or not for long
	Held    bool          // it has its entry in the store
	Left    time.Duration // of its lease, if Held and heard: at most 0 for one that is late
	Since   time.Time     // when it registered, if Held
	Servers []string      // the ids of what it serves, if Held; of more than 64 there are none
	Load    *Load         // nil: it did not say
}

// Members is this node among those that share its store: its lease, its letters, and what it knows of
// the others.
type Members struct {
	*messages
	lease   *lease
	keyring *Keyring
	mail    *Mail                  // nil: there are no other nodes
	clash   atomic.Pointer[string] // what another program has under the same id; nil without
}

// memberSilence is after which silence a boot without an entry is a member no more.
const memberSilence = 10 * time.Minute

// ListMembers lists the boots that have an entry in the store, and those that had one and were heard within ten minutes, by their
// names. Only an entry says that a node is there, and nodes that do not share their servers hear nobody.
//
// How much is left of a lease is reckoned from what the node said with its last heart, so that no two clocks are compared.
func (n *Members) ListMembers(ctx context.Context) ([]Member, error) {
	entries, err := n.readEntries(ctx)
	if err != nil {
		return nil, err
	}
	var heard map[store.Address]known
	if n.mail != nil {
		heard = n.mail.hearts.heardWithin(memberSilence, time.Now())
	}
	all := make(map[store.Address]Member)
	for name, e := range entries {
		m := Member{Address: store.Address{Node: name, Boot: e.Boot}, Heard: -1, Held: true, Since: e.Since, Servers: e.Servers}
		if m.Self = m.Address == (store.Address{Node: n.name, Boot: n.boot}); m.Self {
			m.Heard, m.Left = 0, n.opts.Lease-n.lease.renewalAge()
		}
		all[m.Address] = m
	}
	for p, k := range heard {
		m, held := all[p]
		if _, other := entries[p.Node]; other && !held {
			continue // A later boot has taken its place.
		}
		m.Address, m.Heard, m.Load = p, k.ago, k.beat.load
		if held {
			m.Left = n.opts.Lease - time.Duration(k.beat.age)*time.Millisecond - k.ago
		}
		all[p] = m
	}
	return slices.SortedFunc(maps.Values(all), func(a, b Member) int { return strings.Compare(a.Node+" "+a.Boot, b.Node+" "+b.Boot) }), nil
}

// Mail returns what carries messages to other nodes, or nil if no others can be there: the server is in this process.
func (n *Members) Mail() *Mail { return n.mail }

// Keys returns the fleet's key ring.
func (n *Members) Keys() *Keyring { return n.keyring }

// Suspended reports whether the lease was not renewed in time. The time counts
// from the sending of the last successful renewal, on this process's monotonic
// clock. A suspended node must take no new work. It resumes by itself, under the
// same boot nonce, unless a newer boot has its name.
func (n *Members) Suspended() bool { return n.lease.renewalAge() > n.opts.Lease }

// Lapsed reports whether the node has been suspended for as long as its lease lasts: others that live have taken it for gone by then.
func (n *Members) Lapsed() bool { return n.lease.renewalAge() > 2*n.opts.Lease }

// SuspendedFor returns for how long the node was suspended, in all, since its start.
func (n *Members) SuspendedFor() time.Duration { return n.lease.timeSuspended() }

// Leases counts the nodes that have their lease, this one included, and those that were heard within ten minutes and have not
// renewed it in time, nor said goodbye, nor been replaced. It reckons by their hearts, without a question to the store.
func (n *Members) Leases() (held, late int) {
	count := func(left time.Duration) {
		if left > 0 {
			held++
		} else {
			late++
		}
	}
	count(n.opts.Lease - n.lease.renewalAge())
	if n.mail == nil {
		return held, late
	}
	latest := make(map[string]known)
	for p, k := range n.mail.hearts.heardWithin(memberSilence, time.Now()) {
		if old, ok := latest[p.Node]; p.Node != n.name && (!ok || old.beat.entry < k.beat.entry) {
			latest[p.Node] = k
		}
	}
	for _, k := range latest {
		count(n.opts.Lease - time.Duration(k.beat.age)*time.Millisecond - k.ago)
	}
	return held, late
}

// Steady reports whether this node has had its lease for a while without a break, so that what it does not hear of others says something about them.
func (n *Members) Steady() bool { return n.lease.isSteady() }

// Gone is the one judge of whether a boot is dead, so that others may take over what it wrote. It has three answers: true; false, the boot
// is there; and an error, which wraps ErrUnavailable: this node cannot tell.
//
// A boot is gone when another one has its node's name, when it is noted that it has left, or when it has no entry. The last says nothing
// before this node has held its own lease for a while without a break: what has kept the one from the servers may have kept the other. And
// in any case this node's own entry is renewed after that was seen, as a node that is cut off itself cannot tell.
func (n *Members) Gone(ctx context.Context, p store.Address) (bool, error) {
	gone, err := n.judgeGone(ctx, p)
	if err != nil {
		return false, fmt.Errorf("%w: whether node %.32q is there: %w", store.ErrUnavailable, p.Node, err)
	}
	return gone, nil
}

func (n *Members) judgeGone(ctx context.Context, p store.Address) (bool, error) {
	if !validName(p.Node) || !validName(p.Boot) { // It was never there.
		return true, n.lease.confirmRenewal(ctx)
	}
	look := func(get func(ctx context.Context, stream, subject string) ([]byte, uint64, error)) (there, another bool, err error) {
		data, _, err := get(ctx, n.streamName("nodes"), n.subjectOf("nodes."+p.Node))
		if errors.Is(err, store.ErrNotFound) {
			return false, false, nil
		}
		var e entry
		there = err == nil && json.Unmarshal(data, &e) == nil && e.Boot == p.Boot
		return there, !there, err
	}
	there, another, err := look(n.getRecord)
	if err == nil && !there {
		err = n.lease.confirmRenewal(ctx)
	}
	switch {
	case err != nil || there:
		return false, err
	case another:
		return true, nil
	case n.lease.isSteady(): // The renewal may have shown that others before it did not come.
		if n.replicas > 1 { // Only now is it worth a write, which the entry of a node that comes back would meet.
			there, _, err = look(n.findRecord)
		}
		return err == nil && !there, err
	}
	why, _, err := n.getRecord(ctx, n.streamName("nodes"), n.subjectOf(takenKey(p.Boot)))
	switch {
	case string(why) == hasLeft: // One whose streams were taken over may be back.
		return true, nil
	case err == nil, errors.Is(err, store.ErrNotFound):
		return false, errNotSteady
	}
	return false, err
}

var errNotSteady = errors.New("this node has not had its lease for long enough to tell")

// MarkTaken notes, for a time, that a boot is gone, before the first of its streams is taken over. A process that was cut off for so long that
// the writer records of its streams have expired learns from that whether any of them may have been another's meanwhile. Of a boot that has
// left it stays known that it has: those that have just begun could not tell otherwise, and would hold whoever comes for its streams.
func (n *Members) MarkTaken(ctx context.Context, boot string, ttl time.Duration) error {
	why := "taken"
	if validName(boot) {
		if before, _, err := n.getRecord(ctx, n.streamName("nodes"), n.subjectOf(takenKey(boot))); err == nil && string(before) == hasLeft {
			why = hasLeft
		}
	}
	return n.markTaken(ctx, boot, why, ttl)
}

func (n *Members) markTaken(ctx context.Context, boot, why string, ttl time.Duration) error {
	if !validName(boot) {
		return fmt.Errorf("%w: boot %.32q", store.ErrBadKey, boot)
	}
	_, err := n.putMessage(ctx, n.subjectOf(takenKey(boot)), encodeRecord([]byte(why)), ttl, guard{any: true})
	if err != nil {
		return fmt.Errorf("cluster: note that boot %s is gone: %w", boot, err)
	}
	return nil
}

// Taken reports whether it is noted anywhere that this boot is gone (MarkTaken): others may have had its streams. False is certain.
func (n *Members) Taken(ctx context.Context) (bool, error) {
	_, _, err := n.findRecord(ctx, n.streamName("nodes"), n.subjectOf(takenKey(n.boot)))
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return false, fmt.Errorf("cluster: whether others have taken this boot for gone: %w", err)
	}
	return err == nil, nil
}

// takenKey is the key of what says that a boot is gone. It is beside the entries, which have one token more.
func takenKey(boot string) string { return "nodes.taken." + boot }

// hasLeft is what a mark says of a boot that never comes back.
const hasLeft = "left"

// voidLeases deletes all node entries, one by one. To empty a whole stream the
// server exchanges directories, and a kill can interrupt that.
func (n *Members) voidLeases(ctx context.Context) error {
	subjects, err := n.listSubjects(ctx, "nodes", "nodes.*")
	if err != nil {
		return err
	}
	for subject := range subjects {
		s, err := n.lastMessage(ctx, n.streamName("nodes"), subject)
		if err == nil {
			err = n.deleteMessage(ctx, n.streamName("nodes"), s.seq)
		}
		// An entry that expires just now is as good as deleted.
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
	}
	return nil
}

// checkOthers refuses to join a node whose letters this one cannot read, and one which has other settings. Of two that start together, the one that registered first stays: before
// is the revision of the first entry of this boot, or 0 while it has none.
func (n *Members) checkOthers(ctx context.Context, before uint64) error {
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
func (n *Members) readEntries(ctx context.Context) (map[string]entry, error) {
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

// Serves says which servers the node has, by their ids, and what they are. A node that is heard and has others for a minute, or the same with other tools, is
// logged: its clients find there what they do not find here, or the other way round.
func (n *Members) Serves(all map[string]program.Program) {
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
func (n *Members) Admits(ctx context.Context) error {
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

// Clash says that another node serves another program under an id of this one, and did so first; nil if none is known.
func (n *Members) Clash() error {
	if what := n.clash.Load(); what != nil {
		return fmt.Errorf("another program is on the same NATS servers: %s", *what)
	}
	return nil
}

// sayStrange logs what another node serves otherwise than this one.
func (n *Members) sayStrange(ctx context.Context, p store.Address, e *entry, mine program.Claims) {
	node := slog.String("node", p.Node)
	if !mine.Few() || len(e.Servers) == 0 {
		n.log.LogAttrs(ctx, slog.LevelWarn, "another process on the same NATS servers does not serve the same, or as another program, or with other tools", node)
		return
	}
	if there, here := without(e.Servers, mine.IDs()), without(mine.IDs(), e.Servers); len(there)+len(here) > 0 {
		n.log.LogAttrs(ctx, slog.LevelWarn, "another process on the same NATS servers does not serve the same: requests to some paths fail there or here",
			node, slog.Any("only_there", there), slog.Any("only_here", here))
	}
	if others := mine.OtherTools(e.Programs); len(others) > 0 {
		n.log.LogAttrs(ctx, slog.LevelWarn, "another process on the same NATS servers has other tools, as while a new release takes the place of an old one", node, slog.Any("servers", others))
	}
}

// without returns what is in a and not in b.
func without(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return slices.Contains(b, s) })
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

// look reads the entries of strangers, and logs those that have been so for long.
func (s strangers) look(ctx context.Context, n *Members) {
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
