// Package troupetest has a client for tests of one's own tools. It runs in the process of
// the test, over a pipe: a test needs no network, no port and no session.
//
//	func TestGreet(t *testing.T) {
//		c := troupetest.Connect(t, newServer(), troupetest.Options{})
//		got, err := c.CallTool(t.Context(), "greet", map[string]any{"name": "Ada"})
//		if err != nil || troupetest.Text(got) != "Hello, Ada!" {
//			t.Errorf("greeted with %v, %v", got, err)
//		}
//	}
//
// The client speaks every revision of the protocol; the default of Options is the newest that the server speaks.
// Functions in Options answer the questions of a handler: elicitation, sampling and
// roots. Where the revision has the request sent again with the answers (2026-07-28), the
// client does that. Functions also get progress, log messages and other notifications, in
// their order, before the call that sent them returns.
//
// # Virtual time
//
// [Test] runs a test in a bubble of testing/synctest: a tool's sleep passes at once, and
// timeouts can be tested to the millisecond.
//
// # What it does not show
//
// The pipe is the stdio transport: there is one client at a time, calls are not limited
// by rate, and of HTTP there is only the Header and the Principal of [Options]: no status
// and no Options.Middleware. To test these, serve the
// Runtime, which is an http.Handler, with net/http/httptest.
//
// # Goroutines
//
// The methods of [Client] may be called from any goroutine. The functions of [Options]
// that answer questions run one at a time, and may use the client. The functions that get
// notifications run one after the other on the goroutine that reads, so they must not
// wait for the client. They have returned before the call that sent the notifications
// returns.
package troupetest
