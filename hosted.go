package troupe

import (
	"time"

	"github.com/troupe-run/troupe/host"
)

// Backend is a server that somebody else has written, as a [Server] offers it: see [AddBackend].
type Backend struct {
	// Name tells it from the others of its server: [A-Za-z0-9_.-], at most 46 characters. The names of its tools and prompts have it in front,
	// unless Options.Prefix says otherwise.
	Name    string
	Target  host.Target
	Options host.Options
}

// HostingOptions say how a Runtime keeps what runs for backends: processes of commands, and sessions at URLs.
type HostingOptions struct {
	// Keeper is the command of a program that becomes the keeper: the process that has the processes of backends, and outlives this one.
	// Arguments of its own follow. nil is this program, if it calls [host.Main]; without that the processes are children of this one, and
	// end with it.
	Keeper []string
	// Keep is for how long the keeper keeps processes that no Runtime has adopted, once this one is gone. It keeps them only for a Runtime with
	// Options.Dir, since the next one finds them there. 0 means 30 seconds; negative keeps nothing.
	Keep time.Duration
	// MaxInstances is how many instances there may be on this node, over all servers. 0 means 512, negative no bound but those of
	// the backends.
	MaxInstances int
	// LearnWait is how long a request waits for the lists of a backend of which nothing is known yet, before it is answered without
	// that backend. 0 means 5 seconds.
	LearnWait time.Duration
}
