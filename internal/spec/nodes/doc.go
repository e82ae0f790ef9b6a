// Package nodes tests several runtimes on the same NATS server, over the wire: a client may send each request to any of them.
//
// # Files
//
//	main_test.go   the nodes and their clients
//	news_test.go   what a client is told that listens at one node, of what happens at another
//	question_test.go   calls whose questions are answered at other nodes, and how long that takes
//	task_test.go   tasks that one node runs and others are asked for
package nodes
