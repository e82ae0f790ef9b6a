package troupe

import (
	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/internal/worker"
)

// taskLedger counts what tasks store on the accounts of the node.
type taskLedger struct{ rt *Runtime }

var _ worker.Ledger = taskLedger{}

// noRoomError reports that a client may store no more in tasks.
type noRoomError struct{ why actors.Reason }

func (noRoomError) Error() string { return "troupe: there is no room for what a task stores" }

// Charge implements worker.Ledger. In a store that is nearly full the steps of tasks go on, as long as there is room at all.
func (l taskLedger) Charge(c worker.Charge, p worker.Purpose) error {
	why, ok := actors.TasksOf(l.rt.node).Charge(actors.TaskCharge(c), p == worker.ForResult)
	if !ok && p == worker.ForStep && why == actors.StoreFull {
		why, ok = actors.TasksOf(l.rt.node).Charge(actors.TaskCharge(c), true)
	}
	if !ok {
		return noRoomError{why}
	}
	return nil
}

// Settle implements worker.Ledger.
func (l taskLedger) Settle(c worker.Charge, stored bool) {
	actors.TasksOf(l.rt.node).Settle(actors.TaskCharge(c), stored)
}

// Return implements worker.Ledger.
func (l taskLedger) Return(c worker.Charge) { actors.TasksOf(l.rt.node).Return(actors.TaskCharge(c)) }
