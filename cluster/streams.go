package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/troupe-run/troupe/internal/letter"
	"github.com/troupe-run/troupe/internal/store"
)

const (
	// maxPayload is NATS's own limit for one message, headers included.
	maxPayload = letter.MaxMessage
	// MaxRecord is the size limit of a record's data in bytes.
	MaxRecord = 512 << 10
	// MaxAppend is the size limit of one append's data in bytes. The caller must
	// split larger data.
	MaxAppend = 256 << 10
	// MaxBody is the size limit of a stream's body in bytes; it is stored in
	// parts.
	MaxBody = 16 << 20

	// markerTTL is how long watchers can see a tombstone, or the marker of an
	// expired node entry.
	markerTTL = 5 * time.Second

	// dedupe is the shortest time for which NATS takes the ids of messages. Nothing we publish has one, but a server that
	// starts looks for them in every message that is not older.
	dedupe = 100 * time.Millisecond

	// formatKey names the version of what is stored in a stream of remote servers; a data directory has its own.
	formatKey = "troupe.format"
	// fleetFormat is that version of the stream of the nodes' entries, which says how nodes speak to one another beside how the store is laid out: since 3
	// their letters have a MAC. A release that knows another one refuses to join.
	fleetFormat = "3"
)

// kind is one of the streams that make up the store, or a shard of one.
type kind struct {
	name    string   // of the stream, behind the prefix
	subject string   // first token of its subjects
	tokens  int      // of a key, the first included
	more    []string // the first tokens of keys that have one token more, each with a dot at its end
	direct  bool     // replicas may answer reads
	markers bool     // an expired entry leaves a marker, for watchers
	queue   bool     // its messages are removed when they are done, and a subject may have many
	budget  func(total int64) int64
}

// The budgets add up to the total: sessions and events can starve neither the
// leases nor the keys, nor each other; nor can tasks.
var kinds = []kind{
	{name: "nodes", subject: "nodes", tokens: 2, markers: true, budget: smallBudget},
	{name: "keys", subject: "keys", tokens: 2, more: []string{apiKeys, revoked}, budget: smallBudget},
	{name: "sessions", subject: "session", tokens: 4, budget: func(total int64) int64 { return total / 16 * 3 }},
	{name: events, subject: "ev", tokens: 6, direct: true, budget: eventBudget}, // or several of these: see kindsOf
	{name: tasks, subject: "task", tokens: 4, budget: func(total int64) int64 { return total / 16 }},
	{name: work, subject: "work", tokens: 2, queue: true, budget: func(total int64) int64 { return total / 64 }},
}

const (
	events = "events"

	// apiKeys begins the keys of records of API keys. They lie beside the key ring, which does not list them.
	apiKeys = "keys.api."
	// revoked begins the keys of records of revocations, beside those.
	revoked = "keys.revoked."
)

// holdsKey reports whether a key has the tokens that those of the stream's records have.
func (k *kind) holdsKey(key string) bool {
	return validTokens(key, k.tokens) || validTokens(key, k.tokens+1) && slices.ContainsFunc(k.more, func(begin string) bool { return strings.HasPrefix(key, begin) })
}

func smallBudget(total int64) int64 { return min(total/16, 16<<20) }

func eventBudget(total int64) int64 { return total - total/4 - total/64 - 2*smallBudget(total) }

// streamName returns the name of a stream in NATS, which allows no dots.
func (n *Node) streamName(name string) string {
	if n.opts.Prefix == "" {
		return name
	}
	return n.opts.Prefix + "_" + name
}

// subjectOf returns a key's subject in NATS.
func (n *Node) subjectOf(key string) string { return n.prefix + key }

// streamOfKey returns the stream that a record's key belongs to.
func (n *Node) streamOfKey(key string) (stream string, err error) {
	if n.leaving.Load() {
		return "", store.ErrClosed
	}
	head, _, _ := strings.Cut(key, ".")
	for i := range n.kinds {
		k := &n.kinds[i]
		if k.subject == head && k.wholeName() != events && !k.queue && k.holdsKey(key) {
			return n.streamName(k.name), nil
		}
	}
	return "", fmt.Errorf("%w: %q", store.ErrBadKey, key)
}

// streamConfig returns the configuration that a stream must have.
func (n *Node) streamConfig(k *kind) jetstream.StreamConfig {
	c := jetstream.StreamConfig{
		Name:              n.streamName(k.name),
		Subjects:          []string{n.subjectOf(k.subject) + ".>"},
		Retention:         jetstream.LimitsPolicy,
		Discard:           jetstream.DiscardNew,
		MaxBytes:          k.budget(n.opts.MaxStore),
		MaxMsgsPerSubject: 1,
		MaxMsgSize:        maxPayload,
		Storage:           jetstream.FileStorage,
		Replicas:          1,
		AllowDirect:       k.direct,
		AllowMsgTTL:       true,
		Duplicates:        dedupe,
	}
	switch {
	case n.opts.isShared():
		c.Metadata = map[string]string{formatKey: n.formatOf(k)}
		if len(n.shards) > 1 {
			c.Metadata[shardsKey] = strconv.Itoa(len(n.shards))
		}
	case n.opts.Dir == "":
		c.Storage = jetstream.MemoryStorage
	}
	if k.queue {
		c.Retention, c.MaxMsgsPerSubject = jetstream.WorkQueuePolicy, -1
	}
	if k.markers {
		c.SubjectDeleteMarkerTTL = markerTTL
	}
	return c
}

// formatOf is the version of what is stored in a stream that nodes share.
func (n *Node) formatOf(k *kind) string {
	if k.name == "nodes" {
		return fleetFormat
	}
	return strconv.Itoa(formatOf(len(n.shards)))
}

// ensureStreams creates missing streams, and adapts the limits of the others. The
// streams in must have to exist: a directory that lost one is damaged, and an
// empty stream in its place would hide that.
func (n *Node) ensureStreams(ctx context.Context, must []string) error {
	js, err := jetstream.New(n.conn)
	if err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	for i := range n.kinds {
		want := n.streamConfig(&n.kinds[i])
		st, err := js.Stream(ctx, want.Name)
		switch {
		case errors.Is(err, jetstream.ErrStreamNotFound):
			if slices.Contains(must, want.Name) {
				return n.dir.damagedStream(want.Name, "stream "+want.Name+" did not come up, the log says why")
			}
			if _, err := js.CreateStream(ctx, want); err != nil {
				return fmt.Errorf("cluster: create stream %s: %w", want.Name, err)
			}
		case isOffline(err) && n.dir != nil:
			return dirError(n.dir.path, store.ErrNewer, fmt.Sprintf("stream %s: %v", want.Name, err),
				"run the newer release or choose another directory; nothing was changed in it")
		case err != nil:
			return fmt.Errorf("cluster: look up stream %s: %w", want.Name, err)
		default:
			have := st.CachedInfo().Config
			if have.MaxBytes == want.MaxBytes && have.AllowDirect == want.AllowDirect && have.MaxMsgSize == want.MaxMsgSize && have.SubjectDeleteMarkerTTL == want.SubjectDeleteMarkerTTL && have.Duplicates == want.Duplicates &&
				(want.Metadata == nil || have.Metadata[formatKey] == want.Metadata[formatKey]) {
				continue
			}
			if want.Metadata != nil {
				have.Metadata = maps.Clone(have.Metadata)
				if have.Metadata == nil {
					have.Metadata = make(map[string]string)
				}
				maps.Copy(have.Metadata, want.Metadata)
			}
			have.MaxBytes, have.AllowDirect, have.MaxMsgSize = want.MaxBytes, want.AllowDirect, want.MaxMsgSize
			have.SubjectDeleteMarkerTTL, have.Duplicates = want.SubjectDeleteMarkerTTL, want.Duplicates
			if _, err := js.UpdateStream(ctx, have); err != nil {
				return fmt.Errorf("cluster: adapt stream %s: %w", want.Name, err)
			}
		}
	}
	return nil
}

// isOffline reports whether the server has a stream that it cannot serve, because
// its description needs a feature that this release of the server does not know.
func isOffline(err error) bool {
	var e *jetstream.APIError
	return errors.As(err, &e) && (e.ErrorCode == codeStreamOffline || e.ErrorCode == codeStreamOfflineReason)
}

// streamNames lists the streams of a store with that many shards by their names in NATS.
func (n *Node) streamNames(shards int) []string {
	var names []string
	for _, k := range kindsOf(shards) {
		names = append(names, n.streamName(k.name))
	}
	return names
}

// tokensOf are those of a subject without the prefix.
func (n *Node) tokensOf(subject string) []string {
	return strings.Split(strings.TrimPrefix(subject, n.prefix), ".")
}
