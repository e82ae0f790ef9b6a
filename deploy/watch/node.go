package main

// node is what each process is made of.
func node() *dashboard {
	d := newDashboard("troupe-node", "Troupe: node", "What each process uses, and how it stands with the others.")
	d.heading("The process")
	d.lines("Processor", "none", "Processors that the process keeps busy.", query{sum("instance", rate("process_cpu_seconds_total")), "{{instance}}"})
	d.lines("Memory", "bytes", "Memory of the process, and what of its heap was live after the last collection.",
		each("instance", "process_resident_memory_bytes", "resident", "go_gc_heap_live_bytes", "live")...)
	d.lines("Goroutines", "short", "Goroutines, a few for each connection.", each("instance", "go_goroutines", "")...)
	d.lines("Files", "short", "Open files and connections, and how many there may be.", each("instance", "process_open_fds", "open", "process_max_fds", "at most")...)
	d.lines("Pauses", "s", "The longest pause of a collection of garbage.", query{highest("instance", of("go_gc_duration_seconds", `quantile="1"`)), "{{instance}}"})
	d.lines("Time since the start", "s", "A line that falls is a restart.", query{"time() - " + highest("instance", of("process_start_time_seconds")), "{{instance}}"})

	d.heading("What it holds for clients")
	d.lines("Memory held", "bytes", "Bytes held for clients, by what for.", query{sum("instance, kind", of("troupe_memory_held_bytes")) + " > 0", "{{instance}} {{kind}}"})
	d.lines("Memory held, of what may be", "percentunit", "When it is full, bodies are refused and streams cut. The second line is the principal that holds most.",
		query{sum("instance", of("troupe_memory_held_bytes")) + " / " + sum("instance", of("troupe_memory_budget_bytes")), "all {{instance}}"},
		query{sum("instance", of("troupe_memory_held_most_bytes")) + " / " + sum("instance", of("troupe_memory_budget_bytes")), "most {{instance}}"})
	d.lines("Calls in flight", "short", "Calls in flight on each process.", each("instance", "troupe_calls_in_flight", "")...)
	d.lines("Actors", "short", "Live actors by kind.", query{sum("kind", of("troupe_actors")), "{{kind}}"})
	d.lines("Deepest mailbox", "short", "Most messages that waited for one actor: more than a few are a session or stream that gets more than it can serve.",
		each("instance", "troupe_actors_mailbox_deepest", "")...)
	d.lines("Principals", "short", "Principals that the process tells apart, and how many of those are held to what they use of other processes.",
		each("instance", "troupe_accounts", "here", "troupe_accounts_elsewhere", "elsewhere")...)
	d.lines("Limits", "reqps", "Refusals a second because of a limit, by process and reason.", query{sum("instance, reason", rate("troupe_refusals_total")) + " > 0", "{{instance}} {{reason}}"})
	d.lines("Shared accounts", "reqps", "Requests a second that were charged to a shared account, as there are too many principals.", rates("instance", "troupe_accounts_overflowed_total", "")...)
	d.lines("Revocations", "short", "Revocations of access tokens that the process knows.", each("instance", "troupe_revocations", "")...)

	d.heading("The others")
	d.lines("Leases", "short", "Processes of the store by their lease, as each sees it: late ones were lost, and nobody has replaced them.", query{highest("instance, state", of("troupe_leases")), "{{state}} {{instance}}"})
	d.lines("Age of the lease", "ms", "Time since each process has renewed its lease. Beyond the lease (5 s) its clients get 503.", each("instance", "troupe_lease_age_milliseconds", "")...)
	d.lines("Without a lease", "ms", "Time without a certain lease, in milliseconds a second.", rates("instance", "troupe_lease_suspended_time_milliseconds_total", "")...)
	d.lines("Heard", "short", "Other processes of the store that were heard within the lease.", each("instance", "troupe_nodes_heard", "")...)
	d.lines("Letters", "short", "Messages to and from other processes a second, by what became of them.", query{sum("outcome", rate("troupe_mail_messages_total")), "{{outcome}}"})
	d.lines("Clock", "ms", "By how much the clock is ahead of that of the NATS servers. Beyond 2 s /readyz is 503.", each("instance", "troupe_store_clock_ahead_milliseconds", "")...)
	d.lines("Forwarded requests", "reqps", "Requests a second that belong to another process and were handed to it, and those that were given up on the way.",
		rates("instance", "troupe_requests_forwarded_total", "forwarded", "troupe_requests_forwarded_broken_total", "broken")...)

	d.heading("Its end, and what goes wrong")
	d.lines("Drain", "s", "How long each process has been draining, and how long it may.", each("instance", "troupe_drain_time_seconds", "takes", "troupe_drain_limit_seconds", "may take")...)
	d.lines("Certificate", "s", "How long the TLS certificate is valid yet.", query{highest("instance", of("troupe_tls_expires_seconds")) + " - time()", "{{instance}}"})
	d.lines("Certificate read again", "short", "Times that the files of the certificate had changed, by outcome.", query{sum("instance, outcome", of("troupe_tls_reloads_total")), "{{outcome}} {{instance}}"})
	d.lines("Panics", "short", "Panics contained since the start: defects, whose stacks are in the log.", each("instance", "troupe_panics_total", "")...)
	d.lines("Telemetry dropped", "short", "Spans, log records and lines of requests a second that were not exported or written.",
		query{sum("instance, signal", rate("troupe_telemetry_dropped_total")), "{{signal}} {{instance}}"}, query{sum("instance", rate("troupe_telemetry_failures_total")), "failed exports {{instance}}"})
	return d
}
