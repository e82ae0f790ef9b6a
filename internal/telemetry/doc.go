// Package telemetry is the runtime's own instrumentation, over the OpenTelemetry
// API: the duration of each operation by the MCP semantic conventions, a span
// for each where a trace context came with the request or a provider samples,
// and gauges of what a node holds. Attribute sets are built once per method and
// tool, never per request; without providers nothing is measured.
//
// All of it may be used from any goroutine.
package telemetry
