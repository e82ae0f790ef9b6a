package client

import (
	"encoding/json"
	"net/http"
)

// request is a request to the server.
type request struct {
	method string
	params map[string]json.RawMessage
	about  string      // the tool or the task; "" for no such thing
	header http.Header // beside those of every request
	reads  bool        // it may be carried out twice
}

// taskRequest is a request about a task. Each of them may come twice.
func taskRequest(method, id string, params map[string]json.RawMessage) request {
	if params == nil {
		params = map[string]json.RawMessage{}
	}
	params["taskId"] = encodeRaw(id)
	return request{method: method, params: params, about: id, reads: true}
}
