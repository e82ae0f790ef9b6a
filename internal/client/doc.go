// Package client is a client of any MCP server over Streamable HTTP, in every revision of the protocol. It calls tools and lists them; troupe call
// and troupe tools are its commands.
//
// # Guarantees
//
// A request is sent again only where it was not carried out: the connection was refused, or the server said that it may come again (429 or 503,
// or an error with retryAfterMs). Requests that only read are repeated after any loss. The answer to a call of a session is fetched from its
// event stream, which is resumed for as long as the server keeps it; a call that became a task is followed to the task's end, whoever runs it. Any
// other call whose connection ends before its answer is [ErrLost]: it may have taken effect.
//
// What a server sends is bounded ([MostBytes]), and none of it is trusted: the client follows no redirect, as the next server would get the
// token, and answers no question but by [Options.Answer].
//
// A Client belongs to one goroutine, which also runs the functions of Options.
package client
