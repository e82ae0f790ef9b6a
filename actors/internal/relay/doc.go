// Package relay carries an HTTP exchange between two nodes: the node that has the client's connection, and the node
// where the call runs. The first one sends the request, in parts if it is large. The second one sends back what the
// call does with its exchange: each method is a frame.
//
//	client ── Near ◀── frames ── Far ── call
//	               ── credit ──▶
//
// Frames have numbers. A frame that is missing, and a node that is not heard for [Patience], break the exchange: it is
// never repaired, as the client can send its request again. At most [Window] bytes of frames are on their way; the
// others wait with the Far, whose queue is bounded like that of a connection.
//
// The package knows neither nodes nor calls, and sends nothing itself: its users give it letters, and get letters from
// it. Letters may be lost, doubled, late, in any order and malformed.
package relay
