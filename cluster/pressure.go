package cluster

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/internal/store"
)

// budgetNames are the streams of the budgets.
var budgetNames = [store.Budgets]string{store.SessionBudget: "sessions", store.EventBudget: events, store.TaskBudget: tasks}

// nearFull is the percentage of a budget above which the node logs a warning.
const nearFull = 90

// usage is how full the budgets are.
type usage struct{ fills [store.Budgets]fillOf }

// fillOf is how many bytes of a budget are in use.
type fillOf struct {
	used, limit atomic.Int64 // as it was last measured
	since       atomic.Int64 // bytes written since then
	full        bool         // used by the goroutine that measures, as the next one
	missing     bool         // the stream is not there
	sizes       recordSizes
}

// Use returns how many bytes of a budget are in use, and how many there are. Both
// are 0 before they are known, and where there is no limit. The node measures
// them five times in a lease, and adds the sessions, calls and tasks that it
// stores in between, and what they grow by. Events count as if all shards were as full as the fullest
// one, because a new stream may lie there.
func (n *usage) Use(b store.Budget) (used, limit int64) {
	f := &n.fills[b]
	return f.used.Load() + f.since.Load(), f.limit.Load()
}

// countWritten adds the bytes of a new record.
func (n *usage) countWritten(b store.Budget, bytes int) { n.fills[b].since.Add(int64(bytes)) }

// recordFill is the budget that a record belongs to, or nil.
func (n *usage) recordFill(key string) *fillOf {
	switch {
	case strings.HasPrefix(key, "session."):
		return &n.fills[store.SessionBudget]
	case strings.HasPrefix(key, "task."):
		return &n.fills[store.TaskBudget]
	}
	return nil
}

// countRecord counts a record as written that has revision rev and replaces that of revision old; 0: it is new. As a record may be updated often, one that has
// grown counts with the difference. If the old size is not known, all of it counts until it is measured.
func (n *usage) countRecord(key string, size int, rev, old uint64) {
	if f := n.recordFill(key); f != nil {
		f.since.Add(int64(max(size-f.sizes.of(old), 0)))
		f.sizes.note(rev, size)
	}
}

// recordSizes are the sizes of records that were read or written lately. A revision takes the place of that which is 1024 older.
type recordSizes [1024]atomic.Uint64 // a revision, and the size in sizeBits

// sizeBits is how many bits the size of a record needs, which is at most MaxRecord.
const sizeBits = 20

func (s *recordSizes) note(rev uint64, size int) {
	s[rev%uint64(len(s))].Store(rev<<sizeBits | uint64(size))
}

// of is the size of the record of a revision, 0 if it is not known.
func (s *recordSizes) of(rev uint64) int {
	if v := s[rev%uint64(len(s))].Load(); v>>sizeBits == rev {
		return int(v & (1<<sizeBits - 1))
	}
	return 0
}

// isMissing reports whether an error says that there is no such stream.
func isMissing(err error) bool {
	no, ok := errors.AsType[*apiError](err)
	return ok && no.ErrCode == codeNoStream
}

// needed are the streams without which a node cannot serve, whatever its lease says: the log, the sessions and the keys.
var needed = [...]string{events, "sessions", "keys"}

const (
	// silentFor is after what time without an answer a stream counts as one that cannot be written.
	silentFor = 5 * time.Second
	// lookEach is how often they are asked.
	lookEach = time.Second
	// lookFor bounds a question to a stream, so that one that is silent is asked again in time.
	lookFor = 2 * time.Second
)

// leaderAnswers is when the leaders of the needed streams answered last, in unix nanoseconds: a stream without a leader takes no writes.
type leaderAnswers struct {
	at   [len(needed)]atomic.Int64
	busy [len(needed)]atomic.Bool

	under sync.WaitGroup // questions under way
}

// askRegularly asks until ctx ends. Nothing else that asks the store delays it.
func (a *leaderAnswers) askRegularly(ctx context.Context, n *messages) {
	tick := time.NewTicker(lookEach)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-tick.C:
			a.askLeaders(ctx, n)
		}
	}
}

// askLeaders asks the leaders of all needed streams at once, so that none waits for another. It does not wait for them.
func (a *leaderAnswers) askLeaders(ctx context.Context, n *messages) {
	for i, name := range needed {
		a.at[i].CompareAndSwap(0, time.Now().UnixNano())
		if a.busy[i].Swap(true) {
			continue
		}
		a.under.Go(func() {
			defer a.busy[i].Store(false)
			ctx, cancel := context.WithTimeout(ctx, lookFor)
			defer cancel()
			if _, err := n.fillOfKind(ctx, name); err == nil {
				a.at[i].Store(time.Now().UnixNano())
			}
		})
	}
}
