package mcp

import (
	"encoding/json"
	"fmt"
)

// Prompt describes a prompt. Name is required.
type Prompt struct {
	Name        string           `json:"name"`
	Title       string           `json:"title,omitempty"`
	Description string           `json:"description,omitempty"`
	Arguments   []PromptArgument `json:"arguments,omitempty"`
	Icons       []Icon           `json:"icons,omitempty"`
	Meta        Meta             `json:"_meta,omitempty"`
}

// PromptArgument describes an argument of a prompt.
type PromptArgument struct {
	Name        string `json:"name"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	Required    bool   `json:"required,omitempty"`
}

// GetPromptParams are the params of prompts/get. The arguments are strings.
type GetPromptParams struct {
	Name      string            `json:"name"`
	Arguments map[string]string `json:"arguments,omitempty"`
	InputRetry
	Meta Meta `json:"_meta,omitempty"`
}

// GetPromptResult is a prompt with its arguments filled in.
type GetPromptResult struct {
	ResultType  ResultType      `json:"resultType,omitempty"` // since 2026-07-28
	Description string          `json:"description,omitempty"`
	Messages    []PromptMessage `json:"messages"`
	Meta        Meta            `json:"_meta,omitempty"`
}

// PromptMessage is one message of a prompt: always exactly one block.
type PromptMessage struct {
	Role    Role    `json:"role"`
	Content Content `json:"content"`
}

// UnmarshalJSON decodes the block by its type member.
func (m *PromptMessage) UnmarshalJSON(data []byte) error {
	if !json.Valid(data) {
		return fmt.Errorf("mcp: decode prompt message: %w: not JSON", ErrMalformed)
	}
	var wire struct {
		Role    Role            `json:"role"`
		Content json.RawMessage `json:"content"`
	}
	if err := decodeStruct(data, &wire, nil); err != nil {
		return fmt.Errorf("mcp: decode prompt message: %w", err)
	}
	block, err := decodeContent(wire.Content, false)
	if err != nil {
		return err
	}
	*m = PromptMessage{Role: wire.Role, Content: block}
	return nil
}
