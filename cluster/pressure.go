package cluster

import (
	"context"
	"sync/atomic"
)

// Budget names a part of the store that has a limit of its own.
type Budget uint8

// The budgets that clients fill.
const (
	SessionBudget Budget = iota // the records of sessions
	EventBudget                 // the event log, with the records and bodies of calls
	budgets
)

// names are the streams that the budgets are of.
var budgetNames = [budgets]string{SessionBudget: "sessions", EventBudget: events}

// nearFull is the share of a budget, in percent, beyond which the node says so in its log.
const nearFull = 90

// fillOf is how much of a budget is in use.
type fillOf struct {
	used, limit atomic.Int64 // as it was last measured
	since       atomic.Int64 // written since then
	full        bool         // of the goroutine that measures
}

// Use returns how many bytes of a budget are in use, and how many there are; 0 and 0 before
// that is known, and where there is no limit. It is measured with each renewal of the
// lease; the sessions and calls that this node stores in between are added.
func (n *Node) Use(b Budget) (used, limit int64) {
	f := &n.fills[b]
	return f.used.Load() + f.since.Load(), f.limit.Load()
}

// written adds what was just stored anew.
func (n *Node) written(b Budget, bytes int) { n.fills[b].since.Add(int64(bytes)) }

// measure looks at how full the store is. What cannot be read stays as it was.
func (n *Node) measure(ctx context.Context) {
	for b := range budgets {
		f := &n.fills[b]
		before := f.since.Load() // what is written meanwhile may count twice, for a moment
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
