package mcp

import (
	"encoding/json"
	"fmt"
)

// CreateMessageParams are the params of sampling/createMessage. Messages and
// MaxTokens are required; Tools and ToolChoice need the client's sampling.tools.
type CreateMessageParams struct {
	Messages         []SamplingMessage `json:"messages"`
	ModelPreferences *ModelPreferences `json:"modelPreferences,omitempty"`
	SystemPrompt     string            `json:"systemPrompt,omitempty"`
	IncludeContext   IncludeContext    `json:"includeContext,omitempty"`
	Temperature      *float64          `json:"temperature,omitempty"`
	MaxTokens        int64             `json:"maxTokens"`
	StopSequences    []string          `json:"stopSequences,omitempty"`
	Metadata         *Object           `json:"metadata,omitempty"`
	Tools            []Tool            `json:"tools,omitempty"`
	ToolChoice       *ToolChoice       `json:"toolChoice,omitempty"`
	Task             *TaskMetadata     `json:"task,omitempty"`
	Meta             Meta              `json:"_meta,omitempty"`
}

// IncludeContext asks the client to add context; empty means none. The other
// values need the client's sampling.context.
type IncludeContext string

// The values of [IncludeContext].
const (
	IncludeNone       IncludeContext = "none"
	IncludeThisServer IncludeContext = "thisServer"
	IncludeAllServers IncludeContext = "allServers"
)

// ToolChoice steers the use of tools in sampling; an empty Mode means auto.
type ToolChoice struct {
	Mode string `json:"mode,omitempty"` // "auto", "required" or "none"
}

// ModelPreferences advise the client's choice of a model; priorities are from 0 to 1.
type ModelPreferences struct {
	Hints                []ModelHint `json:"hints,omitempty"`
	CostPriority         *float64    `json:"costPriority,omitempty"`
	SpeedPriority        *float64    `json:"speedPriority,omitempty"`
	IntelligencePriority *float64    `json:"intelligencePriority,omitempty"`
}

// ModelHint is a part of a model's name.
type ModelHint struct {
	Name string `json:"name,omitempty"`
}

// SamplingMessage is one message to or from a model.
type SamplingMessage struct {
	Role    Role           `json:"role"`
	Content MessageContent `json:"content"`
	Meta    Meta           `json:"_meta,omitempty"`
}

// The standard values of [CreateMessageResult.StopReason]; others are legal.
const (
	StopEndTurn      = "endTurn"
	StopStopSequence = "stopSequence"
	StopMaxTokens    = "maxTokens"
	StopToolUse      = "toolUse"
)

// CreateMessageResult is the message the client's model made.
type CreateMessageResult struct {
	Role       Role           `json:"role"`
	Content    MessageContent `json:"content"`
	Model      string         `json:"model"`
	StopReason string         `json:"stopReason,omitempty"`
	Meta       Meta           `json:"_meta,omitempty"`
}

// MessageContent is the content of a sampling message: one block, or since 2025-11-25 a
// list of them. One block is written without a list, which every revision can read,
// unless List asks for a list. No block is the empty list.
type MessageContent struct {
	Blocks Contents
	List   bool
}

// Blocks returns the content made of these blocks.
func Blocks(blocks ...Content) MessageContent { return MessageContent{Blocks: blocks} }

// MarshalJSON writes the one block or the list.
func (c MessageContent) MarshalJSON() ([]byte, error) {
	if len(c.Blocks) == 1 && !c.List {
		return encode(c.Blocks[0])
	}
	if len(c.Blocks) == 0 {
		return []byte("[]"), nil
	}
	return encode(c.Blocks)
}

// UnmarshalJSON decodes one block or a list and remembers which it was.
func (c *MessageContent) UnmarshalJSON(data []byte) error {
	if !json.Valid(data) {
		return fmt.Errorf("mcp: decode content: %w: not JSON", ErrMalformed)
	}
	blocks, list, err := decodeContents(data, true)
	if err != nil {
		return err
	}
	*c = MessageContent{Blocks: blocks, List: list}
	return nil
}
