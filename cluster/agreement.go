package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// agreement is about the streams of servers that other nodes may use, too.
type agreement struct {
	*Server
	messages    *messages
	checkOthers func(ctx context.Context, before uint64) error
	fitted      bool // the nodes that are there have been found to fit
}

// checkServer refuses a server that cannot keep the store.
func (n *agreement) checkServer() error {
	r := &n.opts.Remote
	have := n.conn.ConnectedServerVersion()
	switch most := n.conn.MaxPayload(); {
	case isOlder(have, oldestServer):
		return r.wrapFault(fmt.Errorf("the server is nats-server %s", have), "it must be "+oldestServer+" or newer")
	case most < maxPayload:
		return r.wrapFault(fmt.Errorf("its max_payload is %d bytes", most), "set it to "+strconv.Itoa(maxPayload)+" or more")
	}
	return nil
}

// agreeOnStreams waits until the streams of the servers are there as they must be.
func (n *agreement) agreeOnStreams(ctx context.Context) error {
	if err := n.checkServer(); err != nil {
		return err
	}
	js, err := jetstream.New(n.conn)
	if err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	if err := n.findShards(ctx, js); err != nil {
		return err
	}
	began, made, oldest := time.Now(), []string(nil), time.Now()
	for i := 0; i < len(n.kinds); i++ { // The first stream may change the number of shards.
		var created time.Time
		k := &n.kinds[i]
		if err := n.agreeOn(ctx, js, k, &created); err != nil {
			return err
		}
		if created.Before(oldest) {
			oldest = created
		}
		if created.After(began.Add(-streamAgeDoubt)) {
			made = append(made, n.streamName(k.name))
		}
		if k.name == "nodes" { // Before any other stream is changed.
			if err := n.fitIn(ctx); err != nil {
				return err
			}
			n.fitted = true
			if err := n.agreeOn(ctx, js, k, &created); err != nil { // No node of an earlier release is there: none is to join from now on.
				return err
			}
		}
	}
	n.tookShards()
	if err := n.reachStreams(ctx); err != nil {
		return err
	}
	if err := n.mayAcknowledge(ctx); err != nil {
		return err
	}
	if _, err := n.messages.fillOfStream(ctx, clockOf); err == nil { // Otherwise the clock is looked at once it serves.
		if err := n.ClockWrong(); err != nil {
			return n.opts.Remote.wrapFault(err, "have NTP set both")
		}
	}
	if len(made) > 0 && oldest.Before(began.Add(-2*streamAgeDoubt)) {
		n.log.Error("streams of the store were missing beside older ones: they were made again, and what they held is lost", "streams", made)
	}
	if n.replicas > 1 && n.opts.Lease < replicatedLease {
		n.log.Info("the lease is longer: the streams are replicated, and an election may take so long", "lease", replicatedLease)
		n.opts.Lease = replicatedLease
	}
	return nil
}

// reachStreams waits until every stream takes writes from here. Once a stream is made, or has a new leader, the server that this node is
// connected to may know of it a moment later; until then it answers that nobody listens, and the start would fail.
func (n *agreement) reachStreams(ctx context.Context) error {
	for i := range n.kinds {
		k := &n.kinds[i]
		// A stream of this name is never there, and so nothing is stored: each stream refuses the message.
		m := &nats.Msg{Subject: n.subjectOf(k.subject) + strings.Repeat(".reach", k.tokens-1), Header: nats.Header{headerStream: {"reach"}}}
		for {
			_, err := n.acks.askAndWait(ctx, m)
			if err == nil {
				break
			}
			if !sleep(ctx, 50*time.Millisecond) {
				return n.opts.Remote.wrapFault(err, "stream "+n.streamName(k.name)+" takes no writes: "+n.permissionAdvice())
			}
		}
	}
	return nil
}

// mayAcknowledge finds out whether the servers permit acknowledgements of work: without them none would ever be done. They answer nothing to one,
// so it goes to nobody; what is not permitted a server refuses before its next answer.
func (n *agreement) mayAcknowledge(ctx context.Context) error {
	err := n.conn.Publish("$JS.ACK.none", nil)
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		err = n.conn.FlushWithContext(ctx)
	}
	if refused := n.conn.LastError(); errors.Is(refused, nats.ErrPermissionViolation) && strings.Contains(refused.Error(), "$JS.ACK") {
		err = refused
	}
	if err != nil {
		return n.opts.Remote.wrapFault(err, n.permissionAdvice())
	}
	return nil
}

// agreeOn creates a stream, or checks the one that is there, and says when it was created. Servers of a cluster that has no leader
// yet are asked again.
func (n *agreement) agreeOn(ctx context.Context, js jetstream.JetStream, k *kind, created *time.Time) error {
	r := &n.opts.Remote
	said, nobody := false, false // nobody as in lookUp
	for {
		asked, cancel := context.WithTimeout(ctx, callTimeout)
		err := n.tryStream(asked, js, k, created)
		cancel()
		nobody = nobody || errors.Is(err, nats.ErrNoResponders)
		var no *jetstream.APIError
		switch api := errors.As(err, &no); {
		case err == nil || errors.Is(err, ErrRemote):
			return err
		case errors.Is(err, jetstream.ErrJetStreamNotEnabled) || errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
			return r.wrapFault(err, enableJetStream)
		case api && no.ErrorCode == codeOverlap:
			return r.wrapFault(err, "another stream has these subjects: choose another prefix")
		case api && (no.ErrorCode == codeStorageExceeded || no.ErrorCode == codeMemoryExceeded || no.ErrorCode == codeAccountResources):
			return r.wrapFault(err, "the account or the server has less room than the store may use: lower the size of the store, or raise that limit")
		case isOffline(err):
			return r.wrapFault(err, "a newer nats-server has written stream "+n.streamName(k.name)+": run that release on all servers")
		case errors.Is(err, nats.ErrPermissionViolation):
			return r.wrapFault(err, n.permissionAdvice())
		case !sleep(ctx, 250*time.Millisecond) && nobody:
			return r.wrapFault(err, "nobody serves JetStream: "+enableJetStream)
		case ctx.Err() != nil:
			return r.wrapFault(err, "stream "+n.streamName(k.name)+" is not there")
		}
		if !said {
			said = true
			n.log.Warn("waiting for a stream", "stream", n.streamName(k.name), "error", err)
		}
	}
}

// tryStream creates a stream, or checks the one that is there, once.
func (n *agreement) tryStream(ctx context.Context, js jetstream.JetStream, k *kind, created *time.Time) error {
	r := &n.opts.Remote
	want := n.streamConfig(k)
	st, err := js.Stream(ctx, want.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		want.Replicas = cmp.Or(r.Replicas, 3)
		st, err = js.CreateStream(ctx, want)
		if no, ok := errors.AsType[*jetstream.APIError](err); ok && r.Replicas == 0 && no.ErrorCode == codeNoReplicas {
			want.Replicas = 1
			st, err = js.CreateStream(ctx, want)
		}
		if no, ok := errors.AsType[*jetstream.APIError](err); ok && no.ErrorCode == codeNoReplicas {
			return r.wrapFault(err, "the server is not in a cluster: start three with --cluster, or ask for 1 replica")
		}
	}
	if err != nil {
		return err
	}
	have := st.CachedInfo().Config
	*created = st.CachedInfo().Created
	if k.name == "nodes" { // Another node may have made the store at the same moment.
		if err := n.takeShards(&have); err != nil {
			return err
		}
		want = n.streamConfig(k)
	}
	if what := describeDifference(&have, &want); what != "" {
		return r.wrapFault(fmt.Errorf("stream %s: %s", want.Name, what), "it is not one that this program made, or was changed: remove it, or choose another prefix")
	}
	earlier := k.name == "nodes" && have.Metadata[formatKey] == strconv.Itoa(formatOf(len(n.shards)))
	if version := have.Metadata[formatKey]; !earlier && version != want.Metadata[formatKey] {
		return r.wrapFault(fmt.Errorf("stream %s has format %q, this release knows %s", want.Name, version, want.Metadata[formatKey]), "run the release that made it, or choose another prefix")
	}
	change := have
	change.AllowDirect, change.MaxMsgSize, change.SubjectDeleteMarkerTTL = want.AllowDirect, want.MaxMsgSize, want.SubjectDeleteMarkerTTL
	if n.opts.sized {
		change.MaxBytes = want.MaxBytes
	}
	change.Replicas = cmp.Or(r.Replicas, have.Replicas)
	if earlier && n.fitted {
		change.Metadata = maps.Clone(have.Metadata)
		change.Metadata[formatKey] = fleetFormat
	}
	if have.Metadata[formatKey] != change.Metadata[formatKey] || change.AllowDirect != have.AllowDirect || change.MaxMsgSize != have.MaxMsgSize || change.SubjectDeleteMarkerTTL != have.SubjectDeleteMarkerTTL ||
		change.MaxBytes != have.MaxBytes || change.Replicas != have.Replicas {
		if _, err := js.UpdateStream(ctx, change); err != nil {
			return err
		}
		n.log.Info("stream adapted", "stream", want.Name, "bytes", change.MaxBytes, "replicas", change.Replicas)
	}
	n.losses.configs[k.name], n.losses.created[k.name] = change, st.CachedInfo().Created
	n.replicas = max(n.replicas, change.Replicas)
	return nil
}

// fitIn waits until the entries of other nodes can be read, and compares them.
func (n *agreement) fitIn(ctx context.Context) error {
	for {
		err := n.checkOthers(ctx, 0)
		if err == nil || errors.Is(err, ErrRemote) {
			return err
		}
		if !sleep(ctx, 250*time.Millisecond) {
			return n.opts.Remote.wrapFault(err, "stream "+n.streamName("nodes")+" cannot be read")
		}
	}
}

// findShards takes the number of shards that the store on the servers has. If its first stream is lost, any other one says it;
// if there is none, the store is new.
func (n *agreement) findShards(ctx context.Context, js jetstream.JetStream) error {
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
func (n *agreement) takeShards(c *jetstream.StreamConfig) error {
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

// isOlder reports whether release a comes before b, both as 2.12.3 or v2.12.3-beta.
func isOlder(a, b string) bool {
	number := func(s string) (all []int) {
		s, _, _ = strings.Cut(strings.TrimPrefix(s, "v"), "-")
		for part := range strings.SplitSeq(s, ".") {
			i, _ := strconv.Atoi(part)
			all = append(all, i)
		}
		return all
	}
	return slices.Compare(number(a), number(b)) < 0
}

// describeDifference names what a stream has otherwise than it must and cannot be changed to, or "".
func describeDifference(have, want *jetstream.StreamConfig) string {
	for _, d := range []struct {
		what       string
		have, want any
	}{
		{"retention", have.Retention, want.Retention}, {"discard policy", have.Discard, want.Discard}, {"storage", have.Storage, want.Storage},
		{"messages per subject", have.MaxMsgsPerSubject, want.MaxMsgsPerSubject}, {"lifetimes of messages allowed", have.AllowMsgTTL, want.AllowMsgTTL},
		{"subjects", strings.Join(have.Subjects, " "), strings.Join(want.Subjects, " ")}, {"greatest age", have.MaxAge, want.MaxAge},
		{"most messages", max(have.MaxMsgs, 0), max(want.MaxMsgs, 0)}, {"sealed", have.Sealed, want.Sealed}, {"no deletion", have.DenyDelete, want.DenyDelete},
		{"no purge", have.DenyPurge, want.DenyPurge}, {"no acknowledgements", have.NoAck, want.NoAck}, {"mirror", have.Mirror != nil, false},
	} {
		if d.have != d.want {
			return fmt.Sprintf("%s is %v, and must be %v", d.what, d.have, d.want)
		}
	}
	return ""
}

// streamAgeDoubt tells streams that were just made from those that were there: processes that start together make them together.
var streamAgeDoubt = time.Minute
