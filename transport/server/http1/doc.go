// Package http1 serves HTTP/1.1 to any http.Handler at about half the cost of net/http, for the requests that clients of an API send all day:
// a method, a path, a length, and the same headers each time. Whatever else comes (other versions, chunked bodies, Expect, Upgrade, a header
// that is large or malformed) goes to the http.Server behind it with all bytes that were read, before anything was answered, and that server has the
// connection from then on. So net/http is the authority on everything that is unusual, and this package decides nothing about it.
//
//	            plain requests, one after the other
//	accept ──▶ conn ──────────────────────────────────▶ closed
//	            │  ▲                     │ Hijack
//	            │  │ next request        ▼
//	            │  └──────── call ──▶ the handler has it
//	            │ anything else
//	            ▼
//	        http.Server
//
// # What a handler sees
//
// The same as from net/http: Hijack, Flush, deadlines by http.ResponseController, a context that is done when the client is gone or the
// handler has returned, http.ErrAbortHandler, and the hooks BaseContext, ConnContext, ConnState and ErrorLog of the http.Server. It differs in this:
//
//   - Request.Header is shared with other requests of the connection whose headers are the same. If a handler changes it before it returns, the
//     next request gets another one; later it must not be changed. It does not have Content-Length, which Request.ContentLength tells.
//   - That the client is gone is noticed within 50 ms, and only if somebody waits for it (Done, AfterFunc, or Err more than once). A call that is
//     over before that costs no goroutine and no system call for it.
//   - The map of ResponseWriter.Header is another call's once the handler has returned, and what it writes then is an error.
//   - There are no informational responses, no trailers, and no EnableFullDuplex.
//   - WriteTimeout and ReadTimeout of the http.Server do not apply: the handler sets the deadlines of its response and of a body.
//
// Responses have a Content-Length if the handler sets one or returns before it has written 2048 bytes, and are chunked otherwise (RFC 9112,
// 7.1), as those of net/http.
package http1
