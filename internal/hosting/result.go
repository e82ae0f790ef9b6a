package hosting

import (
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/internal/upstream"
	"github.com/troupe-run/troupe/mcp"
)

// resultFor returns a complete result of a backend as a client of the revision may have it. It keeps its bytes but for members of the
// newer era where the revision is of the older one, or where they are none: a backend of the older era that lets them slip out means
// nothing by them. What does not read as the specification has it stays as it is.
func resultFor(method string, result []byte, from, r mcp.Revision) []byte {
	if kind := codec.Field(result, "resultType"); kind != nil && !codec.SameString(kind, string(mcp.ResultComplete)) {
		result = Without(result, "resultType", "inputRequests", "requestState")
	}
	if r.Stateless() {
		return result
	}
	result = Without(result, "resultType", "ttlMs", "cacheScope")
	if meta := codec.Optional(result, "_meta"); codec.Field(meta, mcp.MetaServerInfo) != nil {
		if meta = Without(meta, mcp.MetaServerInfo); len(meta) == len("{}") {
			meta = nil
		}
		result = WithMember(result, "_meta", meta)
	}
	if r >= from && from != 0 {
		return result
	}
	out, err := result, error(nil)
	switch method {
	case mcp.MethodToolsCall:
		out, err = projected(result, r, func(v mcp.CallToolResult, r mcp.Revision) (mcp.CallToolResult, error) {
			return *protocol.CallResultFor(&v, r), nil
		})
	case mcp.MethodPromptsGet:
		out, err = projected(result, r, func(v mcp.GetPromptResult, r mcp.Revision) (mcp.GetPromptResult, error) {
			return *protocol.PromptResultFor(&v, r), nil
		})
	case mcp.MethodResourcesRead:
		out, err = projected(result, r, func(v mcp.ReadResourceResult, r mcp.Revision) (mcp.ReadResourceResult, error) {
			return protocol.ReadResultFor(v, r), nil
		})
	}
	if err != nil {
		return result
	}
	return out
}

// errorOf returns the error of a response: the backend's code, message and data.
func errorOf(r *upstream.Response) *mcp.Error {
	e := r.Err()
	if raw := codec.Optional(r.Error, "data"); raw != nil {
		e.Data = raw
	}
	return e
}
