// Package hosting joins a mounted server to its backends, the servers of others that it offers: what a list, a call, a
// question is there, and what of it a client gets.
//
//	client ──▶ actors.Call ──▶ Server.Call ──▶ Backends ──▶ an instance
//	                ▲                               │
//	                └── progress, logs, questions ◀─┘  in the order in which they came, before the answer
//
// # Guarantees
//
//   - Params and results are bytes of the client and of the backend. What changes is the name of an item that has a
//     prefix, and what the revision of the other side does not have; all other members stay as they are.
//   - What a backend says during a call goes to the client of that call and to nobody else, and what came before the
//     answer is sent before it. The backend never waits for a client: what is too much is dropped, counted and told.
//   - The client's answer to a question is used for that question alone. A second run of the call finds it under a key
//     that is made of the question itself.
//   - A backend's task is the end of the call that it was made of: its id leaves this package only to be remembered for
//     the next run of the call.
//   - Nothing of a call outlives it: questions that are open when the backend answers are withdrawn.
//
// # Goroutines
//
// All exported functions may be called from any goroutine. A call has goroutines of its own only while there is
// something to send, or a question is open.
package hosting
