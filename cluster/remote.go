package cluster

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/troupe-run/troupe/internal/inproc"
)

const (
	// remoteStart bounds the start: servers may start later than this process, and streams may wait for a leader.
	remoteStart = 30 * time.Second
	// silentStart is how long a start waits before it says so.
	silentStart = 2 * time.Second
	// replicatedLease is the shortest lease on replicated streams, where an election takes up to 9 s.
	replicatedLease = 12 * time.Second
	// oldestServer is the oldest release whose guards hold on replicated streams, too.
	oldestServer = "2.12.0"
	// pingEvery and pingsLost say how soon a server that vanished without a word is left.
	pingEvery, pingsLost = 2 * time.Second, 2
)

// enableJetStream is what to do about servers without it.
const enableJetStream = "enable JetStream on the servers, and for the account"

// wrapFault says what is wrong with the servers, and what to do.
func (r *Remote) wrapFault(err error, advice string) error {
	return fmt.Errorf("cluster: %w: %s: %w: %s", ErrRemote, r.String(), err, advice)
}

// remoteFault is ErrRemote with what is wrong with the store that nodes share, and what to do.
func (n *Node) remoteFault(err error, advice string) error {
	r := n.opts.Remote
	if n.opts.Listen.isSet() {
		r.URL = "nats://" + n.opts.Listen.Address
	}
	return r.wrapFault(err, advice)
}

// connectOptions says how to connect.
func (r *Remote) connectOptions() ([]nats.Option, error) {
	o := []nats.Option{
		nats.ReconnectWait(250 * time.Millisecond), nats.Timeout(callTimeout),
		nats.PingInterval(pingEvery), nats.MaxPingsOutstanding(pingsLost),
		nats.IgnoreAuthErrorAbort(), // otherwise the second refusal ends the connection for good
	}
	if u, err := url.Parse(r.URL); err == nil && inproc.Has(u.Hostname()) {
		o = append(o, nats.SetCustomDialer(inproc.Dialer{}), nats.SkipHostLookup())
	}
	switch {
	case r.Token != "":
		o = append(o, nats.Token(r.Token))
	case r.Creds != "":
		if _, err := os.ReadFile(r.Creds); err != nil {
			return nil, r.wrapFault(err, "the file of credentials must be readable")
		}
		o = append(o, nats.UserCredentials(r.Creds))
	case r.NKey != "":
		key, err := nats.NkeyOptionFromSeed(r.NKey)
		if err != nil {
			return nil, r.wrapFault(err, "the file must hold the seed of a user's nkey (SU...)")
		}
		o = append(o, key)
	}
	return r.addCertificates(o)
}

// addCertificates adds to the options of a connection what proves who is at either end. The files are read for each connection: whoever renews
// certificates exchanges them while the process runs.
func (r *Remote) addCertificates(o []nats.Option) ([]nats.Option, error) {
	if r.CA == "" && r.Cert == "" {
		return o, nil
	}
	var own nats.TLSCertHandler
	var roots nats.RootCAsHandler
	if r.CA != "" {
		roots = func() (*x509.CertPool, error) {
			pem, err := os.ReadFile(r.CA)
			pool := x509.NewCertPool()
			if err == nil && !pool.AppendCertsFromPEM(pem) {
				err = fmt.Errorf("%s has no certificate", r.CA)
			}
			return pool, err
		}
		if _, err := roots(); err != nil {
			return nil, r.wrapFault(err, "the file of authorities must hold certificates as PEM")
		}
	}
	if r.Cert != "" {
		own = func() (tls.Certificate, error) { return tls.LoadX509KeyPair(r.Cert, r.Key) }
		if _, err := own(); err != nil {
			return nil, r.wrapFault(err, "the certificate and its key must be PEM files that belong together")
		}
	}
	return append(o, nats.ClientTLSConfig(own, roots)), nil
}

// dialRemote connects to the servers of Options.Remote. While none answers, it tries again: they may start later than this process.
func (n *Node) dialRemote(ctx context.Context, more []nats.Option) (*nats.Conn, error) {
	r := &n.opts.Remote
	o, err := r.connectOptions()
	if err != nil {
		return nil, err
	}
	o = append(o, more...)
	for {
		nc, err := nats.Connect(r.URL, o...)
		switch {
		case err == nil:
			n.waits.Store(nil)
			return nc, nil
		case isRefused(err):
			return nil, r.wrapFault(err, "check the user, token, nkey or credentials, and what the account may do")
		case ctx.Err() != nil:
			return nil, r.wrapFault(err, "no server answers: start it, or check the address")
		}
		why := err.Error()
		n.waits.Store(&why)
		if !sleepFor(ctx, 250*time.Millisecond) {
			return nil, r.wrapFault(err, "no server answers: start it, or check the address")
		}
	}
}

// refusalLogEvery is how often it is logged that servers do not let a node in that was connected before.
const refusalLogEvery = time.Minute

// sayRefused logs why servers do not let the node in again, if they answer, and said was not just now; it returns when that was said last. To the rest of the
// node they seem to be away.
func (n *Node) sayRefused(said time.Time) time.Time {
	err := n.conn.LastError()
	if err == nil || !isRefused(err) || time.Since(said) < refusalLogEvery {
		return said
	}
	n.log.Warn("nats refuses the connection", "servers", n.opts.Remote.String(), "error", err)
	return time.Now()
}

// streamAgeDoubt tells streams that were just made from those that were there: processes that start together make them together.
var streamAgeDoubt = time.Minute

// isRefused reports whether a server answered and does not let the node in, or cannot be trusted: to try again does not help.
func isRefused(err error) bool {
	_, certificate := errors.AsType[*tls.CertificateVerificationError](err)
	_, record := errors.AsType[tls.RecordHeaderError](err)
	text := err.Error()
	return certificate || record || errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired) || errors.Is(err, nats.ErrAuthRevoked) ||
		errors.Is(err, nats.ErrSecureConnRequired) || errors.Is(err, nats.ErrSecureConnWanted) || errors.Is(err, nats.ErrNkeysNotSupported) ||
		strings.Contains(strings.ToLower(text), "authorization") || strings.Contains(text, "authentication") || strings.Contains(text, "tls: ")
}

// findPrefix takes the prefix that the streams on the servers have where none was given: those of a process that listens have none.
func (n *Node) findPrefix(ctx context.Context) error {
	if !n.opts.guess {
		return nil
	}
	js, err := jetstream.New(n.conn)
	if err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	for _, name := range []string{n.streamName("nodes"), "nodes"} {
		st, err := n.lookUp(ctx, js, name)
		switch {
		case errors.Is(err, jetstream.ErrStreamNotFound):
			continue
		case err != nil:
			return err
		case st.CachedInfo().Config.Metadata[formatKey] != "" && name == "nodes":
			n.opts.Prefix, n.prefix = "", ""
		}
		return nil
	}
	return nil
}

// lookUp finds a stream, or says that it is not there. Servers that cannot tell yet are asked again.
func (n *Node) lookUp(ctx context.Context, js jetstream.JetStream, name string) (jetstream.Stream, error) {
	r := &n.opts.Remote
	for {
		asked, cancel := context.WithTimeout(ctx, callTimeout)
		st, err := js.Stream(asked, name)
		cancel()
		switch {
		case err == nil || errors.Is(err, jetstream.ErrStreamNotFound):
			return st, err
		case errors.Is(err, jetstream.ErrJetStreamNotEnabled) || errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
			return nil, r.wrapFault(err, enableJetStream)
		case sleepFor(ctx, 250*time.Millisecond):
		case errors.Is(err, nats.ErrNoResponders):
			return nil, r.wrapFault(err, "nobody serves JetStream: "+enableJetStream)
		default:
			return nil, r.wrapFault(err, "stream "+name+" cannot be looked up: "+n.permissionAdvice())
		}
	}
}

// checkServer refuses a server that cannot keep the store.
func (n *Node) checkServer() error {
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

// agreeOnStreams waits until the streams of the servers are there as they must be.
func (n *Node) agreeOnStreams(ctx context.Context) error {
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
	if _, err := n.fillOfStream(ctx, clockOf); err == nil { // Otherwise the clock is looked at once it serves.
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
func (n *Node) reachStreams(ctx context.Context) error {
	for i := range n.kinds {
		k := &n.kinds[i]
		// A stream of this name is never there, and so nothing is stored: each stream refuses the message.
		m := &nats.Msg{Subject: n.subjectOf(k.subject) + strings.Repeat(".reach", k.tokens-1), Header: nats.Header{headerStream: {"reach"}}}
		for {
			_, err := n.acks.askAndWait(ctx, m)
			if err == nil {
				break
			}
			if !sleepFor(ctx, 50*time.Millisecond) {
				return n.opts.Remote.wrapFault(err, "stream "+n.streamName(k.name)+" takes no writes: "+n.permissionAdvice())
			}
		}
	}
	return nil
}

// mayAcknowledge finds out whether the servers permit acknowledgements of work: without them none would ever be done. They answer nothing to one,
// so it goes to nobody; what is not permitted a server refuses before its next answer.
func (n *Node) mayAcknowledge(ctx context.Context) error {
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

// fitIn waits until the entries of other nodes can be read, and compares them.
func (n *Node) fitIn(ctx context.Context) error {
	for {
		err := n.checkOthers(ctx, 0)
		if err == nil || errors.Is(err, ErrRemote) {
			return err
		}
		if !sleepFor(ctx, 250*time.Millisecond) {
			return n.opts.Remote.wrapFault(err, "stream "+n.streamName("nodes")+" cannot be read")
		}
	}
}

// agreeOn creates a stream, or checks the one that is there, and says when it was created. Servers of a cluster that has no leader
// yet are asked again.
func (n *Node) agreeOn(ctx context.Context, js jetstream.JetStream, k *kind, created *time.Time) error {
	r := &n.opts.Remote
	said := false
	for {
		asked, cancel := context.WithTimeout(ctx, callTimeout)
		err := n.tryStream(asked, js, k, created)
		cancel()
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
		case !sleepFor(ctx, 250*time.Millisecond) && errors.Is(err, nats.ErrNoResponders):
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

// permissionAdvice says what the user of a node must be allowed.
func (n *Node) permissionAdvice() string {
	return "let the user publish " + n.prefix + ">, $JS.API.> and $JS.ACK.>, and subscribe _INBOX.>, " + n.subjectOf("at.>") + ", " + n.subjectOf("all") + " and " + n.subjectOf("re.>")
}

// tryStream creates a stream, or checks the one that is there, once.
func (n *Node) tryStream(ctx context.Context, js jetstream.JetStream, k *kind, created *time.Time) error {
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

// sayWaits logs that the start waits, for what, and for how long at most.
func (n *Node) sayWaits() {
	attrs := []any{"servers", n.opts.Remote.String(), "gives_up_in", remoteStart - silentStart}
	if why := n.waits.Load(); why != nil {
		n.log.Warn("waiting for nats: no server answers yet", append(attrs, "error", *why)...)
		return
	}
	n.log.Warn("waiting for nats: the start is not done yet", attrs...)
}

// startRemote starts a node whose store is on other servers. The data directory, if there is one, keeps its name.
func (n *Node) startRemote(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, remoteStart)
	defer cancel()
	defer time.AfterFunc(silentStart, n.sayWaits).Stop()
	if n.opts.Dir != "" {
		if err := n.openDirectory(0, nil); err != nil {
			return err
		}
		if n.name == "" {
			n.name = n.dir.id.Node
		}
		if len(n.dir.id.Streams) > 0 {
			n.log.Warn("the data directory has a store of its own, which is left as it is and not used", "directory", n.dir.path)
		}
	}
	if n.name == "" {
		n.name = "node-" + randomName(8)
	}
	return n.joinServer(ctx)
}
