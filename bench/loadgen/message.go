package loadgen

import (
	"encoding/json"
	"fmt"
)

// message is what of a JSON-RPC message is looked at.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

func parseMessage(data []byte) (*message, error) {
	m := new(message)
	if err := json.Unmarshal(data, m); err != nil {
		return nil, wrongAnswer("%v: %.200s", err, data)
	}
	return m, nil
}

// asFailure is the error that a message brings.
func (m *message) asFailure() error {
	return &Failure{fmt.Sprintf("error %d", m.Error.Code), m.Error.Message}
}

// updatedURI returns the resource that a message tells an update of, "" if it tells none.
func (m *message) updatedURI() string {
	var p struct {
		URI string `json:"uri"`
	}
	if m.Method != "notifications/resources/updated" || json.Unmarshal(m.Params, &p) != nil {
		return ""
	}
	return p.URI
}

// toolResult is what of a result is looked at.
type toolResult struct {
	Type    string `json:"resultType"`
	Content []struct {
		Text string `json:"text"`
	} `json:"content"`
	IsError  bool                       `json:"isError"`
	Asked    map[string]json.RawMessage `json:"inputRequests"`
	State    string                     `json:"requestState"`
	TaskID   string                     `json:"taskId"`
	Status   string                     `json:"status"`
	Result   json.RawMessage            `json:"result"`
	Interval int                        `json:"pollIntervalMs"`
	Task     *struct {
		ID string `json:"taskId"`
	} `json:"task"`
	Tools []struct {
		Name string `json:"name"`
	} `json:"tools"`
	Cursor string `json:"nextCursor"`
}

func resultOf(m *message) (*toolResult, error) {
	r := new(toolResult)
	if err := json.Unmarshal(m.Result, r); err != nil {
		return nil, wrongAnswer("a result that is none: %v", err)
	}
	if r.IsError {
		text := ""
		if len(r.Content) > 0 {
			text = r.Content[0].Text
		}
		return nil, &Failure{"tool error", text}
	}
	return r, nil
}

// checkText checks that a result is one text.
func (r *toolResult) checkText(text string) error {
	if len(r.Content) != 1 || r.Content[0].Text != text {
		return wrongAnswer("want the text %.60q, got %d contents: %.100v", text, len(r.Content), r.Content)
	}
	return nil
}

// quoteJSON is a text as JSON.
func quoteJSON(s string) string {
	b, _ := json.Marshal(s) // a text always can be
	return string(b)
}
