package host

import (
	"cmp"
	"time"

	"github.com/troupe-run/troupe/mcp"
)

// Options say how a backend runs. The zero value is good for a server of which nothing is known: each session has an
// instance of its own, with a clean environment and without the client's roots.
type Options struct {
	// Isolation says who shares an instance. "" means BySession.
	Isolation Isolation
	// Era pins the revisions that the backend speaks. "" finds them out, which costs a backend of 2025 one request that it
	// does not know. A backend of both eras is spoken to in the era of its caller.
	Era Era
	// Transport pins how a URL is spoken to. "" tries Streamable HTTP, and then HTTP+SSE. Commands have none.
	Transport Transport
	// Prefix is put in front of the names of the backend's tools and prompts, as it is: [A-Za-z0-9_.-], 48 bytes at most.
	// "" means the name of the backend and two underscores, and NoPrefix none. Names of more than 64 bytes are cut, with a
	// hash at their end. No prefix may begin with that of another backend of the same server.
	Prefix string
	// Tools says which tools of the backend there are. The zero value has all.
	Tools Tools
	// Scopes are the OAuth scopes that callers need for all that the backend has, beside those of the server
	// (ServerOptions.Scopes). Lists have its items all the same. nil means none.
	Scopes []string
	// ToolScopes are the scopes that calls of tools need beside those, by patterns as in [Tools]: a tool needs those of every
	// pattern that matches its name. nil means none.
	ToolScopes map[string][]string
	// Rerun says which calls may run once more when their instance is lost.
	Rerun Rerun
	// OnLoss says what becomes of a session whose instance is lost. "" means Restart.
	OnLoss OnLoss
	// Roots says what the backend hears when it asks for roots. The zero value is none, whatever the client has: some servers
	// take roots for the directories that they may serve.
	Roots Roots
	// Pool bounds the instances.
	Pool Pool

	// Env are variables of a command's environment. Beside them it has HOME, PATH, USER, LOGNAME, SHELL, TERM, LANG and TZ
	// of this process, and no other. Values are secret.
	Env Secrets
	// EnvFile is the path of a file with further variables, in lines of NAME=VALUE. Env goes before it. Empty means none.
	EnvFile string
	// Dir is the directory in which a command runs. Empty means that of this process.
	Dir string
	// StderrRate bounds the lines per second of what a command writes to its standard error that are logged; twice as many
	// may come at once. 0 means 20, and a negative number no bound. Lines beyond it are counted.
	StderrRate float64
	// Confinement is what a command may not do.
	Confinement Confinement
	// Hide are more texts that a mask replaces in what the backend writes to the log, beside the values of Env and Headers:
	// arguments that are secret, such as they are. Those of less than six bytes stay there, because such texts are
	// everywhere; where operators see the arguments, one that is such a text is masked, too.
	Hide Hidden

	// Headers are sent with each request to a URL, such as Authorization. Values are secret.
	Headers Secrets
	// PassHeaders names the headers of a client's request that are passed on to a URL. nil passes none. Authorization, Cookie
	// and what belongs to a connection or to the protocol are never passed.
	PassHeaders []string
}

// Isolation says who shares an instance.
type Isolation string

const (
	// BySession gives each session its own. A request without a session shares one with the others of its principal; where
	// nobody says who calls, that is everybody on the loopback interface, and each request has its own beyond it.
	BySession Isolation = "session"
	// ByPrincipal gives each principal its own, over all its sessions.
	ByPrincipal Isolation = "principal"
	// ByCall gives each call its own, which ends with it; see Pool.Warm.
	ByCall Isolation = "call"
	// Shared gives all callers the same, and says that the backend keeps nothing of one that another must not see.
	Shared Isolation = "shared"
)

// Era is a family of revisions of the protocol.
type Era string

const (
	// Legacy are the revisions with sessions, up to 2025-11-25.
	Legacy Era = "legacy"
	// Modern are those without, from 2026-07-28 on.
	Modern Era = "modern"
)

// Transport is how a URL is spoken to.
type Transport string

const (
	// HTTP is Streamable HTTP.
	HTTP Transport = "http"
	// SSE is HTTP+SSE, the transport of 2024-11-05.
	SSE Transport = "sse"
)

// NoPrefix as Options.Prefix leaves names as they are. Where two backends have the same name, the first one's counts.
const NoPrefix = "none"

// Tools says which tools of a backend there are, by patterns for their names without a prefix: * stands for any text,
// ? for one character. A tool that is left out is unknown to clients.
type Tools struct {
	// Allow are the tools that there are. nil means all.
	Allow []string
	// Deny are those of them that there are not.
	Deny []string
}

// Rerun says which tools may be called once more with the same arguments when it is unknown what became of the first
// call, by patterns as in [Tools]. For tools that match none, their annotations count: readOnlyHint or idempotentHint.
type Rerun struct {
	// Safe are the tools that may run once more.
	Safe []string
	// Never are those that must not; they go before Safe.
	Never []string
}

// OnLoss says what becomes of a session whose instance is lost.
type OnLoss string

const (
	// Restart begins another instance with the settings of the session: capabilities, log level, subscriptions. What the
	// backend kept for the session is gone, and the client is told once.
	Restart OnLoss = "restart"
	// End ends the session: the client begins a new one.
	End OnLoss = "end"
)

// Roots says what a backend hears when it asks for roots. The zero value says that there are none.
type Roots struct {
	// Forward asks the client.
	Forward bool
	// List are the roots, whatever the client has. It excludes Forward.
	List []mcp.Root
}

// Pool bounds the instances of a backend on each node.
type Pool struct {
	// Warm is how many instances are kept ready for callers that have none yet, of each kind that was wanted lately. 0 means
	// none: the first call starts one.
	Warm int
	// Max is how many instances there may be. 0 means 256, and a negative number no bound but that of the node.
	Max int
	// MaxPerPrincipal is how many of them one principal may have. 0 means 64, and a negative number no bound but Max.
	MaxPerPrincipal int
	// Queue is how many calls may wait for an instance. 0 means 256. Further ones are refused.
	Queue int
	// StartTimeout is how long an instance may take to be ready, and how long a call waits for one. 0 means 2 minutes.
	StartTimeout time.Duration
	// Idle is how long an instance lives without a call. 0 means 30 minutes, and a negative time for ever. What it keeps for
	// its session is lost then.
	Idle time.Duration
	// MaxLife is how long an instance lives at most; then it ends when it has no call. 0 means for ever.
	MaxLife time.Duration
	// MaxMemory is how many bytes an instance may hold, with all processes that it has started. Beyond it the instance ends.
	// 0 means no bound. It is looked at every few seconds: Confinement.Cgroup bounds memory at once.
	MaxMemory int64
}

// WithDefaults returns the options with each one that is 0 set to its default. Maps and slices are those of o.
func (o Options) WithDefaults() Options {
	o.Isolation = cmp.Or(o.Isolation, BySession)
	o.OnLoss = cmp.Or(o.OnLoss, Restart)
	o.StderrRate = cmp.Or(o.StderrRate, 20)
	p := &o.Pool
	p.Max, p.MaxPerPrincipal, p.Queue = cmp.Or(p.Max, 256), cmp.Or(p.MaxPerPrincipal, 64), cmp.Or(p.Queue, 256)
	p.StartTimeout, p.Idle = cmp.Or(p.StartTimeout, 2*time.Minute), cmp.Or(p.Idle, 30*time.Minute)
	c := &o.Confinement
	c.NoNewPrivs, c.NoNetwork, c.OwnPIDs = cmp.Or(c.NoNewPrivs, Off), cmp.Or(c.NoNetwork, Off), cmp.Or(c.OwnPIDs, Off)
	c.Rlimits.Enforce = cmp.Or(c.Rlimits.Enforce, enforceIf(c.Rlimits.hasBounds()))
	c.Files.Enforce = cmp.Or(c.Files.Enforce, enforceIf(c.Files.hasPaths()))
	c.Cgroup.Enforce = cmp.Or(c.Cgroup.Enforce, enforceIf(c.Cgroup.hasBounds()))
	return o
}
