// Command compare measures what a call costs a server, what it keeps of sessions and streams, and how it fares with clients that
// disturb others: troupe, beside handlers that do nothing and beside servers that are written with other libraries. docs/bench.md says what each of them is, and how to read the figures. bench/run runs it.
//
//	go run ./bench/compare [--rounds 5] [--seconds 3] [--servers NAMES] [--scenarios NAMES] [--name NAME] [--results DIR] [--plots DIR]
//
// Server and load generator (troupe bench) are processes of their own. Each server runs in each round, so that what slows
// the machine for minutes slows all of them; what counts is the ratio within a round.
//
// # Files
//
// From the top; most of what a file uses lies in its own line or below:
//
//	main  the rounds
//	draw table  what comes of it, for people
//	measure nodes held waiting beside run  one server under one load
//	result  what comes of that
//	server collect  what is measured, and built
//	process  a server that runs
//	scenario  the load
package main
