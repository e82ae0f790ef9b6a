package protocol

import "github.com/troupe-run/troupe/mcp"

// CompleteResult answers [mcp.CompleteParams].
type CompleteResult struct {
	ResultType mcp.ResultType `json:"resultType,omitempty"` // since 2026-07-28
	Completion mcp.Completion `json:"completion"`
	Meta       mcp.Meta       `json:"_meta,omitempty"`
}

// ElicitCompleteParams are the params of notifications/elicitation/complete.
type ElicitCompleteParams struct {
	ElicitationID string   `json:"elicitationId"`
	Meta          mcp.Meta `json:"_meta,omitempty"`
}

// InputRequired returns the result that asks the questions.
func InputRequired(questions mcp.InputRequests, state string) mcp.InputRequiredResult {
	return mcp.InputRequiredResult{ResultType: mcp.ResultInputRequired, InputRequests: questions, RequestState: state}
}

// AcknowledgedParams are the params of notifications/subscriptions/acknowledged, the
// first message of a listen stream. Like all of its notifications they carry the id
// of the listen request, see [mcp.Meta.SubscriptionID].
type AcknowledgedParams struct {
	Notifications mcp.SubscriptionFilter `json:"notifications"`
	Meta          mcp.Meta               `json:"_meta,omitempty"`
}

// SetLevelParams are the params of logging/setLevel: from now on the client wants
// this level and those more severe.
type SetLevelParams struct {
	Level mcp.LoggingLevel `json:"level"`
	Meta  mcp.Meta         `json:"_meta,omitempty"`
}

// MetaUI is the key of [UITool] in the `_meta` of a tool, and of [mcp.UIPage] in that of a
// page and of its contents.
const MetaUI = "ui"

// UITool ties a tool to a page.
type UITool struct {
	ResourceURI string           `json:"resourceUri,omitempty"` // of the page that shows the results
	Visibility  []mcp.UIAudience `json:"visibility,omitempty"`  // empty is everybody
}

// MIMEDirectory is the type of a resource that is a directory: resources/directory/read
// lists what lies in it.
const MIMEDirectory = "inode/directory"
