package transport

import (
	"net/http"
	"net/url"
	"strings"
)

// endpoint is one of a Handler's endpoints. They differ in their methods and in their bytes on the
// wire; all other code is the same.
type endpoint uint8

const (
	streamable       endpoint = iota // the Handler itself
	sseEndpoint                      // Handler.SSE
	messagesEndpoint                 // Handler.Messages
)

// allowsMethod reports whether the endpoint has method.
func (e endpoint) allowsMethod(method string) bool {
	switch method {
	case http.MethodOptions:
		return true
	case http.MethodPost:
		return e != sseEndpoint
	case http.MethodGet:
		return e != messagesEndpoint
	case http.MethodDelete:
		return e == streamable
	}
	return false
}

// allowHeader returns the value of Allow.
func (e endpoint) allowHeader() string {
	switch e {
	case sseEndpoint:
		return "GET, OPTIONS"
	case messagesEndpoint:
		return "POST, OPTIONS"
	}
	return "GET, POST, DELETE, OPTIONS"
}

// sessionParam is the query parameter that names the session of a message.
const sessionParam = "sessionId"

// siblingPath returns the escaped path of r with its last segment replaced. It reads the request
// line, since a mux may have cut off the start of r.URL.
func siblingPath(r *http.Request, last string) string {
	u, err := url.ParseRequestURI(r.RequestURI)
	if err != nil { // r did not come over a wire
		u = r.URL
	}
	path := u.EscapedPath()
	// A path that begins with two slashes would be the address of another host.
	return "/" + strings.TrimLeft(path[:strings.LastIndexByte(path, '/')+1], "/") + last
}

// sessionOf returns the session id of a message. It returns false unless there is exactly one, and
// it is valid.
func sessionOf(r *http.Request) (string, bool) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	ids := q[sessionParam]
	if err != nil || len(ids) != 1 || !isVisibleASCII(ids[0]) {
		return "", false
	}
	return ids[0], true
}

// isVisibleASCII reports whether s is a valid session id: one or more characters of 0x21 to 0x7E.
func isVisibleASCII(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < 0x21 || s[i] > 0x7e {
			return false
		}
	}
	return s != ""
}

// appendEndpoint appends the first event of a session's stream.
func appendEndpoint(dst []byte, messages, session string) []byte {
	dst = append(dst, "event: endpoint\ndata: "...)
	dst = append(dst, messages...)
	dst = append(dst, "?"+sessionParam+"="...)
	dst = append(dst, url.QueryEscape(session)...)
	return append(dst, "\n\n"...)
}

// appendMessage appends an event that carries one message.
func appendMessage(dst, data []byte) []byte {
	dst = append(dst, "event: message\ndata: "...)
	dst = appendLine(dst, data)
	return append(dst, "\n\n"...)
}
