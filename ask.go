package troupe

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/hosted"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/mcp"
)

// Question is a question to the client. Make one with Elicit, ElicitURL, Sample or
// Roots. Its key names it within the call.
type Question struct {
	key    string
	method string
	params any
	needs  mcp.Capability
	ttl    time.Duration // AsTask
}

// AsTask lets the client host the question as a task of its own, where it declares that it can (tasks.requests, 2025-11-25):
// the client takes the question at once, and the handler's call asks it from time to time whether there is an answer. That is
// for answers that take long. The client holds no request open meanwhile, and the wait is bounded by ttl, counted from when
// the client has the task, in place of Limits.MaxAsk. A ttl of 0 means 24 hours; the call itself must last as long.
//
// Nothing else changes: the answer, and its errors, are what the question would have got without a task. Any other client gets
// the question as a plain request, and so does one that answers it at once though it declares tasks. AsTask does nothing for
// roots, for clients of other revisions, and for questions of a task of this server, which wait for as long as the task lasts.
//
// A call that runs again after a crash goes on with the client's task. If the answer is not needed any more, the client gets
// tasks/cancel, if it declares that: when ttl is over, when the context of the question ends, and when the call is cancelled.
func (q Question) AsTask(ttl time.Duration) Question {
	if ttl <= 0 {
		ttl = limits.TaskTTL.Value()
	}
	q.ttl = max(ttl, time.Second)
	return q
}

// Elicit asks the user to fill in a form.
func Elicit(key, message string, form mcp.FormSchema) Question {
	schema, err := form.Raw()
	if err != nil {
		return Question{key: key, params: err}
	}
	return Question{key: key, method: mcp.MethodElicitationCreate, params: mcp.ElicitForm{Mode: mcp.ElicitModeForm, Message: message, RequestedSchema: schema}, needs: mcp.CapClientElicitationForm}
}

// ElicitURL asks the user to open a URL, for data that must not pass through the
// client. id must be unique within the server. Acceptance means consent, not that the
// interaction has ended: see Call.ElicitationComplete.
func ElicitURL(key, message, id, url string) Question {
	return Question{key: key, method: mcp.MethodElicitationCreate, params: mcp.ElicitURL{Mode: mcp.ElicitModeURL, Message: message, ElicitationID: id, URL: url}, needs: mcp.CapClientElicitationURL}
}

// Sample asks the client's model for a message.
func Sample(key string, p mcp.CreateMessageParams) Question {
	needs := mcp.CapClientSampling
	if len(p.Tools) > 0 || p.ToolChoice != nil {
		needs |= mcp.CapClientSamplingTools
	}
	p.Messages = slices.Clone(p.Messages)
	for i := range p.Messages {
		p.Messages[i].Content.Blocks = p.Messages[i].Content.Blocks.Typed()
	}
	return Question{key: key, method: mcp.MethodSamplingCreateMessage, params: p, needs: needs}
}

// Roots asks for the client's roots. A client that announces their changes gets the
// question once: the session keeps the answer until they change, and calls that ask at
// the same time share the question.
func Roots(key string) Question {
	return Question{key: key, method: mcp.MethodRootsList, needs: mcp.CapClientRoots}
}

// Answers are the client's answers by the keys of the questions.
type Answers struct{ byKey map[string]hosted.Outcome }

func (a Answers) decodeAnswer(key string, into any) error {
	x, ok := a.byKey[key]
	switch {
	case !ok:
		return fmt.Errorf("troupe: no question %q was asked", key)
	case x.Err != nil:
		return x.Err
	case x.Bad != nil:
		return &answerError{key, x.Bad}
	}
	if err := codec.Unmarshal(x.Result, into); err != nil {
		return &answerError{key, err}
	}
	return nil
}

// answerError reports an answer that does not fit its question.
type answerError struct {
	key string
	err error
}

func (e *answerError) Error() string {
	return fmt.Sprintf("troupe: answer to %q: %s", e.key, strings.TrimPrefix(e.err.Error(), "codec: "))
}
func (e *answerError) Unwrap() error { return e.err }

// Errors of answers.
var (
	errAction  = errors.New("the action is none of accept, decline and cancel")
	errContent = errors.New("the content is no object")
	errMessage = errors.New("the message lacks its role, content or model")
	errRoots   = errors.New("the roots are missing")
)

// Elicited returns the answer to an elicitation. The error is an *mcp.Error when
// the client answered with one. The content, if any, is an object; it is not
// validated against the form.
func (a Answers) Elicited(key string) (mcp.ElicitResult, error) {
	var r mcp.ElicitResult
	err := a.decodeAnswer(key, &r)
	switch {
	case err != nil:
	case r.Action != mcp.ElicitAccept && r.Action != mcp.ElicitDecline && r.Action != mcp.ElicitCancel:
		err = &answerError{key, errAction}
	case r.Content != nil && !isObject(r.Content):
		err = &answerError{key, errContent}
	}
	if err != nil {
		return mcp.ElicitResult{}, err
	}
	return r, nil
}

// Sampled returns the answer to a sampling request, as Elicited does.
func (a Answers) Sampled(key string) (mcp.CreateMessageResult, error) {
	var r mcp.CreateMessageResult
	err := a.decodeAnswer(key, &r)
	if err == nil && (r.Role != mcp.RoleAssistant && r.Role != mcp.RoleUser || r.Model == "" || r.Content.Blocks == nil) {
		err = &answerError{key, errMessage}
	}
	if err != nil {
		return mcp.CreateMessageResult{}, err
	}
	return r, nil
}

// Roots returns the client's roots, as Elicited does.
func (a Answers) Roots(key string) ([]mcp.Root, error) {
	var r mcp.ListRootsResult
	err := a.decodeAnswer(key, &r)
	if err == nil && r.Roots == nil {
		err = &answerError{key, errRoots}
	}
	if err != nil {
		return nil, err
	}
	return r.Roots, nil
}

// keepsAnswer says which answers to q a session may keep: the roots of a client that says
// when they change.
func (q *Question) keepsAnswer(caps *mcp.ClientCapabilities) func([]byte) bool {
	if q.method != mcp.MethodRootsList || caps.Roots == nil || !caps.Roots.ListChanged {
		return nil
	}
	return func(result []byte) bool {
		var r mcp.ListRootsResult
		return codec.Unmarshal(result, &r) == nil && r.Roots != nil
	}
}

// paramsFor returns the params as a client of the revision may see them.
func (q *Question) paramsFor(r mcp.Revision) (any, error) {
	switch p := q.params.(type) {
	case error:
		return nil, p
	case mcp.ElicitForm:
		return protocol.FormQuestionFor(p, r)
	case mcp.ElicitURL:
		return protocol.URLQuestionFor(p, r)
	case mcp.CreateMessageParams:
		return protocol.SamplingFor(p, r)
	}
	return q.params, nil
}

// URLRequired returns the error that makes a client open URLs before it sends
// the request again. A client that does not declare URL elicitation gets an error
// that says so. A stateless client (2026-07-28) gets an input_required result in place
// of the error. The handler runs again when the client sends the request again.
func URLRequired(urls ...mcp.ElicitURL) error {
	urls = slices.Clone(urls)
	for i := range urls {
		urls[i].Mode = mcp.ElicitModeURL
	}
	return mcp.NewError(mcp.CodeURLElicitationRequired, "").WithData(mcp.URLElicitationRequired{Elicitations: urls})
}

// answerCheck returns the function that reports whether raw is an answer to the question; nil
// accepts everything. The function keeps nothing of the question.
func (q *Question) answerCheck() func(raw []byte) bool {
	switch q.method {
	case mcp.MethodElicitationCreate:
		return func(raw []byte) bool { return isReadable(Answers.Elicited, raw) }
	case mcp.MethodSamplingCreateMessage:
		return func(raw []byte) bool { return isReadable(Answers.Sampled, raw) }
	case mcp.MethodRootsList:
		return func(raw []byte) bool { return isReadable(Answers.Roots, raw) }
	}
	return nil
}

func isReadable[T any](read func(Answers, string) (T, error), raw []byte) bool {
	_, err := read(Answers{map[string]hosted.Outcome{"": {Answer: actors.Answer{Result: raw}}}}, "")
	return err == nil
}

// askable lists the capabilities that questions need, in the order in which messages name
// them, each with the feature that a revision must have.
var askable = []struct {
	cap     mcp.Capability
	feature protocol.Feature
}{
	{mcp.CapClientElicitationForm, protocol.FeatureElicitation},
	{mcp.CapClientElicitationURL, protocol.FeatureURLElicitation},
	{mcp.CapClientSampling, protocol.FeatureSampling},
	{mcp.CapClientSamplingTools, protocol.FeatureSamplingTools},
	{mcp.CapClientRoots, protocol.FeatureRoots},
}

// checkNeeds refuses a capability that no question needs.
func checkNeeds(needs mcp.Capability) error {
	rest := needs
	for _, x := range askable {
		rest &^= x.cap
	}
	for one := range rest.Each() {
		return fmt.Errorf("field Needs has %s, which no question to a client needs", cmp.Or(one.String(), fmt.Sprintf("%#x", uint32(one))))
	}
	return nil
}

// lackingOf returns the capabilities of needs that the client has not declared.
func lackingOf(needs mcp.Capability, c *mcp.ClientCapabilities) mcp.Capability {
	var lacking mcp.Capability
	for one := range needs.Each() {
		if !c.Has(one) {
			lacking |= one
		}
	}
	return lacking
}

// needsText names the capabilities of needs, and those that no client of the revision can
// declare.
func needsText(needs mcp.Capability, r mcp.Revision) string {
	var all, never []string
	for _, x := range askable {
		if needs&x.cap == 0 {
			continue
		}
		all = append(all, x.cap.String())
		if !protocol.Has(r, x.feature) {
			never = append(never, x.cap.String())
		}
	}
	if needs&mcp.CapClientTasksExtension != 0 {
		all = append(all, mcp.CapClientTasksExtension.String())
	}
	text := strings.Join(all, ", ")
	if never == nil {
		return text
	}
	return fmt.Sprintf("%s (revision %s has no %s)", text, r, strings.Join(never, ", "))
}

// lackingError is the error for a client of the revision that has not declared needs.
func lackingError(needs mcp.Capability, r mcp.Revision) *mcp.Error {
	return mcp.Errorf(mcp.CodeMissingCapability, "the client must declare: %s", needsText(needs, r)).
		WithData(struct {
			Lacking json.RawMessage `json:"requiredCapabilities"`
		}{needsObject(needs)})
}

// undeclaredError is an ErrUndeclared that says which capabilities the client lacks.
type undeclaredError struct {
	key      string
	lacking  mcp.Capability
	revision mcp.Revision
}

func (e *undeclaredError) Error() string {
	return fmt.Sprintf("troupe: question %q: %s: %s", e.key, ErrUndeclared, needsText(e.lacking, e.revision))
}
func (e *undeclaredError) Unwrap() error { return ErrUndeclared }

// capabilityError returns the error for a stateless client whose handler failed because it could
// not ask: the client may declare more and try again. It returns nil for any other error
// and client.
func capabilityError(err error) *mcp.Error {
	if e, ok := errors.AsType[*undeclaredError](err); ok && e.revision.Stateless() {
		return lackingError(e.lacking, e.revision)
	}
	return nil
}

// needsObject returns the client capabilities that would satisfy needs.
func needsObject(needs mcp.Capability) json.RawMessage {
	var c mcp.ClientCapabilities
	if needs&(mcp.CapClientElicitationForm|mcp.CapClientElicitationURL) != 0 {
		c.Elicitation = &mcp.ElicitationCapability{}
		if needs&mcp.CapClientElicitationForm != 0 {
			c.Elicitation.Form = mcp.Declared()
		}
		if needs&mcp.CapClientElicitationURL != 0 {
			c.Elicitation.URL = mcp.Declared()
		}
	}
	if needs&(mcp.CapClientSampling|mcp.CapClientSamplingTools) != 0 {
		c.Sampling = &mcp.SamplingCapability{}
		if needs&mcp.CapClientSamplingTools != 0 {
			c.Sampling.Tools = mcp.Declared()
		}
	}
	if needs&mcp.CapClientRoots != 0 {
		c.Roots = &mcp.ListChanged{}
	}
	if needs&mcp.CapClientTasksExtension != 0 {
		c.Extensions = map[string]mcp.Object{mcp.ExtensionTasks: nil}
	}
	data, _ := codec.Marshal(c) // a value of our own making
	return data
}

// The errors of questions. No answer came.
var (
	// ErrNoAnswer reports that the client did not answer in time.
	ErrNoAnswer = actors.ErrNoAnswer
	// ErrTooManyPending reports that as many questions wait for the client, of the session
	// or of the principal, as its limit allows.
	ErrTooManyPending = actors.ErrTooManyPending
	// ErrTooManyRounds reports that a call has asked its stateless client (2026-07-28)
	// one hundred times; each time the client sent the request again.
	ErrTooManyRounds = actors.ErrTooManyRounds
	// ErrTooMuchInput reports that the answers so far, which a stateless client
	// (2026-07-28) carries from one request to the next, are more than 64 KiB.
	ErrTooMuchInput = actors.ErrTooMuchInput
	// ErrNoStream reports that the client listens to no standalone stream.
	ErrNoStream = actors.ErrNoStream
	// ErrUndeclared reports a question that was not asked, because the client does not
	// declare its capability. Put the capability into Needs to refuse such clients.
	ErrUndeclared = errors.New("troupe: the client does not declare this capability")
)
