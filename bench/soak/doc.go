// Command soak runs real troupe processes, kills, stops or restarts them, and checks
// from outside that they keep every promise to their clients.
//
//	soak kill   kills the process over and over while clients of both eras work
//	soak stop   stops it past its lease and lets it go on
//	soak balance restarts two processes in turn behind nginx and HAProxy
//	soak restart restarts one process in order while a safe call runs
//	soak cancel measures how soon a handler ends when its client has gone away
//	soak recovery runs many histories of the property test in actors/recovery, which
//	            need no process and no real time
//
// As soon as a promise is broken, a run ends with exit code 1 and prints the history of
// the stream concerned. A seed decides what happens when; real time adds the rest.
//
// # Files
//
// From the top; most of what a file uses lies in its own line or below:
//
//	restart stop balance cancel kill recovery  the scenarios
//	stateless batch listener parked replay ask standalone  what their clients do
//	probe call signals follow verdict driver world  how that is done and judged
//	main process  the program, and the one that it tries
package main
