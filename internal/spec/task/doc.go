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
package task
