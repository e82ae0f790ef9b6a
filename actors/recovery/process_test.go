package recovery

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/sim"
	"github.com/troupe-run/troupe/internal/stream"
)

const (
	tenant    = "anon"
	serviceID = "s"
	lease     = 5 * time.Second
)

// process is one start of the server.
type process struct {
	w    *world
	name string
	node *actors.Node
	svc  *actors.Service
	link *sim.Link

	// dead is set once the process has no effect any more.
	dead atomic.Bool
	// replaced is set once another process may take its streams.
	replaced atomic.Bool

	mu    sync.Mutex // guards conns
	conns map[*conn]struct{}
}

// newProcess begins the n-th process.
func (w *world) newProcess(n int, node string) *process {
	p := &process{w: w, name: node + "." + strconv.Itoa(n), conns: make(map[*conn]struct{})}
	r := w.plan.rng("store " + p.name)
	var mu sync.Mutex // guards r
	p.link = sim.NewLink(w.disk, lease, func(string) sim.Fate {
		mu.Lock()
		defer mu.Unlock()
		return w.fate(r.Uint64(), r.Uint64())
	})
	for _, before := range w.all { // the caller holds mu
		before.link.Supersede()
	}
	l := &w.plan.Limits
	p.svc = actors.NewService(serviceID, &handler{p: p}, actors.Limits{
		MaxCall: time.Duration(l.MaxCall), MaxAsk: time.Duration(l.MaxAsk), ReplayAge: time.Duration(l.Replay),
		Stream: stream.Limits{Appends: l.Appends, Bytes: l.Bytes, Part: l.Part}, Queue: l.Queue,
	})
	p.node = actors.NewNode(actors.Config{Name: node, Boot: "b" + strconv.Itoa(n), Store: store{p.link}, Log: slog.New(slog.NewTextHandler(logged{w.judge}, nil))})
	return p
}

// logged adds what a process logs to the tale.
type logged struct{ j *judge }

func (l logged) Write(line []byte) (int, error) {
	_, text, _ := strings.Cut(strings.TrimSpace(string(line)), " ")
	l.j.note("log: %s", text)
	return len(line), nil
}

// fate draws the outcome of one operation of the store. a and b are random.
func (w *world) fate(a, b uint64) sim.Fate {
	f := sim.Fate{There: time.Duration(100_000 + a%1_500_000), Back: time.Duration(50_000 + b%1_000_000)}
	a, b = a>>32, b>>32
	if a%64 == 0 { // slow
		f.There += time.Duration(b%4_000) * time.Millisecond
	}
	if a%64 == 1 {
		f.Back += time.Duration(b%4_000) * time.Millisecond
	}
	f.Again, f.Lost = a%128 == 2, a%128 == 3
	f.Stray, f.Half, f.Hang = b%2 == 0, b%4 == 0, b%8 < 4
	return f
}

// die is kill -9.
func (p *process) die() {
	if p.dead.Swap(true) {
		return
	}
	p.link.Kill()
	p.mu.Lock()
	conns := p.conns
	p.conns = nil
	p.mu.Unlock()
	for c := range conns {
		c.breaks()
	}
	p.w.left.Go(p.close)
}

// close ends the goroutines that would end with a killed process.
func (p *process) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := p.node.Close(ctx); err != nil {
		p.w.judge.fault("process %s does not end: %v", p.name, err)
	}
}

// connect begins an exchange; it returns nil if the connection is refused.
func (p *process) connect() *conn {
	c := newConn(p)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conns == nil {
		return nil
	}
	p.conns[c] = struct{}{}
	return c
}

func (p *process) input(c *conn, session, lastID string) *actors.Input {
	return &actors.Input{Tenant: tenant, Session: session, LastEventID: lastID, Conn: c}
}

// post sends a message to the process. It returns nil if there is no process.
func (w *world) post(session string, body []byte) *conn {
	p := w.current()
	if p == nil {
		return nil
	}
	c := p.connect()
	if c == nil {
		return nil
	}
	w.left.Go(func() {
		var m codec.Message
		if err := codec.Scan(body, &m, codec.Limits{}); err != nil {
			panic(fmt.Sprintf("%v: %s", err, body))
		}
		p.node.Post(p.svc, p.input(c, session, ""), nil, &m, body)
	})
	return c
}

// get resumes a stream. It returns nil if there is no process.
func (w *world) get(session, lastID string) *conn {
	p := w.current()
	if p == nil {
		return nil
	}
	c := p.connect()
	if c == nil {
		return nil
	}
	w.left.Go(func() { p.node.Get(p.svc, p.input(c, session, lastID)) })
	return c
}
