// Package troupetest has a client for tests of one's own tools. It runs in the process of
// the test, over a pipe: no network, no port, no session to look after.
//
//	func TestGreet(t *testing.T) {
//		c := troupetest.Connect(t, newServer(), troupetest.Options{})
//		got, err := c.CallTool(t.Context(), "greet", map[string]any{"name": "Ada"})
//		if err != nil || troupetest.Text(got) != "Hello, Ada!" {
//			t.Errorf("greeted with %v, %v", got, err)
//		}
//	}
//
// The client speaks every revision of the protocol, the newest unless Options says
// otherwise. Questions of a handler, which are elicitation, sampling and roots, are
// answered by functions; where the revision has the request sent again with the answers
// (2026-07-28), the client does that. Progress, log messages and other notifications are
// passed to functions, in their order, before the answer of the call that they are of.
//
// # Virtual time
//
// [Test] runs a test in a bubble of testing/synctest: the time that a tool sleeps passes at
// once, and timeouts can be tested to the millisecond.
//
// # What it does not show
//
// The pipe is the stdio transport: there is one client at a time, without a principal and without
// HTTP headers, and calls are not limited by rate. A test of these serves the Runtime, which
// is an http.Handler, with net/http/httptest.
//
// # Goroutines
//
// The methods of [Client] may be called from any goroutine. The functions of [Options] that
// answer questions run one at a time, and may use the client. Those that see notifications
// run one after the other on the goroutine that reads, so they must not wait for the client.
// All that they have done before the answer of a call is seen by whoever has that answer.
package troupetest
