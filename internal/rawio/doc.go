// Package rawio reads and writes what is not waited for, without word to Go's scheduler.
//
// Before a system call of a program Go notes that its thread may be gone for a while. Where the process had nothing to
// do, that wakes the monitor, a thread that then looks every 20 µs for calls that take long: a server that mostly waits
// pays for it with each message. A call that the system refuses in place of waiting needs none of it. Waiting is left to
// Go's poller, as ever, and deadlines hold.
//
// A call that waited nevertheless would keep a processor, and hold up every collection of garbage. So sockets are told
// with each call not to wait, and of a pipe the caller knows that its end is non-blocking.
package rawio
