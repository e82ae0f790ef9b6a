package cluster

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strconv"
	"strings"
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
	// ReplayAge is the lifetime of an append. 0 means 10 min; rounded up to seconds.
	ReplayAge time.Duration
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
	defaultReplayAge = 10 * time.Minute
	defaultSync      = time.Second
	defaultKeyRotate = 24 * time.Hour

	maxShards = 32 // of a store

	// remotePrefix goes before the names of streams on servers that others may use, too.
	remotePrefix = "troupe"
)

// Setting is one that all nodes on the same servers must have alike. Its name is that of a flag.
type Setting struct{ Name, Value string }

// Remote names the NATS servers that keep the store, where no server in this process does. The zero value names none.
//
// Of the ways to say who the node is, one may be set: a user or a token in the URL, Token, NKey or Creds. Beside them, or
// instead, the node may show a certificate.
type Remote struct {
	// URL is the address of a server, or of several of one cluster with commas between them: nats://HOST:PORT or
	// tls://HOST:PORT. A user and a password, or a token, may stand before the host.
	URL string
	// Token is a token to log in with.
	Token string
	// NKey is the path of a file with the seed of an nkey.
	NKey string
	// Creds is the path of a file with the JWT of a user and the seed of its nkey.
	Creds string
	// CA is the path of a PEM file with the authorities that may have signed the servers' certificates. "" takes those of
	// the system.
	CA string
	// Cert and Key are the paths of PEM files with the certificate that the node shows. Both or none are set. These files, and those of
	// CA and Creds, are read again for each connection.
	Cert, Key string
	// Replicas is how many servers keep a copy of each stream: 1, 3 or 5. 0 takes what the streams have; streams that
	// are not there yet get 3 in a cluster, and 1 otherwise.
	Replicas int
}

// isSet reports whether there are servers.
func (r *Remote) isSet() bool { return r.URL != "" }

// checkAccess refuses what cannot be used, without a word of what is secret.
func (r *Remote) checkAccess() error {
	if !r.isSet() {
		if *r != (Remote{}) {
			return errors.New("cluster: nats: access or replicas without a URL of a server")
		}
		return nil
	}
	ways := 0
	for one := range strings.SplitSeq(r.URL, ",") {
		u, err := url.Parse(strings.TrimSpace(one))
		switch {
		case err != nil || strings.Contains(one, "@") && u.User == nil:
			// The parser's words may have a part of a password.
			return errors.New("cluster: nats URL: want nats://HOST:PORT or tls://HOST:PORT; in a user, password or token write %2F for /, %23 for #, %2C for a comma, %3F for ?, %25 for %, and %40 for @")
		case u.Scheme != "nats" && u.Scheme != "tls" || u.Hostname() == "" || u.Path != "" && u.Path != "/" || u.RawQuery != "":
			return fmt.Errorf("cluster: nats URL %q: want nats://HOST:PORT or tls://HOST:PORT and nothing behind it", (&url.URL{Scheme: u.Scheme, Host: u.Host}).String())
		case u.User != nil:
			ways = 1
		}
	}
	for _, way := range []string{r.Token, r.NKey, r.Creds} {
		if way != "" {
			ways++
		}
	}
	switch {
	case ways > 1:
		return errors.New("cluster: nats: more than one of a user in the URL, a token, an nkey and credentials: set one of them")
	case (r.Cert == "") != (r.Key == ""):
		return errors.New("cluster: nats: a certificate and its key belong together: set both or none")
	case r.Replicas != 0 && r.Replicas != 1 && r.Replicas != 3 && r.Replicas != 5:
		return fmt.Errorf("cluster: nats: %d replicas: want 1, 3 or 5", r.Replicas)
	}
	return nil
}

// redactURL is a URL without what is secret.
func redactURL(u *url.URL) string {
	c := *u
	c.User = nil
	return c.String()
}

// String returns the URLs without what is secret.
func (r Remote) String() string {
	var all []string
	for one := range strings.SplitSeq(r.URL, ",") {
		if u, err := url.Parse(strings.TrimSpace(one)); err == nil {
			all = append(all, redactURL(u))
		}
	}
	return strings.Join(all, ",")
}

// Listen has the server of this process serve other nodes, too, which name it in their Remote. They can do everything to the store: so they log in
// with a token, or show a certificate that an authority of CA has signed. The zero value does not listen.
type Listen struct {
	// Address is HOST:PORT. Port 0 takes a free one: see Node.Listens.
	Address string
	// Token is what nodes log in with. It passes as it is unless there is a certificate.
	Token string
	// Cert and Key are the paths of PEM files with the server's certificate. Both or none are set; with them, connections are by TLS alone.
	Cert, Key string
	// CA is the path of a PEM file with the authorities that may have signed the certificates that nodes must show.
	CA string
}

// isSet reports whether the server listens.
func (l *Listen) isSet() bool { return l.Address != "" }

// checkAddress refuses what would let in anybody, and what contradicts other options.
func (l *Listen) checkAddress(o *Options) error {
	if !l.isSet() {
		return nil
	}
	host, port, err := net.SplitHostPort(l.Address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	switch {
	case err != nil:
		return fmt.Errorf("cluster: listen for nodes on %q: want HOST:PORT", l.Address)
	case o.Remote.isSet():
		return errors.New("cluster: listen for nodes: the store is on other servers")
	case o.Dir == "":
		return errors.New("cluster: listen for nodes: the store of several nodes needs a data directory")
	case (l.Cert == "") != (l.Key == ""):
		return errors.New("cluster: listen for nodes: a certificate and its key belong together: set both or none")
	case l.CA != "" && l.Cert == "":
		return errors.New("cluster: listen for nodes: to ask nodes for certificates, the server needs one, too")
	case l.Token == "" && l.CA == "":
		return fmt.Errorf("cluster: listen for nodes on %s: whoever reaches that address could read and write all sessions: set a token, or a certificate, its key and the authorities of the certificates that nodes show", net.JoinHostPort(host, port))
	}
	return nil
}

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
	}{{"lease", &o.Lease, limits.Lease.Value()}, {"replay age", &o.ReplayAge, defaultReplayAge}, {"key rotation", &o.KeyRotate, defaultKeyRotate}} {
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
