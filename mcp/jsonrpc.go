package mcp

import "encoding/json"

// JSONRPCVersion is the value of every message's jsonrpc member.
const JSONRPCVersion = "2.0"

// Request is a JSON-RPC request as a value. Calls do not use it: codec scans and splices
// envelopes in place.
type Request struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      RequestID       `json:"id"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params,omitempty"`
}

// Notification is a JSON-RPC notification as a value.
type Notification struct {
	JSONRPC string          `json:"jsonrpc"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params,omitempty"`
}

// ResultResponse is the response to a request that succeeded.
type ResultResponse struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      RequestID       `json:"id"`
	Result  json.RawMessage `json:"result"`
}

// ErrorResponse is the response to a request that failed. Without an ID it answers a
// message whose id could not be read.
type ErrorResponse struct {
	JSONRPC string    `json:"jsonrpc"`
	ID      RequestID `json:"id,omitempty"`
	Error   *Error    `json:"error"`
}

// RequestParams are the params of a request without params of its own.
type RequestParams struct {
	Meta Meta `json:"_meta,omitempty"`
}

// NotificationParams are the params of a notification without params of its own.
type NotificationParams struct {
	Meta Meta `json:"_meta,omitempty"`
}

// EmptyResult is a result without members of its own: it encodes as {} up to
// 2025-11-25.
type EmptyResult struct {
	ResultType ResultType `json:"resultType,omitempty"` // since 2026-07-28
	Meta       Meta       `json:"_meta,omitempty"`
}

// PaginatedParams are the params of a list request. An empty Cursor asks for the
// first page.
type PaginatedParams struct {
	Cursor string `json:"cursor,omitempty"`
	Meta   Meta   `json:"_meta,omitempty"`
}

// PingParams are the params of ping.
type PingParams = RequestParams

// Types of the list requests' params.
type (
	ListToolsParams             = PaginatedParams
	ListPromptsParams           = PaginatedParams
	ListResourcesParams         = PaginatedParams
	ListResourceTemplatesParams = PaginatedParams
	ListTasksParams             = PaginatedParams
)
