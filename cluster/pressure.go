package cluster

import (
	"context"
	"sync/atomic"
)

// Budget is a part of the store that has a limit of its own.
type Budget uint8

// The budgets that clients fill.
const (
	SessionBudget Budget = iota // the records of sessions
	EventBudget                 // the event log, with the records and bodies of calls
	TaskBudget                  // tasks, with their requests, steps and outcomes
	budgets
)

// budgetNames are the streams of the budgets.
var budgetNames = [budgets]string{SessionBudget: "sessions", EventBudget: events, TaskBudget: tasks}

// nearFull is the percentage of a budget above which the node logs a warning.
const nearFull = 90

// fillOf is how many bytes of a budget are in use.
type fillOf struct {
	used, limit atomic.Int64 // as it was last measured
	since       atomic.Int64 // bytes written since then
	full        bool         // used by the goroutine that measures
}

// Use returns how many bytes of a budget are in use, and how many there are. Both
// are 0 before they are known, and where there is no limit. The node measures
// them with each renewal of the lease, and adds the sessions and calls that it
// stores in between.
func (n *Node) Use(b Budget) (used, limit int64) {
	f := &n.fills[b]
	return f.used.Load() + f.since.Load(), f.limit.Load()
}

// written adds the bytes of a new record.
func (n *Node) written(b Budget, bytes int) { n.fills[b].since.Add(int64(bytes)) }

// measure reads how full the store is. A value that it cannot read stays.
func (n *Node) measure(ctx context.Context) {
	for b := range budgets {
		f := &n.fills[b]
		before := f.since.Load() // a write meanwhile may count twice, for a moment
		s, err := n.fill(ctx, budgetNames[b])
		if err != nil {
			return
		}
		f.used.Store(int64(s.Bytes))
		f.limit.Store(int64(s.MaxBytes))
		f.since.Add(-before)
		full := s.MaxBytes > 0 && s.Bytes > s.MaxBytes/100*nearFull
		switch {
		case full && !f.full:
			n.log.Warn("store nearly full", "of", budgetNames[b], "bytes", s.Bytes, "limit", s.MaxBytes)
		case !full && f.full:
			n.log.Info("store has room again", "of", budgetNames[b])
		}
		f.full = full
	}
}
