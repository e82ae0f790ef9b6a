package mcp

// The names of the methods of all revisions.
const (
	MethodInitialize                = "initialize"
	MethodPing                      = "ping"
	MethodToolsList                 = "tools/list"
	MethodToolsCall                 = "tools/call"
	MethodPromptsList               = "prompts/list"
	MethodPromptsGet                = "prompts/get"
	MethodResourcesList             = "resources/list"
	MethodResourcesTemplatesList    = "resources/templates/list"
	MethodResourcesRead             = "resources/read"
	MethodResourcesSubscribe        = "resources/subscribe"
	MethodResourcesUnsubscribe      = "resources/unsubscribe"
	MethodCompletionComplete        = "completion/complete"
	MethodLoggingSetLevel           = "logging/setLevel"
	MethodTasksGet                  = "tasks/get"
	MethodTasksResult               = "tasks/result"
	MethodTasksList                 = "tasks/list"
	MethodTasksCancel               = "tasks/cancel"
	MethodTasksUpdate               = "tasks/update"
	MethodServerDiscover            = "server/discover"
	MethodSubscriptionsListen       = "subscriptions/listen"
	MethodSkillsList                = "skills/list"
	MethodSkillsGet                 = "skills/get"
	MethodResourcesDirectoryRead    = "resources/directory/read"
	MethodSamplingCreateMessage     = "sampling/createMessage"
	MethodRootsList                 = "roots/list"
	MethodElicitationCreate         = "elicitation/create"
	NotifyInitialized               = "notifications/initialized"
	NotifyCancelled                 = "notifications/cancelled"
	NotifyProgress                  = "notifications/progress"
	NotifyMessage                   = "notifications/message"
	NotifyToolsListChanged          = "notifications/tools/list_changed"
	NotifyPromptsListChanged        = "notifications/prompts/list_changed"
	NotifyResourcesListChanged      = "notifications/resources/list_changed"
	NotifyResourcesUpdated          = "notifications/resources/updated"
	NotifyRootsListChanged          = "notifications/roots/list_changed"
	NotifyElicitationComplete       = "notifications/elicitation/complete"
	NotifyTasksStatus               = "notifications/tasks/status"
	NotifyTasks                     = "notifications/tasks"
	NotifySubscriptionsAcknowledged = "notifications/subscriptions/acknowledged"
)

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

// Route is one way in which a method may travel: in which revisions, and which capability
// it needs there. Of several capabilities the one that the revision knows counts; if it
// knows none of them, none is needed.
type Route struct {
	Span
	Needs []Capability
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
	// become a task; [CapNone] if it never may.
	Task Capability
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
func (m *Method) Allowed(d Direction, r Revision) bool { return m.Route(d).Includes(r) }

// Needs returns the capability that the revision requires before the method is used in
// this direction: for a request one of the receiver, for a notification the one whose
// declaration makes it legal. [CapNone] is none; [Capability.Info] names the side.
func (m *Method) Needs(d Direction, r Revision) Capability {
	for _, c := range m.Route(d).Needs {
		if capabilityTable[c].Span.Includes(r) {
			return c
		}
	}
	return CapNone
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

func always(needs ...Capability) Route {
	return Route{Span{Since: Revision20241105}, needs}
}

func legacy(needs ...Capability) Route {
	return Route{Span{Revision20241105, LatestLegacy}, needs}
}

func since(r Revision, needs ...Capability) Route {
	return Route{Span{Since: r}, needs}
}

func only(r Revision, needs ...Capability) Route {
	return Route{Span{r, r}, needs}
}

// methodTable has one entry per method of any revision. Since 2026-07-28 the server sends
// no requests. sampling/createMessage, roots/list and elicitation/create remain only as
// questions inside a result, which are no messages, so their spans end before it.
var methodTable = [MethodCount]Method{
	{Name: MethodInitialize, Kind: KindRequest, ToServer: legacy(), ToClient: never, Progress: true},
	{Name: MethodPing, Kind: KindRequest, ToServer: legacy(), ToClient: legacy(), Cancellable: true, Progress: true},
	{Name: MethodServerDiscover, Kind: KindRequest, ToServer: since(Revision20260728), Cancellable: true, Progress: true},

	{Name: MethodToolsList, Kind: KindRequest, ToServer: always(CapTools), Cancellable: true, Progress: true},
	{Name: MethodToolsCall, Kind: KindRequest, ToServer: always(CapTools), Cancellable: true, Progress: true, Task: CapTasksToolsCall},
	{Name: MethodPromptsList, Kind: KindRequest, ToServer: always(CapPrompts), Cancellable: true, Progress: true},
	{Name: MethodPromptsGet, Kind: KindRequest, ToServer: always(CapPrompts), Cancellable: true, Progress: true},
	{Name: MethodResourcesList, Kind: KindRequest, ToServer: always(CapResources), Cancellable: true, Progress: true},
	{Name: MethodResourcesTemplatesList, Kind: KindRequest, ToServer: always(CapResources), Cancellable: true, Progress: true},
	{Name: MethodResourcesRead, Kind: KindRequest, ToServer: always(CapResources), Cancellable: true, Progress: true},
	{Name: MethodResourcesSubscribe, Kind: KindRequest, ToServer: legacy(CapResourcesSubscribe), Cancellable: true, Progress: true},
	{Name: MethodResourcesUnsubscribe, Kind: KindRequest, ToServer: legacy(CapResourcesSubscribe), Cancellable: true, Progress: true},
	{Name: MethodSubscriptionsListen, Kind: KindRequest, ToServer: since(Revision20260728), Cancellable: true, Progress: true},
	{Name: MethodSkillsList, Kind: KindRequest, ToServer: always(CapSkills), Cancellable: true, Progress: true},
	{Name: MethodSkillsGet, Kind: KindRequest, ToServer: always(CapSkills), Cancellable: true, Progress: true},
	{Name: MethodResourcesDirectoryRead, Kind: KindRequest, ToServer: always(CapSkills), Cancellable: true, Progress: true},
	{Name: MethodCompletionComplete, Kind: KindRequest, ToServer: always(CapCompletions), Cancellable: true, Progress: true},
	{Name: MethodLoggingSetLevel, Kind: KindRequest, ToServer: legacy(CapLogging), Cancellable: true, Progress: true},

	{Name: MethodSamplingCreateMessage, Kind: KindRequest, ToClient: legacy(CapClientSampling), Cancellable: true, Progress: true, Task: CapClientTasksSampling},
	{Name: MethodRootsList, Kind: KindRequest, ToClient: legacy(CapClientRoots), Cancellable: true, Progress: true},
	// Each mode also has a capability of its own: see CapClientElicitationForm.
	{Name: MethodElicitationCreate, Kind: KindRequest, ToClient: Route{Span{Revision20250618, LatestLegacy}, []Capability{CapClientElicitation}}, Cancellable: true, Progress: true, Task: CapClientTasksElicitation},

	{Name: MethodTasksGet, Kind: KindRequest, ToServer: since(Revision20251125, CapTasks, CapTasksExtension), ToClient: only(Revision20251125, CapClientTasks), Cancellable: true},
	{Name: MethodTasksResult, Kind: KindRequest, ToServer: only(Revision20251125, CapTasks), ToClient: only(Revision20251125, CapClientTasks), Cancellable: true},
	{Name: MethodTasksList, Kind: KindRequest, ToServer: only(Revision20251125, CapTasksList), ToClient: only(Revision20251125, CapClientTasksList), Cancellable: true, Progress: true},
	{Name: MethodTasksCancel, Kind: KindRequest, ToServer: since(Revision20251125, CapTasksCancel, CapTasksExtension), ToClient: only(Revision20251125, CapClientTasksCancel), Cancellable: true},
	{Name: MethodTasksUpdate, Kind: KindRequest, ToServer: since(Revision20260728, CapTasksExtension), Cancellable: true},

	{Name: NotifyInitialized, Kind: KindNotification, ToServer: legacy()},
	// Since 2026-07-28 a server cancels only a listen request, and only over stdio.
	{Name: NotifyCancelled, Kind: KindNotification, ToServer: always(), ToClient: always()},
	{Name: NotifyProgress, Kind: KindNotification, ToServer: legacy(), ToClient: always()},
	{Name: NotifyMessage, Kind: KindNotification, ToClient: always(CapLogging)},
	{Name: NotifyToolsListChanged, Kind: KindNotification, ToClient: always(CapToolsListChanged)},
	{Name: NotifyPromptsListChanged, Kind: KindNotification, ToClient: always(CapPromptsListChanged)},
	{Name: NotifyResourcesListChanged, Kind: KindNotification, ToClient: always(CapResourcesListChanged)},
	{Name: NotifyResourcesUpdated, Kind: KindNotification, ToClient: always(CapResourcesSubscribe)},
	{Name: NotifyRootsListChanged, Kind: KindNotification, ToServer: legacy(CapClientRootsListChanged)},
	{Name: NotifyElicitationComplete, Kind: KindNotification, ToClient: only(Revision20251125, CapClientElicitationURL)},
	{Name: NotifyTasksStatus, Kind: KindNotification, ToServer: only(Revision20251125), ToClient: only(Revision20251125)},
	{Name: NotifyTasks, Kind: KindNotification, ToClient: since(Revision20260728, CapTasksExtension)},
	{Name: NotifySubscriptionsAcknowledged, Kind: KindNotification, ToClient: since(Revision20260728)},
}
