package mcp

import "encoding/json"

// InputRequest is a question to the client inside a result (since 2026-07-28). It has the
// method and params that were a request of the server before, without an id. Method is
// [MethodElicitationCreate], [MethodSamplingCreateMessage] or [MethodRootsList].
type InputRequest struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params,omitempty"` // an object
}

// InputRequests are questions, under keys that are unique within their request.
type InputRequests map[string]InputRequest

// InputResponses are the client's answers under the keys of the questions. Each is the
// raw result of its method: [ElicitResult], [CreateMessageResult] or [ListRootsResult].
type InputResponses map[string]json.RawMessage

// InputRetry is the part of the params of tools/call, prompts/get and resources/read that
// answers an [InputRequiredResult]. The state comes from the client: do not trust it
// (basic/patterns/mrtr).
type InputRetry struct {
	InputResponses InputResponses `json:"inputResponses,omitempty"`
	RequestState   string         `json:"requestState,omitempty"`
}

// InputRequiredResult says that a request waits for its client, which sends it again with
// the answers and the state (since 2026-07-28). It has InputRequests, RequestState or
// both.
type InputRequiredResult struct {
	ResultType    ResultType    `json:"resultType"` // ResultInputRequired
	InputRequests InputRequests `json:"inputRequests,omitempty"`
	RequestState  string        `json:"requestState,omitempty"`
	Meta          Meta          `json:"_meta,omitempty"`
}
