package hosting

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/host"
	"github.com/troupe-run/troupe/internal/backend"
	"github.com/troupe-run/troupe/internal/backend/listing"
	"github.com/troupe-run/troupe/internal/backend/pool"
	"github.com/troupe-run/troupe/internal/upstream"
)

// A Host is a mounted server that hears of what becomes of its backends. Its methods are called on goroutines that have nothing else to do,
// but for Heard, which must not block.
type Host interface {
	// Heard gets what the backend with a key says beside any call.
	Heard(key string, e *backend.Event)
	// Changed says that lists of a backend are no longer what they were, and Known that they are known now, which is no change.
	Changed(lists []listing.Of)
	Known()
	// Lost says that a session has lost its instance of a backend.
	Lost(key, session string, reason pool.Reason)
	// Adopted says that a session has a process again that an earlier one has left for it, which is of no use if the session has ended meanwhile. ctx
	// ends with this process.
	Adopted(ctx context.Context, session string)
}

// A Node runs the backends of all servers of a process. The key of a backend is its name, with the id of its server and a slash in front unless
// that is the main one. Make one with NewNode; its methods may be called from any goroutine.
type Node struct {
	config backend.Config
	main   string // the id of the server whose backends have their own names as keys
	keep   time.Duration

	mu       sync.Mutex // guards the rest, and is held while all are configured
	backends map[string][]backend.Backend
	wrong    map[string][]WrongBackend // by the ids of servers
	order    []string                  // the ids of servers
	servers  sync.Map                  // of Host, by the ids of servers; needs no lock
	due      atomic.Bool               // they are to be configured
	soon     *time.Timer
	running  atomic.Pointer[backend.Backends] // nil as long as there are none; needs no lock to be read
	shutDown bool
}

// configureDelay is how long servers that are mounted may wait for those that are mounted beside them: what an earlier process has left is adopted
// once, by all of them.
const configureDelay = 100 * time.Millisecond

// storePatience bounds how long it may take to find what backends have listed last.
const storePatience = 5 * time.Second

// NewNode returns a Node without backends. Of the config it sets what hears of backends. main is the id of the server whose backends have their own
// names as keys. keep is how long processes are kept for the next process once this one is gone, 0 if it would not find them.
func NewNode(c backend.Config, main string, keep time.Duration) *Node {
	n := &Node{config: c, main: main, keep: keep, backends: make(map[string][]backend.Backend), wrong: make(map[string][]WrongBackend)}
	n.config.Heard = func(e backend.Event) { n.tellHost(e.Backend, func(h Host) { h.Heard(e.Backend, &e) }) }
	n.config.Changed = func(key, _ string, lists []listing.Of) { n.tellHost(key, func(h Host) { h.Changed(lists) }) }
	n.config.Lost = func(key, session string, reason pool.Reason) {
		n.tellHost(key, func(h Host) { h.Lost(key, session, reason) })
	}
	n.config.Adopted = func(ctx context.Context, key, session string) {
		n.tellHost(key, func(h Host) { h.Adopted(ctx, session) })
	}
	return n
}

var _ Backends = (*Node)(nil)

// Key is the key of a backend of a server.
func (n *Node) Key(server, name string) string {
	if server == n.main {
		return name
	}
	return server + "/" + name
}

// tellHost calls f with the server of a backend, if it is mounted.
func (n *Node) tellHost(key string, f func(Host)) {
	id, _, ok := strings.Cut(key, "/")
	if !ok {
		id = n.main
	}
	if h, ok := n.servers.Load(id); ok {
		f(h.(Host))
	}
}

// KeepsInstances reports whether what a target leads to outlives this process: a command's, or a session at a URL.
func (n *Node) KeepsInstances(t host.Target) bool {
	if _, _, isCommand := t.Command(); isCommand {
		return n.keep > 0
	}
	_, isURL := t.URL()
	return isURL && n.config.Estates != nil
}

// SetBackends has the backends of a server be these, with their keys as names; nil takes them away. It happens at once, or soon, together with those of servers
// that are mounted meanwhile, or before a call needs one.
func (n *Node) SetBackends(server string, h Host, all []backend.Backend, now bool) {
	n.mu.Lock()
	if _, known := n.backends[server]; !known {
		n.order = append(n.order, server)
	}
	n.servers.Store(server, h)
	if n.backends[server] = all; all == nil {
		n.servers.CompareAndDelete(server, h)
		delete(n.backends, server)
		delete(n.wrong, server)
		n.order = slices.DeleteFunc(n.order, func(of string) bool { return of == server })
	}
	n.due.Store(true)
	if !now && n.soon == nil {
		n.soon = time.AfterFunc(configureDelay, n.configure)
	}
	n.mu.Unlock()
	if now {
		n.configure()
	}
}

// A WrongBackend is a backend that is configured in a way in which nobody can be served by it. Another one may have its name: the one that it was before.
type WrongBackend struct{ Name, Why string }

// SetWrong has these be the backends of a server that cannot be used, which operators are told of.
func (n *Node) SetWrong(server string, all []WrongBackend) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.wrong[server] = all
}

// allWrong returns them all, with their keys as names.
func (n *Node) allWrong() (all []WrongBackend) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, server := range n.order {
		for _, w := range n.wrong[server] {
			all = append(all, WrongBackend{n.Key(server, w.Name), w.Why})
		}
	}
	return all
}

// configuredBackends returns the running backends, which are those that the servers have by now.
func (n *Node) configuredBackends() *backend.Backends {
	if n.due.Load() {
		n.configure()
	}
	return n.running.Load()
}

// configure has the running backends be those of the servers, if that is due.
func (n *Node) configure() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.due.Load() {
		return
	}
	var all []backend.Backend
	for _, server := range n.order {
		all = append(all, n.backends[server]...)
	}
	running := n.running.Load()
	if running == nil {
		running = backend.New(n.config)
		n.running.Store(running)
	}
	ctx, cancel := context.WithTimeout(context.Background(), storePatience)
	defer cancel()
	if n.shutDown {
		running.Close(ctx, 0) // whoever asks for them is refused
	} else {
		running.Configure(ctx, all)
	}
	n.due.Store(false)
	for _, server := range n.order {
		if h, ok := n.servers.Load(server); ok {
			go h.(Host).Known()
		}
	}
}

// Close ends all instances, or leaves processes to the next process. It waits for that until ctx ends.
func (n *Node) Close(ctx context.Context) {
	n.mu.Lock()
	running := n.running.Load()
	n.shutDown = true
	if n.soon != nil {
		n.soon.Stop()
	}
	n.mu.Unlock()
	if running != nil {
		running.Close(ctx, n.keep)
	}
}

// Counts returns how many instances of each backend there are, by its key. It waits for no configuration.
func (n *Node) Counts() map[string]backend.Counts {
	running := n.running.Load()
	if running == nil {
		return nil
	}
	return running.Counts()
}

// Call implements Backends.
func (n *Node) Call(ctx context.Context, name string, c backend.Caller, q Asked) (upstream.Response, error) {
	return BackendsFrom(n.configuredBackends()).Call(ctx, name, c, q)
}

// Notify implements Backends.
func (n *Node) Notify(ctx context.Context, name, session, method string, params []byte) error {
	return n.configuredBackends().Notify(ctx, name, session, method, params)
}

// Catalogue implements Backends.
func (n *Node) Catalogue(name string, c backend.Caller) (*backend.Catalogue, bool) {
	return n.configuredBackends().Catalogue(name, c)
}

// Knows implements Backends.
func (n *Node) Knows(name string, c backend.Caller) bool {
	return n.configuredBackends().Knows(name, c)
}

// Learn implements Backends.
func (n *Node) Learn(ctx context.Context, name string, c backend.Caller) (*backend.Catalogue, error) {
	return n.configuredBackends().Learn(ctx, name, c)
}

// Inherit implements Backends.
func (n *Node) Inherit(ctx context.Context, name string, c backend.Caller) (bool, error) {
	return backend.Inherit(ctx, n.configuredBackends(), name, c)
}

// SessionGone implements Backends.
func (n *Node) SessionGone(session string, moved bool) {
	n.configuredBackends().SessionGone(session, moved)
}
