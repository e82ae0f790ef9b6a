// Package admin lets an operator look at a running node, the others that share its store, their sessions and tasks, end these, and
// drain the node: HTTP over a UNIX socket in the node's data directory. Whoever may use the socket may see and end all of that, so its
// mode is 0600: it is for the user that runs the node, and for root. There is no other authentication, and no way to it from another machine.
//
// [Listen] serves the socket, [Client] asks it. A socket that a killed process left is replaced; one that somebody serves is not.
//
//	GET  /tasks?state=open&limit=100&from=0  a [Page] of tasks, in the order in which they last changed
//	GET  /tasks/{id}?result=true             a [Detail]; its result and the text of its questions only if they are asked for
//	POST /tasks/{id}/cancel                  cancels a task, as its client may
//	GET  /sessions?limit=100&from=0          a [SessionPage]
//	GET  /sessions/{id}                      a [Session], by its id or the tag that lists and logs have
//	POST /sessions/{id}/end                  ends a session, as its client may
//	GET  /keys                               every [Key]
//	POST /keys                               makes the one of a [KeyRequest]: [NewKey]
//	POST /keys/{key}/rotate                  gives it another secret, by a [Rotation]: [NewKey]
//	POST /keys/{key}/revoke                  ends it
//	GET  /revocations                        every [Revocation]
//	POST /revocations                        makes the one of a [RevocationRequest]
//	DELETE /revocations/{id}                 takes it back
//	GET  /nodes                              every [Node] of the fleet
//	GET  /drain                              how far the node is with its end: [Draining]
//	POST /drain                              begins that
//
// An error is an object with the member "error", which begins with the text of [ErrUnknown], [ErrNoSession], [ErrNoKey] or [ErrNoRevocation] and has the status 404,
// or of [ErrEnded], [ErrDraining], [ErrKey] or [ErrRevocation] with 409, or is another one.
//
// Any goroutine may call the functions and methods.
package admin
