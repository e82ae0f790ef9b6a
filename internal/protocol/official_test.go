package protocol_test

import (
	"encoding/json"
	"maps"
	"reflect"

	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/mcp"
)

// An official is a revision whose schema has a Go type for each definition. The structs
// serve both revisions: they are the union of their members.
type official struct {
	revision mcp.Revision
	types    map[string]reflect.Type // by definition
}

var (
	legacyOfficial    = official{mcp.Revision20251125, goTypes}
	statelessOfficial = official{mcp.Revision20260728, statelessTypes()}
	officials         = [2]official{legacyOfficial, statelessOfficial}
)

// question is a request of 2026-07-28 to the client: not a message, but a part of a
// result.
type question[P any] struct {
	Method string `json:"method"`
	Params *P     `json:"params,omitempty"`
}

// statelessTypes returns the type of each definition of 2026-07-28.
func statelessTypes() map[string]reflect.Type {
	types := maps.Clone(goTypes)
	for _, gone := range []string{
		"CancelTaskRequest", "CancelTaskResult", "CreateTaskResult", "ElicitationCompleteNotification", "GetTaskPayloadRequest", "GetTaskPayloadResult",
		"GetTaskRequest", "GetTaskResult", "InitializeRequest", "InitializeRequestParams", "InitializeResult", "InitializedNotification", "ListTasksRequest",
		"ListTasksResult", "PingRequest", "RelatedTaskMetadata", "RootsListChangedNotification", "ServerRequest", "SetLevelRequest", "SetLevelRequestParams",
		"SubscribeRequest", "SubscribeRequestParams", "Task", "TaskAugmentedRequestParams", "TaskMetadata", "TaskStatus", "TaskStatusNotification",
		"TaskStatusNotificationParams", "ToolExecution", "URLElicitationRequiredError", "UnsubscribeRequest", "UnsubscribeRequestParams",
	} {
		delete(types, gone)
	}
	maps.Copy(types, map[string]reflect.Type{
		"CacheableResult":                             typeOf[mcp.ReadResourceResult](),
		"CallToolResultResponse":                      typeOf[inPlace](),
		"ClientNotification":                          typeOf[notification[mcp.CancelledParams]](),
		"CompleteResultResponse":                      typeOf[inPlace](),
		"CreateMessageRequest":                        typeOf[question[mcp.CreateMessageParams]](),
		"DiscoverRequest":                             typeOf[inPlace](),
		"DiscoverResult":                              typeOf[inPlace](),
		"DiscoverResultResponse":                      typeOf[inPlace](),
		"ElicitRequest":                               typeOf[question[mcp.ElicitParams]](),
		"GetPromptResultResponse":                     typeOf[inPlace](),
		"HeaderMismatchError":                         typeOf[inPlace](),
		"InputRequest":                                typeOf[mcp.InputRequest](),
		"InputRequests":                               typeOf[mcp.InputRequests](),
		"InputRequiredResult":                         typeOf[mcp.InputRequiredResult](),
		"InputResponse":                               typeOf[union](),
		"InputResponseRequestParams":                  typeOf[mcp.CallToolParams](),
		"InputResponses":                              typeOf[mcp.InputResponses](),
		"InternalError":                               typeOf[mcp.Error](),
		"InvalidParamsError":                          typeOf[mcp.Error](),
		"InvalidRequestError":                         typeOf[mcp.Error](),
		"JSONArray":                                   typeOf[json.RawMessage](),
		"JSONObject":                                  typeOf[mcp.Object](),
		"JSONValue":                                   typeOf[json.RawMessage](),
		"ListPromptsResultResponse":                   typeOf[inPlace](),
		"ListResourceTemplatesResultResponse":         typeOf[inPlace](),
		"ListResourcesResultResponse":                 typeOf[inPlace](),
		"ListRootsRequest":                            typeOf[inPlace](),
		"ListToolsResultResponse":                     typeOf[inPlace](),
		"MetaObject":                                  typeOf[mcp.Meta](),
		"MethodNotFoundError":                         typeOf[mcp.Error](),
		"MissingRequiredClientCapabilityError":        typeOf[inPlace](),
		"NotificationMetaObject":                      typeOf[mcp.Meta](),
		"PaginatedResult":                             typeOf[mcp.ListToolsResult](),
		"ParseError":                                  typeOf[mcp.Error](),
		"ReadResourceResultResponse":                  typeOf[inPlace](),
		"RequestMetaObject":                           typeOf[mcp.Meta](),
		"ResultMetaObject":                            typeOf[mcp.Meta](),
		"ResultType":                                  typeOf[mcp.ResultType](),
		"SubscriptionFilter":                          typeOf[mcp.SubscriptionFilter](),
		"SubscriptionsAcknowledgedNotification":       typeOf[notification[protocol.AcknowledgedParams]](),
		"SubscriptionsAcknowledgedNotificationParams": typeOf[protocol.AcknowledgedParams](),
		"SubscriptionsListenRequest":                  typeOf[inPlace](),
		"SubscriptionsListenRequestParams":            typeOf[inPlace](),
		"SubscriptionsListenResult":                   typeOf[inPlace](),
		"SubscriptionsListenResultMetaObject":         typeOf[mcp.Meta](),
		"SubscriptionsListenResultResponse":           typeOf[inPlace](),
		"UnsupportedProtocolVersionError":             typeOf[inPlace](),
	})
	return types
}
