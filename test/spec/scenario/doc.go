// Package scenario has a client do what the client scenarios of the official conformance suite ask of one, by way of a server of Troupe that hosts the
// scenario's server at its URL. What the suite then judges is the client half of hosting: the client of the tests is in its process, and never speaks to
// the suite itself. .ci/conformance/clients runs the suite, which runs the test for each scenario.
package scenario
