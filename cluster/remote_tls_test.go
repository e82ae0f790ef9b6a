package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/when"
)

// authority signs certificates for tests.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// newAuthority makes an authority whose certificate is in the file ca.pem of a new directory.
func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{dir: t.TempDir()}
	a.cert, a.key = a.issue(t, "ca", &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

// issue writes a certificate and its key to NAME.pem and NAME.key.
func (a *authority) issue(t *testing.T, name string, c *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key := must[*ecdsa.PrivateKey](t)(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	c.SerialNumber, c.Subject = big.NewInt(time.Now().UnixNano()), pkix.Name{CommonName: name}
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = c, key
	}
	der := must[[]byte](t)(x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer))
	secret := must[[]byte](t)(x509.MarshalECPrivateKey(key))
	for file, block := range map[string]*pem.Block{name + ".pem": {Type: "CERTIFICATE", Bytes: der}, name + ".key": {Type: "EC PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(a.file(file), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return must[*x509.Certificate](t)(x509.ParseCertificate(der)), key
}

// serverTLS signs a certificate for servers on this machine, and one for clients, in the files client.pem and client.key. It returns what those servers show,
// and ask for.
func (a *authority) serverTLS(t *testing.T) *tls.Config {
	t.Helper()
	a.issue(t, "server", &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	a.issue(t, "client", &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	own := must[tls.Certificate](t)(tls.LoadX509KeyPair(a.file("server.pem"), a.file("server.key")))
	return &tls.Config{Certificates: []tls.Certificate{own}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12}
}

// TestRemoteTLS connects to a server that shows a certificate and asks for one.
func TestRemoteTLS(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	shown := a.serverTLS(t)
	c := kit.StartNATS(t, 1, func(o *server.Options) {
		o.TLS, o.TLSVerify, o.TLSConfig = true, true, shown
	})
	good := Remote{URL: c.URL(), CA: a.file("ca.pem"), Cert: a.file("client.pem"), Key: a.file("client.key")}
	open(t, Options{Remote: good})
	began := time.Now()
	stranger := newAuthority(t)
	stranger.issue(t, "client", &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	for what, change := range map[string]func(r *Remote){
		"unknown authority":           func(r *Remote) { r.CA = "" },
		"another authority":           func(r *Remote) { r.CA = stranger.file("ca.pem") },
		"no certificate":              func(r *Remote) { r.Cert, r.Key = "", "" },
		"a stranger's certificate":    func(r *Remote) { r.Cert, r.Key = stranger.file("client.pem"), stranger.file("client.key") },
		"a certificate without a key": func(r *Remote) { r.Key = a.file("ca.pem") },
	} {
		r := good
		change(&r)
		_, err := Open(t.Context(), Options{Remote: r})
		wantErr(t, what, err, ErrRemote)
	}
	when.Within(t, "refusals", time.Since(began), remoteStart/2)
}

// TestRenewedCertificates exchanges all certificates while a node runs. Servers that have theirs before the node has its own refuse it, which it logs; it
// connects once its files are exchanged, too.
func TestRenewedCertificates(t *testing.T) {
	t.Parallel()
	files := t.TempDir()
	file := func(name string) string { return filepath.Join(files, name) }
	// renew makes an authority, and what the servers show by it. install gives the node what it needs then.
	renew := func() (servers *tls.Config, install func()) {
		a := newAuthority(t)
		return a.serverTLS(t), func() {
			for _, name := range []string{"ca.pem", "client.pem", "client.key"} {
				if err := os.WriteFile(file(name), must[[]byte](t)(os.ReadFile(a.file(name))), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	shown, install := renew()
	install()
	var options *kit.NATSOptions
	c := kit.StartNATS(t, 1, func(o *kit.NATSOptions) {
		o.TLS, o.TLSVerify, o.TLSConfig = true, true, shown
		options = o
	})
	var log syncBuffer
	n := open(t, Options{Remote: Remote{URL: c.URL(), CA: file("ca.pem"), Cert: file("client.pem"), Key: file("client.key")}, Log: slog.New(slog.NewTextHandler(&log, nil))})
	c.Stop(0)
	shown, install = renew()
	options.TLSConfig = shown
	c.Start(t, 0)
	wait(t, "line that says why the node is not let in", func() bool {
		s := log.String()
		return strings.Contains(s, "nats refuses the connection") && strings.Contains(s, "certificate")
	})
	install()
	wait(t, "connection with the new certificates", func() bool {
		_, _, err := n.Get(t.Context(), testKey)
		return errors.Is(err, store.ErrNotFound)
	})
}

// TestRemoteCreds connects with a file of credentials to a server that trusts an operator.
func TestRemoteCreds(t *testing.T) {
	t.Parallel()
	operator, account, system, user := must[nkeys.KeyPair](t)(nkeys.CreateOperator()), must[nkeys.KeyPair](t)(nkeys.CreateAccount()), must[nkeys.KeyPair](t)(nkeys.CreateAccount()), must[nkeys.KeyPair](t)(nkeys.CreateUser())
	public := func(k nkeys.KeyPair) string { return must[string](t)(k.PublicKey()) }
	oc := jwt.NewOperatorClaims(public(operator))
	oc.SystemAccount = public(system)
	trusted := must[*jwt.OperatorClaims](t)(jwt.DecodeOperatorClaims(must[string](t)(oc.Encode(operator))))
	resolver := &server.MemAccResolver{}
	for _, k := range []nkeys.KeyPair{account, system} {
		ac := jwt.NewAccountClaims(public(k))
		if k == account {
			ac.Limits.JetStreamLimits = jwt.JetStreamLimits{DiskStorage: jwt.NoLimit, Streams: jwt.NoLimit, Consumer: jwt.NoLimit}
		}
		if err := resolver.Store(public(k), must[string](t)(ac.Encode(operator))); err != nil {
			t.Fatal(err)
		}
	}
	c := kit.StartNATS(t, 1, func(o *server.Options) {
		o.TrustedOperators, o.AccountResolver, o.SystemAccount = []*jwt.OperatorClaims{trusted}, resolver, public(system)
	})
	token := must[string](t)(jwt.NewUserClaims(public(user)).Encode(account))
	creds := must[[]byte](t)(jwt.FormatUserConfig(token, must[[]byte](t)(user.Seed())))
	file := filepath.Join(t.TempDir(), "user.creds")
	if err := os.WriteFile(file, creds, 0o600); err != nil {
		t.Fatal(err)
	}
	n := open(t, Options{Remote: Remote{URL: c.URL(), Creds: file}})
	if _, err := n.Create(t.Context(), "session.anon.demo.a", []byte("x"), time.Hour); err != nil {
		t.Error(err)
	}
	_, err := Open(t.Context(), Options{Remote: Remote{URL: c.URL()}})
	wantErr(t, "no credentials", err, ErrRemote)
}
