package pool

import "time"

// InstanceID names an instance of the pool, and WantID a want. Neither comes twice.
type (
	InstanceID uint64
	WantID     uint64
)

// Kind is what instances have in common that may stand for each other.
type Kind struct {
	Backend string // its name
	Digest  string // of its configuration
	Client  string // digest of what its instances are told of their client
}

// A Want is a call that wants an instance.
type Want struct {
	ID        WantID
	Kind      Kind
	Holder    string // whose instance it is to be, by the isolation; "" where all share, or each call has its own
	Principal string // for whom it counts
	Looks     bool   // it asks what an instance lists, and leaves nothing there: the instance is still for anybody. Holder and Principal are ""
	Heir      bool   // its holder's last instance has left what only one that begins for the holder goes on with: a spare will not do
	Askable   bool   // an instance may ask its client, and nothing else says which call a question is of
}

// An Effect is what the user of a pool has to do.
type Effect interface{ effect() }

type (
	// Start begins an instance. InstanceReady or StartFailed must follow, or InstanceExited.
	Start struct {
		Instance  InstanceID
		Kind      Kind
		Holder    string // "" for a spare, and for what all share
		Principal string // for whom it counts, "" for nobody
	}
	// Give gives a want its instance. CallEnded must follow.
	Give struct {
		Want     WantID
		Instance InstanceID
	}
	// Refuse ends a want that gets no instance: nothing of it has run.
	Refuse struct {
		Want   WantID
		Reason Reason
		Detail string        // why the backend does not start, "" where that is not the reason
		After  time.Duration // when it may help to come again, 0 where that is not known
	}
	// Stop ends an instance. InstanceExited must follow. Wants that it serves are the user's to end.
	Stop struct {
		Instance InstanceID
		Reason   Reason
	}
	// Ping asks an instance whether it lives. HeardFrom follows if it does.
	Ping struct{ Instance InstanceID }
	// Lost says that the instance of a holder is gone, with what it held. Another one takes its place when it is wanted.
	Lost struct {
		Instance InstanceID
		Kind     Kind
		Holder   string
		Reason   Reason
		Detail   string
		Wants    []WantID // that it served: CallEnded is not called for them
	}
)

func (Start) effect()  {}
func (Give) effect()   {}
func (Refuse) effect() {}
func (Stop) effect()   {}
func (Ping) effect()   {}
func (Lost) effect()   {}

// Reason says why an instance ends, or a want gets none.
type Reason string

const (
	Exited    Reason = "exited"     // it has ended by itself
	FailedTo  Reason = "start"      // it did not start
	TooSlow   Reason = "slow-start" // it was not ready in time
	Broken    Reason = "breaker"    // it failed often, and is left alone for a while
	QueueFull Reason = "queue"      // too many wait
	NoRoom    Reason = "room"       // it has waited for as long as it may
	NodeFull  Reason = "instances"  // the same, at the end because of the bound of the node
	Unused    Reason = "idle"       // nobody wanted it
	Evicted   Reason = "evicted"    // it made room for one that another kind of client, or another backend, needs
	Surplus   Reason = "max"        // there are more than there may be, since that was lowered
	Old       Reason = "max-life"   // it has lived for long enough
	Heavy     Reason = "memory"     // it holds too much
	Wedged    Reason = "wedged"     // it answers no ping
	Suspect   Reason = "suspect"    // it did not end a cancelled call
	Spent     Reason = "spent"      // its call has ended, and it is for no other
	Left      Reason = "left"       // its holder is gone
	Moved     Reason = "moved"      // its holder is another node's now
	Replaced  Reason = "replaced"   // its backend is configured otherwise, or is gone
	Restarted Reason = "restarted"  // an operator wants another one in its place
	Closed    Reason = "closed"     // the node ends
	Kept      Reason = "kept"       // the node ends, and the next process has the instance
)
