package cluster

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

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

	// shardsKey is in the metadata of the streams of remote servers, if there are several shards.
	shardsKey = "troupe.shards"
)

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

// wholeName returns the name of what the stream is, or is a shard of.
func (k *kind) wholeName() string {
	name, _, _ := strings.Cut(k.name, "-")
	return name
}

// setShards settles how many shards the store has. It is called while the node starts.
func (n *Node) setShards(shards int) {
	n.kinds = kindsOf(shards)
	n.shards = nil
	for i := range n.kinds {
		if k := &n.kinds[i]; k.wholeName() == events {
			n.shards = append(n.shards, k)
		}
	}
}

// shardsOf is the number of shards that the metadata of a stream say.
func shardsOf(metadata map[string]string) int {
	if shards, err := strconv.Atoi(metadata[shardsKey]); err == nil {
		return shards
	}
	return 1
}

// tookShards warns if the store has another number of shards than the node was given.
func (n *Node) tookShards() {
	if given := n.opts.Shards; given != 0 && given != len(n.shards) {
		n.log.Warn("the store keeps the number of event shards that it was made with", "has", len(n.shards), "given", given)
	}
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

// eventShard returns where an event stream is stored. Stores rely on that it never changes.
func (n *Node) eventShard(stream string) *kind {
	return n.shards[shardOf(stream, len(n.shards))]
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

// findShards takes the number of shards that the store on the servers has. If its first stream is lost, any other one says it;
// if there is none, the store is new.
func (n *Node) findShards(ctx context.Context, js jetstream.JetStream) error {
	for _, name := range append(n.streamNames(1), n.streamName(events+"-0")) {
		st, err := n.lookUp(ctx, js, name)
		switch {
		case err == nil:
			return n.takeShards(&st.CachedInfo().Config)
		case !errors.Is(err, jetstream.ErrStreamNotFound):
			return err
		}
	}
	n.setShards(n.opts.newShards())
	return nil
}

// takeShards takes the number of shards that a stream of the store says.
func (n *Node) takeShards(c *jetstream.StreamConfig) error {
	text, several := c.Metadata[shardsKey]
	if !several {
		n.setShards(1)
		return nil
	}
	shards, err := strconv.Atoi(text)
	if err != nil || shards < 2 || shards > maxShards {
		return n.opts.Remote.wrapFault(fmt.Errorf("stream %s has %q shards, this release knows up to %d", c.Name, text, maxShards), "run the release that made it, or choose another prefix")
	}
	n.setShards(shards)
	return nil
}
