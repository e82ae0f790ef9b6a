package cluster

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/troupe-run/troupe/cluster/internal/remoteclock"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/store"
)

// wire is what all parts of a node need to speak to the servers: its names there, the streams, and the
// connections.
type wire struct {
	opts      Options
	name      string
	boot      string
	prefix    string  // of subjects: "" or with a dot at its end
	kinds     []kind  // its streams; settled, like shards, before the node serves
	shards    []*kind // those of them that keep the events
	replayTTL string
	log       *slog.Logger
	replicas  int // of the streams on remote servers

	conn      *nats.Conn
	acks      *inbox     // answers to writes
	reads     *inbox     // answers to reads, which are slow to decode
	logConn   *nats.Conn // for reads of the log, which are big: leases and appends never wait behind them
	logReads  *inbox     // their answers
	readSlots slots      // of reads of the log, see readsAtOnce
	gets      slots      // of appends that they ask for, see getsAtOnce
	tailSlots slots      // of searches for its end

	clock    remoteclock.Clock // of the remote servers
	outages  *outages
	flusher  *flusher // nil: acknowledgements do not wait for the disk
	counters counters
	succeeds bool        // an earlier boot had this node's entry when this one came
	leaving  atomic.Bool // Close has begun: calls from outside are refused
}

func newWire(o Options) *wire {
	if o.now == nil {
		o.now = time.Now
	}
	n := &wire{opts: o, name: o.Node, boot: randomName(8), log: o.Log, replayTTL: formatTTL(o.EventAge), readSlots: make(slots, readsAtOnce), gets: make(slots, getsAtOnce), tailSlots: make(slots, readsAtOnce)}
	if o.Prefix != "" {
		n.prefix = o.Prefix + "."
	}
	n.setShards(o.newShards())
	n.outages = newOutages(o.Log)
	return n
}

// awaitFlush waits until the writes to stream that are acknowledged so far are on
// the disk, if Options.Sync asks for that.
func (n *wire) awaitFlush(ctx context.Context, stream string) error {
	if n.flusher == nil || stream == kinds[0].name {
		return nil // A power cut voids leases.
	}
	done := make(chan error, 1)
	n.flusher.afterFlush(stream, func(err error) { done <- err })
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", store.ErrUnavailable, context.Cause(ctx))
	}
}

// streamOf returns the stream of a subject, without the prefix.
func (n *wire) streamOf(subject string) string {
	head, _, _ := strings.Cut(strings.TrimPrefix(subject, n.prefix), ".")
	for i := range n.kinds {
		if n.kinds[i].subject == head {
			return n.kinds[i].name
		}
	}
	return events
}

// sayAhead logs that the machine's clock is wrong, if it was not said just now, and that it is right again; it returns when the first was said last.
func (n *wire) sayAhead(said time.Time) time.Time {
	switch err := n.ClockWrong(); {
	case err != nil && time.Since(said) > refusalLogEvery:
		n.log.Error("this process must not serve", "error", err)
		return time.Now()
	case err == nil && !said.IsZero():
		n.log.Info("the clock of this machine is right again")
		return time.Time{}
	}
	return said
}

// Name returns the node's name: [a-z0-9-]{1,32}.
func (n *wire) Name() string { return n.name }

// Boot returns the boot nonce: a short random [a-z0-9] string, a new one each
// time the process starts.
func (n *wire) Boot() string { return n.boot }

// Now is the time by the clock of the servers, which count the lifetimes of what is stored; without a monotonic reading.
func (n *wire) Now() time.Time { return n.clock.Now() }

// Ahead is by how much this machine's clock is ahead of that of the servers, and below 0 by how much it is behind, as far as it can be told. It is measured every
// second, for servers of others only.
func (n *wire) Ahead() time.Duration { return n.clock.Ahead() }

// ClockWrong returns an error while the machine's clock is too far from that of the servers: the process must not serve.
func (n *wire) ClockWrong() error {
	by, than := n.clock.Surely(), "ahead of"
	if by < 0 {
		by, than = -by, "behind"
	}
	if by <= limits.ClockAhead.Value() {
		return nil
	}
	return fmt.Errorf("the clock of this machine is %v %s that of the NATS servers", by.Round(100*time.Millisecond), than)
}

// outageError returns the error of a write during an outage: the write is not done.
func (n *wire) outageError() error {
	if o := n.outages.now.Load(); o != nil {
		return fmt.Errorf("%w: %s", store.ErrRetry, o)
	}
	return nil
}

// askAPI sends a JetStream request and decodes its answer into out. It returns an
// error object in the answer as an error.
func (n *wire) askAPI(ctx context.Context, subject string, req, out any) error {
	var body []byte
	if req != nil {
		var err error
		if body, err = json.Marshal(req); err != nil {
			return err
		}
	}
	m, err := n.reads.askAndWait(ctx, &nats.Msg{Subject: "$JS.API." + subject, Data: body})
	if err != nil {
		return err
	}
	var failed struct {
		Error *apiError `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &failed); err != nil {
		return fmt.Errorf("%w: answer: %w", store.ErrUnavailable, err)
	}
	if failed.Error != nil {
		return failed.Error.cause(store.ErrConflict)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(m.Data, out); err != nil {
		return fmt.Errorf("%w: answer: %w", store.ErrUnavailable, err)
	}
	return nil
}

// remoteFault is ErrRemote with what is wrong with the store that nodes share, and what to do.
func (n *wire) remoteFault(err error, advice string) error {
	r := n.opts.Remote
	if n.opts.Listen.isSet() {
		r.URL = "nats://" + n.opts.Listen.Address
	}
	return r.wrapFault(err, advice)
}

// sayRefused logs why servers do not let the node in again, if they answer, and said was not just now; it returns when that was said last. To the rest of the
// node they seem to be away.
func (n *wire) sayRefused(said time.Time) time.Time {
	err := n.conn.LastError()
	if err == nil || !isRefused(err) || time.Since(said) < refusalLogEvery {
		return said
	}
	n.log.Warn("nats refuses the connection", "servers", n.opts.Remote.String(), "error", err)
	return time.Now()
}

// refusalLogEvery is how often it is logged that servers do not let a node in that was connected before.
const refusalLogEvery = time.Minute

// isRefused reports whether a server answered and does not let the node in, or cannot be trusted: to try again does not help.
func isRefused(err error) bool {
	_, certificate := errors.AsType[*tls.CertificateVerificationError](err)
	_, record := errors.AsType[tls.RecordHeaderError](err)
	text := err.Error()
	return certificate || record || errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired) || errors.Is(err, nats.ErrAuthRevoked) ||
		errors.Is(err, nats.ErrSecureConnRequired) || errors.Is(err, nats.ErrSecureConnWanted) || errors.Is(err, nats.ErrNkeysNotSupported) ||
		strings.Contains(strings.ToLower(text), "authorization") || strings.Contains(text, "authentication") || strings.Contains(text, "tls: ")
}

// permissionAdvice says what the user of a node must be allowed.
func (n *wire) permissionAdvice() string {
	return "let the user publish " + n.prefix + ">, $JS.API.> and $JS.ACK.>, and subscribe _INBOX.>, " + n.subjectOf("at.>") + ", " + n.subjectOf("all") + " and " + n.subjectOf("re.>")
}

// setShards settles how many shards the store has. It is called while the node starts.
func (n *wire) setShards(shards int) {
	n.kinds = kindsOf(shards)
	n.shards = nil
	for i := range n.kinds {
		if k := &n.kinds[i]; k.wholeName() == events {
			n.shards = append(n.shards, k)
		}
	}
}

// tookShards warns if the store has another number of shards than the node was given.
func (n *wire) tookShards() {
	if given := n.opts.Shards; given != 0 && given != len(n.shards) {
		n.log.Warn("the store keeps the number of event shards that it was made with", "has", len(n.shards), "given", given)
	}
}

// eventShard returns where an event stream is stored. Stores rely on that it never changes.
func (n *wire) eventShard(stream string) *kind {
	return n.shards[shardOf(stream, len(n.shards))]
}

// streamName returns the name of a stream in NATS, which allows no dots.
func (n *wire) streamName(name string) string {
	if n.opts.Prefix == "" {
		return name
	}
	return n.opts.Prefix + "_" + name
}

// subjectOf returns a key's subject in NATS.
func (n *wire) subjectOf(key string) string { return n.prefix + key }

// streamConfig returns the configuration that a stream must have.
func (n *wire) streamConfig(k *kind) jetstream.StreamConfig {
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
func (n *wire) formatOf(k *kind) string {
	if k.name == "nodes" {
		return fleetFormat
	}
	return strconv.Itoa(formatOf(len(n.shards)))
}

// streamNames lists the streams of a store with that many shards by their names in NATS.
func (n *wire) streamNames(shards int) []string {
	var names []string
	for _, k := range kindsOf(shards) {
		names = append(names, n.streamName(k.name))
	}
	return names
}

// tokensOf are those of a subject without the prefix.
func (n *wire) tokensOf(subject string) []string {
	return strings.Split(strings.TrimPrefix(subject, n.prefix), ".")
}
