// Package telemetry tests what a runtime reports by the OpenTelemetry conventions for MCP: its spans,
// with their names, kinds, parents, links and attributes, and its metrics, as somebody sees them who
// gives it providers of OpenTelemetry's SDK.
package telemetry
