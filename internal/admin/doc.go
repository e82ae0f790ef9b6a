// Package admin serves the operator of a running node, as package operator has it, the keys and revocations of its store, and its backends: HTTP over a UNIX
// socket in the node's data directory. Whoever may use the socket may see and end all of that, so its
// mode is 0600: it is for the user that runs the node, and for root. There is no other authentication, and no way to it from another machine.
//
// [Listen] serves the socket, [Client] asks it. A socket that a killed process left is replaced; one that somebody serves is not.
//
//	GET  /tasks?state=open&principal=&server=&limit=100&from=0  an [operator.TaskPage]: see [operator.Query], also for sessions and calls
//	GET  /tasks/{id}?result=true             an [operator.TaskDetail]; its result and the text of its questions only if they are asked for
//	POST /tasks/{id}/cancel                  cancels a task, as its client may
//	GET  /sessions                           an [operator.SessionPage]
//	GET  /sessions/{id}                      an [operator.Session], by its id or the tag that lists and logs have
//	POST /sessions/{id}/end                  ends a session, and its calls
//	GET  /calls                              an [operator.CallPage]: the calls in flight on the node
//	POST /calls/{id}/cancel                  ends a call
//	POST /principals/{principal}/end         ends all that a principal has: [operator.Ended]
//	GET  /keys                               every [Key]
//	POST /keys                               makes the one of a [KeyRequest]: [NewKey]
//	POST /keys/{key}/rotate                  gives it another secret, by a [Rotation]: [NewKey]
//	POST /keys/{key}/revoke                  ends it
//	GET  /revocations                        every [Revocation]
//	POST /revocations                        makes the one of a [RevocationRequest]
//	DELETE /revocations/{id}                 takes it back
//	GET  /backends                           every [Backend] of the node
//	GET  /backends/{name}                    a [BackendDetail]
//	GET  /backends/{name}/log?from=          a [BackendLog]
//	POST /backends/{name}/restart?now=false  has new instances take the place of those of a backend: [BackendRestart]
//	GET  /nodes                              every [operator.Node] of the fleet
//	GET  /drain                              how far the node is with its end: [operator.Draining]
//	POST /drain                              begins that
//
// An error is an object with the member "error". Those of package operator and of this one begin with their texts, and have the status 404, 409
// or 400; any other has 503.
//
// Any goroutine may call the functions and methods.
package admin
