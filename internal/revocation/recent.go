package revocation

import (
	"slices"
	"sync"
	"time"

	"github.com/troupe-run/troupe/auth"
)

// Recent are the tasks that this node has made a moment ago, by access tokens and API keys: who makes a revocation elsewhere looks into
// the store for tasks, and those that are made here before this node hears of it may come after that. The zero value is empty.
type Recent[K any] struct {
	mu  sync.Mutex // guards all
	all []recentTask[K]
}

type recentTask[K any] struct {
	key   K
	token *auth.Identity
	made  time.Time
}

// recentFor is for how long a task is one of them: longer than it takes until every node has heard of a revocation.
const recentFor = 10 * time.Second

// Add adds a task that a token has made, and forgets those that are older than others can be.
func (r *Recent[K]) Add(key K, token *auth.Identity) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	old := 0
	for old < len(r.all) && r.all[old].made.Before(now.Add(-recentFor)) {
		old++
	}
	r.all = append(r.all[old:], recentTask[K]{key, token, now})
}

// RefusedBy returns those whose tokens l refuses.
func (r *Recent[K]) RefusedBy(l *List) (keys []K) {
	r.mu.Lock()
	all := slices.Clone(r.all)
	r.mu.Unlock()
	for _, t := range all {
		if l.Refusal(t.token) != nil {
			keys = append(keys, t.key)
		}
	}
	return keys
}
