package kernel

import (
	"log/slog"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"
)

// Config is the configuration of a [Kernel].
type Config struct {
	// Log is where panics are logged; nil discards them.
	Log *slog.Logger
	// Node is the name of this process in PIDs. It must differ after each start, so that a
	// PID of a former process reaches no actor. Leave it empty if no other process sends to
	// this one.
	Node string
	// Kinds are the names of the kinds of actors, in metrics and in PIDs: Kind(0) is the first.
	Kinds []string
	// Remote takes messages for actors of other nodes; with nil those are unreachable.
	Remote Remote
}

// New starts an actor system, which has nothing to close.
func New(c Config) *Kernel {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	k := &Kernel{sys: newSystem(), log: c.Log, remote: c.Remote, kinds: c.Kinds, live: make([]atomic.Int64, len(c.Kinds))}
	if c.Node != "" {
		k.sys.ProcessRegistry.Address = c.Node
	}
	k.sys.ProcessRegistry.RegisterAddressResolver(func(*actor.PID) (actor.Process, bool) { return (*elsewhere)(k), true })
	k.sys.EventStream.Subscribe(k.undelivered)
	return k
}
