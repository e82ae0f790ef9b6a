package mcp

// SubscriptionFilter names the notifications that a listen stream carries. Other
// notifications are not sent.
type SubscriptionFilter struct {
	ToolsListChanged      bool     `json:"toolsListChanged,omitempty"`
	PromptsListChanged    bool     `json:"promptsListChanged,omitempty"`
	ResourcesListChanged  bool     `json:"resourcesListChanged,omitempty"`
	ResourceSubscriptions []string `json:"resourceSubscriptions,omitempty"` // URIs
	TaskIDs               []string `json:"taskIds,omitempty"`               // of the extension [ExtensionTasks]
}

// Within returns the notifications of f that a server with these capabilities sends: the
// content of the acknowledgement of a listen request.
func (f SubscriptionFilter) Within(s *ServerCapabilities) SubscriptionFilter {
	f.ToolsListChanged = f.ToolsListChanged && s.Has(CapToolsListChanged)
	f.PromptsListChanged = f.PromptsListChanged && s.Has(CapPromptsListChanged)
	f.ResourcesListChanged = f.ResourcesListChanged && s.Has(CapResourcesListChanged)
	if !s.Has(CapResourcesSubscribe) {
		f.ResourceSubscriptions = nil
	}
	if !s.Has(CapTasksExtension) {
		f.TaskIDs = nil
	}
	return f
}

// AcknowledgedParams are the params of notifications/subscriptions/acknowledged, the
// first message of a listen stream. Like all of its notifications they carry the id
// of the listen request, see [Meta.SubscriptionID].
type AcknowledgedParams struct {
	Notifications SubscriptionFilter `json:"notifications"`
	Meta          Meta               `json:"_meta,omitempty"`
}
