package protocol

import "github.com/troupe-run/troupe/mcp"

// Direction says which side sends a message.
type Direction uint8

// The directions.
const (
	ToServer Direction = iota + 1
	ToClient
)

// Kind says whether a method is a request or a notification.
type Kind uint8

// The kinds.
const (
	KindRequest Kind = iota + 1
	KindNotification
)

// Rerun says whether a request to the server may run a second time, where a crash has cut the
// first run short.
type Rerun uint8

// The decisions. A row that decides nothing is a message that no handler runs.
const (
	RerunSafe  Rerun = iota + 1 // it reads, or changes nothing that it has not changed before
	RerunNever                  // a second run may do harm
	RerunTool                   // the tool that it calls decides
)

// Route is one way in which a method may travel: in which revisions, and which capability it needs
// there. Of several capabilities the one that the revision knows counts; if it knows none of them,
// none is needed.
type Route struct {
	Span
	Needs []mcp.Capability
}

// Method describes a method. The values of the table are shared and read-only.
type Method struct {
	Name     string
	Index    int // dense, from 0 to [MethodCount]-1: for arrays by method
	Kind     Kind
	ToServer Route
	ToClient Route

	// Cancellable says that notifications/cancelled may name the request.
	Cancellable bool
	// Progress says that the request may carry a progress token.
	Progress bool
	// Task is the capability that the receiver must declare before the request may ask to
	// become a task; [mcp.CapNone] if it never may.
	Task mcp.Capability
	// Rerun is decided for each request that travels to the server.
	Rerun Rerun
}

// MethodCount is the number of methods in the table.
const MethodCount = 39

// Route returns how the method travels in a direction.
func (m *Method) Route(d Direction) *Route {
	if d == ToServer {
		return &m.ToServer
	}
	return &m.ToClient
}

// Allowed reports whether the revision has the method in this direction.
func (m *Method) Allowed(d Direction, r mcp.Revision) bool { return m.Route(d).Includes(r) }

// Needs returns the capability that the revision requires before the method is used in this
// direction: for a request one of the receiver, for a notification the one whose declaration makes
// it legal. [mcp.CapNone] is none.
func (m *Method) Needs(d Direction, r mcp.Revision) mcp.Capability {
	for _, c := range m.Route(d).Needs {
		if knownTo(c, r) {
			return c
		}
	}
	return mcp.CapNone
}

// LookupMethod returns the method with this name. It does not allocate.
func LookupMethod[T string | []byte](name T) (*Method, bool) {
	m, ok := methodsByName[string(name)]
	return m, ok
}

// Methods returns all methods by index. The slice is the caller's.
func Methods() []*Method {
	out := make([]*Method, len(methodTable))
	for i := range methodTable {
		out[i] = &methodTable[i]
	}
	return out
}

var methodsByName = func() map[string]*Method {
	byName := make(map[string]*Method, len(methodTable))
	for i := range methodTable {
		methodTable[i].Index = i
		byName[methodTable[i].Name] = &methodTable[i]
	}
	return byName
}()

// never is the route of a method that does not travel that way.
var never = Route{}

func always(needs ...mcp.Capability) Route {
	return Route{Span{Since: mcp.Revision20241105}, needs}
}

func legacy(needs ...mcp.Capability) Route {
	return Route{Span{mcp.Revision20241105, mcp.LatestLegacy}, needs}
}

func since(r mcp.Revision, needs ...mcp.Capability) Route {
	return Route{Span{Since: r}, needs}
}

func only(r mcp.Revision, needs ...mcp.Capability) Route {
	return Route{Span{r, r}, needs}
}

// methodTable has one entry per method of any revision. Since 2026-07-28 the server sends no
// requests. sampling/createMessage, roots/list and elicitation/create remain only as questions
// inside a result, which are no messages, so their spans end before it.
var methodTable = [MethodCount]Method{
	{Name: mcp.MethodInitialize, Kind: KindRequest, Rerun: RerunSafe, ToServer: legacy(), ToClient: never, Progress: true},
	{Name: mcp.MethodPing, Kind: KindRequest, Rerun: RerunSafe, ToServer: legacy(), ToClient: legacy(), Cancellable: true, Progress: true},
	{Name: mcp.MethodServerDiscover, Kind: KindRequest, Rerun: RerunSafe, ToServer: since(mcp.Revision20260728), Cancellable: true, Progress: true},

	{Name: mcp.MethodToolsList, Kind: KindRequest, Rerun: RerunSafe, ToServer: always(CapTools), Cancellable: true, Progress: true},
	{Name: mcp.MethodToolsCall, Kind: KindRequest, Rerun: RerunTool, ToServer: always(CapTools), Cancellable: true, Progress: true, Task: CapTasksToolsCall},
	{Name: mcp.MethodPromptsList, Kind: KindRequest, Rerun: RerunSafe, ToServer: always(CapPrompts), Cancellable: true, Progress: true},
	{Name: mcp.MethodPromptsGet, Kind: KindRequest, Rerun: RerunSafe, ToServer: always(CapPrompts), Cancellable: true, Progress: true},
	{Name: mcp.MethodResourcesList, Kind: KindRequest, Rerun: RerunSafe, ToServer: always(CapResources), Cancellable: true, Progress: true},
	{Name: mcp.MethodResourcesTemplatesList, Kind: KindRequest, Rerun: RerunSafe, ToServer: always(CapResources), Cancellable: true, Progress: true},
	{Name: mcp.MethodResourcesRead, Kind: KindRequest, Rerun: RerunSafe, ToServer: always(CapResources), Cancellable: true, Progress: true},
	{Name: mcp.MethodResourcesSubscribe, Kind: KindRequest, Rerun: RerunSafe, ToServer: legacy(CapResourcesSubscribe), Cancellable: true, Progress: true},
	{Name: mcp.MethodResourcesUnsubscribe, Kind: KindRequest, Rerun: RerunSafe, ToServer: legacy(CapResourcesSubscribe), Cancellable: true, Progress: true},
	{Name: mcp.MethodSubscriptionsListen, Kind: KindRequest, Rerun: RerunSafe, ToServer: since(mcp.Revision20260728), Cancellable: true, Progress: true},
	{Name: mcp.MethodSkillsList, Kind: KindRequest, Rerun: RerunSafe, ToServer: always(CapSkills), Cancellable: true, Progress: true},
	{Name: mcp.MethodSkillsGet, Kind: KindRequest, Rerun: RerunSafe, ToServer: always(CapSkills), Cancellable: true, Progress: true},
	{Name: mcp.MethodResourcesDirectoryRead, Kind: KindRequest, Rerun: RerunSafe, ToServer: always(CapSkills), Cancellable: true, Progress: true},
	{Name: mcp.MethodCompletionComplete, Kind: KindRequest, Rerun: RerunSafe, ToServer: always(CapCompletions), Cancellable: true, Progress: true},
	{Name: mcp.MethodLoggingSetLevel, Kind: KindRequest, Rerun: RerunNever, ToServer: legacy(CapLogging), Cancellable: true, Progress: true},

	{Name: mcp.MethodSamplingCreateMessage, Kind: KindRequest, ToClient: legacy(mcp.CapClientSampling), Cancellable: true, Progress: true, Task: mcp.CapClientTasksSampling},
	{Name: mcp.MethodRootsList, Kind: KindRequest, ToClient: legacy(mcp.CapClientRoots), Cancellable: true, Progress: true},
	// Each mode also has a capability of its own: see CapClientElicitationForm.
	{Name: mcp.MethodElicitationCreate, Kind: KindRequest, ToClient: Route{Span{mcp.Revision20250618, mcp.LatestLegacy}, []mcp.Capability{mcp.CapClientElicitation}}, Cancellable: true, Progress: true, Task: mcp.CapClientTasksElicitation},

	{Name: mcp.MethodTasksGet, Kind: KindRequest, Rerun: RerunSafe, ToServer: since(mcp.Revision20251125, CapTasks, CapTasksExtension), ToClient: only(mcp.Revision20251125, mcp.CapClientTasks), Cancellable: true},
	{Name: mcp.MethodTasksResult, Kind: KindRequest, Rerun: RerunSafe, ToServer: only(mcp.Revision20251125, CapTasks), ToClient: only(mcp.Revision20251125, mcp.CapClientTasks), Cancellable: true},
	{Name: mcp.MethodTasksList, Kind: KindRequest, Rerun: RerunSafe, ToServer: only(mcp.Revision20251125, CapTasksList), ToClient: only(mcp.Revision20251125, mcp.CapClientTasksList), Cancellable: true, Progress: true},
	{Name: mcp.MethodTasksCancel, Kind: KindRequest, Rerun: RerunSafe, ToServer: since(mcp.Revision20251125, CapTasksCancel, CapTasksExtension), ToClient: only(mcp.Revision20251125, mcp.CapClientTasksCancel), Cancellable: true},
	{Name: mcp.MethodTasksUpdate, Kind: KindRequest, Rerun: RerunSafe, ToServer: since(mcp.Revision20260728, CapTasksExtension), Cancellable: true},

	{Name: mcp.NotifyInitialized, Kind: KindNotification, ToServer: legacy()},
	// Since 2026-07-28 a server cancels only a listen request, and only over stdio.
	{Name: mcp.NotifyCancelled, Kind: KindNotification, ToServer: always(), ToClient: always()},
	{Name: mcp.NotifyProgress, Kind: KindNotification, ToServer: legacy(), ToClient: always()},
	{Name: mcp.NotifyMessage, Kind: KindNotification, ToClient: always(CapLogging)},
	{Name: mcp.NotifyToolsListChanged, Kind: KindNotification, ToClient: always(CapToolsListChanged)},
	{Name: mcp.NotifyPromptsListChanged, Kind: KindNotification, ToClient: always(CapPromptsListChanged)},
	{Name: mcp.NotifyResourcesListChanged, Kind: KindNotification, ToClient: always(CapResourcesListChanged)},
	{Name: mcp.NotifyResourcesUpdated, Kind: KindNotification, ToClient: always(CapResourcesSubscribe)},
	{Name: mcp.NotifyRootsListChanged, Kind: KindNotification, ToServer: legacy(mcp.CapClientRootsListChanged)},
	{Name: mcp.NotifyElicitationComplete, Kind: KindNotification, ToClient: only(mcp.Revision20251125, mcp.CapClientElicitationURL)},
	{Name: mcp.NotifyTasksStatus, Kind: KindNotification, ToServer: only(mcp.Revision20251125), ToClient: only(mcp.Revision20251125)},
	{Name: mcp.NotifyTasks, Kind: KindNotification, ToClient: since(mcp.Revision20260728, CapTasksExtension)},
	{Name: mcp.NotifySubscriptionsAcknowledged, Kind: KindNotification, ToClient: since(mcp.Revision20260728)},
}
