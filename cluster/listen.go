package cluster

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"strconv"

	"github.com/nats-io/nats-server/v2/server"
)

// setOptions sets the options of the server. port is the one to take.
func (l *Listen) setOptions(o *server.Options, port int) error {
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

// setListenOptions has the server that is about to start serve other nodes.
func (n *Node) setListenOptions(so *server.Options) error {
	port := 0
	if at, again := n.listens.(*net.TCPAddr); again {
		port = at.Port
	} else if err := n.opts.Listen.checkPortFree(); err != nil {
		return err
	}
	so.SyncAlways = n.opts.Sync < 0 // The flusher would see the writes of this node alone.
	return n.opts.Listen.setOptions(so, port)
}
