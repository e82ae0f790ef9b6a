package task

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/mcp"
)

// PollInterval is how often a client is asked to look at a task.
const PollInterval = time.Second

// timeStamp is a time as tasks have it: ISO 8601, in UTC, with milliseconds.
func timeStamp(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z") }

// Core is the task as a reader of 2025-11-25 sees it.
func (r *Record) Core(id string, reader mcp.Revision) mcp.Task {
	ttl, poll := r.TTL, PollInterval.Milliseconds()
	return mcp.Task{TaskID: id, Status: r.Status(reader), StatusMessage: r.statusMessage(), CreatedAt: timeStamp(r.Created), LastUpdatedAt: timeStamp(r.Updated), TTL: &ttl, PollInterval: &poll}
}

// Handle is the task as a reader of the tasks extension sees it when it is created.
func (r *Record) Handle(id string, reader mcp.Revision) protocol.TaskHandle {
	ttl, poll := r.TTL, PollInterval.Milliseconds()
	return protocol.TaskHandle{TaskID: id, Status: r.Status(reader), StatusMessage: r.statusMessage(), CreatedAt: timeStamp(r.Created), LastUpdatedAt: timeStamp(r.Updated), TTLMs: &ttl, PollIntervalMs: &poll}
}

// Detailed is the task as a reader of the extension sees it later: with its open questions, its error, or the result, which the
// caller has projected for the reader.
func (r *Record) Detailed(id string, reader mcp.Revision, result json.RawMessage) protocol.DetailedTask {
	d := protocol.DetailedTask{TaskHandle: r.Handle(id, reader)}
	switch d.Status {
	case mcp.TaskInputRequired:
		d.InputRequests = make(mcp.InputRequests)
		for _, q := range r.Open() {
			var asked mcp.InputRequest
			if json.Unmarshal(q.Request, &asked) == nil {
				d.InputRequests[q.Key] = asked
			}
		}
	case mcp.TaskCompleted:
		d.Result = result
	case mcp.TaskFailed:
		d.Error = r.Failure()
	}
	return d
}

// lost is the error of a task that its worker has lost, and that may not run again.
var lost = func() json.RawMessage {
	data, _ := json.Marshal(mcp.NewError(mcp.CodeCallLost, "")) // a value of our own making
	return data
}()

// Failure is the error of a task that has failed, as an object with code and message.
func (r *Record) Failure() json.RawMessage {
	if r.Outcome == nil || r.Outcome.Kind == Lost || len(r.Outcome.Value) == 0 {
		return lost
	}
	return r.Outcome.Value
}

// statusMessage is the message for people. What a client has to know of its answer comes before what the handler says.
func (r *Record) statusMessage() string {
	if r.State == Waiting && r.Unfit != "" {
		return "the answer to " + strconv.Quote(r.Unfit) + " is no JSON object and was not taken"
	}
	if r.Message != "" || r.Outcome == nil {
		return r.Message
	}
	switch r.Outcome.Kind {
	case ToolError:
		var x struct {
			Content []struct {
				Text string `json:"text"`
			} `json:"content"`
		}
		if json.Unmarshal(r.Outcome.Value, &x) == nil && len(x.Content) > 0 {
			return x.Content[0].Text
		}
	case Cancelled:
		return "cancelled by the client"
	case Failed, Lost:
		var e mcp.Error
		if json.Unmarshal(r.Failure(), &e) == nil {
			return e.Message
		}
	}
	return ""
}
