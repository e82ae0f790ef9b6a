package cluster

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/troupe-run/troupe/internal/limits"
)

// Options configures a Node. The zero value is a node in memory.
type Options struct {
	// Dir is the data directory, created if missing (mode 0700). "" keeps
	// everything in memory. With Remote it holds the node's name and its lock alone.
	Dir string
	// Remote names the NATS servers that keep the store instead of one in this process.
	Remote Remote
	// Listen has the server in this process serve other nodes, too.
	Listen Listen
	// MaxStore is the byte budget of everything stored. A write that exceeds it is
	// refused with ErrFull. 0 means 8 GiB with a Dir and 1 GiB without; below 1
	// MiB is an error. With Remote, 0 takes the budgets that the streams have, or 8
	// GiB for new ones, and another value changes them.
	MaxStore int64
	// Shards is how many JetStream streams keep the events of a store that is made now, at most 32. 0 means 4 on a disk or with
	// Remote, or fewer if one of them would have less than 256 MiB, and 1 in memory. A store keeps the number that it was
	// made with; another one is logged.
	Shards int
	// Sync is how often the file store is flushed to the disk: a power cut may
	// cost the writes of that time. 0 means every second. A negative value
	// acknowledges a write, other than of leases, only once it is on the disk; one
	// flush serves all writes that wait for it. It has no effect with Remote, whose
	// servers have a setting of their own.
	Sync time.Duration
	// Node names this node: [a-z0-9-]{1,32}. "" takes the name kept in Dir, which
	// is made up once, or in memory a random one.
	Node string
	// Lease is how long others wait for a silent node before they take over.
	// 0 means 5 s; rounded up to seconds, at least 1 s, or 12 s on replicated streams.
	Lease time.Duration
	// Prefix goes in front of subjects and stream names: [a-z0-9-]{1,32}. "" is none, and
	// with Remote "troupe", or none if the servers are a node that listens.
	Prefix string
	// EventAge is the lifetime of an append. 0 means 10 min; rounded up to seconds.
	EventAge time.Duration
	// Alike are further settings that all nodes on the same servers must have alike; MaxStore, Shards and Remote.Replicas are among
	// them where they are set. A node that starts with others than one that is there is refused with ErrRemote. It has an effect with Remote alone.
	Alike []Setting
	// KeyRotate is how long one key of the ring seals. 0 means 24 h. A key still
	// opens for 48 h after its successor came.
	KeyRotate time.Duration
	// Log gets events of the node and what the embedded server logs. Nil discards.
	Log *slog.Logger

	sized bool             // MaxStore was set
	now   func() time.Time // the machine's clock; nil is time.Now, and tests have others
	guess bool             // Prefix was not set, and that of the servers is to be found
}

const (
	minStore         = 1 << 20
	defaultEventAge  = 10 * time.Minute
	defaultSync      = time.Second
	defaultKeyRotate = 24 * time.Hour

	maxShards = 32 // of a store

	// remotePrefix goes before the names of streams on servers that others may use, too.
	remotePrefix = "troupe"
)

// Setting is one that all nodes on the same servers must have alike. Its name is that of a flag.
type Setting struct{ Name, Value string }

// isShared reports whether other nodes can have the same store.
func (o *Options) isShared() bool { return o.Remote.isSet() || o.Listen.isSet() }

// Check names what of the names, the shards, Remote and Listen Open would refuse, all at once.
func (o *Options) Check() error {
	var shards error
	if o.Shards < 0 || o.Shards > maxShards {
		shards = fmt.Errorf("cluster: %d shards: want 1 to %d, or 0", o.Shards, maxShards)
	}
	return errors.Join(checkName("node name", o.Node), checkName("prefix", o.Prefix), shards, o.Remote.checkAccess(), o.Listen.checkAddress(o))
}

// checkName refuses a name that is not empty and that subjects cannot have.
func checkName(what, name string) error {
	if name == "" || validName(name) {
		return nil
	}
	return fmt.Errorf("cluster: %s %q: must be 1 to 32 of a-z, 0-9 and -", what, name)
}

// fillDefaults fills in the defaults and refuses invalid values.
func (o *Options) fillDefaults() error {
	if err := o.Check(); err != nil {
		return err
	}
	if o.Remote.isSet() && o.Prefix == "" {
		o.Prefix, o.guess = remotePrefix, true
	}
	if o.sized = o.MaxStore != 0; !o.sized {
		o.MaxStore = limits.StoreInMemory
		if o.Dir != "" || o.Remote.isSet() {
			o.MaxStore = limits.StoreOnDisk
		}
	}
	if o.MaxStore < minStore {
		return fmt.Errorf("cluster: store limit of %d bytes: at least %d are needed", o.MaxStore, minStore)
	}
	for _, d := range []struct {
		what  string
		value *time.Duration
		zero  time.Duration
	}{{"lease", &o.Lease, limits.Lease.Value()}, {"event age", &o.EventAge, defaultEventAge}, {"key rotation", &o.KeyRotate, defaultKeyRotate}} {
		if *d.value == 0 {
			*d.value = d.zero
		}
		if *d.value < 0 {
			return fmt.Errorf("cluster: negative %s %v", d.what, *d.value)
		}
		*d.value = wholeSeconds(*d.value)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return nil
}

// wholeSeconds rounds up, since NATS counts lifetimes in seconds.
func wholeSeconds(d time.Duration) time.Duration {
	return (d + time.Second - 1) / time.Second * time.Second
}

func validName(s string) bool {
	if len(s) == 0 || len(s) > 32 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

// randomName returns n characters of [a-z0-9]. 8 of them are 41 bits: enough to
// tell boots and nodes apart, but no secret.
func randomName(n int) string {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789"
	b := make([]byte, n)
	_, _ = rand.Read(b) // Never fails.
	for i := range b {
		b[i] = letters[int(b[i])%len(letters)]
	}
	return string(b)
}

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

// newShards is the number of shards of a store that is made now. A store in memory has nothing to read after a kill.
func (o *Options) newShards() int {
	if o.Shards != 0 {
		return o.Shards
	}
	if o.Dir == "" && !o.Remote.isSet() {
		return 1
	}
	whole, shards := eventBudget(o.MaxStore), usualShards
	for shards > 1 && whole/int64(shards) < leastShard {
		shards /= 2
	}
	return shards
}

// The events of a store are in one JetStream stream or in several, its shards. A server that was killed reads each stream
// anew on a processor of its own, and each stream has a leader of its own among the servers of a cluster.
//
// With one shard the stream is events and its subjects are ev.>, as in every store of older releases. Of several, shard i is
// events-i with ev-i.>: NATS compares whole tokens, so the number stands in the first one and the others stay where they are.
// All that belongs to an event stream, which its guards need together, is in the shard that the hash of its id says. The
// number is settled when a store is made: see docs/design/018-event-shards.md.
const (
	// usualShards is how many a new store has, or fewer if one of them would have less than leastShard bytes.
	usualShards       = 4
	leastShard  int64 = 256 << 20
)

func formatTTL(d time.Duration) string {
	return strconv.FormatInt(int64(wholeSeconds(d)/time.Second), 10) + "s"
}
