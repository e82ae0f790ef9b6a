package cluster

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-run/troupe/internal/letter"
)

// settings are those that the node was given. What it was not given it takes as it is.
func (o *Options) settings() map[string]string {
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

// fits refuses to join a node whose letters this one cannot read, and one which has other settings. Of two that start together, the one that registered first stays: before
// is the revision of the first entry of this boot, or 0 while it has none.
func (n *Node) fits(ctx context.Context, before uint64) error {
	all, err := n.entries(ctx)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		e := all[name]
		if name == n.name || before != 0 && e.First > before {
			continue
		}
		if e.Letters < letter.Oldest {
			return n.fault(fmt.Errorf("node %s, which is there, is of an earlier release: it writes messages of version %d to other nodes, and this one reads versions %d to %d", name, max(e.Letters, 1), letter.Oldest, letter.Version),
				"end all processes of that release first; what is stored stays")
		}
		if what := unlike(e.Settings, n.opts.settings()); what != "" {
			return n.fault(fmt.Errorf("node %s, which is there, has other settings: %s", name, what),
				"give this one the same, or end all others first")
		}
	}
	return nil
}

// unlike names the settings that both have, and not alike.
func unlike(there, here map[string]string) string {
	var what []string
	for _, name := range slices.Sorted(maps.Keys(here)) {
		if other, ok := there[name]; ok && other != here[name] {
			what = append(what, fmt.Sprintf("%s is %s there and %s here", name, other, here[name]))
		}
	}
	return strings.Join(what, ", ")
}

// entries reads the entries of all nodes that are there, but for those that a newer release wrote in a form of its own.
func (n *Node) entries(ctx context.Context) (map[string]entry, error) {
	subjects, err := n.subjects(ctx, "nodes", "nodes.*")
	if err != nil {
		return nil, err
	}
	all := make(map[string]entry, len(subjects))
	for subject := range subjects {
		data, rev, err := n.get(ctx, n.streamName("nodes"), subject)
		var e entry
		switch {
		case errors.Is(err, ErrNotFound) || errors.Is(err, ErrDamaged) || errors.Is(err, ErrNewer):
			continue
		case err != nil:
			return nil, err
		case json.Unmarshal(data, &e) != nil:
			continue
		}
		e.First = cmp.Or(e.First, rev) // The first one is written before its revision is known.
		all[strings.TrimPrefix(subject, n.subject("nodes."))] = e
	}
	return all, nil
}

// maxServers is how many ids of servers an entry names. Of more, nodes tell each other only whether they are the same.
const maxServers = 64

// Serves says which servers the node has, by their ids. A node that is heard and has others for a minute is logged: its clients find
// there what they do not find here, or the other way round.
func (n *Node) Serves(ids []string) {
	ids = slices.Sorted(slices.Values(ids))
	digest := fnv.New64a()
	for _, id := range ids {
		_, _ = digest.Write(append(binary.AppendUvarint(nil, uint64(len(id))), id...)) // Never fails.
	}
	l := n.lease
	l.mu.Lock()
	defer l.mu.Unlock()
	l.serves = digest.Sum64()
	if l.entry.Servers = ids; len(ids) > maxServers {
		l.entry.Servers = nil
	}
}

// strangers are the nodes that were heard and do not have the servers of this one.
type strangers map[Peer]time.Time

// strangerAfter is how long nodes may have other servers than this one, as while they are started one by one.
const strangerAfter = time.Minute

// look logs those that have been strangers for long.
func (s strangers) look(ctx context.Context, n *Node) {
	n.lease.mu.Lock()
	mine, serves := n.lease.entry.Servers, n.lease.serves
	n.lease.mu.Unlock()
	now := time.Now()
	found := make(strangers)
	for _, p := range n.mail.hearts.unlike(serves, n.mail.Others()) {
		found[p] = now
		if since, ok := s[p]; ok {
			found[p] = since
		}
	}
	clear(s)
	maps.Copy(s, found)
	for p, since := range s {
		if now.Sub(since) < strangerAfter {
			continue
		}
		s[p] = now
		data, _, err := n.get(ctx, n.streamName("nodes"), n.subject("nodes."+p.Node))
		var e entry
		if err != nil || json.Unmarshal(data, &e) != nil || e.Boot != p.Boot {
			continue
		}
		n.log.LogAttrs(ctx, slog.LevelWarn, "another process on the same NATS servers does not serve the same: requests to some paths fail there or here",
			slog.String("node", p.Node), slog.Any("only_there", without(e.Servers, mine)), slog.Any("only_here", without(mine, e.Servers)))
	}
}

// without returns what is in a and not in b.
func without(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return slices.Contains(b, s) })
}
