package troupe

import (
	"reflect"
	"time"
)

// Limits are the limits of one server. ServerOptions.Limits sets them for that server, and
// Options.Limits for the servers that do not. 0 is the default, which in ServerOptions is
// the value of Options; a negative number or rate is no limit, except where
// docs/limits.md gives a least value (PageSize, MaxBatch, MaxValues, MaxDepth and
// CallBurst). Sizes and times must be bounded.
type Limits struct {
	// MaxBody is the largest body of a request in bytes. 0 means 4 MiB. A larger one
	// is answered with 413.
	MaxBody int64
	// MaxDepth is how deep JSON may nest. 0 means 128, 1024 is the most.
	MaxDepth int
	// MaxBatch is how many messages a batch may hold. 0 means 100.
	MaxBatch int
	// MaxValues is how many values the JSON of a message may have, those in values and
	// those of a whole batch included: what decoding makes of them may take fifty times
	// their bytes. 0 means 100,000.
	MaxValues int
	// MaxURI is the longest URI, in bytes, of a resource that a client reads or
	// subscribes to. 0 means 8 KiB. A longer one is answered with error -32602.
	MaxURI int
	// PageSize is the number of items in one page of a list. 0 means 100.
	PageSize int
	// BodyTimeout is how long the body of a request may take to arrive. 0 means 30
	// seconds. A slower one is answered with 408.
	BodyTimeout time.Duration
	// BodyRate is how many bytes of a body must come per second, on average once it has
	// taken 10 seconds. 0 means 1,024. A slower one is answered with 408: so few bytes hold
	// a connection for 10 seconds, and not for BodyTimeout.
	BodyRate float64
	// WriteTimeout is how long a write may wait for a client that does not read. 0
	// means 30 seconds. Then the connection is cut; an event stream can be resumed. It
	// stands in for the WriteTimeout of a program's own http.Server, which would begin with
	// the request and end the responses to calls that take longer.
	WriteTimeout time.Duration
	// MaxQueued is how many bytes of an event stream may wait for its connection,
	// and as many for the log. 0 means 1 MiB. When a client reads more slowly, its
	// connection is cut, and it resumes; a handler that is faster than the log waits. A
	// message of more than half of it counts once WriteTimeout is over: see docs/limits.md.
	MaxQueued int

	// Grace is how long a call may take and still be answered as plain JSON. 0
	// means 250 ms.
	Grace time.Duration
	// StatelessGrace is the grace of stateless requests (2026-07-28), where the status
	// of the response depends on the handler's result. Calls that become tasks by themselves do so when it is
	// over, unless their tools say otherwise (Tool.TaskAfter). 0 means 10 seconds.
	StatelessGrace time.Duration
	// MaxCall is how long a call may run. 0 means 1 hour.
	MaxCall time.Duration
	// MaxAsk is how long a question may wait for the client's answer. 0 means 10
	// minutes.
	MaxAsk time.Duration
	// Retry is how long a client of 2025-11-25 must wait before it comes back to the
	// stream of a call whose connection broke. Before it comes back to the standalone
	// stream it waits twice that. The official SDK for TypeScript tries twice and then
	// gives up, so it outlasts a restart of a little less than twice Retry;
	// docs/decisions.md, 10, has figures. 0 means 4 seconds, the least is 1 millisecond.
	// After [Call.Disconnect] a client waits 1 second at most.
	Retry time.Duration
	// PingEvery is the time between two pings to a client that listens to a standalone
	// stream, or whose session is bound to one connection (HTTP+SSE, stdio). 0 means
	// never, the least is 1 second. After two pings in a row without an answer the
	// connection is closed, and a session that is bound to it ends.
	PingEvery time.Duration

	// CallRate bounds what the requests of a session cost per second: each 1, and 1 more
	// for each 64 KiB of its body and each 10,000 JSON values in it. A ping costs only
	// that. CallBurst bounds what may come at once after a silence. 0 means 100, and twice the
	// rate; a server with a CallRate and no CallBurst has the CallBurst of Options, if
	// that is set. Requests beyond it are refused, with the time to come back.
	CallRate  float64
	CallBurst int
	// LogRate bounds the log messages to a client per second, of all calls of a
	// session together; twice as many may come at once after a silence. 0 means 500.
	// Messages beyond it are dropped, and the client gets their number.
	LogRate float64
	// CallsPerSession bounds the requests of a session in flight. 0 means 256. Beyond it
	// the response is an error with the time to come back.
	CallsPerSession int
	// StreamsPerSession bounds the event streams of a session with a connection. 0 means
	// 64. Beyond it a GET is refused with 429; calls are still answered.
	StreamsPerSession int
	// SubscriptionsPerSession bounds the resources that a session subscribes to. 0
	// means 1,000. Beyond it the response is error -32600.
	SubscriptionsPerSession int
	// PendingPerSession bounds the questions of a session that wait for its client. 0
	// means 64. Beyond it they fail with ErrTooManyPending.
	PendingPerSession int
}

// completedFrom returns l with each limit that is 0 taken from o.
func (l Limits) completedFrom(o Limits) Limits {
	own, others := reflect.ValueOf(&l).Elem(), reflect.ValueOf(o)
	for i := range own.NumField() {
		if own.Field(i).IsZero() {
			own.Field(i).Set(others.Field(i))
		}
	}
	return l
}

// SharedLimits are the limits of all servers of a Runtime together. 0 is the default, a
// negative number no limit.
//
// Authenticate or Auth says which principal makes a request. Anonymous clients count by
// http.Request.RemoteAddr: each IPv4 address, or IPv6 network of 64 bits, is one principal.
// Behind a proxy all anonymous clients share its address, unless HTTPOptions.TrustedProxies
// has it, or Middleware sets RemoteAddr. Processes on one store bound a principal's rate, and its requests in flight, event
// streams and questions, together: they tell each other once a second. What else a principal uses counts on each node for itself.
type SharedLimits struct {
	// CallsPerNode and CallsPerPrincipal bound the requests in flight. 0 means 10,000 and
	// 1,024. Beyond them the response is an error with the time to come back. Once
	// three quarters of CallsPerNode are in flight, a principal that has more than
	// an equal share of it gets such an error, too.
	CallsPerNode, CallsPerPrincipal int
	// TasksPerNode bounds the tasks whose handlers run at a time; others wait, and principals get a place in turn. The last eighth
	// of the places is for principals of which less than a 64th run. 0 means 1,000.
	TasksPerNode int
	// OpenTasksPerPrincipal and OpenTasksPerNode bound the tasks that have not ended, of those that the node has made or run. 0 means
	// 10,000 and 100,000. Beyond them a call that would become a task is answered with an error and the time to come back.
	OpenTasksPerPrincipal, OpenTasksPerNode int
	// MaxMemory is how many bytes of memory the process may use. A quarter of what that leaves beside
	// 64 MiB, and at least an eighth of it all, is for what clients have the process hold: requests on
	// their way and in flight, responses and events that they have not read, and calls that wait for
	// their answers. A principal may hold twice what is left of that beside it. Requests beyond it are
	// refused with 429 or 503 before their body is read, and event streams are cut, to be resumed. 0
	// means what the process's cgroup or the machine has, or up to a third more than GOMEMLIMIT.
	// MaxMemory does not set GOMEMLIMIT; the command does.
	MaxMemory int64
	// PrincipalRate and PrincipalBurst are Limits.CallRate and CallBurst for all sessions
	// of a principal together, and for its GETs: each costs 1, and one that resumes a stream 1 more
	// for each 256 KiB that is replayed, those of the first MiB at once. What is no call (initialize, notifications,
	// answers, DELETE) has as much again to itself, and costs a tenth. 0 means 1,000, and twice
	// the rate.
	PrincipalRate  float64
	PrincipalBurst int
	// SessionsPerPrincipal bounds the sessions that a principal may begin at once, and as
	// many within each hour from then on; one that it deletes counts a tenth. 0 means
	// 10,000. Beyond it the response is 429. What a principal may store is bounded by its
	// share of the store.
	SessionsPerPrincipal int
	// StreamsPerPrincipal bounds the event streams with a connection. 0 means 1,024.
	// Beyond it a GET is refused with 429; calls are still answered.
	StreamsPerPrincipal int
	// PendingPerPrincipal bounds the questions that wait for a client. 0 means 1,024.
	// Beyond it they fail with ErrTooManyPending.
	PendingPerPrincipal int
	// AuthFailures bounds the access tokens per second that come from an address and do not count, where Options.Auth is set; ten times as
	// many may come at once. 0 means 10. Beyond it requests of the address are refused with 429 before their tokens are
	// verified, unless they have one that was verified before.
	AuthFailures float64
	// Weights are the weights of principals that have another one than 1: when requests in flight or memory are short, a principal of weight
	// 4 gets four times what one of weight 1 gets. A name is the principal's subject, or its issuer and its subject with a space between
	// them, and "machine " before that for a machine; or, of anonymous clients, an IPv4 address or an IPv6 network of 64 bits. A weight is from 1 to 1,000.
	Weights map[string]int
}
