// Package task tests durable tasks over the wire: those of 2025-11-25, which are a part of the protocol, and those of the
// extension io.modelcontextprotocol/tasks, which took their place in 2026-07-28. A task is one thing with two faces, so the
// tests make it with one of them and look at it with the other, too.
//
// # Files
//
//	main_test.go       the tools, the clients of both faces, steps, and tasks that take long
//	core_test.go       2025-11-25
//	extension_test.go  2026-07-28, what each revision is told of tasks, and tasks that are read in both
//	input_test.go      questions of tasks, in both
//	listen_test.go     what clients are told unasked
//	promise_test.go    what both texts require beside that, a statement a test
//	content_test.go    results of each type of content, read in both
//	waiting_test.go    many tasks that wait for their clients
//	bad_test.go        requests that make no sense; testdata/bad.txt has the answers
//	hosted_test.go     questions that clients of 2025-11-25 host as tasks of theirs
//	hosted_end_test.go what ends such a question, and what goes on
//	trace_test.go      what spans tell of them
//	limits_test.go     how many there may be, and how large
package task
