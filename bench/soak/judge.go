package main

import (
	"encoding/json"
	"fmt"

	"github.com/troupe-run/troupe/bench/client"
)

// codeCallLost is the error of a call whose node was lost and that may not run
// again.
const codeCallLost = -32010

// codeUnavailable is the error of a call that did not get what it needs of the store.
const codeUnavailable = -32603

// message is what of a JSON-RPC message is looked at.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Token    json.RawMessage `json:"progressToken"`
		Progress int             `json:"progress"`
		Total    int             `json:"total"`
		Level    string          `json:"level"`
		Logger   string          `json:"logger"`
		Data     string          `json:"data"`
		URI      string          `json:"uri"`
	} `json:"params"`
	Result *struct {
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
		IsError bool `json:"isError"`
	} `json:"result"`
	Error *struct {
		Code int `json:"code"`
	} `json:"error"`
}

// parse reads a message; what is none answers nothing and is no notification.
func parse(data string) message {
	var m message
	if json.Unmarshal([]byte(data), &m) != nil {
		return message{Method: "unreadable"}
	}
	return m
}

// answers reports that m is the answer to the request of that raw id.
func (m *message) answers(id string) bool {
	return m.Method == "" && string(m.ID) == id && (m.Result != nil || m.Error != nil)
}

// text is the only content of a result, "" for any other.
func (m *message) text() string {
	if m.Result == nil || m.Result.IsError || len(m.Result.Content) != 1 {
		return ""
	}
	return m.Result.Content[0].Text
}

// heard is how many messages of each kind came of a call.
type heard struct{ progress, logs, questions, finals int }

// judge says what is wrong with the events of an answered call.
func (k *call) judge(events []client.Event) error {
	h, err := k.hear(events)
	switch {
	case err != nil:
		return err
	case h.finals != 1:
		return fmt.Errorf("%d answers", h.finals)
	case k.tool != "count":
	case h.logs != k.to:
		return fmt.Errorf("%d log messages, want %d", h.logs, k.to)
	case k.token == "" && h.progress > 0 || k.token != "" && h.progress != k.to:
		return fmt.Errorf("%d notifications of progress of %d under token %q", h.progress, k.to, k.token)
	}
	return nil
}

// hear says what of the events of a call, which need not have come to its end, does not belong there or came out of order.
func (k *call) hear(events []client.Event) (h heard, err error) {
	for i, e := range events {
		if e.Data == "" {
			if i > 0 {
				return h, fmt.Errorf("event %s is a priming event in mid-stream", e.ID)
			}
			continue
		}
		switch m := parse(e.Data); {
		case m.answers(k.id):
			if h.finals++; i != len(events)-1 || h.finals > 1 {
				return h, fmt.Errorf("the answer %s is not the last and only one", e.ID)
			}
			if err := k.judgeAnswer(m); err != nil {
				return h, err
			}
		case k.tool == "count" && m.Method == "notifications/progress":
			if h.progress++; m.Params.Progress != h.progress || m.Params.Total != k.to || string(m.Params.Token) != k.token {
				return h, fmt.Errorf("event %s: want progress %d of %d under %s", e.ID, h.progress, k.to, k.token)
			}
		case k.tool == "count" && m.Method == "notifications/message":
			if h.logs++; m.Params.Data != fmt.Sprintf("%d of %d", h.logs, k.to) || m.Params.Logger != "count" {
				return h, fmt.Errorf("event %s: want log message %d of %d", e.ID, h.logs, k.to)
			}
		case k.tool == "ask" && m.Method == "elicitation/create":
			if h.questions++; h.questions > 1 {
				return h, fmt.Errorf("event %s asks again", e.ID)
			}
		default:
			return h, fmt.Errorf("event %s does not belong here", e.ID)
		}
	}
	return h, nil
}

func (k *call) judgeAnswer(m message) error {
	switch {
	case m.Error != nil && m.Error.Code == codeCallLost && !k.safe:
		if k.d.w.dying.Load() < k.boot {
			return fmt.Errorf("the call was given up and nobody was killed")
		}
		return nil
	case m.Error != nil && m.Error.Code == codeUnavailable && k.tool == "tick" && k.d.w.fleet != nil && k.d.w.mayBreak(k.boot): // the store was away when it sent a message
		return nil
	case m.Error != nil:
		return fmt.Errorf("answered with error %d", m.Error.Code)
	case k.fails && m.Result.IsError:
	case k.tool == "tick" && m.Result.IsError && k.d.w.fleet != nil && k.d.w.mayBreak(k.boot): // the message to the session was not stored, or nobody knows
	case m.Result.IsError || len(m.Result.Content) != 1 || m.Result.Content[0].Text != k.text:
		return fmt.Errorf("the answer is not %q", k.text)
	}
	return nil
}
