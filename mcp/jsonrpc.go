package mcp

// JSONRPCVersion is the value of every message's jsonrpc member.
const JSONRPCVersion = "2.0"

// PaginatedParams are the params of a list request. An empty Cursor asks for the
// first page.
type PaginatedParams struct {
	Cursor string `json:"cursor,omitempty"`
	Meta   Meta   `json:"_meta,omitempty"`
}
