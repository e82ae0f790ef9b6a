package limits

import "time"

const (
	second = int64(time.Second)
	minute = int64(time.Minute)
	hour   = int64(time.Hour)
	day    = 24 * hour

	kib = 1 << 10
	mib = 1 << 20
	gib = 1 << 30
)

// The limits of a request.
var (
	MaxBody = add[int64](Row{Section: Request, Name: "body", Option: "Limits.MaxBody", Kind: Size, Default: 4 * mib, Least: 1,
		Beyond: "413, connection closed", Counted: "too-large", By: HTTP,
		Usage: "most bytes in a request, a `size`"})
	MaxHeader = add[int](Row{Section: Request, Name: "header, in `Serve`", Option: "HTTP.MaxHeader", Kind: Size, Default: 32 * kib, Least: 1, Most: gib,
		Beyond: "431, connection closed; not counted with TLS", Counted: "header-too-large", By: HTTP,
		Usage: "most bytes in the header of a request, a `size`"})
	HeaderTimeout = add[time.Duration](Row{Section: Request, Name: "time for a header to arrive, in `Serve`", Option: "HTTP.HeaderTimeout", Kind: Time, Default: 10 * second, Least: int64(time.Millisecond),
		Beyond: "connection closed", Counted: "header-timeout", By: HTTP,
		Usage: "`time` that the header of a request may take to arrive"})
	BodyTimeout = add[time.Duration](Row{Section: Request, Name: "time for a body to arrive", Option: "Limits.BodyTimeout", Kind: Time, Default: 30 * second, Least: int64(time.Millisecond),
		Beyond: "408, connection closed", Counted: "body-timeout", By: HTTP,
		Usage: "`time` that the body of a request may take to arrive"})
	BodyRate = add[float64](Row{Section: Request, Name: "bytes of a body, on average once it has taken 10 s", Option: "Limits.BodyRate", Kind: Rate, Default: kib, None: true,
		Beyond: "408, connection closed", Counted: "body-rate", By: HTTP,
		Usage: "least `number` of bytes per second of a body that has taken 10 s; 0 for none"})
	MaxDepth = add[int](Row{Section: Request, Name: "levels of JSON", Option: "Limits.MaxDepth", Default: 128, Least: 1, Most: 1024,
		Beyond: "400, -32700", Counted: "depth", By: HTTP,
		Usage: "most levels that JSON may nest, a `number` up to 1024"})
	MaxBatch = add[int](Row{Section: Request, Name: "messages of a batch", Option: "Limits.MaxBatch", Default: 100, Least: 1, Most: 1 << 20,
		Beyond: "400, -32600", Counted: "batch", By: HTTP,
		Usage: "most messages in a batch, a `number`"})
	MaxValues = add[int](Row{Section: Request, Name: "values in the JSON of a message, or of a batch", Option: "Limits.MaxValues", Default: 100_000, Least: 1, Most: 1 << 30,
		Beyond: "400, -32600", Counted: "values", By: HTTP,
		Usage: "most values in the JSON of a message, or of a batch, a `number`"})
	MaxURI = add[int](Row{Section: Request, Name: "URI of a resource that is read or subscribed to", Option: "Limits.MaxURI", Kind: Size, Default: 8 * kib, Least: 1, Most: gib,
		Beyond: "-32602; `subscriptions/listen` leaves it out of its filter", Counted: "uri",
		Usage: "most bytes in the URI of a resource that a client reads or subscribes to, a `size`"})
	PageSize = add[int](Row{Section: Request, Name: "items in one page of a list", Option: "Limits.PageSize", Default: 100, Least: 1, Most: 1 << 20,
		Beyond: "further pages have the rest",
		Usage:  "`number` of items in one page of a list"})
	Name = add[int](Row{Section: Request, Name: "name of a tool or prompt", Kind: Size, Default: kib,
		Beyond: "`AddTool` and `AddPrompt` panic"})
	SkillFiles = add[int](Row{Section: Request, Name: "files of a skill, and directories", Default: 512, Shown: "512 each",
		Beyond: "`AddSkill` panics"})
	SkillBytes = add[int](Row{Section: Request, Name: "bytes of a skill's files together", Kind: Size, Default: 16 * mib,
		Beyond: "`AddSkill` panics"})
	SkillFrontmatter = add[int](Row{Section: Request, Name: "frontmatter of a skill", Kind: Size, Default: 64 * kib,
		Beyond: "`AddSkill` panics"})
	SkillLevels = add[int](Row{Section: Request, Name: "collections in one another in the frontmatter of a skill", Default: 64,
		Beyond: "`AddSkill` panics"})
	PageHTML = add[int](Row{Section: Request, Name: "HTML of a page", Kind: Size, Default: 16 * mib,
		Beyond: "`AddPage` panics"})
	Token = add[int](Row{Section: Request, Name: "id, and progress token, as JSON", Kind: Size, Default: 2 * kib, Shown: "2 KiB each",
		Beyond: "-32600"})
	ClientInfo = add[int](Row{Section: Request, Name: "what a session keeps of `clientInfo` and `capabilities`", Kind: Size, Default: 8 * kib, Shown: "8 KiB together",
		Beyond: "the rest is not kept; -32602 if name and version alone are larger"})
	Grace = add[time.Duration](Row{Section: Request, Name: "time for which a call waits to answer as plain JSON", Option: "Limits.Grace", Kind: Time, Default: 250 * int64(time.Millisecond), Least: int64(time.Millisecond),
		Beyond: "its answer becomes an event stream", named: "sse-grace",
		Usage: "`time` that a call may take before its answer becomes an event stream"})
	StatelessGrace = add[time.Duration](Row{Section: Request, Name: "the same for a stateless call", Option: "Limits.StatelessGrace", Kind: Time, Default: 10 * second, Least: int64(time.Millisecond),
		Beyond: "its answer becomes an event stream, or the call a task",
		Usage:  "the same `time` for stateless calls (2026-07-28), whose HTTP status depends on the handler"})
	MaxCall = add[time.Duration](Row{Section: Request, Name: "time of a call", Option: "Limits.MaxCall", Kind: Time, Default: hour, Least: int64(time.Millisecond),
		Beyond: "its context ends with `ErrDeadline`", Counted: "call-time",
		Usage: "`time` that a call may run"})
	MaxAsk = add[time.Duration](Row{Section: Request, Name: "time that a question waits for its answer", Option: "Limits.MaxAsk", Kind: Time, Default: 10 * minute, Least: int64(time.Millisecond),
		Beyond: "`Ask` fails with `ErrNoAnswer`", Counted: "ask-time", Usual: true,
		Usage: "`time` that a question may wait for the client's answer"})
	Ping = add[time.Duration](Row{Section: Request, Name: "time of a ping by `Call.Ping` or `Peer.Ping`", Kind: Time, Default: 30 * second,
		Beyond: "it fails with `ErrNoAnswer`"})
	LookEvery = add[time.Duration](Row{Section: Request, Name: "least time between two looks at a task that a client hosts", Kind: Time, Default: second,
		Beyond: "a shorter `pollInterval`, and `notifications/tasks/status`, have to wait"})
	LookWithin = add[time.Duration](Row{Section: Request, Name: "longest such time", Kind: Time, Default: hour,
		Beyond: "a longer `pollInterval` counts as this"})
	LookTries = add[int](Row{Section: Request, Name: "times in a row that a client fails to say how its task is", Default: 5,
		Beyond: "the handler gets the error, and the client `tasks/cancel`"})
	HostedID = add[int](Row{Section: Request, Name: "id of a task that a client hosts", Kind: Size, Default: kib,
		Beyond: "the handler gets an error"})
	LateTask = add[time.Duration](Row{Section: Request, Name: "time in which a client may still make a task of a question that was given up", Kind: Time, Default: 30 * second,
		Beyond: "it gets no `tasks/cancel`"})
	Progress = add[int](Row{Section: Request, Name: "progress notifications with one token", Kind: Rate, Default: 100,
		Beyond: "only the newest one is sent"})
	Hops = add[int](Row{Section: Request, Name: "proxies of `TrustedProxies` on the way of a request", Default: 64,
		Beyond: "the proxy beyond them counts as the client"})
	Digits = add[int](Row{Section: Request, Name: "characters of a number in arguments", Default: 1000,
		Beyond: "as arguments that do not fit the schema"})
	Exponent = add[int](Row{Section: Request, Name: "exponent of a number in arguments", Default: 999,
		Beyond: "as arguments that do not fit the schema"})
	Steps = add[int](Row{Section: Request, Name: "steps of checking arguments", Default: 1 << 20, Shown: "see below",
		Beyond: "as arguments that do not fit the schema"})
	Faults = add[int](Row{Section: Request, Name: "faults that an error names when arguments do not fit", Default: 20,
		Beyond: `"and more"`})
	FaultText = add[int](Row{Section: Request, Name: "the text of these faults", Kind: Size, Default: 4 * kib,
		Beyond: "it is cut off"})
)

// The limits of a session.
var (
	CallRate = add[float64](Row{Section: Session, Name: "what requests cost per second", Option: "Limits.CallRate", Kind: Rate, Default: 100, None: true,
		Beyond: "-32600, come back", Counted: "session-rate",
		Status: 429, Text: "too many calls per second in this session",
		Usage: "`number` of requests per second; large ones count as several"})
	CallBurst = add[int](Row{Section: Session, Name: "what they may cost at once after a pause", Option: "Limits.CallBurst", Shown: "twice the rate",
		Usage: "`number` of such requests that may come at once (twice the rate)"})
	LogRate = add[float64](Row{Section: Session, Name: "log messages per second, twice as many at once", Option: "Limits.LogRate", Kind: Rate, Default: 500, None: true,
		Beyond:  "dropped; the client gets a warning that counts them",
		Counted: "log-rate",
		Usage:   "`number` of log messages per second"})
	Updates = add[int](Row{Section: Session, Name: "updates of one resource", Kind: Rate, Default: 10,
		Beyond: "updates that come sooner become one, 100 ms after the last one"})
	CallsPerSession = add[int](Row{Section: Session, Name: "requests in flight", Option: "Limits.CallsPerSession", Default: 256, None: true,
		Beyond: "-32600, come back", Counted: "session-calls",
		Status: 429, Text: "too many requests in flight in this session",
		Usage: "`number` of requests in flight"})
	StreamsPerSession = add[int](Row{Section: Session, Name: "event streams with a connection", Option: "Limits.StreamsPerSession", Default: 64, None: true,
		Beyond: "429 for a GET; calls are still answered", Counted: "session-streams",
		Status: 429, Text: "too many open streams in this session",
		Usage: "`number` of event streams with a connection"})
	PendingPerSession = add[int](Row{Section: Session, Name: "pending requests (questions that wait for the client)", Option: "Limits.PendingPerSession", Default: 64, None: true,
		Beyond: "`Ask` fails with `ErrTooManyPending`", Counted: "session-pending",
		Usage: "`number` of questions that wait for the client"})
	Retry = add[time.Duration](Row{Section: Session, Name: "time after which a client resumes the broken stream of a call (`retry`)", Option: "Limits.Retry", Kind: Time, Default: 4 * second, Least: int64(time.Millisecond),
		Beyond: "twice as long for the standalone stream",
		Usage:  "`time` after which clients resume the broken stream of a call; twice as long for other streams"})
	PingEvery = add[time.Duration](Row{Section: Session, Name: "time between pings on a standalone stream, or of a bound session", Option: "Limits.PingEvery", Kind: Time, Least: second, None: true, Shown: "never",
		Beyond: "the connection closes when two pings in a row get no answer",
		Usage:  "`time` between pings on a standalone stream, HTTP+SSE and stdio; two without an answer close the connection; 0s for none"})
	SubscriptionsPerSession = add[int](Row{Section: Session, Name: "resources subscribed to", Option: "Limits.SubscriptionsPerSession", Default: 1000, None: true,
		Beyond: "-32600", Counted: "session-subscriptions",
		Usage: "`number` of resources subscribed to"})
	SubscribedURIs = add[int](Row{Section: Session, Name: "URIs of these resources together", Kind: Size, Default: 256 * kib,
		Beyond: "-32600", Counted: "session-subscriptions"})
	Values = add[int](Row{Section: Session, Name: "values that handlers keep in the session (`Call.Session`)", Default: 64,
		Beyond: "`Set` fails with `ErrSessionFull`"})
	ValueBytes = add[int](Row{Section: Session, Name: "keys and values of the session together, as JSON", Kind: Size, Default: 32 * kib,
		Beyond: "`Set` fails with `ErrSessionFull`"})
	SessionVisits = add[int](Row{Section: Session, Name: "messages for a session that wait until it is read", Default: 64,
		Beyond: "they are lost; the session is told that it has missed something", Counted: "session-visits"})
	SessionIdle = add[time.Duration](Row{Section: Session, Name: "time without use", Option: "Store.SessionIdle", Kind: Time, Default: 72 * hour, Least: second,
		Beyond: "404",
		Usage:  "`time` to keep a session that nobody uses"})
	SessionUnused = add[time.Duration](Row{Section: Session, Name: "time until its client sends something after `initialize`", Option: "Store.SessionUnused", Kind: Time, Default: 10 * minute, Least: second,
		Beyond: "404",
		Usage:  "`time` to keep a session whose client sends nothing after initialize"})
	SessionMax = add[time.Duration](Row{Section: Session, Name: "age", Option: "Store.SessionMax", Kind: Time, Default: 30 * day, Least: second,
		Beyond: "404",
		Usage:  "`time` to keep any session"})
)

// The limits of a principal, per node.
var (
	PrincipalRate = add[float64](Row{Section: Principal, Name: "what requests cost per second", Option: "Shared.PrincipalRate", Kind: Rate, Default: 1000, None: true,
		Beyond: "-32600, come back", Counted: "principal-rate",
		Status: 429, Text: "too many calls per second from this client",
		Usage: "`number` of requests per second; large ones count as several"})
	PrincipalBurst = add[int](Row{Section: Principal, Name: "what they may cost at once after a pause", Option: "Shared.PrincipalBurst", Shown: "twice the rate",
		Usage: "`number` of such requests that may come at once (twice the rate)"})
	CallsPerPrincipal = add[int](Row{Section: Principal, Name: "requests in flight", Option: "Shared.CallsPerPrincipal", Default: 1024, None: true,
		Beyond: "-32600, come back", Counted: "principal-calls",
		Status: 429, Text: "too many requests in flight from this client",
		Usage: "`number` of requests in flight"})
	SessionsPerPrincipal = add[int](Row{Section: Principal, Name: "new sessions at once, and from then on within an hour", Option: "Shared.SessionsPerPrincipal", Default: 10_000, None: true,
		Beyond: "429, -32600, `Retry-After`, `data.retryAfterMs`", Counted: "principal-sessions",
		Status: 429, Text: "too many new sessions from this client",
		Usage: "`number` of new sessions at once, and from then on within an hour"})
	StoreShare = add[int64](Row{Section: Principal, Name: "share of the store when it is short of room", Default: 16, Shown: "a sixteenth, or a sixth of what is left, once half is in use",
		Beyond: "no new sessions (429) and streams (-32600, come back)", Counted: "principal-store", Of: "Store.MaxStore",
		Status: 429, Text: "too much is stored for this client, and the store has little room"})
	MemoryShare = add[int64](Row{Section: Principal, Name: "memory that it has the node hold", Kind: Size, Shown: "twice what is left beside it; see below",
		Beyond: "429 before the body is read, or -32600, come back (in `troupe.refusals` then); a stream is cut, and resumes", Counted: "memory-share", By: HTTP, Within: true, Of: "Shared.MaxMemory",
		Status: 429, Text: "this client has its share of the node's memory: --max-memory"})
	StreamsPerPrincipal = add[int](Row{Section: Principal, Name: "event streams with a connection", Option: "Shared.StreamsPerPrincipal", Default: 1024, None: true,
		Beyond: "429 for a GET and for `subscriptions/listen`; calls are still answered", Counted: "principal-streams",
		Status: 429, Text: "too many open streams from this client",
		Usage: "`number` of event streams with a connection"})
	PendingPerPrincipal = add[int](Row{Section: Principal, Name: "pending requests and parked calls", Option: "Shared.PendingPerPrincipal", Default: 1024, None: true,
		Beyond: "`Ask` fails with `ErrTooManyPending`", Counted: "principal-pending",
		Usage: "`number` of questions that wait for a client, in sessions and in parked calls"})
	AuthFailures = add[float64](Row{Section: Principal, Name: "access tokens of an address that do not count, per second; ten times as many at once", Option: "Shared.AuthFailures", Kind: Rate, Default: 10, None: true,
		Beyond: "429 before a token is verified; one that was verified before still counts", Counted: "auth-failures", By: HTTP,
		Status: 429, Text: "too many access tokens from this address do not count",
		Usage: "`number` of access tokens of an address that may fail per second"})
	Accounts = add[int](Row{Section: Principal, Name: "principals that a node tells apart", Default: 100_000,
		Beyond: "further principals share one account; `troupe.accounts.overflowed` counts them"})
)

// The limits of requests that are sent again with the client's answers.
var (
	RetryWait = add[time.Duration](Row{Section: Retried, Name: "time for which a call stays parked", Kind: Time, Default: 10 * minute, Shown: "10 min, or `MaxAsk` if that is shorter",
		Beyond: "the handler gets `ErrNoAnswer`; the state is refused, -32602", Counted: "ask-time", Usual: true, Of: "Limits.MaxAsk"})
	Rounds = add[int](Row{Section: Retried, Name: "times that a call may ask", Default: 100,
		Beyond: "`Ask` fails with `ErrTooManyRounds`", Counted: "ask-rounds"})
	StateInput = add[int](Row{Section: Retried, Name: "answers in a `requestState`", Kind: Size, Default: 64 * kib,
		Beyond: "`Ask` fails with `ErrTooMuchInput`", Counted: "ask-input"})
	StateSteps = add[int](Row{Section: Retried, Name: "results of steps in a `requestState`", Kind: Size, Default: 64 * kib,
		Beyond: "if the node is lost, the step runs again", Counted: "call-steps"})
	Responses = add[int](Row{Section: Retried, Name: "members of `inputResponses`", Default: 128,
		Beyond: "-32602; members that answer no question of the round are ignored"})
	OutcomeAge = add[time.Duration](Row{Section: Retried, Name: "age of responses kept for clients that lost them", Kind: Time, Default: 10 * minute,
		Beyond: "a safe call runs again, any other is -32010"})
	Outcome = add[int](Row{Section: Retried, Name: "size of such a response", Kind: Size, Default: 64 * kib,
		Beyond: "the same"})
	Outcomes = add[int](Row{Section: Retried, Name: "such responses", Default: 10_000,
		Beyond: "the same"})
	OutcomeBytes = add[int](Row{Section: Retried, Name: "such responses together", Kind: Size, Default: 16 * mib,
		Beyond: "the same"})

	_ = addSecondRow(Row{Section: Retried, Name: "resources of one `subscriptions/listen`", Option: "Limits.SubscriptionsPerSession", Default: 1000,
		Beyond: "the acknowledged filter leaves them out"})
)

// The limits of a task.
var (
	TaskTTL = add[time.Duration](Row{Section: Task, Name: "time for which a task is kept, unless its tool or its client says another", Kind: Time, Default: day,
		Beyond: "it is unknown, -32602; its handler gets `ErrTaskExpired`"})
	TaskMax = add[time.Duration](Row{Section: Task, Name: "the longest such time, and that of a client that asks for no end", Option: "Store.TaskMax", Kind: Time, Default: 7 * day, Least: second,
		Beyond: "the client is told of a shorter time",
		Usage:  "longest `time` to keep a task after its creation"})
	TaskAttempts = add[int](Row{Section: Task, Name: "times in a row that the process of a task is lost before a step is stored", Default: 5,
		Beyond: "it fails, -32010"})
	TaskSuspects = add[int](Row{Section: Task, Name: "tasks at a time whose process was lost twice in a row, until each has stored a step or run for a second", Default: 8,
		Beyond: "others wait"})
	StepTries = add[int](Row{Section: Task, Name: "times that a step is tried in a run", Default: 10,
		Beyond: "the handler gets its error"})
	TaskRequest = add[int](Row{Section: Task, Name: "request that becomes a task", Kind: Size, Default: 256 * kib, Shown: "256 KiB, unless the tool has `Rerun: troupe.Safe`",
		Beyond: "no task: -32602 where one is demanded, else the result"})
	TaskPatience = add[time.Duration](Row{Section: Task, Name: "time that a task waits for a `tasks/result` that takes its questions (2025-11-25)", Kind: Time, Default: 3 * second,
		Beyond: "they go on its session's standalone stream"})
	TaskMeta = add[int](Row{Section: Task, Name: "what it keeps of `_meta` beside the progress token and the trace", Kind: Size, Default: 8 * kib,
		Beyond: "it keeps only these"})
	TaskResult = add[int](Row{Section: Task, Name: "result of a task, or of a step", Kind: Size, Default: 16 * mib,
		Beyond: "the task fails, -32603; the handler gets an error"})
	TaskAsked = add[int](Row{Section: Task, Name: "questions of a task together, with their answers", Kind: Size, Default: 256 * kib,
		Beyond: "`Ask` fails with `ErrTooMuchInput`; `tasks/update` is refused, -32602"})
	TaskProgress = add[time.Duration](Row{Section: Task, Name: "least time between two values of a task's progress that its session is told", Kind: Time, Default: 100 * int64(time.Millisecond),
		Beyond: "values that come sooner are left out"})
	TaskProgressStored = add[time.Duration](Row{Section: Task, Name: "the same from another node, and as the `statusMessage` of what a call became by itself", Kind: Time, Default: second,
		Beyond: "values that come sooner are left out"})
	OpenTasksPerPrincipal = add[int](Row{Section: Task, Name: "tasks of a principal that have not ended", Option: "Shared.OpenTasksPerPrincipal", Default: 10_000, None: true,
		Beyond: "no new ones: -32600, come back", Counted: "principal-tasks",
		Status: 429, Text: "too many tasks of this client have not ended: cancel some, or wait",
		Usage: "`number` of tasks of a principal that have not ended; 0 is no limit"})
	OpenTasksPerNode = add[int](Row{Section: Task, Name: "tasks of a node that have not ended", Option: "Shared.OpenTasksPerNode", Default: 100_000, None: true,
		Beyond: "no new ones: -32603, come back", Counted: "node-tasks",
		Status: 503, Text: "too many tasks of this node have not ended",
		Usage: "`number` of tasks of all principals that have not ended; 0 is no limit"})
	TasksInLine = add[int](Row{Section: Task, Name: "tasks that wait for a place in the memory of a node", Default: 4096, Shown: "4,096; 256 with an external store",
		Beyond: "those of a principal with twice what is left stay in the store for a second or more"})
	TasksPerNode = add[int](Row{Section: Task, Name: "tasks of a node whose handlers run", Option: "Shared.TasksPerNode", Default: 1000, Least: 1, Most: 1 << 20,
		Beyond: "others wait; the last eighth is for principals of which less than a 64th run",
		Usage:  "`number` of tasks whose handlers run at a time; others wait"})
)

// The limits of an event stream.
var (
	ReplayAge = add[time.Duration](Row{Section: Stream, Name: "age of events that can be replayed", Option: "Store.ReplayAge", Kind: Time, Default: 10 * minute, Least: second,
		Beyond: "400, -32011 for an older event", Counted: "replay", Usual: true,
		Usage: "`time` for which a client can fetch events that it missed"})
	ReplayEvents = add[int](Row{Section: Stream, Name: "appends that can be replayed", Option: "Store.ReplayEvents", Default: 1000, Least: 1, Most: 1000,
		Beyond: "the oldest are deleted; 400, -32011 for an event before the rest", Counted: "replay", Usual: true,
		Usage: "`number` of appends that a stream keeps for clients that missed them, up to 1000"})
	ReplayBytes = add[int64](Row{Section: Stream, Name: "bytes that can be replayed", Option: "Store.ReplayBytes", Kind: Size, Default: 4 * mib, Least: 1, Most: gib,
		Beyond: "the oldest are deleted; 400, -32011 for an event before the rest", Counted: "replay", Usual: true,
		Usage: "most bytes that a stream keeps for clients that missed them, a `size`"})
	EventID = add[int](Row{Section: Stream, Name: "`Last-Event-ID`", Kind: Size, Default: 256,
		Beyond: "400, -32011", Counted: "event-id", By: HTTP})
	MaxQueued = add[int](Row{Section: Stream, Name: "bytes that wait for the connection", Option: "Limits.MaxQueued", Kind: Size, Default: mib, Least: 1, Most: gib,
		Beyond: "the connection is cut; the client resumes", Counted: "queue-full", By: Cuts,
		Usage: "most bytes that wait for a connection, or for the log, a `size`"})
	_ = addSecondRow(Row{Section: Stream, Name: "bytes that wait for the log", Option: "Limits.MaxQueued", Kind: Size, Default: mib,
		Beyond: "the handler waits"})
	Recall = add[int](Row{Section: Stream, Name: "questions and answers kept for a second run of a call", Kind: Size, Default: 64 * kib, Shown: "64 KiB in the record of its stream",
		Beyond: "the call may not run again: -32010 after a crash; one of a backend asks its client again", Counted: "recall", Usual: true})
	StoredHeader = add[int](Row{Section: Stream, Name: "headers that are stored with a call (`Options.HTTP.StoredHeaders`)", Kind: Size, Default: 8 * kib, Shown: "8 KiB together",
		Beyond: "further headers are not stored"})
	CallSteps = add[int](Row{Section: Stream, Name: "steps of a call whose results are kept for a second run", Default: 1000,
		Beyond: "the same", Counted: "call-steps"})
	CallStepBytes = add[int](Row{Section: Stream, Name: "these results together", Kind: Size, Default: 256 * kib,
		Beyond: "the step runs again in a second run", Counted: "call-steps"})
	RerunBody = add[int](Row{Section: Stream, Name: "message that is stored so that its calls may run again", Kind: Size, Default: 256 * kib, Shown: "256 KiB, unless the tool or method has `Rerun: troupe.Safe`",
		Beyond: "the call may not run again: -32010 after a crash", Counted: "recall", Usual: true})
	KeptBody = add[int](Row{Section: Stream, Name: "body of a running call kept in memory, in case the store forgets it", Kind: Size, Default: 64 * kib,
		Beyond: "the call may not run again: -32010 after a crash", Counted: "recall", Usual: true})
	WriteTimeout = add[time.Duration](Row{Section: Stream, Name: "time of one write", Option: "Limits.WriteTimeout", Kind: Time, Default: 30 * second, Least: int64(time.Millisecond),
		Beyond: "the connection is cut; the client resumes", Counted: "write-timeout", By: Cuts,
		Usage: "`time` that a write may wait for a client that does not read"})
)

// The limits of a node.
var (
	ConnectionsPerAddress = add[int](Row{Section: Node, Name: "connections of an IPv4 address, or of an IPv6 network of 64 bits, in `Serve`", Option: "HTTP.ConnectionsPerAddress", Default: 1024, Shown: "1,024, and at most a sixteenth of `Connections`", None: true,
		Beyond: "closed at once", Counted: "address-connections", By: HTTP,
		Usage: "`number` of connections of an IPv4 address, or of an IPv6 network of 64 bits; 0 for no limit"})
	Connections = add[int](Row{Section: Node, Name: "connections, in `Serve`", Option: "HTTP.Connections", Shown: "one for each 64 KiB of `MaxMemory`, or `ulimit -n` without a reserve",
		Beyond: "see below", Counted: "connections", By: HTTP,
		Usage: "`number` of connections of all clients (one for each 64 KiB of --max-memory, or what ulimit -n allows, but for a reserve)"})
	SocketBuffer = add[int](Row{Section: Node, Name: "bytes that the system keeps of what has come on a connection, or was not taken, in `Serve`", Kind: Size, Default: 128 * kib, Shown: "128 KiB each; Linux counts twice that",
		Beyond: "TCP has the other side wait"})
	HTTP2Streams = add[int](Row{Section: Node, Name: "requests at a time on a connection of HTTP/2, in `Serve`", Default: 64,
		Beyond: "the protocol has the client wait"})
	HTTP2Window = add[int](Row{Section: Node, Name: "bytes of bodies that have come on such a connection and were not read", Kind: Size, Default: 128 * kib,
		Beyond: "the protocol has the client wait"})
	HealthConnections = add[int](Row{Section: Node, Name: "connections to `HealthListen`", Default: 64,
		Beyond: "the same", Counted: "health-connections", By: HTTP})
	ScrapeWait = add[time.Duration](Row{Section: Node, Name: "time that a request for `/metrics` waits for others", Kind: Time, Default: 10 * second,
		Beyond: "503", Counted: "metrics", By: HTTP})
	ScrapeEvery = add[time.Duration](Row{Section: Node, Name: "time between two readings of the metrics", Kind: Time, Default: 50 * int64(time.Millisecond),
		Beyond: "further requests wait, by turns of their addresses"})
	Turns = add[int](Row{Section: Node, Name: "large requests that are scanned, validated and decoded at once", Shown: "half as many as processors",
		Beyond: "others wait for their turn, by principal; small requests never wait"})
	TurnBytes  = add[int](Row{Section: Node, Name: "a large request: its body, or the arguments of a tool, has more than", Kind: Size, Default: 64 * kib})
	TurnValues = add[int](Row{Section: Node, Name: "or its arguments are part of a message of more values than", Default: 1000})
	OwedBytes  = add[int](Row{Section: Node, Name: "a body that waits until refused ones of its client are paid for has more than", Kind: Size, Default: 4 * kib})
	TurnWait   = add[time.Duration](Row{Section: Node, Name: "time that a large request waits for its turn", Kind: Time, Default: 5 * second,
		Beyond: "503, come back, before it is scanned; -32603, come back, before it is validated (in `troupe.refusals` then)", Counted: "turn", By: HTTP, Within: true})
	CallsPerNode = add[int](Row{Section: Node, Name: "requests in flight", Option: "Shared.CallsPerNode", Default: 10_000, None: true,
		Beyond: "-32603, come back", Counted: "node-calls",
		Status: 503, Text: "too many requests in flight on this node",
		Usage: "`number` of requests in flight; 0 is no limit"})
	NodeShare = add[int](Row{Section: Node, Name: "a principal's share of these requests", Shown: "see below",
		Beyond: "-32603, come back", Counted: "node-share", Of: "Shared.CallsPerNode",
		Status: 503, Text: "this node is busy, and this client has its share of it"})
	MaxMemory = add[int64](Row{Section: Node, Name: "memory of the process, about a quarter of which is for what clients have it hold", Option: "Shared.MaxMemory", Kind: Size, Least: mib, Shown: "that of the cgroup, or of the machine",
		Beyond: "503 before the body is read, or -32603, come back (in `troupe.refusals` then); a stream is cut, and resumes", Counted: "memory", By: HTTP, Within: true,
		Status: 503, Text: "this node has no memory for the request: --max-memory",
		Usage: "memory that the process may use, a `size`; about a quarter of it may be held for clients (that of the cgroup, or of the machine)"})
	MaxStore = add[int64](Row{Section: Node, Name: "bytes in the store", Option: "Store.MaxStore", Kind: Size, Least: mib, Shown: "8 GiB, in memory 1 GiB; less with less than 11 GiB of memory, see below",
		Beyond:  "no new sessions (503) at nine tenths of their three sixteenths, no new streams (-32603, come back) of the three quarters for calls",
		Counted: "store-full",
		Status:  503, Text: "temporarily unavailable: try again shortly",
		Usage: "most bytes to store, a `size`; new sessions are refused beyond it (8GiB, in memory 1GiB, but at most 3/4 of --max-memory, in memory 3/16)"})
	DiskRoom = add[int](Row{Section: Node, Name: "free room that a full disk needs before the store starts again", Kind: Size, Default: 8 * mib, Shown: "8 MiB",
		Beyond: "see below; `troupe.store.failed` and `troupe.store.restarts` count"})
	LogReads = add[int](Row{Section: Node, Name: "reads of the event log at a time", Default: 16, Shown: "16, with 128 appends on their way",
		Beyond: "further reads wait"})
	ReplayCache = add[int64](Row{Section: Node, Name: "bytes of appends of the last 30 s kept in memory for clients that come back", Kind: Size, Default: 32 * mib, Shown: "32 MiB, or a 16th of what clients may hold",
		Beyond: "the oldest are read from the store", Of: "Shared.MaxMemory"})
	LostLogs = add[int](Row{Section: Node, Name: "streams without a writer that resumes judge and take over at a time", Default: 4,
		Beyond: "further ones wait, by turns of their principals"})
	Attaches = add[int](Row{Section: Node, Name: "resumes that ask other nodes for their streams at a time", Default: 32,
		Beyond: "further ones wait, by turns of their principals"})
	LogPace = add[int64](Row{Section: Node, Name: "bytes appended to the event log within 10 s", Kind: Size, Shown: "as many as clients may hold",
		Beyond: "appends wait, by turns of their principals, except those of principals with at most a 32nd of this; `troupe.log.waiting` counts", Of: "Shared.MaxMemory"})
	LateCancels = add[int](Row{Section: Node, Name: "cancels that are kept for a minute, of calls that may move here from another node", Default: 1024,
		Beyond: "the oldest gives way: its call runs again, and is answered", Counted: "late-cancels"})
	SessionReads = add[int](Row{Section: Node, Name: "reads of sessions at a time", Default: 64,
		Beyond: "further reads wait"})
	GuessReads = add[int](Row{Section: Node, Name: "the same for ids that are made up, or of an earlier release", Default: 8,
		Beyond: "further reads wait"})
	ClockAhead = add[time.Duration](Row{Section: Node, Name: "difference between the clocks of the machine and of the NATS servers", Kind: Time, Default: 2 * second,
		Beyond: "refused at the start; later `/readyz` is 503"})
	Revocations = add[int](Row{Section: Node, Name: "revocations in a store", Default: 10_000,
		Beyond: "`troupe revoke` is refused"})
	Lease = add[time.Duration](Row{Section: Node, Name: "time for which a silent node counts as alive", Option: "Store.Lease", Kind: Time, Default: 5 * second, Least: second,
		Beyond: "it answers 503 until it can renew its lease; others take its streams over",
		Usage:  "`time` for which a silent node counts as alive"})
	DrainDelay = add[time.Duration](Row{Section: Node, Name: "time to serve on when the node must end, while `/readyz` says 503", Option: "DrainDelay", Kind: Time, Default: 3 * second, None: true,
		Usage: "`time` to serve on after SIGTERM while /readyz says 503, for load balancers; 0s for none"})
	DrainWait = add[time.Duration](Row{Section: Node, Name: "time to wait after that for calls that only this node can end", Option: "DrainWait", Kind: Time, Default: 22 * second, Least: int64(time.Millisecond),
		Beyond: "[architecture.md](architecture.md#how-a-process-ends)",
		Usage:  "`time` to wait after that for calls that only this process can end"})
	Said = add[int](Row{Section: Request, Name: "messages of a backend that wait for the client of a call", Default: 256,
		Beyond: "log messages are dropped, and the client told how many; the newest progress is kept; questions are refused", Counted: "said", By: Refusals, Usual: true})
	SaidBytes = add[int](Row{Section: Request, Name: "their size", Kind: Size, Default: mib,
		Beyond: "the same; one message alone may be larger", Counted: "said-bytes", By: Refusals, Usual: true})
	BackendRounds = add[int](Row{Section: Request, Name: "rounds of questions of a backend (2026-07-28) in one call, or task", Default: 10,
		Beyond: "the call ends with -32603", Counted: "backend-rounds", By: Refusals})
	BackendPoll = add[time.Duration](Row{Section: Request, Name: "least time between two looks at a task of a backend (2026-07-28), whatever that asks for", Kind: Time, Default: 100 * int64(time.Millisecond),
		Beyond: "it is looked at after that"})
	BackendPollMost = add[time.Duration](Row{Section: Request, Name: "the longest such time, and that where the task says none is a second", Kind: Time, Default: 30 * second,
		Beyond: "it is looked at after that"})
	BackendPolls = add[int](Row{Section: Request, Name: "times in a row that a look at a task of a backend may fail", Default: 8,
		Beyond: "the call ends with -32010", Counted: "backend-polls", By: Refusals})
	LearnWait = add[time.Duration](Row{Section: Request, Name: "time that a request waits for a backend to say what it lists", Option: "Hosting.LearnWait", Kind: Time, Default: 5 * second, Least: int64(time.Millisecond),
		Beyond: "it is answered without that backend, which nobody waits for in the next 30 s",
		Usage:  "`time` that a client waits for the lists of a backend of which nothing is known yet"})
	BackendLog = add[int](Row{Section: Node, Name: "lines of a backend, of its standard error and of what becomes of its instances, for `troupe backends logs`", Kind: Size, Default: 64 * kib,
		Beyond: "the oldest are dropped"})
	MaxInstances = add[int](Row{Section: Node, Name: "instances of backends, over all of them", Option: "Hosting.MaxInstances", Default: 512, None: true,
		Beyond: "one that is nobody's yet ends for a call that needs another; without one the call waits, as long as the backend's `start-timeout`, and is refused", Counted: "instances",
		Usage: "`number` of instances of backends on this node, over all of them; 0 is no limit"})
	Keep = add[time.Duration](Row{Section: Node, Name: "time for which the commands of backends outlive the process", Option: "Hosting.Keep", Kind: Time, Default: 30 * second, None: true,
		Beyond: "they end",
		Usage:  "`time` for which commands of backends live on without this process, until the next one goes on with them; 0s ends them"})
)

// The budget of a store whose option is 0, if there is memory for its index: see [DefaultStore].
const (
	StoreOnDisk   int64 = 8 * gib
	StoreInMemory int64 = gib
)
