// Command compare measures what a call costs a server, what it keeps of sessions and streams, and
// how it fares with clients that disturb others: troupe, beside handlers that do nothing and beside
// servers that are written with other libraries. docs/bench.md says what each of them is, and how
// to read the figures. bench/run runs it.
//
//	go run ./bench/compare [--rounds 5] [--seconds 3] [--servers NAMES] [--scenarios NAMES] [--name NAME] [--results DIR]
//
// Server and load generator (troupe bench) are processes of their own. Each server runs in each
// round, so that what slows the machine for minutes slows all of them; what counts is the ratio
// within a round.
package main
