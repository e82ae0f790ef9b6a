// Package loadgen puts load on a server of the Model Context Protocol over streamable HTTP, and measures what comes of it. The command
// troupe bench is made of it; docs/bench.md says how to read the figures.
//
// [Run] has clients do a [Scenarios] over and over, each on connections of its own, in a closed loop or at a rate. Latencies of a rate
// count from when an operation was due, not from when a client was free to begin it: otherwise a server that stands still
// would be asked less just then, and look fast (coordinated omission). Each answer is checked; one that is wrong is an error.
//
// # Files
//
// From the top; most of what a file uses lies in its own line or below:
//
//	run  the loop
//	scenario  what a client does
//	client events  how it speaks
//	report usage  what is counted
//	options failure  what a user says, and what goes wrong
package loadgen
