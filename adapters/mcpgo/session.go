package mcpgo

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// A session is one of the server's, over lines. All that it says is written by one goroutine, so that what a handler has told of stands before
// its answer.
type session struct {
	gone        <-chan struct{} // closed when the session ends
	id          string
	notes       chan mcp.JSONRPCNotification
	rest        chan any // answers and questions
	initialized atomic.Bool

	mu           sync.Mutex // guards the rest below
	level        mcp.LoggingLevel
	info         mcp.Implementation
	capabilities mcp.ClientCapabilities
	subscribed   map[string]bool
	asked        map[string]chan answer // by the id of the question
}

var (
	_ server.SessionWithLogging               = (*session)(nil)
	_ server.SessionWithClientInfo            = (*session)(nil)
	_ server.SessionWithResourceSubscriptions = (*session)(nil)
	_ server.SessionWithSampling              = (*session)(nil)
	_ server.SessionWithElicitation           = (*session)(nil)
	_ server.SessionWithRoots                 = (*session)(nil)
)

// sessions counts those of this process, and questions what they have asked.
var sessions, questions atomic.Int64

// waitingNotes is how many notifications may wait to be written. The library drops what is beyond it.
const waitingNotes = 1024

func newSession(ctx context.Context) *session {
	return &session{gone: ctx.Done(), id: fmt.Sprintf("troupe-%d", sessions.Add(1)), notes: make(chan mcp.JSONRPCNotification, waitingNotes), rest: make(chan any),
		level: mcp.LoggingLevelError, subscribed: map[string]bool{}, asked: map[string]chan answer{}}
}

// send has a message written, unless it is nil or the session has ended.
func (s *session) send(message any) {
	if message == nil {
		return
	}
	select {
	case s.rest <- message:
	case <-s.gone:
	}
}

// write writes what the session says until it ends.
func (s *session) write(out io.Writer) error {
	lines := json.NewEncoder(out)
	lines.SetEscapeHTML(false)
	for {
		select {
		case n := <-s.notes:
			if err := lines.Encode(n); err != nil {
				return err
			}
		case message := <-s.rest:
			for range len(s.notes) { // which came before
				if err := lines.Encode(<-s.notes); err != nil {
					return err
				}
			}
			if err := lines.Encode(message); err != nil {
				return err
			}
		case <-s.gone:
			return nil
		}
	}
}

// An answer is what the client has answered to a question.
type answer struct{ result, err json.RawMessage }

// ask asks the client, and decodes its answer.
func (s *session) ask(ctx context.Context, method mcp.MCPMethod, params, result any) error {
	id := strconv.FormatInt(questions.Add(1), 10)
	came := make(chan answer, 1)
	s.mu.Lock()
	s.asked[id] = came
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.asked, id)
		s.mu.Unlock()
	}()
	question := map[string]any{"jsonrpc": mcp.JSONRPC_VERSION, "id": json.RawMessage(id), "method": method}
	if params != nil {
		question["params"] = params
	}
	s.send(question)
	select {
	case a := <-came:
		if a.err != nil {
			return fmt.Errorf("%s: the client answers with the error %s", method, a.err)
		}
		if err := json.Unmarshal(a.result, result); err != nil {
			return fmt.Errorf("%s: the client's answer: %w", method, err)
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-s.gone:
		return fmt.Errorf("%s: the session has ended", method)
	}
}

// answered gives an answer to whoever waits for it.
func (s *session) answered(id string, result, err json.RawMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if came := s.asked[id]; came != nil {
		delete(s.asked, id)
		came <- answer{result, err}
	}
}

// RequestSampling asks the client's model.
func (s *session) RequestSampling(ctx context.Context, r mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
	var result mcp.CreateMessageResult
	err := s.ask(ctx, mcp.MethodSamplingCreateMessage, r.CreateMessageParams, &result)
	if err == nil {
		result.Content, err = mcp.ParseSamplingContent(result.Content)
	}
	if err != nil {
		return nil, err
	}
	return &result, nil
}

// RequestElicitation asks the client's user.
func (s *session) RequestElicitation(ctx context.Context, r mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	var result mcp.ElicitationResult
	if err := s.ask(ctx, mcp.MethodElicitationCreate, r.Params, &result); err != nil {
		return nil, err
	}
	return &result, nil
}

// ListRoots asks the client for its roots.
func (s *session) ListRoots(ctx context.Context, _ mcp.ListRootsRequest) (*mcp.ListRootsResult, error) {
	var result mcp.ListRootsResult
	if err := s.ask(ctx, mcp.MethodListRoots, nil, &result); err != nil {
		return nil, err
	}
	return &result, nil
}

// SessionID is a name that no other session of the process has.
func (s *session) SessionID() string { return s.id }

// NotificationChannel takes notifications to the client.
func (s *session) NotificationChannel() chan<- mcp.JSONRPCNotification { return s.notes }

// Initialize is called when the client has said that it is ready.
func (s *session) Initialize() { s.initialized.Store(true) }

// Initialized reports whether it has.
func (s *session) Initialized() bool { return s.initialized.Load() }

// SetLogLevel sets the lowest level of log messages that the client wants.
func (s *session) SetLogLevel(level mcp.LoggingLevel) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.level = level
}

// GetLogLevel returns it.
func (s *session) GetLogLevel() mcp.LoggingLevel {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.level
}

// SetClientInfo says who the client is.
func (s *session) SetClientInfo(info mcp.Implementation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.info = info
}

// GetClientInfo returns it.
func (s *session) GetClientInfo() mcp.Implementation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.info
}

// SetClientCapabilities says what the client can be asked for.
func (s *session) SetClientCapabilities(c mcp.ClientCapabilities) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.capabilities = c
}

// GetClientCapabilities returns it.
func (s *session) GetClientCapabilities() mcp.ClientCapabilities {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.capabilities
}

// SubscribeToResource has the client told of a resource.
func (s *session) SubscribeToResource(uri string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subscribed[uri] = true
}

// UnsubscribeFromResource has it told no longer.
func (s *session) UnsubscribeFromResource(uri string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.subscribed, uri)
}

// SubscribedResources returns the resources that the client is told of.
func (s *session) SubscribedResources() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.subscribed))
}

// IsSubscribedToResource reports whether the client is told of a resource.
func (s *session) IsSubscribedToResource(uri string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.subscribed[uri]
}
