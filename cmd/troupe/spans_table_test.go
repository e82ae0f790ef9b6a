package main

import (
	"fmt"
	"slices"
	"strings"

	trace "go.opentelemetry.io/proto/otlp/trace/v1"
)

const (
	kindServer = trace.Span_SPAN_KIND_SERVER
	kindClient = trace.Span_SPAN_KIND_CLIENT
)

// parentOfRow is a trace context in _meta.
const parentOfRow = `"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"`

// usually is what each span of a client says, beside what speaker.usualOf knows.
func usually(overHTTP, inSession bool) map[string]string {
	usual := map[string]string{}
	if overHTTP {
		usual["network.protocol.name"], usual["network.protocol.version"], usual["client.address"], usual["client.port"] = "http", "1.1", "127.0.0.1", "*"
	}
	if inSession {
		usual["mcp.session.id"] = "*"
	}
	return usual
}

// serverSpan is the line of a span, see collector.line.
func serverSpan(name, rest string, attrs ...string) string {
	slices.Sort(attrs)
	return strings.TrimSpace("server " + name + " " + strings.Join(attrs, " ") + " " + rest)
}

// toolSpan is that of a call of a tool that the server has.
func toolSpan(name, rest string, attrs ...string) string {
	return serverSpan("tools/call "+name, rest, append(attrs, "gen_ai.operation.name=execute_tool", "gen_ai.tool.name="+name)...)
}

// errorSpan is that of a request that is answered with an error.
func errorSpan(name, code, message string, attrs ...string) string {
	return serverSpan(name, fmt.Sprintf("ERROR %q", message), append(attrs, "error.type="+code, "rpc.response.status_code="+code)...)
}

// request is a row whose message has one span. An empty line is that of a method without attributes of its own.
func request(method, params, line string) spanRow {
	if line == "" {
		line = "server " + method
	}
	return spanRow{method: method, params: params, want: []string{line}}
}

// call is a row that calls a tool.
func call(name, arguments, line string) spanRow {
	return request("tools/call", tool(name, arguments), line)
}

// beginning are the messages with which a session begins. The first span has a session only where the connection is one.
func beginning(revision string, connected bool) []spanRow {
	line := "server initialize no mcp.session.id"
	if connected {
		line = ""
	}
	return []spanRow{
		request("initialize", `"protocolVersion":"`+revision+`","capabilities":{"elicitation":{},"sampling":{"tools":{}},"roots":{"listChanged":true}},"clientInfo":{"name":"t","version":"1"}`, line),
		request("notifications/initialized", "", ""),
	}
}

// plainRequests are what clients of all revisions ask. notFound is the code for a resource that there is not.
func plainRequests(notFound string) []spanRow {
	return []spanRow{
		request("tools/list", "", ""),
		request("prompts/list", "", ""),
		request("resources/list", "", ""),
		request("resources/templates/list", "", ""),
		request("skills/list", "", ""),
		request("skills/get", `"uri":"skill://tour/SKILL.md"`, ""),
		request("resources/directory/read", `"uri":"skill://tour"`, ""),
		request("completion/complete", `"ref":{"type":"ref/prompt","name":"test_prompt_with_arguments"},"argument":{"name":"arg1","value":"par"}`, ""),
		request("resources/read", `"uri":"test://static-text"`, serverSpan("resources/read", "", "mcp.resource.uri=test://static-text")),
		request("resources/read", `"uri":"test://none"`, errorSpan("resources/read", notFound, "resource not found", "mcp.resource.uri=test://none")),
		request("prompts/get", `"name":"test_simple_prompt"`, serverSpan("prompts/get test_simple_prompt", "", "gen_ai.prompt.name=test_simple_prompt")),
		request("prompts/get", `"name":"made up"`, errorSpan("prompts/get", "-32602", "Unknown prompt: made up")),
		call("echo", `{"text":"x"}`, toolSpan("echo", "")),
		call("test_error_handling", `{}`, toolSpan("test_error_handling", `ERROR ""`, "error.type=tool_error")),
		call("made up", `{}`, errorSpan("tools/call", "-32602", "Unknown tool: made up", "gen_ai.operation.name=execute_tool")),
		request("made/up", "", errorSpan("_OTHER", "-32601", "method not found: made/up")),
	}
}

// questions are calls that ask their client. events are those of a call that has asked.
func questions(events string) (rows []spanRow) {
	for _, q := range [][3]string{
		{"ask", `{"question":"q"}`, "elicitation/create"}, {"test_sampling", `{"prompt":"p"}`, "sampling/createMessage"}, {"roots", `{}`, "roots/list"},
	} {
		row := call(q[0], q[1], toolSpan(q[0], events))
		row.want = append(row.want, "client "+q[2]+" below tools/call "+q[0])
		rows = append(rows, row)
	}
	return rows
}

// echo is a row with a trace context in _meta, and in the header.
func echo(meta, rest string, header ...string) spanRow {
	row := call("echo", `{"text":"x"}`, toolSpan("echo", rest))
	row.meta, row.header = meta, header
	return row
}

// What is longer than anybody may send it.
var (
	longBaggage = `"baggage":"` + strings.Repeat("k=v,", 1<<18) + `"`
	longState   = `"tracestate":"` + strings.Repeat("a=b,", 1000) + `"`
)

// hostileContexts are no trace contexts, or too long ones: they count as absent.
func hostileContexts() (rows []spanRow) {
	for _, meta := range []string{
		`"traceparent":"00-zz-1-1"`, `"traceparent":5`, `"traceparent":""`,
		`"traceparent":"` + strings.Repeat("0", 1<<20) + `"`,
		strings.TrimSuffix(parentOfRow, `"`) + strings.Repeat("-00", 300_000) + `"`,
		longBaggage, `"baggage":"=;,,%zz"`, longState,
	} {
		rows = append(rows, echo(meta, ""))
	}
	return append(rows, echo(parentOfRow+","+longState+","+longBaggage, "below b7ad6b7169203331"))
}

// contextsOfHTTP are trace contexts of headers, beside those of messages.
func contextsOfHTTP() []spanRow {
	parent := []string{"Traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}
	return []spanRow{
		echo(parentOfRow, "below b7ad6b7169203331"),
		echo("", "below 00f067aa0ba902b7", parent...),
		echo(parentOfRow, "below b7ad6b7169203331 link transport 00f067aa0ba902b7", parent...),
		echo(`"traceparent":"00-zz-1-1"`, "below 00f067aa0ba902b7", parent...),
		echo("", "below 00f067aa0ba902b7", parent[0], parent[1], "Baggage", strings.Repeat("k=v,", 1000)+"k=v"),
		echo("", "", "Traceparent", strings.Repeat("0", 2000)),
	}
}

// coreTask makes a task and waits for its end (2025-11-25).
func coreTask() []spanRow {
	made := call("job", `{"steps":2,"step_ms":0}`, toolSpan("job", ""))
	made.params, made.keep = made.params+`,"task":{"ttl":60000}`, `"taskId":"([^"]+)"`
	made.want = append(made.want, toolSpan("job", "below tools/call job event troupe.step event troupe.step", "troupe.task.id=#", "troupe.task.attempt=1"))
	return []spanRow{
		made,
		request("tasks/result", `"taskId":"$kept"`, ""),
		request("tasks/get", `"taskId":"$kept"`, ""),
		request("tasks/cancel", `"taskId":"$kept"`, errorSpan("tasks/cancel", "-32602", "the task has ended: it is completed")),
		request("tasks/list", "", errorSpan("tasks/list", "-32601", "method not found: tasks/list")), // an anonymous client would see those of all others
	}
}

// extensionTask makes a task and cancels it (2026-07-28).
func extensionTask() []spanRow {
	made := call("confirm_delete", `{"filename":"f"}`, toolSpan("confirm_delete", ""))
	made.keep = `"taskId":"([^"]+)"`
	made.want = append(made.want, toolSpan("confirm_delete", `ERROR "" below tools/call confirm_delete`, "troupe.task.id=#", "troupe.task.attempt=1", "error.type=tool_error"))
	get := request("tasks/get", `"taskId":"$kept"`, "")
	get.waiting = true // a task that is cancelled before it runs has no span of a run
	return []spanRow{
		made,
		get,
		request("tasks/update", `"taskId":"$kept","inputResponses":{}`, ""),
		request("tasks/cancel", `"taskId":"$kept"`, ""),
	}
}

// spanTables are what the clients of a server send. The last message of each has an answer.
func spanTables() []*speaker {
	const askedBy = "event troupe.input_required event troupe.sent_again"
	ping := call("ping", `{}`, toolSpan("ping", ""))
	ping.want = append(ping.want, "client ping below tools/call ping")
	madeUp := request("notifications/made/up", "", "server _OTHER no jsonrpc.request.id")
	batched := []spanRow{
		echo(parentOfRow, "below b7ad6b7169203331"),
		request("notifications/roots/list_changed", "", ""),
		call("test_error_handling", `{}`, toolSpan("test_error_handling", `ERROR ""`, "error.type=tool_error")),
		request("made/up", "", errorSpan("_OTHER", "-32601", "method not found: made/up")),
	}
	for i := range batched[:len(batched)-1] {
		batched[i].more = true
	}
	return []*speaker{
		{revision: "2025-11-25", transport: "tcp", usual: usually(true, true), rows: slices.Concat(beginning("2025-11-25", false), plainRequests("-32002"), contextsOfHTTP(), hostileContexts(), questions(""), coreTask(), []spanRow{
			ping, madeUp,
			request("logging/setLevel", `"level":"info"`, ""),
			request("resources/subscribe", `"uri":"test://watched-resource"`, serverSpan("resources/subscribe", "", "mcp.resource.uri=test://watched-resource")),
			request("resources/unsubscribe", `"uri":"test://watched-resource"`, serverSpan("resources/unsubscribe", "", "mcp.resource.uri=test://watched-resource")),
			call("protocol_error_job", `{}`, errorSpan("tools/call protocol_error_job", "-32603", "the job broke down, as it always does", "gen_ai.operation.name=execute_tool", "gen_ai.tool.name=protocol_error_job")),
			request("notifications/cancelled", `"requestId":"none"`, ""),
			request("notifications/progress", `"progressToken":"none","progress":1`, ""),
			request("notifications/roots/list_changed", "", ""),
			request("notifications/tasks/status", `"taskId":"none"`, ""),
			request("ping", "", ""),
		})},
		{revision: "2025-03-26", transport: "tcp", usual: usually(true, true), rows: slices.Concat(beginning("2025-03-26", false), batched)},
		{revision: "2024-11-05", transport: "tcp", usual: usually(true, true), rows: slices.Concat(beginning("2024-11-05", true), plainRequests("-32002"))},
		{revision: "2026-07-28", transport: "tcp", usual: usually(true, false), rows: slices.Concat(plainRequests("-32602"), contextsOfHTTP(), hostileContexts(), questions(askedBy), []spanRow{
			request("server/discover", "", ""),
			request("subscriptions/listen", `"notifications":{"toolsListChanged":true}`, ""),
		}, extensionTask())},
		{revision: "2025-11-25", transport: "pipe", usual: usually(false, true), rows: slices.Concat(beginning("2025-11-25", true), plainRequests("-32002"), hostileContexts(), questions(""))},
		{revision: "2026-07-28", transport: "pipe", usual: usually(false, false), rows: slices.Concat(plainRequests("-32602"), hostileContexts(), questions(askedBy))},
	}
}
