package main

// tools is what the tools, prompts and other methods do.
func tools() *dashboard {
	const calls, tool, prompt = `mcp_method_name="tools/call"`, "troupe_server, gen_ai_tool_name", "troupe_server, gen_ai_prompt_name"
	legend := func(name string) string { return "{{" + name + "}} {{troupe_server}}" }
	d := newDashboard("troupe-tools", "Troupe: tools", "What tools, prompts and other methods do, by server. With very many names some are counted without: docs/metrics.md.")
	d.heading("Tools")
	d.lines("Calls", "reqps", "Calls a second of the twenty tools that are called most.", query{"topk(20, " + sum(tool, rate(operations+"_count", calls)) + ")", legend("gen_ai_tool_name")})
	d.lines("Duration, p95", "s", "The time within which 95 of 100 calls are answered, of the twenty slowest tools.",
		query{"topk(20, " + quantile(0.95, tool, operations, calls) + ")", legend("gen_ai_tool_name")})
	d.lines("Errors of tools", "reqps", "Calls a second whose result is the tool's own error, which the model reads.",
		query{sum(tool, rate(operations+"_count", calls, `error_type="tool_error"`)), legend("gen_ai_tool_name")})
	d.lines("Failed calls", "reqps", "Calls a second that failed otherwise: -32603 a handler broke, -32010 its process was lost, -32602 arguments that do not fit.",
		query{sum(tool+", error_type", rate(operations+"_count", calls, `error_type!~"|tool_error"`)), legend("gen_ai_tool_name") + " {{error_type}}"})
	d.lines("Time in tools", "none", "Calls that run at a time, on average: duration and number together.", query{"topk(20, " + sum(tool, rate(operations+"_sum", calls)) + ")", legend("gen_ai_tool_name")})
	d.lines("Questions to clients", "reqps", "Questions a second that calls ask their clients, by method and what became of them.",
		query{sum("mcp_method_name, error_type", rate("mcp_client_operation_duration_seconds_count")), "{{mcp_method_name}} {{error_type}}"})

	d.heading("Prompts and other methods")
	d.lines("Prompts", "reqps", "Prompts a second.", query{sum(prompt, rate(operations+"_count", `mcp_method_name="prompts/get"`)), legend("gen_ai_prompt_name")})
	d.lines("Methods", "reqps", "Other requests and notifications a second.", query{sum("troupe_server, mcp_method_name", rate(operations+"_count", `mcp_method_name!~"tools/call|prompts/get"`)), legend("mcp_method_name")})
	d.lines("Duration of methods, p95", "s", "The time within which 95 of 100 requests are answered.", query{quantile(0.95, "mcp_method_name", operations, `mcp_method_name!~"tools/call|notifications/.*"`), "{{mcp_method_name}}"})

	d.heading("Tasks")
	d.lines("Tasks", "short", "Tasks by process: open, running, waiting for their clients, queued.",
		each("instance", "troupe_tasks_open", "open", "troupe_tasks_running", "running", "troupe_tasks_waiting", "waiting", "troupe_tasks_queued", "queued")...)
	d.lines("Of one principal", "short", "Open tasks of the principal with most.", query{highest("instance", of("troupe_tasks_open_most")), "{{instance}}"})
	d.lines("Taken up again", "short", "Tasks of the process before that were taken up at once, since the start.", each("instance", "troupe_tasks_reclaimed_total", "")...)
	return d
}
