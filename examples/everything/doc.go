// Package everything is a server that shows every feature of troupe at least
// once. It is the demo that the command troupe serves, with tools to try by hand, such as echo, count, sleep, ask and tick. NewConformance adds the tools
// that the official conformance suite calls; its resources and prompts are there
// in any case. The file tools.txt lists the tools, for the tests of this package
// and of the clients that call them. The tests of this package lie with the command that
// serves the demo, in cmd/troupe/demo_*_test.go: each program of tests links the runtime.
//
// The constructors may be called any number of times; the servers share nothing.
package everything
