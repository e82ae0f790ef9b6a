// Package kernel is the actor system of one process: actors with a mailbox each,
// answers to messages, and directories of live actors. It knows nothing of what its
// actors do. protoactor-go gives it the registry of names, dead letters, supervision
// and the way to other nodes, and is used nowhere else.
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
// # Names and other nodes
//
// An actor's [PID] is the name of its node, its kind and its key. [Kernel.Send] and [Ask]
// reach the actor by it, on this node or on another. Messages for other nodes leave by the
// [Remote] of the [Config]; those that come in go to [Kernel.Deliver]. If a message reaches
// no actor, its sender gets [ErrUnreachable]: as the error of Ask, or through [Refusable].
// A [Directory] is the short way to an actor of this process, without a name to build and
// look up; docs/design/011 has the figures.
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
// usually finds the answer there when Post returns. [Ask] sends to a PID and waits for an
// answer with a context. A message that is [Refusable] learns when the actor stops before
// handling it.
//
// # Goroutines
//
// All exported functions and methods are safe for concurrent use unless they say
// otherwise. The kernel keeps no goroutine for an idle actor. docs/design/001 says why
// the mailbox is not protoactor's.
//
// # Files
//
// From the top; most of what a file uses lies in its own line or below:
//
//	config directory  a kernel, and the actors of one kind by key
//	actor panic process  an actor, what follows its panics, and how protoactor sees it
//	ask remote reply  answers, and messages of other nodes
//	send kernel system  what becomes of a message; names and counts; protoactor's system
package kernel
