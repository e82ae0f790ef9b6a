package backend

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/backend/listing"
	"github.com/troupe-run/troupe/internal/backend/pool"
	"github.com/troupe-run/troupe/internal/upstream"
	"github.com/troupe-run/troupe/mcp"
)

// A Catalogue is what a backend said of itself last. It does not change.
type Catalogue struct {
	Settled *upstream.Settled
	Items   [4][][]byte // raw, by listing.Of
	digests [4]string
}

// Digest tells catalogues apart of which a client would see something else.
func (c *Catalogue) Digest() string {
	h := sha256.New()
	h.Write(c.Settled.Result)
	for _, d := range c.digests {
		h.Write([]byte(d))
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// newCatalogue returns a catalogue of lists.
func newCatalogue(settled *upstream.Settled, items [4][][]byte) *Catalogue {
	c := &Catalogue{Settled: settled, Items: items}
	for of, list := range items {
		h := sha256.New()
		for _, item := range list {
			h.Write(item)
			h.Write([]byte{'\n'})
		}
		c.digests[of] = hex.EncodeToString(h.Sum(nil)[:8])
	}
	return c
}

// differing returns the lists in which two catalogues differ; before may be nil.
func (c *Catalogue) differing(before *Catalogue) (lists []listing.Of) {
	for of := range c.digests {
		if before == nil && len(c.Items[of]) > 0 || before != nil && c.digests[of] != before.digests[of] {
			lists = append(lists, listing.Of(of))
		}
	}
	return lists
}

// Catalogues keep what backends list beyond this process. Their methods may be called from any goroutine.
type Catalogues interface {
	// Load returns what was stored for the digest of a configuration, nil if nothing was.
	Load(ctx context.Context, digest string) ([]byte, error)
	// Store stores it. It may refuse what is too large for it.
	Store(ctx context.Context, digest string, data []byte) error
}

// catalogues are those that are known.
type catalogues struct {
	mu    sync.Mutex // guards the rest
	known map[pool.Kind]*Catalogue
	order map[string][]pool.Kind // the kinds of a digest that are known, the oldest first
	own   map[holding]*Catalogue // of the instances of holders
}

// A holding is the instances of one kind that a holder has. A principal may have those of several: its clients declare different things.
type holding struct {
	kind   pool.Kind
	holder string
}

// mostKinds is how many catalogues of one configuration are remembered: clients decide what instances are told of them.
const mostKinds = 16

func newCatalogues() *catalogues {
	return &catalogues{known: make(map[pool.Kind]*Catalogue), order: make(map[string][]pool.Kind), own: make(map[holding]*Catalogue)}
}

// find returns what a holder sees of a backend: what its instance of a kind lists, or what one of that kind has listed last, or one of the
// same configuration that was told of another client.
func (c *catalogues) find(k pool.Kind, holder string) (*Catalogue, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if own := c.own[holding{k, holder}]; own != nil && holder != "" {
		return own, true
	}
	if of := c.known[k]; of != nil {
		return of, true
	}
	if like := c.order[k.Digest]; len(like) > 0 {
		return c.known[like[len(like)-1]], true
	}
	return nil, false
}

// has reports whether it is known what an instance of a kind lists, a holder's or another.
func (c *catalogues) has(k pool.Kind, holder string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known[k] != nil || holder != "" && c.own[holding{k, holder}] != nil
}

// eraOf returns the era of the backends with a digest, as far as it was found.
func (c *catalogues) eraOf(digest string) upstream.Era {
	c.mu.Lock()
	defer c.mu.Unlock()
	if like := c.order[digest]; len(like) > 0 {
		return c.known[like[len(like)-1]].Settled.Found
	}
	return upstream.EraUnknown
}

// knownOf returns what is known of the backends with a digest: the catalogue that was noted last of a kind, nil if there is none, and the
// revisions that instances of each kind speak, the oldest first.
func (c *catalogues) knownOf(digest string) (last *Catalogue, revisions []mcp.Revision) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range c.order[digest] {
		last = c.known[k]
		revisions = append(revisions, last.Settled.Revision)
	}
	slices.Sort(revisions)
	return last, slices.Compact(revisions)
}

// note remembers what an instance lists, and returns what it has listed before, or one like it; nil if nothing was known. What the instance of
// a holder lists after its first lists is the holder's alone, if anything is known of its kind: what it has been told meanwhile may be in there.
func (c *catalogues) note(k pool.Kind, holder string, is *Catalogue, first bool) (before *Catalogue) {
	before, _ = c.find(k, holder)
	c.mu.Lock()
	defer c.mu.Unlock()
	if holder != "" {
		if c.own[holding{k, holder}] = is; !first && c.known[k] != nil {
			return before
		}
	}
	if c.known[k] == nil {
		if c.order[k.Digest] = append(c.order[k.Digest], k); len(c.order[k.Digest]) > mostKinds {
			delete(c.known, c.order[k.Digest][0])
			c.order[k.Digest] = c.order[k.Digest][1:]
		}
	}
	c.known[k] = is
	return before
}

// forgetHolding forgets what the instances of a kind have listed for a holder.
func (c *catalogues) forgetHolding(k pool.Kind, holder string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.own, holding{k, holder})
}

// forgetDigest forgets all of a configuration that no backend has any more.
func (c *catalogues) forgetDigest(digest string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range c.order[digest] {
		delete(c.known, k)
	}
	delete(c.order, digest)
}

// storedCatalogue is the catalogue of a kind as it is stored. Raw JSON is kept as base64, so that no byte of it changes.
type storedCatalogue struct {
	Client   string      `json:"client"`
	Revision string      `json:"revision"`
	Found    string      `json:"found"`
	Result   []byte      `json:"result"`
	Items    [4][][]byte `json:"items"`
}

// marshal encodes the catalogues of a digest.
func (c *catalogues) marshal(digest string) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := []storedCatalogue{}
	for _, k := range c.order[digest] {
		of := c.known[k]
		all = append(all, storedCatalogue{Client: k.Client, Revision: of.Settled.Revision.String(), Found: of.Settled.Found.String(), Result: of.Settled.Result, Items: of.Items})
	}
	return json.Marshal(all)
}

// load takes in the stored catalogues of a backend. What cannot be read is as if it were not stored.
func (c *catalogues) load(b *Backend, data []byte) error {
	var all []storedCatalogue
	if err := json.Unmarshal(data, &all); err != nil {
		return fmt.Errorf("decode catalogues: %w", err)
	}
	for _, s := range all[:min(len(all), mostKinds)] {
		settled, err := s.settled()
		if err != nil {
			return err
		}
		k := pool.Kind{Backend: b.Name, Digest: b.Digest, Client: s.Client}
		if !c.has(k, "") {
			c.note(k, "", newCatalogue(settled, s.Items), true)
		}
	}
	return nil
}

// settled reads what was settled from a stored catalogue.
func (s *storedCatalogue) settled() (*upstream.Settled, error) {
	state, err := json.Marshal(map[string]any{"format": 1, "revision": s.Revision, "found": s.Found, "result": s.Result})
	if err != nil {
		return nil, err
	}
	read, err := upstream.UnmarshalState(state)
	if err != nil {
		return nil, err
	}
	return &read.Settled, nil
}

// A lister asks an instance what it lists.
type lister struct{ *instance }

// listAll asks the instance for all its lists, and remembers them. first says that nobody can have told the instance anything yet.
func (in lister) listAll(first bool) {
	for of := range in.stale {
		in.stale[of].Store(true)
	}
	in.listStale(first)
}

// methods are how the lists are asked for, and by which capability a backend says that it has them.
var methods = [...]struct{ method, capability string }{
	listing.Tools:     {mcp.MethodToolsList, "tools"},
	listing.Prompts:   {mcp.MethodPromptsList, "prompts"},
	listing.Resources: {mcp.MethodResourcesList, "resources"},
	listing.Templates: {mcp.MethodResourcesTemplatesList, "resources"},
}

// listStale asks the instance for the lists that it says have changed. A list that it cannot show stays as it was known.
func (in lister) listStale(first bool) {
	settled := in.conn.Settled()
	was, _ := in.b.catalogues.find(in.kind, in.holder())
	var items [4][][]byte
	if was != nil {
		items = was.Items
	}
	for of, m := range methods {
		if !in.stale[of].Swap(false) {
			continue
		}
		if codec.Optional(settled.Capabilities, m.capability) == nil {
			items[of] = nil
			continue
		}
		l, err := in.conn.List(in.life, m.method, listing.Of(of).Member())
		if f, ok := errors.AsType[*upstream.Failure](err); ok && f.Why == upstream.ReasonListing {
			in.b.c.Log.Warn("a list of a backend goes beyond its bounds: what was read of it is served", "backend", in.of.Name, "method", m.method, "items", len(l.Items), "error", in.of.mask(err.Error()))
			err = nil
		}
		switch refused, ok := errors.AsType[*mcp.Error](err); {
		case err == nil:
			items[of] = l.Items
		case ok && refused.Code == mcp.CodeMethodNotFound:
			items[of] = nil
		case in.life.Err() == nil:
			in.b.c.Log.Warn("a backend does not show a list", "backend", in.of.Name, "method", m.method, "error", in.of.mask(err.Error()))
		}
	}
	if in.life.Err() != nil {
		return
	}
	is := newCatalogue(settled, items)
	before := in.b.catalogues.note(in.kind, in.holder(), is, first)
	if changed := is.differing(before); len(changed) > 0 || before == nil {
		in.b.catalogueChanged(in.instance, changed)
	}
}

// catalogueChanged stores what the instances of a backend list, and tells of it.
func (b *Backends) catalogueChanged(in *instance, lists []listing.Of) {
	if b.c.Catalogues != nil {
		digest := in.of.Digest
		b.runInBackground(func(ctx context.Context) {
			data, err := b.catalogues.marshal(digest)
			if err == nil {
				err = b.c.Catalogues.Store(ctx, digest, data)
			}
			if err != nil {
				b.c.Log.Warn("what a backend lists was not stored: it is asked again after the next start", "backend", in.of.Name, "error", err)
			}
		})
	}
	if b.c.Changed != nil && len(lists) > 0 {
		b.c.Changed(in.of.Name, in.session(), slices.Clip(lists))
	}
}
