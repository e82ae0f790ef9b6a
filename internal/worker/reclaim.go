package worker

import (
	"time"

	"github.com/troupe-run/troupe/internal/task"
)

// queuedLately is for how long a task may have been in the queue that nobody has begun.
const queuedLately = 10 * time.Second

// Reclaimed is how many tasks of an earlier process of this node were taken up at once.
func (p *Pool) Reclaimed() int64 { return p.again.Load() }

// reclaim has at once what an earlier process of this node ran when it died, where the store would wait for that process.
func (p *Pool) reclaim(s *serving) {
	if !p.Shared {
		return
	}
	err := p.Store.Reclaim(s.ctx, s.ID, func(tenant, id string) time.Duration {
		r, _, err := p.records.read(s.ctx, Key{tenant, s.ID, id})
		now := p.Store.Now()
		switch {
		case err != nil:
			return 0
		case r.State == task.Running && r.Node == p.Node && r.Boot != p.Boot:
		case r.State == task.Queued && now.UnixMilli()-r.Updated < queuedLately.Milliseconds():
			// That process may have been given it, and have died before it began.
		default:
			return 0
		}
		p.again.Add(1)
		return r.Left(now)
	})
	if err != nil && s.ctx.Err() == nil { // they come by themselves, only later
		p.Log.Warn("the tasks of the process before are taken up late", "server", s.ID, "error", err)
	}
}
