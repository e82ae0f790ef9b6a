package kernel

import (
	"log/slog"
	"sync/atomic"
)

// Config is the configuration of a [Kernel].
type Config struct {
	// Log is where panics are logged; nil discards them.
	Log *slog.Logger
	// Kinds are the names of the kinds of actors, in metrics and in the log: Kind(0) is the first.
	Kinds []string
}

// New starts an actor system, which has nothing to close.
func New(c Config) *Kernel {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &Kernel{log: c.Log, kinds: c.Kinds, live: make([]atomic.Int64, len(c.Kinds))}
}
