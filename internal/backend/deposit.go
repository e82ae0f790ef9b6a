package backend

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/troupe-run/troupe/host"
	"github.com/troupe-run/troupe/internal/backend/pool"
	"github.com/troupe-run/troupe/internal/upstream"
)

// Estates keep, beyond this process, what instances without a keeper would leave to the next one: those whose session is at a URL. What
// they keep has secrets.
type Estates interface {
	// Load returns what lies under a name, and its revision; nil if nothing does.
	Load(ctx context.Context, name string) (data []byte, rev uint64, err error)
	// Save puts data in the place of what has the revision rev, 0 for nothing, for a time. ErrTaken says that something else lies there.
	Save(ctx context.Context, name string, data []byte, rev uint64, keep time.Duration) (next uint64, err error)
	// Drop removes what has the revision rev. ErrTaken says that something else lies there.
	Drop(ctx context.Context, name string, rev uint64) error
}

// ErrTaken says that another process has an estate.
var ErrTaken = errors.New("another process has it")

const (
	// mostDeposited bounds what an instance leaves in the store, in bytes.
	mostDeposited = 128 << 10
	// depositKept is how long it lies there after it was stored last, at least.
	depositKept = time.Hour
	// depositAgain is how long a store is left alone that did not take it.
	depositAgain = time.Second
	// depositWait bounds one question to the store.
	depositWait = 5 * time.Second
	// mostAwaited is how long what a client hears waits for the store.
	mostAwaited = 2 * time.Second
)

// depositName is where in the store the instance of a holder has what it leaves, "" if it leaves nothing there: it is for one call, or nobody's
// yet. Sessions have theirs at any node, principals and what all share one at each.
func depositName(of *Backend, k pool.Kind, holder, node string) string {
	switch _, isURL := of.Target.URL(); {
	case !isURL, of.Options.Isolation == host.ByCall:
		return ""
	case sessionOf(holder) != "":
		node = ""
	case strings.HasPrefix(holder, principalPrefix):
	case holder != "", of.Options.Isolation != host.Shared:
		return ""
	}
	h := sha256.New()
	for _, part := range []string{k.Backend, k.Digest, k.Client, holder, node} {
		fmt.Fprintf(h, "%d %s", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// deposits are what the instances of this process have in the store, by its names there. The methods of nil do nothing.
type deposits struct {
	to    Estates
	clock upstream.Clock
	run   func(func(context.Context)) // on a goroutine of its own
	own   string                      // of this process alone

	mu   sync.Mutex // guards the rest
	of   map[string]*deposit
	last int
}

func newDeposits(to Estates, clock upstream.Clock, run func(func(context.Context))) *deposits {
	if to == nil {
		return nil
	}
	return &deposits{to: to, clock: clock, run: run, own: rand.Text(), of: make(map[string]*deposit)}
}

// open returns the deposit of an instance under a name, nil where another instance of this process has it. taken is called once another
// process has it.
func (d *deposits) open(name string, keep time.Duration, taken func()) *deposit {
	if d == nil || name == "" {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.of[name] != nil {
		return nil
	}
	d.last++
	x := &deposit{all: d, name: name, keep: max(keep, depositKept), owner: fmt.Sprint(d.own, d.last), taken: taken, idle: make(chan struct{}), texts: make(map[string][]byte)}
	close(x.idle)
	d.of[name] = x
	return x
}

// find reports whether something lies under a name, or an instance of this process has it.
func (d *deposits) find(ctx context.Context, name string) bool {
	if d == nil || name == "" {
		return false
	}
	d.mu.Lock()
	_, here := d.of[name]
	d.mu.Unlock()
	if here {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, depositWait)
	defer cancel()
	data, _, err := d.to.Load(ctx, name)
	return err == nil && data != nil
}

// A deposit is what an instance leaves to the next process in the store: texts by their names, as a keeper would remember them. It is stored as a
// whole, soon after it has changed; one revision follows another, so that of two processes with the same one has it.
type deposit struct {
	all   *deposits
	name  string
	keep  time.Duration
	owner string
	taken func()

	mu    sync.Mutex // guards the rest
	texts map[string][]byte
	size  int
	rev   uint64
	saved time.Time     // when it was stored last
	due   bool          // it has changed since
	idle  chan struct{} // closed as long as nobody stores it
	over  bool          // nothing is stored any more
	lost  bool          // another process has it
}

// storedDeposit is its form in the store.
type storedDeposit struct {
	Owner string            `json:"owner"`
	Texts map[string][]byte `json:"texts"`
}

// load reads what lies under the name, of whomever.
func (x *deposit) load(ctx context.Context) (stored storedDeposit, rev uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, depositWait)
	defer cancel()
	data, rev, err := x.all.to.Load(ctx, x.name)
	if err == nil && data != nil && json.Unmarshal(data, &stored) != nil {
		stored = storedDeposit{} // of another release: nobody can go on with it
	}
	return stored, rev, err
}

// inherit returns what an earlier process has left under the name, which is replaced from now on.
func (x *deposit) inherit(ctx context.Context) (map[string][]byte, error) {
	stored, rev, err := x.load(ctx)
	if err != nil {
		return nil, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.rev = rev
	return stored.Texts, nil
}

// claim stores what was inherited as this process's, before anything is done with it. ErrTaken: another process was faster.
func (x *deposit) claim(ctx context.Context, texts map[string][]byte) error {
	x.mu.Lock()
	x.texts, x.size = maps.Clone(texts), 0
	for name, text := range texts {
		x.size += len(name) + len(text)
	}
	rev := x.rev
	x.mu.Unlock()
	data, _ := json.Marshal(storedDeposit{x.owner, texts}) // of texts and bytes
	next, err := x.save(ctx, data, rev)
	if err == nil {
		x.mu.Lock()
		x.rev, x.saved = next, x.all.clock.Now()
		x.mu.Unlock()
	}
	return err
}

// clear forgets what it has: it was of a session that is no more.
func (x *deposit) clear() {
	x.mu.Lock()
	defer x.mu.Unlock()
	clear(x.texts)
	x.size = 0
}

func (x *deposit) save(ctx context.Context, data []byte, rev uint64) (next uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, depositWait)
	defer cancel()
	return x.all.to.Save(ctx, x.name, data, rev, x.keep)
}

// errTooMuch says that something is not stored, as it, or all together, is too large.
var errTooMuch = fmt.Errorf("more than %d bytes are not kept", mostDeposited)

// remember stores a text under a name, nil for none, soon.
func (x *deposit) remember(name string, text []byte) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	old, had := x.texts[name]
	size := x.size
	if had {
		size -= len(name) + len(old)
	}
	switch {
	case text == nil && !had:
		return nil
	case text == nil:
		delete(x.texts, name)
	case size+len(name)+len(text) > mostDeposited:
		return errTooMuch
	default:
		x.texts[name] = text
		size += len(name) + len(text)
	}
	x.size = size
	x.store()
	return nil
}

// refresh stores it once more if it has lain in the store for long.
func (x *deposit) refresh() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.all.clock.Now().Sub(x.saved) > x.keep/2 {
		x.store()
	}
}

// store has it stored. The caller has the lock.
func (x *deposit) store() {
	if x.over {
		return
	}
	x.due = true
	select {
	case <-x.idle:
		x.idle = make(chan struct{})
		x.all.run(x.storeAll)
	default:
	}
}

// awaitStored waits until what it has now is stored, for as long as a client may wait for that. The method of nil does nothing.
func (x *deposit) awaitStored() {
	if x == nil {
		return
	}
	x.mu.Lock()
	idle := x.idle
	x.mu.Unlock()
	waits(x.all.clock, idle, mostAwaited)
}

// storeAll stores it until nothing has changed since.
func (x *deposit) storeAll(ctx context.Context) {
	for {
		x.mu.Lock()
		if !x.due || x.over || ctx.Err() != nil {
			close(x.idle)
			x.mu.Unlock()
			return
		}
		x.due = false
		data, _ := json.Marshal(storedDeposit{x.owner, x.texts}) // of texts and bytes
		rev := x.rev
		x.mu.Unlock()
		x.put(ctx, data, rev)
	}
}

// put stores data in the place of a revision.
func (x *deposit) put(ctx context.Context, data []byte, rev uint64) {
	next, err := x.save(ctx, data, rev)
	if !errors.Is(err, ErrTaken) {
		x.mu.Lock()
		if err == nil {
			x.rev, x.saved = next, x.all.clock.Now()
		}
		x.due = x.due || err != nil
		x.mu.Unlock()
		if err != nil {
			waits(x.all.clock, ctx.Done(), depositAgain)
		}
		return
	}
	stored, next, err := x.load(ctx)
	x.mu.Lock()
	x.lost = err == nil && next != 0 && stored.Owner != x.owner
	x.over = x.over || x.lost
	if err == nil && !x.lost { // it was stored, and nobody has said so, or it has lain there for too long
		x.rev = next
	}
	x.due = true
	lost := x.lost
	x.mu.Unlock()
	switch {
	case lost:
		x.taken()
	case err != nil:
		waits(x.all.clock, ctx.Done(), depositAgain)
	}
}

// close ends the storing. What was stored stays if it is for the next process, and is removed otherwise. It reports false if another
// process has it.
func (x *deposit) close(ctx context.Context, keep bool) (ours bool) {
	x.mu.Lock()
	x.over = x.over || !keep
	idle := x.idle
	x.mu.Unlock()
	select {
	case <-idle:
	case <-ctx.Done():
	}
	x.mu.Lock()
	x.over = true
	rev, lost := x.rev, x.lost
	x.mu.Unlock()
	if !keep && !lost && rev != 0 {
		err := x.all.to.Drop(ctx, x.name, rev)
		if errors.Is(err, ErrTaken) {
			var stored storedDeposit
			stored, rev, err = x.load(ctx)
			if lost = err == nil && rev != 0 && stored.Owner != x.owner; err == nil && !lost && rev != 0 {
				_ = x.all.to.Drop(ctx, x.name, rev) // at worst it lies there until its time is over
			}
		}
	}
	x.all.mu.Lock()
	if x.all.of[x.name] == x {
		delete(x.all.of, x.name)
	}
	x.all.mu.Unlock()
	return !lost
}
