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
package main
