// Package bench holds what measures and torments a running troupe from outside,
// over the wire: it shares no code with the server but what a client would have. Mutate
// alone looks at the code itself.
//
//	client   a raw MCP client that records every event it gets
//	load     server CPU of calls beside a handler that does nothing, and the memory of
//	         those who wait
//	mutate   breaks a rule of the code at a time, and says which the tests do not notice
//	record   figures with the command and the commit that gave them
//	soak     runs against real processes that are killed and stopped
//
// Nothing here is imported by the server.
package bench
