package main

// streams is what is stored, and what is sent from there.
func streams() *dashboard {
	d := newDashboard("troupe-streams", "Troupe: streams and store", "What is stored of sessions, calls and tasks, and what clients are sent.")
	d.heading("Streams")
	d.lines("Streams", "short", "Event streams that each process writes, those with a connection, and those that are read here and written elsewhere.",
		each("instance", "troupe_streams_open", "open", "troupe_connections_open", "connected", "troupe_streams_read_elsewhere", "read here")...)
	d.lines("Clients that come back", "short", "Resumes a second, those of streams that another process writes, and streams that were taken over from a lost one.",
		rates("", "troupe_streams_resumed_total", "resumed", "troupe_streams_attached_total", "attached", "troupe_streams_taken_over_total", "taken over")...)
	d.lines("Until they have all", "s", "Time until a client that came back has been sent all that was stored, by who writes the stream, of 95 of 100.",
		query{quantile(0.95, "writer", "troupe_stream_replay_duration_seconds"), "{{writer}}"})
	d.lines("Replaying", "short", "Streams whose clients have not been sent yet all that is stored.", each("instance", "troupe_streams_replaying", "")...)
	d.lines("Connections cut", "short", "Connections cut a second, by reason: queue-full and write-timeout are clients that do not read.",
		query{sum("reason", rate("troupe_stream_cut_total")), "{{reason}}"}, query{sum("", rate("troupe_pings_lost_total")), "unanswered pings"})
	d.lines("Time of takeovers", "ms", "Time that takeovers took, in milliseconds a second, without the wait for the lease.", rates("", "troupe_streams_taken_over_time_milliseconds_total", "takeovers")...)
	d.lines("Sessions that ended", "short", "Sessions a second that were ended, by revision.", query{sum("mcp_protocol_version", rate("mcp_server_session_duration_seconds_count")), "{{mcp_protocol_version}}"})
	d.lines("How long sessions last", "s", "Of sessions that were ended.", quantiles("mcp_server_session_duration_seconds")...)

	d.heading("Appends")
	d.lines("Appends", "short", "Appends to event streams a second, by what became of them in the store.", query{sum("outcome", rate("troupe_store_appends_total")), "{{outcome}}"})
	d.lines("Time of an append", "ms", "On average. A few milliseconds are usual.", query{sum("instance", rate("troupe_store_appends_time_milliseconds_total")) + " / " + sum("instance", rate("troupe_store_appends_total", `outcome="stored"`)), "{{instance}}"})
	d.lines("Appends that wait", "short", "As their principals appended much within ten seconds.", each("instance", "troupe_log_waiting", "")...)
	d.lines("Bytes within ten seconds", "bytes", "Appended to event streams, about; and what is kept in memory for clients that come back.",
		each("instance", "troupe_log_recent_bytes", "appended", "troupe_log_cached_bytes", "kept")...)
	d.lines("Events by process", "short", "Appends a second, and those that were replayed from memory.", rates("instance", "troupe_log_appends_total", "appended", "troupe_log_replayed_cached_total", "replayed")...)

	d.heading("The store")
	d.lines("Room in use", "percentunit", "Of what there is for sessions, calls and tasks. At nine tenths nothing new is begun.",
		query{highest("budget", of("troupe_store_used_bytes")+" / "+of("troupe_store_budget_bytes")), "{{budget}}"})
	d.lines("Of one principal", "bytes", "What the principal with most has stored lately.", query{highest("budget", of("troupe_store_used_most_bytes")), "{{budget}}"})
	d.lines("Bytes", "bytes", "In the store, by its streams.", query{highest("stream", of("troupe_store_bytes")), "{{stream}}"})
	d.lines("Messages", "short", "In the store, by its streams: a session is one of the stream sessions.", query{highest("stream", of("troupe_store_messages")), "{{stream}}"})
	d.lines("Replicas missing", "short", "NATS servers that are away or behind. With three replicas two of them stop all writes.", query{highest("stream", of("troupe_store_replicas_missing")), "{{stream}}"})
	d.lines("Cannot write", "short", "1 while the store of a process cannot write, as when its disk is full.", each("instance", "troupe_store_failed_ratio", "")...)
	d.lines("Connections made again", "short", "Connections to the store that were lost and made again, and stores that were started again, since the start.",
		each("instance", "troupe_store_reconnects_total", "connections", "troupe_store_restarts_total", "stores")...)
	d.lines("Lost", "short", "Streams that were lost, and files that could not be read, since the start. The log says which.",
		each("instance", "troupe_store_lost_total", "streams", "troupe_store_unreadable_total", "files")...)
	d.lines("Undecided writes", "short", "Writes to a replicated store a second that were sent again, or that show that something is not there.",
		rates("", "troupe_store_undecided_total", "sent again", "troupe_store_concluded_total", "show that nothing is there")...)
	return d
}
