package kernel

import (
	"log/slog"
	"sync"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/eventstream"
	cmap "github.com/orcaman/concurrent-map"
)

// buckets is the number of maps in a registry. Each map has 32 locks, so that 32 maps have a lock each for 1,024 actors
// that start or stop at once.
const buckets = 32

// model is an actor system that protoactor has made, as nothing else can give a system a logger. No actor lives in it.
var model = sync.OnceValue(func() *actor.ActorSystem {
	// protoactor logs its own start, and dead letters. The kernel reports dead letters to their senders, so neither is
	// worth a line.
	sys := actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) }))
	sys.ProcessRegistry.LocalPIDs = nil // which are of no use to newSystem, and large
	return sys
})

// newSystem returns an actor system with a registry, dead letters and events of its own. protoactor's registry has 1,024
// maps, which take 2.9 MB and milliseconds to make, and are in the way of each garbage collection.
func newSystem() *actor.ActorSystem {
	sys := *model()
	sys.ProcessRegistry = &actor.ProcessRegistryValue{ActorSystem: &sys, Address: sys.ProcessRegistry.Address, LocalPIDs: &actor.SliceMap{}}
	for range buckets {
		sys.ProcessRegistry.LocalPIDs.LocalPIDs = append(sys.ProcessRegistry.LocalPIDs.LocalPIDs, cmap.New())
	}
	sys.Root = actor.NewRootContext(&sys, actor.EmptyMessageHeader)
	sys.Guardians = actor.NewGuardians(&sys)
	sys.EventStream = eventstream.NewEventStream()
	sys.DeadLetter = actor.NewDeadLetter(&sys)
	return &sys
}
