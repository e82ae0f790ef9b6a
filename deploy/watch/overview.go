package main

// The durations of requests. Notifications and pings are left out where the rules of the objectives leave them out.
const (
	operations = "mcp_server_operation_duration_seconds"
	requests   = `mcp_method_name!~"notifications/.*|ping"`
)

// overview is what to look at first.
func overview() *dashboard {
	d := newDashboard("troupe-overview", "Troupe: overview", "What all processes together do, and whether it is well.")
	d.heading("Now")
	d.figure("Processes", "short", "Processes that Prometheus reads.", "count("+of("troupe_calls_in_flight")+")")
	d.figure("Away", "short", "Processes that were lost and not replaced, as the others see it.", highest("", of("troupe_leases", `state="late"`)))
	d.figure("Without a lease", "short", "Processes that cannot reach the store: their clients get 503.", sum("", of("troupe_lease_suspended_ratio")))
	d.figure("Answered", "reqps", "Requests a second that were answered.", sum("", rate(operations+"_count", requests)))
	d.figure("Sessions", "short", "Sessions in the memory of the processes; the store may have more.", sum("", of("troupe_sessions_active")))
	d.figure("Alerts", "short", "Alerts of Troupe that fire. docs/runbook.md has an entry for each.", `sum(ALERTS{alertname=~"Troupe.*", alertstate="firing"}) or vector(0)`)

	d.heading("Requests")
	d.lines("Requests", "reqps", "Requests a second by their method.", query{sum("mcp_method_name", rate(operations+"_count", requests)), "{{mcp_method_name}}"})
	d.lines("Failed requests", "reqps", "Requests a second that failed, by method and error_type: tool_error is a tool's own error, -32603 and -32010 are faults of the service, others are mistakes of clients (docs/errors.md).",
		query{sum("mcp_method_name, error_type", rate(operations+"_count", `error_type!=""`)), "{{mcp_method_name}} {{error_type}}"})
	d.lines("Turned away", "reqps", "Requests a second that were not begun: limits by their reason (docs/limits.md), and unavailable where the store did not answer or the process was ending.",
		query{sum("reason", rate("troupe_refusals_total")) + " > 0", "{{reason}}"}, query{sum("reason, http_response_status_code", rate("troupe_http_refused_total")), "{{reason}} ({{http_response_status_code}})"})
	d.lines("Duration", "s", "How long requests take, calls of tools with their handlers.", quantiles(operations, requests)...)
	d.lines("Revisions", "reqps", "Requests a second by the revision of the protocol and the transport.", query{sum("mcp_protocol_version, network_transport", rate(operations+"_count", requests)), "{{mcp_protocol_version}} {{network_transport}}"})
	d.lines("Questions to clients", "s", "How long clients take to answer what calls ask them.", quantiles("mcp_client_operation_duration_seconds")...)

	d.heading("Objectives (needs the rules of deploy/prometheus)")
	d.lines("Failures", "percentunit", "The part of requests that fail by a fault of the service, over several times. The objective is 0.1 % over 30 days.",
		query{`job:troupe_requests_failed:ratio_rate5m{job=~"$job"}`, "5 min"}, query{`job:troupe_requests_failed:ratio_rate1h{job=~"$job"}`, "1 h"},
		query{`job:troupe_requests_failed:ratio_rate6h{job=~"$job"}`, "6 h"}, query{`job:troupe_requests_failed:ratio_rate3d{job=~"$job"}`, "3 d"})
	d.lines("Slow requests", "percentunit", "The part of requests that take more than a second, or calls of tools that take more than ten. The objective is 1 % over 30 days.",
		query{`job:troupe_requests_slow:ratio_rate5m{job=~"$job"}`, "5 min"}, query{`job:troupe_requests_slow:ratio_rate1h{job=~"$job"}`, "1 h"},
		query{`job:troupe_requests_slow:ratio_rate6h{job=~"$job"}`, "6 h"}, query{`job:troupe_requests_slow:ratio_rate3d{job=~"$job"}`, "3 d"})
	d.lines("Left of the month's failures", "percentunit", "What three days at this rate would leave of the failures that the objective allows in 30 days.",
		query{`1 - job:troupe_requests_failed:ratio_rate3d{job=~"$job"} / 0.001 * 3 / 30`, "of failures"}, query{`1 - job:troupe_requests_slow:ratio_rate3d{job=~"$job"} / 0.01 * 3 / 30`, "of slow requests"})

	d.heading("In use")
	d.lines("Calls", "short", "Calls in flight, and those that wait for their clients: parked ones (2026-07-28) and pending questions (sessions).",
		each("", "troupe_calls_in_flight", "in flight", "troupe_calls_parked", "parked", "troupe_requests_pending", "pending questions")...)
	d.lines("Sessions and streams", "short", "Sessions in memory, event streams that the processes write, and those with a connection.",
		each("", "troupe_sessions_active", "sessions", "troupe_streams_open", "streams", "troupe_connections_open", "connections")...)
	d.lines("Tasks", "short", "Tasks whose handlers run, wait for their clients, or wait for a place; and all that have not ended.",
		each("", "troupe_tasks_running", "running", "troupe_tasks_waiting", "waiting for clients", "troupe_tasks_queued", "queued", "troupe_tasks_open", "open")...)
	return d
}
