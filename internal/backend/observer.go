package backend

import (
	"time"

	"github.com/troupe-run/troupe/internal/backend/pool"
	"github.com/troupe-run/troupe/internal/kernel"
)

// An Observer counts what becomes of instances and of calls. Its methods must not block.
type Observer interface {
	// Started counts a start, how long it took, and whether the instance can serve.
	Started(backend string, ready bool, took time.Duration)
	// Adopted counts an instance of an earlier process that goes on here.
	Adopted(backend string)
	// Ended counts the end of an instance that could serve.
	Ended(backend string, reason pool.Reason)
	// Waited counts a call that got an instance after a time, or none, and why.
	Waited(backend string, took time.Duration, refused pool.Reason)
}

// noObserver counts nothing.
type noObserver struct{}

func (noObserver) Started(string, bool, time.Duration)       {}
func (noObserver) Adopted(string)                            {}
func (noObserver) Ended(string, pool.Reason)                 {}
func (noObserver) Waited(string, time.Duration, pool.Reason) {}

// counted asks the pool for its counts.
type counted struct {
	kernel.Reply
	of map[string]pool.Counts
}

// Refused implements kernel.Refusable.
func (m *counted) Refused(error) { m.Done() }

// Counts returns how many instances of each backend there are, by its name.
func (b *Backends) Counts() map[string]pool.Counts {
	m := &counted{}
	m.Init()
	if b.pool.Post(m) == nil {
		m.Wait()
	}
	return m.of
}
