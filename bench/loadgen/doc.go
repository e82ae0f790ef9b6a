// Package loadgen puts load on a server of the Model Context Protocol over streamable HTTP, and
// measures what comes of it. The command troupe bench is made of it; docs/bench.md says how to read
// the figures.
//
// [Run] has clients do a [Scenarios] over and over, each on connections of its own, in a closed
// loop or at a rate. Latencies of a rate count from when an operation was due, not from when a
// client was free to begin it: otherwise a server that stands still would be asked less just then,
// and look fast (coordinated omission). Each answer is checked; one that is wrong is an error.
//
// Some scenarios are no loop: they keep many sessions or streams, cut and resume streams, or have
// clients echo alone and then beside one that disturbs them.
package loadgen
