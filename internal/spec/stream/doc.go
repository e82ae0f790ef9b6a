// Package stream tests the event streams of Streamable HTTP: when a call becomes one, how a client resumes one from any
// event, and what the standalone stream carries.
package stream
