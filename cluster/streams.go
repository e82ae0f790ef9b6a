package cluster

import (
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-run/troupe/internal/letter"
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
	{name: "keys", subject: "keys", tokens: 2, more: []string{apiKeys, revoked, catalogues}, budget: smallBudget},
	{name: "sessions", subject: "session", tokens: 4, more: []string{estates}, budget: func(total int64) int64 { return total / 16 * 3 }},
	{name: events, subject: "ev", tokens: 6, direct: true, budget: eventBudget}, // or several of these: see kindsOf
	{name: tasks, subject: "task", tokens: 4, budget: func(total int64) int64 { return total / 16 }},
	{name: work, subject: "work", tokens: 2, queue: true, budget: func(total int64) int64 { return total / 64 }},
}

const (
	// plainFormat is the version of the layout of a store whose events are in one stream, and directoryFormat that of one with
	// shards, the newest that this release knows. An older release refuses the second, and can go on with the first.
	plainFormat     = 1
	directoryFormat = 2

	// shardsKey is in the metadata of the streams of remote servers, if there are several shards.
	shardsKey = "troupe.shards"
	events    = "events"
	// tasks is the stream of tasks. A task is a record, under the key task.<tenant>.<server>.<task>, and parts beside it, whose subjects continue the key.
	tasks = "tasks"
	// work is the stream of what tasks have to run: a message for each task that is queued or running.
	work = "work"

	// apiKeys begins the keys of records of API keys. They lie beside the key ring, which does not list them.
	apiKeys = "keys.api."
	// revoked begins the keys of records of revocations, beside those.
	revoked = "keys.revoked."
	// catalogues begins the keys of what backends list, beside those.
	catalogues = "keys.catalogue."
	// estates begins the keys of what sessions have at backends elsewhere, beside the sessions, whose lists do not have them.
	estates = "session.estate."
)

// holdsKey reports whether a key has the tokens that those of the stream's records have.
func (k *kind) holdsKey(key string) bool {
	return validTokens(key, k.tokens) || validTokens(key, k.tokens+1) && slices.ContainsFunc(k.more, func(begin string) bool { return strings.HasPrefix(key, begin) })
}

func smallBudget(total int64) int64 { return min(total/16, 16<<20) }

func eventBudget(total int64) int64 { return total - total/4 - total/64 - 2*smallBudget(total) }

// wholeName returns the name of what the stream is, or is a shard of.
func (k *kind) wholeName() string {
	name, _, _ := strings.Cut(k.name, "-")
	return name
}

// kindsOf returns the streams of a store whose events are in that many shards.
func kindsOf(shards int) []kind {
	all := make([]kind, 0, len(kinds)+shards)
	for _, k := range kinds {
		if k.name != events || shards == 1 {
			all = append(all, k)
			continue
		}
		for i := range int64(shards) {
			s := k
			suffix := "-" + strconv.FormatInt(i, 10)
			s.name, s.subject = k.name+suffix, k.subject+suffix
			// The parts add up to the whole, to the byte.
			s.budget = func(total int64) int64 {
				whole, n := k.budget(total), int64(shards)
				return whole*(i+1)/n - whole*i/n
			}
			all = append(all, s)
		}
	}
	return all
}

// shardOf is the shard of an event stream: FNV-1a of the last token of its name, which is its id. The ids are random, and the
// streams of a session spread, so that a client with one session neither fills a shard nor has only one recovered for it.
func shardOf(stream string, shards int) int {
	if shards == 1 {
		return 0
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(stream[strings.LastIndexByte(stream, '.')+1:])) // never fails, and copies nothing
	return int(h.Sum32() % uint32(shards))
}

// shardsOf is the number of shards that the metadata of a stream say.
func shardsOf(metadata map[string]string) int {
	if shards, err := strconv.Atoi(metadata[shardsKey]); err == nil {
		return shards
	}
	return 1
}

// formatOf is the version of the layout of a store with that many shards.
func formatOf(shards int) int {
	if shards > 1 {
		return directoryFormat
	}
	return plainFormat
}

// validTokens reports whether s is n tokens of [A-Za-z0-9_-] joined by dots. Any
// other key could reach beyond its owner's subjects.
func validTokens(s string, n int) bool {
	if len(s) > 200 {
		return false
	}
	tokens, size := 1, 0
	for i := range len(s) {
		switch c := s[i]; {
		case c == '.':
			if size == 0 {
				return false
			}
			tokens, size = tokens+1, 0
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_':
			size++
		default:
			return false
		}
	}
	return tokens == n && size > 0
}
