// Package hosted asks a client a question that the client hosts as a task of its own (2025-11-25,
// basic/utilities/tasks): the client says at once that it has the question, and is asked how it stands with it until there
// is an answer. Here the server is the requestor, and the client the receiver.
//
//	question with params.task ──▶ a task     ──▶ tasks/get … tasks/get ──▶ tasks/result ──▶ the answer
//	                        └───▶ the answer, of a client that takes no task, or an error
//
// # Guarantees
//
//   - The outcome is what the question would have been answered with without a task.
//   - A client has one request of a question at a time, however long that takes.
//   - Nobody waits for longer than the lifetime that was asked for, whatever the client says of its task.
//   - A task that nobody waits for any more is cancelled at its client, if the client can do that. It is not where another
//     process goes on with the call: that finds the task in the log, and asks for it.
//
// # Goroutines
//
// Host.Ask may be called by several goroutines. Watch is safe for any use.
package hosted
