package kernel

import (
	"log/slog"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"
)

// Kind says what an actor stands for: it is an index into the names that [New] got.
type Kind uint8

// PID is the address of an actor: the name of its node and, after a slash, its kind and its
// key. Compare PIDs by their fields. [Kernel.PID] makes one without an actor.
type PID = actor.PID

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

// Kernel is the actor system of one process. [New] makes one; the zero value is not
// usable. The methods are safe for concurrent use.
type Kernel struct {
	sys    *actor.ActorSystem
	log    *slog.Logger
	remote Remote
	kinds  []string
	live   []atomic.Int64 // by kind
	panics atomic.Int64
	lost   atomic.Int64 // messages that reached no actor
}

// New starts an actor system, which has nothing to close.
func New(c Config) *Kernel {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	// protoactor logs its own start, and dead letters. The kernel reports dead letters to
	// their senders, so neither is worth a line.
	quiet := actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) })
	k := &Kernel{sys: actor.NewActorSystem(quiet), log: c.Log, remote: c.Remote, kinds: c.Kinds, live: make([]atomic.Int64, len(c.Kinds))}
	if c.Node != "" {
		k.sys.ProcessRegistry.Address = c.Node
	}
	k.sys.ProcessRegistry.RegisterAddressResolver(func(*actor.PID) (actor.Process, bool) { return (*elsewhere)(k), true })
	k.sys.EventStream.Subscribe(k.undelivered)
	return k
}

// Start makes c an idle actor with an empty mailbox; b is its behaviour, usually the type
// that embeds c. key names the actor among those of its kind; an empty key gets a unique
// number. If two live actors have the same key, messages by PID reach the one that was
// started last. Call Start once per Actor, before its other methods. It panics for a kind
// that has no name in the [Config].
func (k *Kernel) Start(c *Actor, kind Kind, key string, b Behaviour) {
	if key == "" {
		key = k.sys.ProcessRegistry.NextId()
	}
	c.k, c.kind, c.b = k, kind, b
	c.pid = k.PID(k.sys.ProcessRegistry.Address, kind, key)
	k.sys.ProcessRegistry.LocalPIDs.GetBucket(c.pid.Id).Set(c.pid.Id, (*process)(c))
	k.live[kind].Add(1)
}

// ended removes the name of an actor, unless another actor has it now.
func (k *Kernel) ended(c *Actor) {
	k.sys.ProcessRegistry.LocalPIDs.GetBucket(c.pid.Id).RemoveCb(c.pid.Id, func(_ string, p any, _ bool) bool { return p == (*process)(c) })
	k.live[c.kind].Add(-1)
}

// PID is the address of an actor of a node, this one or another, whether it lives or
// not.
func (k *Kernel) PID(node string, kind Kind, key string) *PID {
	return actor.NewPID(node, k.kinds[kind]+"/"+key)
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

// CountPanic adds one to [Kernel.Panics], for a panic that an owner contained outside its
// actors.
func (k *Kernel) CountPanic() { k.panics.Add(1) }

// Undelivered is the number of messages that [Kernel.Send] and [Ask] could not bring
// to an actor since the start.
func (k *Kernel) Undelivered() int64 { return k.lost.Load() }
