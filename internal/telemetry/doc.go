// Package telemetry is the runtime's own instrumentation, over the OpenTelemetry API. It
// measures the duration of each operation by the MCP semantic conventions, makes a span for
// each if a trace context came with the request or a provider samples, and registers the gauges of
// what a node holds. Attribute sets are built once per method and tool, never per request. Without
// providers nothing is measured. Logs and spans show hashes in place of the ids of sessions and
// streams.
//
// Any goroutine may use all of it.
package telemetry
