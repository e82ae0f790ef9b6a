package mcp

import "encoding/json"

// Tool describes a tool. Name and InputSchema are required. The schemas are kept and sent
// byte for byte. Their root is of type "object"; since 2026-07-28 the root of an output
// schema may describe any JSON value.
type Tool struct {
	Name         string           `json:"name"`
	Title        string           `json:"title,omitempty"`
	Description  string           `json:"description,omitempty"`
	InputSchema  json.RawMessage  `json:"inputSchema"`
	OutputSchema json.RawMessage  `json:"outputSchema,omitempty"`
	Annotations  *ToolAnnotations `json:"annotations,omitempty"`
	Execution    *ToolExecution   `json:"execution,omitempty"`
	Icons        []Icon           `json:"icons,omitempty"`
	Meta         Meta             `json:"_meta,omitempty"`
}

// ToolAnnotations are hints about a tool. The zero value of each field is the default of the
// specification: false for a bool, and true for the two whose nil means that. A client must
// not trust them unless it trusts the server.
type ToolAnnotations struct {
	Title           string `json:"title,omitempty"`
	ReadOnlyHint    bool   `json:"readOnlyHint,omitempty"`
	DestructiveHint *bool  `json:"destructiveHint,omitempty"` // nil means true; ignored for a read-only tool
	IdempotentHint  bool   `json:"idempotentHint,omitempty"`  // ignored for a read-only tool
	OpenWorldHint   *bool  `json:"openWorldHint,omitempty"`   // nil means true
}

// ToolExecution says how a tool may be run.
type ToolExecution struct {
	TaskSupport TaskSupport `json:"taskSupport,omitempty"`
}

// TaskSupport says whether a tool runs as a task; empty means forbidden.
type TaskSupport string

// The values of [TaskSupport].
const (
	TaskForbidden TaskSupport = "forbidden"
	TaskOptional  TaskSupport = "optional"
	TaskRequired  TaskSupport = "required"
)

// ListToolsResult is a page of tools.
type ListToolsResult struct {
	ResultType ResultType `json:"resultType,omitempty"` // since 2026-07-28
	Tools      []Tool     `json:"tools"`
	NextCursor string     `json:"nextCursor,omitempty"`
	Cacheable
	Meta Meta `json:"_meta,omitempty"`
}

// CallToolParams are the params of tools/call. Arguments are the raw object, or
// empty or null for none.
type CallToolParams struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Task      *TaskMetadata   `json:"task,omitempty"` // 2025-11-25
	InputRetry
	Meta Meta `json:"_meta,omitempty"`
}

// CallToolResult is the result of a tool. A tool that failed sets IsError and explains
// itself in Content; a call that could not be made is an [*Error]. StructuredContent is
// an object, and since 2026-07-28 any JSON value.
type CallToolResult struct {
	ResultType        ResultType      `json:"resultType,omitempty"` // since 2026-07-28
	Content           Contents        `json:"content"`
	StructuredContent json.RawMessage `json:"structuredContent,omitempty"`
	IsError           bool            `json:"isError,omitempty"`
	Meta              Meta            `json:"_meta,omitempty"`
}
