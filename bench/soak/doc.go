// Command soak runs a real troupe process, does it harm, and checks from
// outside that every promise to its clients is kept.
//
//	soak kill   kills the process over and over while clients of both eras work
//	soak stop   stops it past its lease and lets it go on
//	soak balance restarts two processes in turn behind nginx and HAProxy
//	soak restart restarts one process in order while a safe call runs
//	soak cancel measures how soon a handler ends when its client has gone away
//	soak recovery has many histories of the property test in actors/recovery happen,
//	            which need no process and no real time
//
// A run ends with 1 and the story of the stream concerned as soon as a promise
// is broken. What happens when is drawn from a seed; real time does the rest.
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
