// Package everything is a server that shows every feature of troupe at least
// once. It has the tools, resources and prompts that the official conformance
// suite calls, whose names begin with test_, and a few of its own that are good
// to try by hand: echo, count, sleep, ask and tick.
//
// New may be called any number of times; the servers share nothing.
package everything
