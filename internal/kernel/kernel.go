package kernel

import (
	"io"
	"log/slog"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"
)

// Kind says what an actor stands for: it is an index into the names that [New] got.
type Kind uint8

// Kernel is the actor system of one process. [New] makes one; the zero value is not
// usable. The methods are safe for concurrent use.
type Kernel struct {
	sys    *actor.ActorSystem
	log    *slog.Logger
	kinds  []string
	live   []atomic.Int64 // by kind
	panics atomic.Int64
}

// New starts an actor system, which has nothing to close. It logs panics to log; nil
// discards them. kinds are the names of the kinds of actors, in metrics and in PIDs:
// Kind(0) is the first.
func New(log *slog.Logger, kinds ...string) *Kernel {
	if log == nil {
		log = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	// protoactor logs its own start, and dead letters, which Ask reports to its caller:
	// neither is worth a line.
	quiet := actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) })
	return &Kernel{sys: actor.NewActorSystem(quiet), log: log, kinds: kinds, live: make([]atomic.Int64, len(kinds))}
}

// Start makes c an actor that does what b says, idle and with an empty mailbox. b is
// as a rule the type that embeds c. Start is called once per Actor and before its other
// methods; it panics for a kind that New has no name for.
func (k *Kernel) Start(c *Actor, kind Kind, b Behaviour) {
	c.k, c.kind, c.b = k, kind, b
	c.pid, _ = k.sys.ProcessRegistry.Add((*process)(c), k.kinds[kind]+k.sys.ProcessRegistry.NextId())
	k.live[kind].Add(1)
}

// Live is the number of actors of a kind that have started and not stopped, without
// those at rest.
func (k *Kernel) Live(kind Kind) int64 { return k.live[kind].Load() }

// Kinds calls f with the name of each kind and its number of live actors.
func (k *Kernel) Kinds(f func(kind string, live int64)) {
	for i, kind := range k.kinds {
		f(kind, k.live[i].Load())
	}
}

// Panics is the number of panics that were contained since the start.
func (k *Kernel) Panics() int64 { return k.panics.Load() }

// CountPanic adds to [Kernel.Panics] one that an owner has contained outside its
// actors.
func (k *Kernel) CountPanic() { k.panics.Add(1) }
