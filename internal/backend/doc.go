// Package backend runs the servers of others that a node offers: it starts and ends their instances as the machine of
// package pool decides, lends them to calls, and knows what each backend lists.
//
//	b := backend.New(backend.Config{Kernel: k, PoolKind: pools, InstanceKind: instances, Processes: processes})
//	b.Configure([]backend.Backend{{Name: "memory", Digest: digest, Target: target, Options: options}})
//	response, err := b.Call(ctx, "memory", caller, backend.Request{Method: "tools/call", Params: params})
//
// # Actors
//
// One actor has the pool: all that happens to instances and to calls that want one is a message to it, and it carries
// out what the machine decides. Each instance is an actor, too: it knows which calls run on it, and whose is what the
// instance says beside answers. A goroutine for each instance opens its connection, asks for its lists, and ends it.
//
//	Call ──want──▶ pool ──give──▶ instance ──▶ upstream.Conn
//	                 ▲                │ says something beside an answer
//	     ready, failed, exited        └──▶ the call that it belongs to, or Config.Heard
//
// # Whose is what
//
// Over HTTP the stream tells it. Over lines nothing does: what an instance says while one call may be asked is that
// call's; an instance of a session is the session's in any case, and what comes goes to the call that began last, so that
// a client that listens nowhere else gets it. What belongs to nobody is refused, if it is a question, and dropped.
//
// # Lists
//
// What instances list is remembered for each [pool.Kind], stored by the digest of the configuration, and compared with
// what each instance lists once it is ready and whenever it says that a list has changed. Where the instance of one
// holder lists otherwise, that holder sees it.
//
// # Lives that outlast a process
//
// A process that a keeper has goes on when this one ends. Its note says whose it is and what was settled with it, so
// that the next process adopts it: [Backends.Configure] does that before any call gets an instance. Calls that were in
// flight then are lost to their callers.
//
// All exported functions and methods may be called from any goroutine.
package backend
