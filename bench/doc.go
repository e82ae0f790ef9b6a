// Package bench has programs that measure and torment a running troupe from outside,
// over the wire: they share no code with the server except what a client would have. Only
// mutate works on the code itself, and the tests of cost with a server in their own process.
//
//	client   a raw MCP client that records every event it gets
//	compare  troupe beside other libraries and a handler that does nothing: calls, memory,
//	         clients that disturb others; bench/run runs it
//	cost     a search for messages that cost a server most for each of their bytes
//	lab      servers that programs and tests need beside troupe serve
//	loadgen  the load of troupe bench, which every measurement over the wire uses
//	mutate   breaks one promise of README at a time, and names the breaks that the tests miss
//	peers    one tool with each of those libraries, in a module of its own; and the codec
//	         beside other JSON libraries
//	record   figures with the command and the commit that gave them
//	soak     runs against real processes that are killed and stopped
//
// The server imports nothing of it.
package bench
