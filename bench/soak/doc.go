// Command soak runs a real troupe process, does it harm, and checks from
// outside that every promise to its clients is kept.
//
//	soak kill   kills the process over and over while clients of both eras work
//	soak stop   stops it past its lease and lets it go on
//	soak cancel measures how soon a handler ends when its client has gone away
//
// A run ends with 1 and the story of the stream concerned as soon as a promise
// is broken. What happens when is drawn from a seed; real time does the rest.
package main
