package client

import "encoding/json"

// Tool is a tool as the server describes it.
type Tool struct {
	Name        string          `json:"name"`
	Title       string          `json:"title"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"inputSchema"`

	Raw json.RawMessage `json:"-"` // all of it
}
