package kit

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/troupe-run/troupe/internal/inproc"
)

// BubbleNATS runs f in virtual time with a server. The test must not be parallel: clients of NATS share timers when they connect again, and the
// timers of a bubble end the process when they are used outside it.
func BubbleNATS(t *testing.T, change func(o *server.Options), f func(t *testing.T, v *VirtualNATS)) {
	t.Helper()
	t.Setenv("TROUPE_TEST_SERIAL", "1") // It fails a test that is parallel.
	forget := func() {
		for range 2 { // A pool keeps its content for one collection.
			runtime.GC()
		}
	}
	forget()
	defer forget()
	Bubble(t, func(t *testing.T) { f(t, StartVirtualNATS(t, change)) })
}

// VirtualNATS is a NATS server in this process, which programs reach by a URL and yet without the network, so that it can live in a bubble.
type VirtualNATS struct {
	Server *server.Server // nil while it is stopped

	options server.Options
	id      int64
	mu      sync.Mutex // guards Server where lines use it, and lines
	lines   map[string]*Line
}

var virtuals atomic.Int64

// StartVirtualNATS starts a server, with what change makes of its options; nil changes nothing. It ends with the test.
func StartVirtualNATS(t testing.TB, change func(o *server.Options)) *VirtualNATS {
	t.Helper()
	v := &VirtualNATS{id: virtuals.Add(1), lines: make(map[string]*Line)}
	v.options = server.Options{
		ServerName: fmt.Sprintf("nats-%d", v.id), DontListen: true, NoSigs: true, NoLog: true,
		// A flush takes real time: virtual hours would have very many.
		JetStream: true, StoreDir: t.TempDir(), JetStreamMaxStore: anyStore, DisableJetStreamBanner: true, SyncInterval: 100 * time.Hour,
	}
	if change != nil {
		change(&v.options)
	}
	t.Cleanup(func() {
		for _, l := range v.all() {
			l.Heal()
		}
		v.Stop()
		for _, l := range v.all() {
			l.stop()
		}
	})
	v.Start(t)
	return v
}

// Start starts the server again, with its streams.
func (v *VirtualNATS) Start(t testing.TB) {
	t.Helper()
	o := v.options
	s, err := server.NewServer(&o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	if !s.ReadyForConnections(20 * time.Second) {
		t.Fatal("the NATS server does not start")
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.Server = s
}

// Empty starts the server again without all that it had, as after the loss of its disk.
func (v *VirtualNATS) Empty(t testing.TB) {
	t.Helper()
	v.Stop()
	entries, err := os.ReadDir(v.options.StoreDir)
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(v.options.StoreDir, e.Name())))
	}
	if err != nil {
		t.Fatal(err)
	}
	v.Start(t)
}

// Stop ends the server, if it runs.
func (v *VirtualNATS) Stop() {
	v.mu.Lock()
	s := v.Server
	v.Server = nil
	v.mu.Unlock()
	if s != nil {
		s.Shutdown()
		s.WaitForShutdown()
	}
}

func (v *VirtualNATS) all() (all []*Line) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, l := range v.lines {
		all = append(all, l)
	}
	return all
}

// Line returns the way to the server that has a name: [a-z0-9-]+. It is made when it is first asked for; each node of a test has its own.
func (v *VirtualNATS) Line(name string) *Line {
	v.mu.Lock()
	defer v.mu.Unlock()
	l := v.lines[name]
	if l == nil {
		l = &Line{server: v, host: fmt.Sprintf("%s.nats-%d.test", name, v.id), open: make(chan struct{}), conns: make(map[net.Conn]bool)}
		close(l.open)
		l.stop = inproc.Serve(l.host, l.connect)
		v.lines[name] = l
	}
	return l
}

// Line is a way to a server. All connections over it share its fate.
type Line struct {
	server *VirtualNATS
	host   string
	stop   func()
	slow   atomic.Int64
	drops  atomic.Pointer[func() bool]

	mu      sync.Mutex // guards the rest
	open    chan struct{}
	refuses bool
	conns   map[net.Conn]bool // what clients have
}

// URL is the address of the server by this line.
func (l *Line) URL() string { return "nats://" + l.host + ":4222" }

// Cut lets nothing pass, and tells nobody: what is sent arrives after Heal, if its connection is still wanted.
func (l *Line) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.passes() {
		l.open = make(chan struct{})
	}
}

// Break ends all connections, and refuses others until Heal.
func (l *Line) Break() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refuses = true
	for c := range l.conns {
		c.Close()
	}
}

// Heal ends Cut and Break.
func (l *Line) Heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refuses = false
	if !l.passes() {
		close(l.open)
	}
}

// Slow has all that is sent take some time from now on, in either direction.
func (l *Line) Slow(by time.Duration) { l.slow.Store(int64(by)) }

// Lose asks drop, from now on, for each message that the server sends by this line whether it is lost, but for replies to what a client asks
// of the server itself; nil ends that. Connections stay: so a server drops what it cannot send on.
func (l *Line) Lose(drop func() bool) {
	if drop == nil {
		l.drops.Store(nil)
		return
	}
	l.drops.Store(&drop)
}

// passes reports whether the line is open. The lock is held.
func (l *Line) passes() bool {
	select {
	case <-l.open:
		return true
	default:
		return false
	}
}

// pass returns once what was sent at some time may arrive.
func (l *Line) pass(sent time.Time) {
	time.Sleep(time.Until(sent.Add(time.Duration(l.slow.Load()))))
	l.mu.Lock()
	open := l.open
	l.mu.Unlock()
	<-open
}

// connect fails at once where a network would let it wait: clients of NATS hold a lock meanwhile, and virtual time
// stands still while others want that.
func (l *Line) connect() (net.Conn, error) {
	failed := func(text string) error {
		return &net.OpError{Op: "dial", Net: "inproc", Err: fmt.Errorf("%s: %s", l.host, text)}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.server.mu.Lock()
	s := l.server.Server
	l.server.mu.Unlock()
	switch {
	case !l.passes():
		return nil, failed("timeout")
	case s == nil || l.refuses:
		return nil, failed("connection refused")
	}
	far, err := s.InProcessConn()
	if err != nil {
		return nil, failed(err.Error())
	}
	near, mine := net.Pipe()
	l.conns[near] = true
	go l.carry(mine, far, near)
	go l.carry(far, mine, nil)
	return near, nil
}

// carry takes what one end sends to the other. of is what the client has, or nil in the other direction. A sender never waits, for the reason
// that connect has.
func (l *Line) carry(from, to, of net.Conn) {
	type piece struct {
		sent time.Time
		data []byte
	}
	var lost sieve
	var mu sync.Mutex // guards sent and ended
	var sent []piece
	ended := false
	more := make(chan struct{}, 1)
	go func() {
		for buf := make([]byte, 32<<10); ; {
			n, err := from.Read(buf)
			mu.Lock()
			if n > 0 {
				sent = append(sent, piece{time.Now(), append([]byte(nil), buf[:n]...)})
			}
			ended = err != nil
			mu.Unlock()
			select {
			case more <- struct{}{}:
			default:
			}
			if err != nil {
				return
			}
		}
	}()
	for last := false; !last; {
		<-more
		mu.Lock()
		var all []piece
		all, sent, last = sent, nil, ended
		mu.Unlock()
		for _, p := range all {
			l.pass(p.sent)
			if of == nil {
				p.data = lost.passes(p.data, l.drops.Load())
			}
			if _, err := to.Write(p.data); err != nil {
				last = true
				break
			}
		}
	}
	l.pass(time.Now())
	from.Close()
	to.Close()
	if of != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.conns, of)
	}
}

// ask sends a request to the JetStream API of the server, and decodes its answer.
func (v *VirtualNATS) ask(t testing.TB, subject string, into any) {
	t.Helper()
	conn, err := nats.Connect("", nats.InProcessServer(v.Server))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	m, err := conn.Request("$JS.API."+subject, nil, 10*time.Second)
	if err == nil {
		err = json.Unmarshal(m.Data, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// DeleteStreams removes the streams whose names end with suffix, as a person does by mistake.
func (v *VirtualNATS) DeleteStreams(t testing.TB, suffix string) {
	t.Helper()
	var all struct{ Streams []string }
	v.ask(t, "STREAM.NAMES", &all)
	deleted := 0
	for _, name := range all.Streams {
		if strings.HasSuffix(name, suffix) {
			var done struct{ Success bool }
			if v.ask(t, "STREAM.DELETE."+name, &done); done.Success {
				deleted++
			}
		}
	}
	if deleted == 0 {
		t.Fatalf("no stream of %v ends with %s", all.Streams, suffix)
	}
}

// Consumers are the names of a stream's consumers.
func (v *VirtualNATS) Consumers(t testing.TB, stream string) []string {
	t.Helper()
	var all struct{ Consumers []string }
	v.ask(t, "CONSUMER.NAMES."+stream, &all)
	return all.Consumers
}

// AllowConsumers has the account have at most so many consumers of a stream from now on, and each so many messages at a time; -1 is any number.
func (v *VirtualNATS) AllowConsumers(t testing.TB, consumers, pending int) {
	t.Helper()
	err := v.Server.GlobalAccount().UpdateJetStreamLimits(map[string]server.JetStreamAccountLimits{"": {
		MaxMemory: -1, MaxStore: -1, MaxStreams: -1, MemoryMaxStreamBytes: -1, StoreMaxStreamBytes: -1, MaxConsumers: consumers, MaxAckPending: pending,
	}})
	if err != nil {
		t.Fatal(err)
	}
}
