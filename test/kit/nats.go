package kit

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/troupe-run/troupe/test/kit/ports"
)

// NATS is a NATS server, or a cluster of several, which listens on 127.0.0.1 and keeps its streams on disk.
type NATS struct {
	Servers []*server.Server // nil for one that is stopped

	options []*server.Options
}

// NATSOptions are the options of a server, for tests that may not import its package.
type NATSOptions = server.Options

// anyStore is what servers of tests let streams reserve. By default that is most of what the disk has free, which is the machine's affair: nothing is
// written for it.
const anyStore = 1 << 40

// StartNATS starts n servers, with what change makes of the options of each; nil changes nothing. They end with the test.
func StartNATS(t testing.TB, n int, change func(o *server.Options)) *NATS {
	t.Helper()
	c := &NATS{Servers: make([]*server.Server, n)}
	var routes []*url.URL
	at := ports.Free(t, 2*n)
	for i := range n {
		routes = append(routes, &url.URL{Scheme: "nats", Host: fmt.Sprintf("127.0.0.1:%d", at[n+i])})
	}
	for i := range n {
		o := &server.Options{
			ServerName: serverName(i), Host: "127.0.0.1", Port: at[i], NoSigs: true, NoLog: true,
			JetStream: true, StoreDir: t.TempDir(), JetStreamMaxStore: anyStore, DisableJetStreamBanner: true,
		}
		if n > 1 {
			o.Cluster = server.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: at[n+i]}
			o.Routes = routes
		}
		if change != nil {
			change(o)
		}
		c.options = append(c.options, o)
	}
	t.Cleanup(func() {
		for i := range c.Servers {
			c.Stop(i)
		}
	})
	for i := range n {
		c.Start(t, i)
	}
	for _, s := range c.Servers {
		if !s.ReadyForConnections(20 * time.Second) {
			t.Fatal("a NATS server does not start")
		}
	}
	if n > 1 {
		c.lead(t)
	}
	return c
}

func serverName(i int) string { return fmt.Sprintf("nats-%d", i+1) }

// lead waits until the servers have a leader.
func (c *NATS) lead(t testing.TB) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
		for _, s := range c.Servers {
			if s.JetStreamIsLeader() && len(s.JetStreamClusterPeers()) == len(c.Servers) {
				return
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatal("the NATS servers have no leader")
}

// Start starts a server that is stopped, with its address and streams.
func (c *NATS) Start(t testing.TB, i int) {
	t.Helper()
	o := *c.options[i]
	s, err := server.NewServer(&o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	c.Servers[i] = s
}

// Stop ends a server, if it runs.
func (c *NATS) Stop(i int) {
	if s := c.Servers[i]; s != nil {
		s.Shutdown()
		s.WaitForShutdown()
		c.Servers[i] = nil
	}
}

// URL returns the addresses of all servers.
func (c *NATS) URL() string {
	var all []string
	for _, o := range c.options {
		scheme := "nats"
		if o.TLSConfig != nil {
			scheme = "tls"
		}
		all = append(all, fmt.Sprintf("%s://127.0.0.1:%d", scheme, o.Port))
	}
	return strings.Join(all, ",")
}
