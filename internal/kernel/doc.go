// Package kernel is the actor system of one process: actors with a mailbox each,
// answers to messages, and directories of live actors. It knows nothing of what its
// actors do. protoactor-go gives it the supervision, and is used nowhere else.
//
// # Actors
//
// A type becomes an actor by embedding [Actor] and implementing [Behaviour]:
//
//	type counter struct {
//		kernel.Actor
//		n int
//	}
//
//	func (c *counter) Receive(m any)     { c.n++ }
//	func (c *counter) Failed(any, bool) {}
//
//	const counters kernel.Kind = 0
//	k := kernel.New(kernel.Config{Log: logger, Kinds: []string{"counter"}})
//	c := &counter{}
//	k.Start(&c.Actor, counters, "visits", c)
//	err := c.Post("one more")
//
// An actor handles one message at a time, in the order in which its mailbox got them
// (messages of one sender keep their order). [Actor.Post] to an idle actor handles
// the message on the sender's goroutine, so that it costs no hand-off and usually no
// waiting. A message to a busy actor waits in its mailbox, and the goroutine that runs the
// actor handles it; after 64 messages a new goroutine takes over from a sender.
//
//	Start ──▶ idle ◀──▶ running ──▶ stopped        Stop, StopIdle, the third panic within a minute
//
// An actor is found by the key of what it stands for, in a [Directory] of its owner. It has no name for other
// nodes: docs/design/001 says why.
//
// # Rules for actors
//
// Receive may run on any goroutine. It never blocks: slow work runs in a goroutine
// of its own and posts its outcome as a message. It takes no lock that a sender may
// hold. A mailbox takes any number of messages whose senders wait; it refuses [Bulk]
// messages from 16,384 on.
//
// The kernel contains a panic of Receive: it logs and counts the panic, and asks
// protoactor's one-for-one strategy how to go on. [Behaviour.Failed] completes what others
// wait for, and the actor goes on; at the third panic within a minute ([PanicLimit]) it
// ends.
//
// # Answers
//
// A message that embeds [Reply] carries its answer: the sender posts it and waits, and
// usually finds the answer there when Post returns. A message that is [Refusable] learns
// when the actor stops before handling it.
//
// # Goroutines
//
// All exported functions and methods are safe for concurrent use unless they say
// otherwise. The kernel keeps no goroutine for an idle actor. docs/design/001 says why
// the mailbox is not protoactor's.
package kernel
