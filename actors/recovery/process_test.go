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
	"github.com/troupe-run/troupe/actors/internal/stream"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/test/sim"
)

const (
	tenant    = "anon"
	serviceID = "s"
	lease     = 5 * time.Second
)

// process is one start of the server.
type process struct {
	w     *world
	place *place
	name  string
	boot  string
	node  *actors.Node
	svc   *actors.Service
	link  *sim.Link
	box   *sim.Box // nil: the node is alone

	// faults of the process under way, guarded by world.mu
	storeless, behind, unheard, frozen int // behind is how many of storeless leave it the reads of a leader that was replaced
	// when balancers notice that it leaves, or is in trouble, guarded by world.mu; zero: never
	leaving, shunned time.Time

	// dead is set once the process has no effect any more.
	dead atomic.Bool
	// replaced is set once another process may take its streams.
	replaced atomic.Bool

	mu    sync.Mutex // guards the rest
	conns map[*conn]struct{}
	ice   chan struct{} // closed when the process goes on that stands still; nil: it runs
}

// newProcess begins the n-th process. The caller holds mu.
func (w *world) newProcess(n int, pl *place) *process {
	p := &process{w: w, place: pl, name: pl.name + "." + strconv.Itoa(n), boot: "b" + strconv.Itoa(n), conns: make(map[*conn]struct{})}
	r := w.plan.rng("store " + p.name)
	var mu sync.Mutex // guards r
	p.link = sim.NewLink(w.disk, lease, func(string) sim.Fate {
		mu.Lock()
		defer mu.Unlock()
		return w.fate(r.Uint64(), r.Uint64())
	})
	if d := time.Duration(w.plan.Clocks); d > 0 {
		p.link.Ahead(between(w.plan.rng("clock "+p.name), -d, d))
	}
	for _, before := range w.all {
		if before.place == pl {
			before.link.Supersede()
			w.judge.replaces(before)
			if w.office != nil {
				go linked{p.link, p.boot}.notes(before.boot)
			}
		}
	}
	l := &w.plan.Limits
	p.svc = actors.NewService(serviceID, &handler{p: p}, actors.Limits{
		MaxCall: time.Duration(l.MaxCall), MaxAsk: time.Duration(l.MaxAsk), ReplayAge: time.Duration(l.Replay),
		Stream: stream.Limits{Appends: l.Appends, Bytes: l.Bytes, Part: l.Part}, Queue: l.Queue,
	})
	c := actors.Config{Name: pl.name, Boot: p.boot, Store: linked{p.link, p.boot}, Log: slog.New(slog.NewTextHandler(logged{w.judge}, nil))}
	if w.office != nil {
		p.box = w.office.Enter(pl.name, p.boot, p.link)
		c.Mail = p.box
	}
	p.node = actors.NewNode(c)
	return p
}

// logged adds what a process logs to the tale.
type logged struct{ j *judge }

func (l logged) Write(line []byte) (int, error) {
	_, text, _ := strings.Cut(strings.TrimSpace(string(line)), " ")
	l.j.Note("log: %s", text)
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
	if p.box != nil {
		p.box.Kill()
	}
	p.thaw()
	p.mu.Lock()
	conns := p.conns
	p.conns = nil
	p.mu.Unlock()
	for c := range conns {
		c.breaks()
	}
	p.w.left.Go(p.close)
}

// freeze has the process stand still until thaw.
func (p *process) freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ice == nil && p.conns != nil {
		p.ice = make(chan struct{})
		p.link.Freeze()
	}
}

func (p *process) thaw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ice == nil {
		return
	}
	close(p.ice)
	p.ice = nil
	p.link.Thaw()
	for c := range p.conns {
		go c.goesOn()
	}
}

// stands returns what is closed when the process goes on; nil if it runs.
func (p *process) stands() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ice
}

// close ends the goroutines that would end with a killed process.
func (p *process) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := p.node.Close(ctx); err != nil {
		p.w.judge.Fault("process %s does not end: %v", p.name, err)
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

// post sends a message to a process. It returns nil if there is none.
func (p *process) post(session string, body []byte) *conn {
	return p.exchange(func(c *conn) {
		var m codec.Message
		if err := codec.Scan(body, &m, codec.Limits{}); err != nil {
			panic(fmt.Sprintf("%v: %s", err, body))
		}
		p.node.Post(p.svc, p.input(c, session, ""), nil, &m, body)
	})
}

// get resumes a stream. It returns nil if there is no process.
func (p *process) get(session, lastID string) *conn {
	return p.exchange(func(c *conn) { p.node.Get(p.svc, p.input(c, session, lastID), nil) })
}

// delete ends a session. It returns nil if there is no process.
func (p *process) delete(session string) *conn {
	return p.exchange(func(c *conn) { p.node.Delete(p.svc, p.input(c, session, "")) })
}

// exchange has a process take a request, once it runs. It returns nil if there is no process.
func (p *process) exchange(take func(*conn)) *conn {
	if p == nil {
		return nil
	}
	c := p.connect()
	if c == nil {
		return nil
	}
	p.w.left.Go(func() {
		for ice := p.stands(); ice != nil; ice = p.stands() {
			<-ice
		}
		if !p.dead.Load() {
			take(c)
		}
	})
	return c
}
