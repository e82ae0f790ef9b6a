package cluster

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

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

// wrapFault says what is wrong with the servers, and what to do.
func (r *Remote) wrapFault(err error, advice string) error {
	return fmt.Errorf("cluster: %w: %s: %w: %s", ErrRemote, r.String(), err, advice)
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

// String returns the URLs without what is secret. It returns none of them where that cannot be told from the rest: a
// password in which / or a comma is not written as a number ends its URL before the @.
func (r Remote) String() string {
	var all []string
	for one := range strings.SplitSeq(r.URL, ",") {
		u, err := url.Parse(strings.TrimSpace(one))
		switch {
		case strings.Contains(one, "@") && (err != nil || u.User == nil):
			return ""
		case err == nil:
			u.User = nil
			all = append(all, u.String())
		}
	}
	return strings.Join(all, ",")
}
