package troupetest

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
)

// Options are what a client declares and how it answers. The zero value is a client of the
// newest revision that declares nothing, so no handler can ask it.
type Options struct {
	// Revision is the revision that the client speaks, which must be one of the server's. 0 means the newest of those.
	Revision mcp.Revision
	// Runtime are the options of the runtime that serves, for its limits. A DrainWait of 0
	// means 5 seconds here, and a Store.Lease of 0 a minute. A nil Log is the output of the
	// test, which go test shows if the test fails, or with -v.
	Runtime troupe.Options
	// Capabilities are declared in addition to those of the functions below.
	Capabilities mcp.ClientCapabilities

	// Header is what Call.Header returns, and what Runtime.Authenticate gets, as the header
	// of the HTTP request of every message. nil is an empty one.
	Header http.Header
	// Principal is what Call.Principal returns, unless Runtime.Authenticate is set, which
	// decides then. The zero Principal is anonymous.
	Principal troupe.Principal

	// Elicit answers elicitation/create, by form and by URL. nil declares no elicitation.
	Elicit func(ctx context.Context, p mcp.ElicitParams) (mcp.ElicitResult, error)
	// Sample answers sampling/createMessage. nil declares no sampling.
	Sample func(ctx context.Context, p mcp.CreateMessageParams) (mcp.CreateMessageResult, error)
	// Roots answers roots/list. nil declares no roots.
	Roots func(ctx context.Context) ([]mcp.Root, error)

	// HostTasks has the client host what Elicit and Sample answer as tasks of its own where the server asks for that
	// (troupe.Question.AsTask, 2025-11-25). The context of a function then ends when the server cancels the task. It does
	// nothing in other revisions.
	HostTasks bool

	// Answer answers the questions that no function above answers, with a raw result. It
	// declares nothing: see Capabilities. nil answers with an error.
	Answer func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error)

	// Progress gets the progress of calls; it makes the client ask for progress.
	Progress func(p mcp.ProgressParams)
	// Log gets log messages from LogLevel up. A LogLevel of "" is info.
	Log      func(p mcp.LogParams)
	LogLevel mcp.LoggingLevel
	// Notify gets every other notification.
	Notify func(method string, params json.RawMessage)
}

// hosting says what a client that hosts questions declares.
func (o *Options) hosting() *mcp.ClientTasksCapability {
	requests := &mcp.ClientTaskRequests{}
	if o.Elicit != nil {
		requests.Elicitation = &mcp.ElicitationTaskRequests{Create: mcp.Declared()}
	}
	if o.Sample != nil {
		requests.Sampling = &mcp.SamplingTaskRequests{CreateMessage: mcp.Declared()}
	}
	return &mcp.ClientTasksCapability{Cancel: mcp.Declared(), Requests: requests}
}
