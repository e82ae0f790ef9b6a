package troupe

import (
	"reflect"
	"sync"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/task"
	"github.com/troupe-run/troupe/internal/worker"
	"github.com/troupe-run/troupe/mcp"
)

// pretouch compiles the codec of types before the first call needs it.
func pretouch(types ...reflect.Type) {
	for _, t := range types {
		if t.Kind() == reflect.Struct || t.Kind() == reflect.Pointer {
			_ = codec.Pretouch(t) // a type that fails here is compiled, or refused, at its first use
		}
	}
}

// resultTypes compiles the codec of results before the first call of any tool.
var resultTypes = sync.OnceFunc(func() {
	pretouch(reflect.TypeFor[mcp.CallToolResult](), reflect.TypeFor[*mcp.TextContent]())
})

// fleetTypes compiles the codec of what a node of a fleet stores, sends to other nodes and exchanges with clients, once in a process.
// The first use of each of these types takes milliseconds, and tens of them on a busy machine. A call that asks two questions has a
// dozen of them, and has them again on each node that is new, because each answer may come to another one.
var fleetTypes = sync.OnceFunc(func() {
	resultTypes()
	pretouch(actors.Types()...)
	pretouch(
		reflect.TypeFor[mcp.InitializeParams](), reflect.TypeFor[mcp.ClientCapabilities](), reflect.TypeFor[mcp.InitializeResult](),
		reflect.TypeFor[storedCaller](),
		reflect.TypeFor[mcp.Error](), reflect.TypeFor[mcp.LogParams](),
		reflect.TypeFor[mcp.ElicitForm](), reflect.TypeFor[mcp.ElicitURL](), reflect.TypeFor[mcp.ElicitResult](),
		reflect.TypeFor[mcp.CreateMessageParams](), reflect.TypeFor[mcp.CreateMessageResult](), reflect.TypeFor[mcp.ListRootsResult](),
		reflect.TypeFor[mcp.InputRequest](), reflect.TypeFor[mcp.InputRequiredResult](),
		reflect.TypeFor[mcp.ReadResourceResult](), reflect.TypeFor[mcp.GetPromptResult](),
		reflect.TypeFor[mcp.CompleteParams](), reflect.TypeFor[mcp.CompleteResult](),
		reflect.TypeFor[task.Record](), reflect.TypeFor[worker.Request](), reflect.TypeFor[worker.Step](),
		reflect.TypeFor[mcp.CreateTaskResult](), reflect.TypeFor[mcp.CreatedTask](), reflect.TypeFor[mcp.DetailedTask](), reflect.TypeFor[mcp.GetTaskResult](),
	)
})
