package hosting

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/host"
	"github.com/troupe-run/troupe/internal/backend"
	"github.com/troupe-run/troupe/internal/backend/listing"
	"github.com/troupe-run/troupe/internal/backend/naming"
	"github.com/troupe-run/troupe/mcp"
)

// A Backend is a server of others that a mounted server offers.
type Backend struct {
	Name    string       // as the configuration has it
	Key     string       // by which Backends know it
	Digest  string       // another one is another server: nothing that is known of the one holds for the other
	URL     bool         // it is reached over HTTP
	Kept    bool         // its instances, and the calls that they work at, outlive this process
	Options host.Options // with their defaults
}

// A Caller is whose call it is, or for whom something is listed.
type Caller struct {
	backend.Caller
	Revision mcp.Revision
	Declared mcp.ClientCapabilities // those that count in the revision
}

// Told is what backends are told of what a client declares, as raw JSON: what they may ask for, and nothing else that the client has written there. It decides who
// can share an instance, and clients must not make kinds of them without end.
func Told(c *mcp.ClientCapabilities) []byte {
	var told mcp.ClientCapabilities
	if e := c.Elicitation; e != nil {
		told.Elicitation = &mcp.ElicitationCapability{Form: emptied(e.Form), URL: emptied(e.URL)}
	}
	if s := c.Sampling; s != nil {
		told.Sampling = &mcp.SamplingCapability{Context: emptied(s.Context), Tools: emptied(s.Tools)}
	}
	told.Roots = c.Roots
	return mcp.Raw(told)
}

// emptied is an empty object for any.
func emptied(o *mcp.Object) *mcp.Object {
	if o == nil {
		return nil
	}
	return mcp.Declared()
}

// Server is a mounted server as far as others serve for it. Make it with New.
type Server struct {
	// Tasks is called when a backend lists tools whose calls may become tasks: by themselves, or as asks says also as clients ask for it. It must not
	// block, and not change once the server is configured; nil is told of none.
	Tasks func(asks bool)

	backends  Backends
	wait      time.Duration // of a request for a backend of which nothing is known
	log       *slog.Logger
	now       atomic.Pointer[[]*mounted]
	followers followTable
}

// New returns a Server without backends. wait is how long a request waits for one of which nothing is known.
func New(b Backends, wait time.Duration, log *slog.Logger) *Server {
	s := &Server{backends: b, wait: wait, log: log, followers: followTable{of: make(map[followed]*following)}}
	s.now.Store(&[]*mounted{})
	return s
}

// Configure has exactly these backends, in this order.
func (s *Server) Configure(all []Backend) {
	before := *s.now.Load()
	next := make([]*mounted, len(all))
	for i, b := range all {
		m := &mounted{Backend: b, log: s.log, prefix: naming.Prefix(b.Name, b.Options.Prefix), filter: naming.Filter{Allow: b.Options.Tools.Allow, Deny: b.Options.Tools.Deny}}
		for _, old := range before {
			if old.Key == b.Key && old.Digest == b.Digest {
				m.quiet.Store(old.quiet.Load())
			}
		}
		next[i] = m
	}
	s.now.Store(&next)
}

// mounted is a backend of a Server.
type mounted struct {
	Backend
	log    *slog.Logger
	prefix string
	filter naming.Filter
	known  readCatalogues
	quiet  atomic.Int64 // until when nobody waits for it to say what it lists: it has not lately. Unix nanoseconds

	mu       sync.Mutex    // guards learning
	learning chan struct{} // closed when it has said what it lists, or has failed to; nil if nobody waits
}

// quietTime is for how long nobody waits for a backend that was not there in time.
const quietTime = 30 * time.Second

// Learn waits until it is known what each backend lists for such a caller, for as long as a request may wait for that. Of a backend that
// is down, or that starts for too long, it is unknown then.
func (s *Server) Learn(ctx context.Context, c *Caller) {
	ctx, cancel := context.WithTimeout(ctx, s.wait)
	defer cancel()
	for range 2 { // a backend may have been asked on behalf of another caller
		var waits []<-chan struct{}
		for _, m := range *s.now.Load() {
			if !s.backends.Knows(m.Key, c.Caller) && time.Now().UnixNano() >= m.quiet.Load() {
				waits = append(waits, m.learn(s.backends, c, s.wait))
			}
		}
		if waits == nil {
			return
		}
		for _, known := range waits {
			select {
			case <-known:
			case <-ctx.Done():
			}
		}
	}
	if ctx.Err() == nil {
		return
	}
	for _, m := range *s.now.Load() {
		if !s.backends.Knows(m.Key, c.Caller) {
			m.quiet.Store(time.Now().Add(quietTime).UnixNano())
		}
	}
}

// Begin has backends of which nothing is known begin to say what they list, though nobody has asked yet. It does not wait.
func Begin(s *Server) {
	c := &Caller{Caller: backend.Caller{Alone: true}}
	for _, m := range *s.now.Load() {
		if _, known := s.backends.Catalogue(m.Key, c.Caller); !known && time.Now().UnixNano() >= m.quiet.Load() {
			m.log.Info("a backend is asked what it lists", "backend", m.Key)
			m.learn(s.backends, c, s.wait)
		}
	}
}

// learn has the backend say what it lists, once for all who ask at the same time. It goes on when those who ask have given up.
func (m *mounted) learn(b Backends, c *Caller, wait time.Duration) <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.learning != nil {
		return m.learning
	}
	known := make(chan struct{})
	m.learning = known
	caller := c.Caller
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), max(m.Options.Pool.StartTimeout, wait))
		defer cancel()
		has, err := b.Learn(ctx, m.Key, caller)
		if err != nil {
			m.log.Debug("a backend does not say what it lists", "backend", m.Key, "error", err)
			m.quiet.Store(time.Now().Add(wait).UnixNano())
		} else {
			n := func(of listing.Of) int { return len(has.Items[of]) }
			m.log.Info("a backend has said what it lists", "backend", m.Key, "tools", n(listing.Tools), "prompts", n(listing.Prompts), "resources", n(listing.Resources))
		}
		m.mu.Lock()
		m.learning = nil
		m.mu.Unlock()
		close(known)
	}()
	return known
}

// Mounted returns the name of the backend that Backends know by a key.
func (s *Server) Mounted(key string) (Backend, bool) {
	for _, m := range *s.now.Load() {
		if m.Key == key {
			return m.Backend, true
		}
	}
	return Backend{}, false
}
