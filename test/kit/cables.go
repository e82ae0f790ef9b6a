package kit

import (
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// CabledNATS are three NATS servers that reach each other by cables, which can be cut.
type CabledNATS struct {
	*NATS
	mu    sync.Mutex
	ports map[string]int      // of the routes of each server
	away  string              // the server that is cut off
	lines map[net.Conn]string // open connections, by the names of both ends
}

// StartCabledNATS starts three servers. They end with the test.
func StartCabledNATS(t testing.TB) *CabledNATS {
	c := &CabledNATS{ports: make(map[string]int), lines: make(map[net.Conn]string)}
	c.NATS = StartNATS(t, 3, func(o *NATSOptions) {
		c.mu.Lock()
		c.ports[o.ServerName] = o.Cluster.Port
		c.mu.Unlock()
		o.Routes, o.Cluster.Advertise, o.Cluster.NoAdvertise, o.Cluster.PoolSize = nil, "127.0.0.1:1", true, -1
		for i := range 3 {
			if to := serverName(i); to != o.ServerName {
				o.Routes = append(o.Routes, c.lay(t, o.ServerName, to))
			}
		}
	})
	return c
}

// lay returns where a server reaches another one.
func (c *CabledNATS) lay(t testing.TB, from, to string) *url.URL {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			c.connect(near, from, to)
		}
	}()
	return &url.URL{Scheme: "nats", Host: l.Addr().String()}
}

func (c *CabledNATS) connect(near net.Conn, from, to string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	far, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", c.ports[to]))
	if err != nil || c.away == from || c.away == to {
		_ = near.Close()
		if err == nil {
			_ = far.Close()
		}
		return
	}
	for _, ends := range [][2]net.Conn{{near, far}, {far, near}} {
		c.lines[ends[0]] = from + " " + to
		go func() {
			_, _ = io.Copy(ends[0], ends[1])
			_ = ends[0].Close()
			_ = ends[1].Close()
		}()
	}
}

// Heal ends what Cut has begun.
func (c *CabledNATS) Heal() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.away = ""
}

// Cut cuts server i off from the two others. Its clients keep their connections.
func (c *CabledNATS) Cut(i int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.away = serverName(i)
	for line, ends := range c.lines {
		if strings.Contains(ends, c.away) {
			_ = line.Close()
		}
	}
}

// Lead makes server i the leader of a stream, of whatever name it has in NATS.
func (c *NATS) Lead(t testing.TB, i int, stream string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !c.Servers[i].JetStreamIsStreamLeader(server.DEFAULT_GLOBAL_ACCOUNT, stream); time.Sleep(300 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("server %d does not become the leader of %s", i, stream)
		}
		for _, s := range c.Servers {
			if s.JetStreamIsStreamLeader(server.DEFAULT_GLOBAL_ACCOUNT, stream) {
				_ = s.JetStreamStepdownStream(server.DEFAULT_GLOBAL_ACCOUNT, stream)
			}
		}
	}
}
