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
