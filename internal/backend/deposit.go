package backend

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
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

// errUnknownLeft says that the store does not tell what an earlier process has left.
var errUnknownLeft = errors.New("what an earlier process has left of its session is not known: the store does not answer")

const (
	// mostDeposited bounds what an instance leaves in the store, in bytes.
	mostDeposited = 128 << 10
	// depositKept is how long it lies there after it was stored last, at least.
	depositKept = time.Hour
	// depositPace is how often a deposit is stored at most, where nobody waits for that.
	depositPace = 100 * time.Millisecond
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
	era, pinned := of.configuredEra()
	switch _, isURL := of.Target.URL(); {
	case !isURL, of.Options.Isolation == host.ByCall, of.Options.Transport == host.SSE, pinned && era == upstream.EraModern: // of which nothing goes on
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
	log   *slog.Logger
	run   func(func(context.Context)) // on a goroutine of its own
	own   string                      // of this process alone

	mu   sync.Mutex // guards the rest
	of   map[string]*deposit
	last int
}

func newDeposits(to Estates, clock upstream.Clock, log *slog.Logger, run func(func(context.Context))) *deposits {
	if to == nil {
		return nil
	}
	return &deposits{to: to, clock: clock, log: log, run: run, own: rand.Text(), of: make(map[string]*deposit)}
}

// open returns the deposit of an instance under a name, which is reserved until release; nil where another instance of this process has
// the name. The instance lives as long as life. taken is called once another process has it.
func (d *deposits) open(life context.Context, name string, keep time.Duration, taken func()) *deposit {
	if d == nil || name == "" {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.of[name] != nil {
		return nil
	}
	d.last++
	x := &deposit{all: d, life: life, name: name, keep: max(keep, depositKept), owner: fmt.Sprint(d.own, d.last), taken: taken, idle: make(chan struct{}), hurry: make(chan struct{}, 1), gone: make(chan struct{}), texts: make(map[string][]byte)}
	close(x.idle)
	d.of[name] = x
	return x
}

// awaitLeaving waits for an instance of this process that has a name, if it is about to give it up: what comes back goes on with what that leaves.
func (d *deposits) awaitLeaving(ctx context.Context, name string) {
	if d == nil || name == "" {
		return
	}
	d.mu.Lock()
	x := d.of[name]
	d.mu.Unlock()
	if x == nil || x.life.Err() == nil {
		return
	}
	select {
	case <-x.gone:
	case <-ctx.Done():
	}
}

// hasDeposit reports whether something lies under a name, or an instance of this process has it. errUnknownLeft: nobody knows.
func (d *deposits) hasDeposit(ctx context.Context, name string) (bool, error) {
	if d == nil || name == "" {
		return false, nil
	}
	d.mu.Lock()
	_, here := d.of[name]
	d.mu.Unlock()
	if here {
		return true, nil
	}
	ctx, cancel := context.WithTimeout(ctx, depositWait)
	defer cancel()
	data, rev, err := d.to.Load(ctx, name)
	if err != nil {
		d.log.Warn("what an earlier process has left of a session at a backend is not known", "error", err)
		return false, errUnknownLeft
	}
	return data != nil || rev != 0, nil
}

// A deposit is what an instance leaves to the next process in the store: texts by their names, as a keeper would remember them. It is stored as a
// whole, soon after it has changed; one revision follows another, so that of two processes with the same one has it.
type deposit struct {
	all   *deposits
	life  context.Context // of its instance: what is left is stored without a pause
	name  string
	keep  time.Duration
	owner string
	taken func()
	hurry chan struct{} // of one place: what has changed is stored at once
	gone  chan struct{} // closed when its name is given up

	mu      sync.Mutex // guards the rest
	texts   map[string][]byte
	size    int
	rev     uint64
	saved   time.Time     // when it was stored last
	changed uint64        // how often it has changed
	stored  uint64        // how many changes are stored
	news    chan struct{} // closed with the next one that is, nil if nobody waits for that
	idle    chan struct{} // closed as long as nobody stores it
	over    bool          // nothing is stored any more
	lost    bool          // another process has it
}

// storedDeposit is its form in the store.
type storedDeposit struct {
	Owner string            `json:"owner"`
	Texts map[string][]byte `json:"texts"`
}

// load reads what lies under the name, of whomever. rev is 0 if nothing does.
func (x *deposit) load(ctx context.Context) (stored storedDeposit, rev uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, depositWait)
	defer cancel()
	data, rev, err := x.all.to.Load(ctx, x.name)
	if err == nil && data != nil && json.Unmarshal(data, &stored) != nil {
		stored = storedDeposit{} // of another release: nobody can go on with it
	}
	return stored, rev, err
}

// takeOver puts, in the place of what an earlier process has left, what edit makes of that; edit may be called again, with what that process has
// left since. It reports false if nothing lay there. ErrTaken says that another process was faster, and errUnknownLeft that the store does not answer:
// it is not waited for, as another process may go on with all that lies there meanwhile.
func (x *deposit) takeOver(ctx context.Context, edit func(texts map[string][]byte) map[string][]byte) (found bool, err error) {
	from := ""
	for tries := 1; ; tries++ {
		stored, rev, err := x.load(ctx)
		switch {
		case err != nil:
		case found && stored.Owner == x.owner: // it was stored, and nobody has said so
			x.noteStored(rev)
			return true, nil
		case rev == 0:
			x.setTexts(nil)
			return false, nil
		case found && stored.Owner != from:
			return true, ErrTaken
		default:
			found, from = true, stored.Owner
			texts := edit(stored.Texts)
			x.setTexts(texts)
			data, _ := json.Marshal(storedDeposit{x.owner, texts}) // of texts and bytes
			if rev, err = x.save(ctx, data, rev); err == nil {
				x.noteStored(rev)
				return true, nil
			}
		}
		if tries == mostTakes || !found || awaitSignal(x.all.clock, ctx.Done(), depositAgain/10) {
			x.all.log.Warn("what an earlier process has left of a session at a backend is not known", "error", err)
			return found, errUnknownLeft
		}
	}
}

// mostTakes is how often a deposit is tried to be taken that changes meanwhile.
const mostTakes = 5

// noteStored notes that what it had when it was given rev is stored.
func (x *deposit) noteStored(rev uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.rev, x.saved = rev, x.all.clock.Now()
}

// setTexts has it be these texts, which are not stored by that.
func (x *deposit) setTexts(texts map[string][]byte) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.texts, x.size = make(map[string][]byte), 0
	for name, text := range texts {
		x.texts[name] = text
		x.size += len(name) + len(text)
	}
}

func (x *deposit) save(ctx context.Context, data []byte, rev uint64) (next uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, depositWait)
	defer cancel()
	return x.all.to.Save(ctx, x.name, data, rev, x.keep)
}

// errTooMuch says that something is not stored, as it, or all together, is too large.
var errTooMuch = fmt.Errorf("more than %d bytes are not kept", mostDeposited)

// Remember implements memory: it stores a text under a name, nil for none, soon.
func (x *deposit) Remember(name string, text []byte) error {
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
	x.scheduleStore()
	return nil
}

// refresh stores it once more if it has lain in the store for long.
func (x *deposit) refresh() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.all.clock.Now().Sub(x.saved) > x.keep/2 {
		x.scheduleStore()
	}
}

// scheduleStore has it stored soon, with what else changes until then. The caller has the lock.
func (x *deposit) scheduleStore() {
	if x.over {
		return
	}
	x.changed++
	select {
	case <-x.idle:
		x.idle = make(chan struct{})
		x.all.run(x.storeAll)
	default:
	}
}

// storeNow has what it has now stored at once.
func (x *deposit) storeNow() {
	select {
	case x.hurry <- struct{}{}:
	default: // it is already
	}
}

// awaitStored waits until what it has now is stored, for as long as a client may wait for that. The method of nil does nothing.
func (x *deposit) awaitStored() {
	if x == nil {
		return
	}
	late := make(chan struct{})
	defer x.all.clock.AfterFunc(mostAwaited, func() { close(late) })()
	x.mu.Lock()
	until := x.changed
	x.mu.Unlock()
	for {
		x.mu.Lock()
		if x.stored >= until || x.over {
			x.mu.Unlock()
			return
		}
		if x.news == nil {
			x.news = make(chan struct{})
		}
		news := x.news
		x.mu.Unlock()
		x.storeNow()
		select {
		case <-news:
		case <-late:
			return
		}
	}
}

// storeAll stores it until nothing has changed since: the first change at once, and those that follow at a pace, unless somebody waits for them.
func (x *deposit) storeAll(ctx context.Context) {
	for first := true; ; first = false {
		if !first && x.life.Err() == nil {
			awaitSignal(x.all.clock, x.hurry, depositPace)
		}
		x.mu.Lock()
		if x.stored == x.changed || x.over || ctx.Err() != nil {
			close(x.idle)
			x.wakeWaiters()
			x.mu.Unlock()
			return
		}
		changed, rev := x.changed, x.rev
		data, _ := json.Marshal(storedDeposit{x.owner, x.texts}) // of texts and bytes
		x.mu.Unlock()
		x.storeChanges(ctx, data, rev, changed)
	}
}

// wakeWaiters wakes who waits until something is stored. The caller has the lock.
func (x *deposit) wakeWaiters() {
	if x.news != nil {
		close(x.news)
		x.news = nil
	}
}

// storeChanges stores data, which has so many changes, in the place of a revision.
func (x *deposit) storeChanges(ctx context.Context, data []byte, rev, changed uint64) {
	next, err := x.save(ctx, data, rev)
	if err == nil {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.rev, x.saved, x.stored = next, x.all.clock.Now(), changed
		x.wakeWaiters()
		return
	}
	if errors.Is(err, ErrTaken) {
		var stored storedDeposit
		if stored, next, err = x.load(ctx); err == nil {
			lost := next != 0 && x.isAnothers(stored.Owner)
			x.mu.Lock()
			x.rev, x.lost, x.over = next, lost, x.over || lost // if it is not lost, its time was over, or it was stored, and nobody has said so
			x.wakeWaiters()
			x.mu.Unlock()
			if lost {
				x.taken()
			}
			return
		}
	}
	awaitSignal(x.all.clock, ctx.Done(), depositAgain)
}

// isAnothers reports whether another process has what an owner has stored.
func (x *deposit) isAnothers(owner string) bool { return !strings.HasPrefix(owner, x.all.own) }

// removeStored removes what was stored, and has nothing stored any more. It reports false if another process has it.
func (x *deposit) removeStored(ctx context.Context) (ours bool) {
	x.mu.Lock()
	x.over = true
	x.mu.Unlock()
	x.awaitIdle(ctx)
	x.mu.Lock()
	rev, lost := x.rev, x.lost
	x.rev = 0
	x.mu.Unlock()
	for range 2 {
		if lost || rev == 0 || !errors.Is(x.all.to.Drop(ctx, x.name, rev), ErrTaken) { // after another error it lies there until its time is over, at worst
			break
		}
		var stored storedDeposit
		var err error
		if stored, rev, err = x.load(ctx); err != nil {
			break
		}
		lost = rev != 0 && x.isAnothers(stored.Owner)
	}
	return !lost
}

// awaitIdle waits until nobody stores it, or ctx ends.
func (x *deposit) awaitIdle(ctx context.Context) {
	x.mu.Lock()
	idle := x.idle
	x.mu.Unlock()
	x.storeNow()
	select {
	case <-idle:
	case <-ctx.Done():
	}
}

// release ends the storing, and gives up the name. What was stored stays there.
func (x *deposit) release(ctx context.Context) {
	x.awaitIdle(ctx)
	x.mu.Lock()
	x.over = true
	x.mu.Unlock()
	x.all.mu.Lock()
	defer x.all.mu.Unlock()
	if x.all.of[x.name] == x {
		delete(x.all.of, x.name)
		close(x.gone)
	}
}
