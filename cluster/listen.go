package cluster

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"

	"github.com/nats-io/nats-server/v2/server"
)

// applyTo sets the options of the server. port is the one to take.
func (l *Listen) applyTo(o *server.Options, port int) error {
	host, asked, err := net.SplitHostPort(l.Address)
	if err != nil {
		return err
	}
	o.DontListen, o.Host, o.Port, o.Authorization = false, host, port, l.Token
	if port == 0 {
		if o.Port, err = strconv.Atoi(asked); err != nil {
			return err
		}
		if o.Port == 0 {
			o.Port = server.RANDOM_PORT
		}
	}
	// A node that vanished without a word is found out, so that nobody takes it for one that hears.
	o.PingInterval, o.MaxPingsOut = pingEvery, pingsLost
	if l.Cert == "" {
		return nil
	}
	cert, err := tls.LoadX509KeyPair(l.Cert, l.Key)
	if err != nil {
		return fmt.Errorf("certificate: %w", err)
	}
	o.TLS, o.TLSTimeout = true, callTimeout.Seconds()
	o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}}
	if l.CA == "" {
		return nil
	}
	pem, err := os.ReadFile(l.CA)
	if o.TLSConfig.ClientCAs = x509.NewCertPool(); err == nil && !o.TLSConfig.ClientCAs.AppendCertsFromPEM(pem) {
		err = fmt.Errorf("%s has no certificate", l.CA)
	}
	o.TLSVerify, o.TLSConfig.ClientAuth = true, tls.RequireAndVerifyClientCert
	return err
}

// checkPortFree finds out whether the server can listen: it would only log why not.
func (l *Listen) checkPortFree() error {
	at, err := net.Listen("tcp", l.Address)
	if err != nil {
		return err
	}
	return at.Close()
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
