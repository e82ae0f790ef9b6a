// Package histories runs random histories: a plan is drawn from a seed and happens, a judge says what was wrong, and the
// plan of a history that is wrong is made smaller, kept and told of. It is for tests.
//
// What happens is up to its users, of which there are two: actors/recovery has nodes on a model of the store, and
// test/spec/histories whole nodes on a NATS server. Each is a [Harness] of its own plans.
//
// The fields of a plan say how it may be made smaller:
//
//	`shrink:"any"`   a slice, whose elements may all be left out
//	`shrink:"one"`   a slice, of whose elements one is left
//	`shrink:"zero"`  a value that may be zero instead
//
// A Harness is used by one test at a time. A [Tape] may be used from any goroutine.
package histories
