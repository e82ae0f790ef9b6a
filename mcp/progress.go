package mcp

// ProgressParams are the params of notifications/progress. Progress grows with each
// notification, up to Total if that is known. Message exists since 2025-03-26.
type ProgressParams struct {
	ProgressToken ProgressToken `json:"progressToken"`
	Progress      float64       `json:"progress"`
	Total         *float64      `json:"total,omitempty"`
	Message       string        `json:"message,omitempty"`
	Meta          Meta          `json:"_meta,omitempty"`
}

// CancelledParams are the params of notifications/cancelled. RequestID is required,
// except that the schema of 2025-11-25 allows to omit it; without it there is nothing to
// cancel. A task is cancelled by tasks/cancel instead.
type CancelledParams struct {
	RequestID RequestID `json:"requestId,omitempty"`
	Reason    string    `json:"reason,omitempty"`
	Meta      Meta      `json:"_meta,omitempty"`
}
