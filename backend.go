package troupe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/host"
	"github.com/troupe-run/troupe/internal/backend"
	"github.com/troupe-run/troupe/internal/backend/listing"
	"github.com/troupe-run/troupe/internal/backend/naming"
	"github.com/troupe-run/troupe/internal/backend/pool"
	"github.com/troupe-run/troupe/internal/hostfile"
	"github.com/troupe-run/troupe/internal/hosting"
	"github.com/troupe-run/troupe/internal/keeper"
	"github.com/troupe-run/troupe/internal/nodestore"
	"github.com/troupe-run/troupe/internal/upstream"
	"github.com/troupe-run/troupe/mcp"
)

// Backend is a server that somebody else has written, as a [Server] offers it: see [AddBackend].
type Backend struct {
	// Name tells it from the others of its server: [A-Za-z0-9_.-], at most 46 characters. The names of its tools and prompts have it in front,
	// unless Options.Prefix says otherwise.
	Name    string
	Target  host.Target
	Options host.Options
}

// HostingOptions say how a Runtime keeps what runs for backends: processes of commands, and sessions at URLs.
type HostingOptions struct {
	// Keeper is the command of a program that becomes the keeper: the process that has the processes of backends, and outlives this one.
	// Arguments of its own follow. nil is this program, if it calls [host.Main]; without that the processes are children of this one, and
	// end with it.
	Keeper []string
	// Keep is for how long the keeper keeps processes that no Runtime has adopted, once this one is gone. It keeps them only for a Runtime with
	// Options.Dir, since the next one finds them there. 0 means 30 seconds; negative keeps nothing.
	Keep time.Duration
	// MaxInstances is how many instances there may be on this node, over all servers. 0 means 512, negative no bound but those of
	// the backends.
	MaxInstances int
}

// AddBackend has the server offer what another server has: its tools, prompts, resources and their templates, behind those of the server
// itself, and in the order of AddBackend. It runs when somebody needs it, and at the first start to find out what it lists.
//
// Names of tools and prompts have the backend's name and two underscores in front; URIs stay. Of several items with one name, or one URI,
// the first is there. A server without items of its own, and with one backend whose Options.Prefix is [host.NoPrefix], looks
// exactly like that. Params and results pass as they are: schemas are the backend's to enforce. ServerOptions.Scopes and Visible hold for
// its items, too.
//
// A backend of the same name is replaced. Its instances stay if they would run in the same way.
//
// AddBackend panics for a nil server, for a name that cannot be one, for a target or options that [host.Options.Check] refuses or whose EnvFile
// cannot be read, and for a prefix that could give two items one name.
func AddBackend(s *Server, name string, t host.Target, o host.Options) {
	must(addBackend(s, Backend{name, t, o}, true))
}

// TryAddBackend is AddBackend with an error in place of a panic, as [TryAddTool] is [AddTool].
func TryAddBackend(s *Server, name string, t host.Target, o host.Options) error {
	return addBackend(s, Backend{name, t, o}, false)
}

func addBackend(s *Server, b Backend, replace bool) error {
	if s == nil {
		return fmt.Errorf("troupe: backend %q: %w", b.Name, errNoServer)
	}
	return s.backends.change(s, func(all []Backend) ([]Backend, error) {
		at := slices.IndexFunc(all, func(of Backend) bool { return of.Name == b.Name })
		switch {
		case at < 0:
			return append(all, b), nil
		case !replace:
			return nil, fmt.Errorf("troupe: backend %q: there is one of this name already: only AddBackend replaces it", b.Name)
		}
		all[at] = b
		return all, nil
	})
}

// RemoveBackends removes backends, whose instances end. It ignores names that the server does not have.
func (s *Server) RemoveBackends(names ...string) {
	must(s.backends.change(s, func(all []Backend) ([]Backend, error) {
		return slices.DeleteFunc(all, func(b Backend) bool { return slices.Contains(names, b.Name) }), nil
	}))
}

// SetBackends has the server offer exactly these backends, in this order, as after a file that lists them was read again. Those that run in the
// same way as before keep their instances. The error is that of [TryAddBackend], for each of them that is wrong; nothing changes then.
func (s *Server) SetBackends(all []Backend) error {
	return s.backends.change(s, func([]Backend) ([]Backend, error) { return slices.Clone(all), nil })
}

// serverBackends are the backends of a server.
type serverBackends struct {
	mu  sync.Mutex // guards all, and is held while a change is carried out
	all []Backend

	// hosted is the server as far as they serve for it; nil without backends, and until it is mounted.
	hosted atomic.Pointer[hosting.Server]
}

// change has edit make other backends of a copy of those that the server has.
func (b *serverBackends) change(s *Server, edit func(all []Backend) ([]Backend, error)) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	next, err := edit(slices.Clone(b.all))
	if err != nil {
		return err
	}
	if err := checkBackends(next); err != nil {
		return err
	}
	b.all = next
	if svc := s.mount.mountedService(); svc != nil {
		svc.hosting.configure(next)
		for list := range announced {
			s.mount.listChanged(list)
		}
	}
	return nil
}

// backendNames are the names that the prefix of a backend can be made of.
var backendNames = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,46}$`)

// checkBackends settles the options of backends, and returns what is wrong with them.
func checkBackends(all []Backend) error {
	var faults []error
	for i := range all {
		b := &all[i]
		fault := func(err error) { faults = append(faults, fmt.Errorf("troupe: backend %q: %w", b.Name, err)) }
		if !backendNames.MatchString(b.Name) {
			fault(errors.New("want a name of 1 to 46 of A-Z a-z 0-9 _ . -"))
		}
		if err := b.Options.Check(b.Target); err != nil {
			fault(err)
		}
		if err := b.readEnvFile(); err != nil {
			fault(err)
		}
		prefix := naming.Prefix(b.Name, b.Options.Prefix)
		for _, other := range all[:i] {
			if other.Name == b.Name {
				fault(errors.New("there are two of this name"))
			} else if theirs := naming.Prefix(other.Name, other.Options.Prefix); naming.Clash(prefix, theirs) {
				fault(fmt.Errorf("its prefix %q and that of %s, %q, begin alike, so that two tools could have one name", prefix, other.Name, theirs))
			}
		}
	}
	return errors.Join(faults...)
}

// readEnvFile puts the variables of Options.EnvFile into Options.Env, which goes before them.
func (b *Backend) readEnvFile() error {
	path := b.Options.EnvFile
	if path == "" {
		return nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("Options.EnvFile: %w", err)
	}
	env, err := hostfile.ReadVariables(path, data)
	if err != nil {
		return fmt.Errorf("Options.EnvFile: %w", err)
	}
	maps.Copy(env, b.Options.Env)
	b.Options.Env, b.Options.EnvFile = env, ""
	return nil
}

// secretLength is the least length of a text that is masked: shorter ones are everywhere.
const secretLength = 6

// mask returns what hides the backend's secrets in a text.
func (b *Backend) mask() func(string) string {
	secrets := slices.Clone([]string(b.Options.Hide))
	secrets = slices.AppendSeq(secrets, maps.Values(b.Options.Env))
	secrets = slices.AppendSeq(secrets, maps.Values(b.Options.Headers))
	secrets = slices.DeleteFunc(secrets, func(s string) bool { return len(s) < secretLength })
	slices.SortFunc(secrets, func(x, y string) int { return len(y) - len(x) }) // one may be a part of another
	return func(text string) string {
		for _, s := range secrets {
			text = strings.ReplaceAll(text, s, "***")
		}
		return text
	}
}

// nodeBackends runs the backends of all servers of a Runtime. A name of a backend is unique within its server: here it has the server's id in front.
type nodeBackends struct {
	*Runtime
	mu       sync.Mutex // guards the rest, and is held while all are configured
	of       map[*service][]Backend
	order    []*service
	servers  sync.Map    // *serviceHosting by the ids of servers; needs no lock
	due      atomic.Bool // they are to be configured
	soon     *time.Timer
	running  *backend.Backends // nil as long as there are none
	shutDown bool
}

// configureDelay is how long servers that are mounted may wait for those that are mounted beside them: what an earlier process has left is adopted
// once, by all of them.
const configureDelay = 100 * time.Millisecond

// set has the backends of a server be these.
func (n *nodeBackends) set(s *service, all []Backend, now bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.of == nil {
		n.of = make(map[*service][]Backend)
	}
	if _, known := n.of[s]; !known {
		n.order = append(n.order, s)
	}
	n.servers.Store(s.id, &s.hosting)
	if n.of[s] = all; all == nil {
		n.servers.CompareAndDelete(s.id, &s.hosting)
		delete(n.of, s)
		n.order = slices.DeleteFunc(n.order, func(of *service) bool { return of == s })
	}
	n.due.Store(true)
	if !now && n.soon == nil {
		n.soon = time.AfterFunc(configureDelay, func() { n.ready() })
	}
}

// ready returns the running backends, which are those of the servers from now on.
func (n *nodeBackends) ready() *backend.Backends {
	if n.due.Load() {
		n.configure()
	}
	return n.running
}

func (n *nodeBackends) configure() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.due.Load() {
		return
	}
	var all []backend.Backend
	for _, s := range n.order {
		for _, b := range n.of[s] {
			all = append(all, backend.Backend{Name: s.hosting.keyOf(b.Name), Digest: hostfile.Digest(b.Target, b.Options), Target: b.Target, Options: b.Options.WithDefaults(), Mask: b.mask()})
		}
	}
	if n.running == nil {
		n.running = backend.New(n.config())
	}
	ctx, cancel := context.WithTimeout(context.Background(), storePatience)
	defer cancel()
	if n.shutDown {
		n.running.Close(ctx, 0) // whoever asks for them is refused
	} else {
		n.running.Configure(ctx, all)
	}
	n.due.Store(false)
	mounted := slices.Clone(n.order)
	go func() { // the lists are known now, which is no change of them
		for _, s := range mounted {
			s.srv.mount.noteLists()
		}
	}()
}

// storePatience bounds how long it may take to find what backends have listed last.
const storePatience = 5 * time.Second

// config says how backends run.
func (n *nodeBackends) config() backend.Config {
	most := cmp.Or(n.opts.Hosting.MaxInstances, 512)
	return backend.Config{
		Kernel: n.node.Kernel(), PoolKind: actors.KindPool, InstanceKind: actors.KindInstance,
		Processes: n.processes, Catalogues: nodestore.NewCatalogues(n.cluster), Bounds: pool.Bounds{Instances: max(most, 0), Starts: 2 * runtime.GOMAXPROCS(0)},
		Info: mcp.Raw(mcp.Implementation{Name: "troupe", Version: cmp.Or(n.operations.process.Load().Release, "0")}), Log: n.log,
		Heard: func(e backend.Event) { n.serverOf(e.Backend, func(h *serviceHosting, key string) { h.heard(key, &e) }) },
		Changed: func(of, _ string, lists []listing.Of) {
			n.serverOf(of, func(h *serviceHosting, _ string) { h.listsChanged(lists) })
		},
		Lost: func(of, session string, reason pool.Reason) {
			n.serverOf(of, func(h *serviceHosting, key string) { h.lost(key, session, reason) })
		},
	}
}

// serverOf calls f with the server of a backend, if it is mounted.
func (n *nodeBackends) serverOf(key string, f func(h *serviceHosting, key string)) {
	id, _, ok := strings.Cut(key, "/")
	if !ok {
		id = mainID
	}
	if s, ok := n.servers.Load(id); ok {
		f(s.(*serviceHosting), key)
	}
}

// program is the command of the keeper, nil for none.
func (o *HostingOptions) program() []string {
	if o.Keeper != nil {
		return o.Keeper
	}
	return host.Kept()
}

// processes connects to what has the processes of commands.
func (n *nodeBackends) processes(ctx context.Context, stderr func(id string, line []byte, dropped int)) (*keeper.Client, error) {
	o := keeper.Options{Release: n.operations.process.Load().Release, Log: n.log, Stderr: stderr}
	program := n.opts.Hosting.program()
	if program == nil {
		return keeper.Embedded(ctx, o, "embedded"+strings.ReplaceAll(n.cluster.Boot(), "-", "_"), nil)
	}
	l := keeper.Launch{Program: program, Keep: cmp.Or(n.opts.Hosting.Keep, keeper.DefaultKeep)}
	if n.opts.Dir != "" {
		dir, err := filepath.Abs(n.opts.Dir)
		if err != nil {
			return nil, err
		}
		o.Socket, l.Log = filepath.Join(dir, "keeper.sock"), filepath.Join(dir, "keeper.log")
	}
	return keeper.Join(ctx, o, l)
}

// keeps reports whether processes of commands outlive this one, for a Runtime that finds them in the directory.
func (n *nodeBackends) keeps() bool {
	return n.opts.Dir != "" && n.opts.Hosting.Keep >= 0 && n.opts.Hosting.program() != nil
}

// close ends all instances, or leaves processes to the next Runtime on the directory.
func (n *nodeBackends) close(ctx context.Context) {
	n.mu.Lock()
	running := n.running
	n.shutDown = true
	if n.soon != nil {
		n.soon.Stop()
	}
	n.mu.Unlock()
	if running == nil {
		return
	}
	keep := time.Duration(0)
	if n.keeps() {
		keep = cmp.Or(n.opts.Hosting.Keep, keeper.DefaultKeep)
	}
	running.Close(ctx, keep)
}

var (
	_ hosting.Backends   = (*nodeBackends)(nil)
	_ backend.Catalogues = nodestore.Catalogues{}
)

// Call implements hosting.Backends.
func (n *nodeBackends) Call(ctx context.Context, name string, c backend.Caller, q hosting.Asked) (upstream.Response, error) {
	return hosting.Of(n.ready()).Call(ctx, name, c, q)
}

// Notify implements hosting.Backends.
func (n *nodeBackends) Notify(ctx context.Context, name, session, method string, params []byte) error {
	return n.ready().Notify(ctx, name, session, method, params)
}

// Catalogue implements hosting.Backends.
func (n *nodeBackends) Catalogue(name string, c backend.Caller) (*backend.Catalogue, bool) {
	return n.ready().Catalogue(name, c)
}

// Knows implements hosting.Backends.
func (n *nodeBackends) Knows(name string, c backend.Caller) bool { return n.ready().Knows(name, c) }

// Learn implements hosting.Backends.
func (n *nodeBackends) Learn(ctx context.Context, name string, c backend.Caller) (*backend.Catalogue, error) {
	return n.ready().Learn(ctx, name, c)
}

// SessionGone implements hosting.Backends.
func (n *nodeBackends) SessionGone(session string) { n.ready().SessionGone(session) }
