package transport

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/troupe-run/troupe/codec"
)

const (
	metaVersion      = `"io.modelcontextprotocol/protocolVersion":"2026-07-28"`
	metaCapabilities = `"io.modelcontextprotocol/clientCapabilities":{}`
	metaInfo         = `"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"}`
	statelessMeta    = `"_meta":{` + metaVersion + `,` + metaInfo + `,` + metaCapabilities + `}`
	statelessListen  = `{"jsonrpc":"2.0","id":"l","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},` + statelessMeta + `}}`
	statelessCall    = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{},` + statelessMeta + `}}`
)

var (
	legacyRevisions = []string{"2025-06-18", "2025-11-25"}
	bothEras        = Options{Revisions: legacyRevisions, Stateless: []string{"2026-07-28"}}
)

// statelessRequest returns the bytes of a stateless POST. Only its version is in the headers.
func statelessRequest(body string, headers ...string) string {
	return request("POST", "127.0.0.1", body, append([]string{"MCP-Protocol-Version: 2026-07-28"}, headers...)...)
}

// callRequest returns a statelessRequest for statelessCall with all its headers.
func callRequest() string {
	return statelessRequest(statelessCall, "Mcp-Method: tools/call", "Mcp-Name: echo")
}

func listenRequest() string {
	return statelessRequest(statelessListen, "Mcp-Method: subscriptions/listen")
}

// seen answers with the input of the dispatcher.
var seen = funcs{
	post: func(x *Exchange) {
		x.SetSession("s")
		if x.Msg.Kind == codec.Notification {
			x.Accepted()
			return
		}
		x.Answer(200, fmt.Appendf(nil, `{"stateless":%v,"version":%q,"session":%q,"last":%q}`, x.Stateless, x.Version, x.SessionID, x.LastEventID))
	},
}

// call returns a request with an id, a method and the members of its params.
func call(id, method string, params ...string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":{` + strings.Join(params, ",") + `}}`
}

func meta(members ...string) string { return `"_meta":{` + strings.Join(members, ",") + `}` }

// TestEras is the table of requests at an endpoint with sessions and stateless requests, and
// of their responses.
func TestEras(t *testing.T) {
	t.Parallel()
	const (
		statelessSeen = `{"stateless":true,"version":"2026-07-28","session":"","last":""}`
		version       = "MCP-Protocol-Version: 2026-07-28"
		discover      = "Mcp-Method: server/discover"
		toolsCall     = "Mcp-Method: tools/call"
	)
	legacySeen := func(version, session string) string {
		return fmt.Sprintf(`{"stateless":false,"version":%q,"session":%q,"last":""}`, version, session)
	}
	refused := func(code int, id, message string) string {
		if id != "" {
			id = `,"id":` + id
		}
		return errorBody(code, message, id)
	}
	unsupported := func(id, requested string) string {
		body := refused(-32022, id, "Unsupported protocol version")
		return strings.TrimSuffix(body, "}}") + `,"data":{"supported":["2026-07-28","2025-11-25","2025-06-18"],"requested":"` + requested + `"}}}`
	}
	noVersion := func(id string) string {
		return refused(-32602, id, "_meta must name the protocol version: io.modelcontextprotocol/protocolVersion")
	}
	noCapabilities := func(id string) string {
		return refused(-32602, id, "_meta must have the client's capabilities: io.modelcontextprotocol/clientCapabilities")
	}
	noInfo := refused(-32602, "1", "_meta has a client info that is no object: io.modelcontextprotocol/clientInfo")
	badVersion := func(id string) string {
		return refused(-32020, id, "Header mismatch: MCP-Protocol-Version is not the version in params._meta")
	}
	badMethod := func(id string) string { return refused(-32020, id, "Header mismatch: Mcp-Method is not the method") }
	badName := func(id string) string {
		return refused(-32020, id, "Header mismatch: Mcp-Name is not what params names")
	}
	badKind := refused(-32600, "", "send one request or notification at a time")
	plain := func(method string) string { return call("1", method, statelessMeta) }
	other := func(v string) string {
		return meta(`"io.modelcontextprotocol/protocolVersion":`+v, metaCapabilities)
	}
	tool := func(name string) string { return call("1", "tools/call", `"name":`+name, statelessMeta) }
	headers := func(h ...string) []string { return h }
	notification := func(params ...string) string {
		return `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{` + strings.Join(params, ",") + `}}`
	}

	for name, row := range map[string]struct {
		method, body string // "" is POST
		headers      []string
		status       int
		want, reason string
	}{
		// In a session, unchanged.
		"initialize":                         {body: call("1", "initialize"), status: 200, want: legacySeen("", "")},
		"initialize with a version":          {body: call("1", "initialize"), headers: headers("MCP-Protocol-Version: 2025-11-25"), status: 200, want: legacySeen("2025-11-25", "")},
		"initialize with Mcp-Method":         {body: call("1", "initialize"), headers: headers("MCP-Protocol-Version: 2025-11-25", "Mcp-Method: other", "Mcp-Name: x"), status: 200, want: legacySeen("2025-11-25", "")},
		"session and progress token":         {body: call("1", "tools/call", meta(`"progressToken":1`)), headers: headers("MCP-Protocol-Version: 2025-11-25", "Mcp-Session-Id: s"), status: 200, want: legacySeen("2025-11-25", "s")},
		"session and no version":             {body: call("1", "tools/call"), headers: headers("Mcp-Session-Id: s"), status: 200, want: legacySeen("", "s")},
		"revision beside _meta":              {body: call("1", "tools/call", metaVersion, meta(metaInfo)), status: 200, want: legacySeen("", "")},
		"revision in a batch":                {body: "[" + statelessCall + "]", status: 200, want: legacySeen("", "")},
		"legacy bad session":                 {body: call("1", "ping"), headers: headers("Mcp-Session-Id: a b"), status: 400, want: refused(-32600, "", "Invalid Mcp-Session-Id header"), reason: "session-id"},
		"unknown date":                       {body: call("1", "ping"), headers: headers("MCP-Protocol-Version: 1999-01-01"), status: 400, want: unsupported("1", "1999-01-01"), reason: "version"},
		"unknown date in both":               {body: call("1", "ping", other(`"1900-01-01"`)), headers: headers("MCP-Protocol-Version: 1900-01-01"), status: 400, want: unsupported("1", "1900-01-01"), reason: "version"},
		"no date":                            {body: call("1", "ping"), headers: headers("MCP-Protocol-Version: v999.0.0"), status: 400, want: unsupported("1", "v999.0.0"), reason: "version"},
		"no date in a notification":          {body: notification(), headers: headers("MCP-Protocol-Version: v999.0.0"), status: 400, want: unsupported("", "v999.0.0"), reason: "version"},
		"no date with a batch":               {body: "[" + ping + "]", headers: headers("MCP-Protocol-Version: v999.0.0"), status: 400, want: unsupported("", "v999.0.0"), reason: "version"},
		"no date with no message":            {body: `{"id":1}`, headers: headers("MCP-Protocol-Version: v999.0.0"), status: 400, want: refused(-32600, "1", "the member jsonrpc is missing"), reason: "message"},
		"legacy version twice":               {body: call("1", "ping"), headers: headers("MCP-Protocol-Version: 2025-11-25", "MCP-Protocol-Version: 2025-11-25"), status: 200, want: legacySeen("2025-11-25", "")},
		"legacy version in a list":           {body: call("1", "ping"), headers: headers("MCP-Protocol-Version: 2025-11-25, 2025-11-25 ,2025-11-25"), status: 200, want: legacySeen("2025-11-25", "")},
		"initialize with a version twice":    {body: call("1", "initialize"), headers: headers("MCP-Protocol-Version: 2025-11-25, 2025-11-25"), status: 200, want: legacySeen("2025-11-25", "")},
		"two legacy versions":                {body: call("1", "ping"), headers: headers("MCP-Protocol-Version: 2025-11-25", "MCP-Protocol-Version: 2025-06-18"), status: 400, want: unsupported("1", "2025-11-25, 2025-06-18"), reason: "version"},
		"two legacy versions in a list":      {body: call("1", "ping"), headers: headers("MCP-Protocol-Version: 2025-11-25,2025-11-25, 2025-06-18"), status: 400, want: unsupported("1", "2025-11-25,2025-11-25, 2025-06-18"), reason: "version"},
		"a version and nothing":              {body: call("1", "ping"), headers: headers("MCP-Protocol-Version: 2025-11-25,"), status: 400, want: unsupported("1", "2025-11-25,"), reason: "version"},
		"GET with a legacy version twice":    {method: "GET", headers: headers("MCP-Protocol-Version: 2025-11-25", "MCP-Protocol-Version: 2025-11-25"), status: 200, want: `{"event":""}`},
		"DELETE with two versions":           {method: "DELETE", headers: headers("MCP-Protocol-Version: 2025-11-25, 2025-06-18"), status: 400, want: unsupported("", "2025-11-25, 2025-06-18"), reason: "version"},
		"GET with a version that is no date": {method: "GET", headers: headers("MCP-Protocol-Version: v999.0.0"), status: 400, want: unsupported("", "v999.0.0"), reason: "version"},
		"GET with a legacy version":          {method: "GET", headers: headers("MCP-Protocol-Version: 2025-11-25"), status: 200, want: `{"event":""}`},
		"DELETE with an unknown date":        {method: "DELETE", headers: headers("MCP-Protocol-Version: 2025-11-26"), status: 400, want: unsupported("", "2025-11-26"), reason: "version"},

		// Version and _meta.
		"stateless":                       {body: plain("server/discover"), headers: headers(version, discover), status: 200, want: statelessSeen},
		"string id":                       {body: call(`"a\u0062"`, "server/discover"), headers: headers(version, discover), status: 400, want: noVersion(`"a\u0062"`), reason: "meta"},
		"no params":                       {body: `{"jsonrpc":"2.0","id":1,"method":"server/discover"}`, headers: headers(version, discover), status: 400, want: noVersion("1"), reason: "meta"},
		"no _meta":                        {body: call("1", "server/discover"), headers: headers(version, discover), status: 400, want: noVersion("1"), reason: "meta"},
		"_meta is no object":              {body: call("1", "server/discover", `"_meta":"a"`), headers: headers(version, discover), status: 400, want: noVersion("1"), reason: "meta"},
		"no version in _meta":             {body: call("1", "server/discover", meta(metaCapabilities)), headers: headers(version, discover), status: 400, want: noVersion("1"), reason: "meta"},
		"version is no string":            {body: call("1", "server/discover", other("20260728")), headers: headers(version, discover), status: 400, want: noVersion("1"), reason: "meta"},
		"version is no string, no header": {body: call("1", "server/discover", other("null")), headers: headers(discover), status: 400, want: noVersion("1"), reason: "meta"},
		"a later date without _meta":      {body: call("1", "server/discover"), headers: headers("MCP-Protocol-Version: 2027-01-31", discover), status: 400, want: unsupported("1", "2027-01-31"), reason: "version"},
		"a later date in a session":       {body: call("1", "tools/list"), headers: headers("MCP-Protocol-Version: 2027-01-31", "Mcp-Session-Id: s"), status: 400, want: unsupported("1", "2027-01-31"), reason: "version"},
		"a later date, no string":         {body: call("1", "server/discover", other("null")), headers: headers("MCP-Protocol-Version: 2027-01-31", discover), status: 400, want: noVersion("1"), reason: "meta"},
		"no version header":               {body: plain("server/discover"), headers: headers(discover), status: 400, want: badVersion("1"), reason: "header-mismatch"},
		"legacy version header":           {body: plain("server/discover"), headers: headers("MCP-Protocol-Version: 2025-11-25", discover), status: 400, want: badVersion("1"), reason: "header-mismatch"},
		"another version in _meta":        {body: call("1", "server/discover", other(`"v999.0.0"`)), headers: headers(version, discover), status: 400, want: badVersion("1"), reason: "header-mismatch"},
		"another version in the header":   {body: plain("server/discover"), headers: headers("MCP-Protocol-Version: v999.0.0", discover), status: 400, want: badVersion("1"), reason: "header-mismatch"},
		"version header twice":            {body: plain("server/discover"), headers: headers(version, version, discover), status: 200, want: statelessSeen},
		"version header in a list":        {body: plain("server/discover"), headers: headers(version+", 2026-07-28", discover), status: 200, want: statelessSeen},
		"version header twice, no _meta":  {body: call("1", "server/discover"), headers: headers(version, version, discover), status: 400, want: noVersion("1"), reason: "meta"},
		"both eras in the header":         {body: plain("server/discover"), headers: headers(version, "MCP-Protocol-Version: 2025-11-25", discover), status: 400, want: badVersion("1"), reason: "header-mismatch"},
		"both eras in a list":             {body: plain("server/discover"), headers: headers("MCP-Protocol-Version: 2025-11-25, 2026-07-28", discover), status: 400, want: badVersion("1"), reason: "header-mismatch"},
		"version unknown in both":         {body: call("1", "server/discover", other(`"v999.0.0"`)), headers: headers("MCP-Protocol-Version: v999.0.0", discover), status: 400, want: unsupported("1", "v999.0.0"), reason: "version"},
		"later version in both":           {body: call("1", "server/discover", other(`"2027-01-31"`)), headers: headers("MCP-Protocol-Version: 2027-01-31", discover), status: 400, want: unsupported("1", "2027-01-31"), reason: "version"},
		"legacy version in both":          {body: call("1", "server/discover", other(`"2025-11-25"`)), headers: headers("MCP-Protocol-Version: 2025-11-25", discover), status: 400, want: unsupported("1", "2025-11-25"), reason: "version"},
		"version in escapes":              {body: call("1", "server/discover", meta(`"io.modelcontextprotocol\/protocolVersion":"2026\u002d07-28"`, metaCapabilities)), headers: headers(version, discover), status: 200, want: statelessSeen},
		"version before the rest":         {body: call("1", "server/discover", meta(`"io.modelcontextprotocol/protocolVersion":"2027-01-31"`)), headers: headers("MCP-Protocol-Version: 2027-01-31"), status: 400, want: unsupported("1", "2027-01-31"), reason: "version"},
		"mismatch before the version":     {body: call("1", "server/discover", other(`"2027-01-31"`)), headers: headers("MCP-Protocol-Version: 2027-02-01"), status: 400, want: badVersion("1"), reason: "header-mismatch"},
		"no capabilities":                 {body: call("1", "server/discover", meta(metaVersion)), headers: headers(version, discover), status: 400, want: noCapabilities("1"), reason: "meta"},
		"capabilities null":               {body: call("1", "server/discover", meta(metaVersion, `"io.modelcontextprotocol/clientCapabilities":null`)), headers: headers(version, discover), status: 400, want: noCapabilities("1"), reason: "meta"},
		"capabilities before Mcp-Method":  {body: call("1", "server/discover", meta(metaVersion)), headers: headers(version), status: 400, want: noCapabilities("1"), reason: "meta"},
		"no client info":                  {body: call("1", "server/discover", meta(metaVersion, metaCapabilities)), headers: headers(version, discover), status: 200, want: statelessSeen},
		"client info is no object":        {body: call("1", "server/discover", meta(metaVersion, metaCapabilities, `"io.modelcontextprotocol/clientInfo":"c"`)), headers: headers(version, discover), status: 400, want: noInfo, reason: "meta"},
		"two versions in _meta":           {body: call("1", "server/discover", meta(metaVersion, metaVersion, metaCapabilities)), headers: headers(version, discover), status: 400, want: refused(-32600, "1", "duplicate member in _meta"), reason: "message"},
		"session and last event":          {body: plain("server/discover"), headers: headers(version, discover, "Mcp-Session-Id: a b", "Last-Event-ID: "+strings.Repeat("i", 300)), status: 200, want: statelessSeen},
		"sessions":                        {body: plain("server/discover"), headers: headers(version, discover, "Mcp-Session-Id: a", "Mcp-Session-Id: b"), status: 200, want: statelessSeen},

		// The method does not decide whether a request is stateless.
		"initialize, stateless":     {body: plain("initialize"), headers: headers(version, "Mcp-Method: initialize"), status: 200, want: statelessSeen},
		"ping, stateless":           {body: plain("ping"), headers: headers(version, "Mcp-Method: ping"), status: 200, want: statelessSeen},
		"unknown method":            {body: plain("unknown/method"), headers: headers(version, "Mcp-Method: unknown/method"), status: 200, want: statelessSeen},
		"subscribe has no Mcp-Name": {body: call("1", "resources/subscribe", `"uri":"a:b"`, statelessMeta), headers: headers(version, "Mcp-Method: resources/subscribe"), status: 200, want: statelessSeen},
		"Mcp-Name without need":     {body: plain("tools/list"), headers: headers(version, "Mcp-Method: tools/list", "Mcp-Name: x"), status: 200, want: statelessSeen},

		// Mcp-Method.
		"no method header":          {body: plain("ping"), headers: headers(version), status: 400, want: badMethod("1"), reason: "header-mismatch"},
		"other method header":       {body: plain("ping"), headers: headers(version, "Mcp-Method: tools/call"), status: 400, want: badMethod("1"), reason: "header-mismatch"},
		"method header in capitals": {body: tool(`"echo"`), headers: headers(version, "Mcp-Method: TOOLS/CALL", "Mcp-Name: echo"), status: 400, want: badMethod("1"), reason: "header-mismatch"},
		"two method headers":        {body: plain("ping"), headers: headers(version, "Mcp-Method: ping", "Mcp-Method: ping"), status: 400, want: badMethod("1"), reason: "header-mismatch"},
		"method in a list":          {body: plain("ping"), headers: headers(version, "Mcp-Method: ping, ping"), status: 400, want: badMethod("1"), reason: "header-mismatch"},
		"method header in base64":   {body: plain("ping"), headers: headers(version, "Mcp-Method: =?base64?cGluZw==?="), status: 400, want: badMethod("1"), reason: "header-mismatch"},
		"blanks around the method":  {body: plain("ping"), headers: headers(version, "Mcp-Method:  \t ping  "), status: 200, want: statelessSeen},
		"method in escapes":         {body: plain(`tools\/list`), headers: headers(version, "Mcp-Method: tools/list"), status: 200, want: statelessSeen},
		"names in capitals":         {body: tool(`"echo"`), headers: headers("mcp-PROTOCOL-version: 2026-07-28", "MCP-METHOD: tools/call", "mcp-name: echo"), status: 200, want: statelessSeen},
		"method before name":        {body: tool(`"echo"`), headers: headers(version), status: 400, want: badMethod("1"), reason: "header-mismatch"},

		// Mcp-Name.
		"tool":                       {body: tool(`"echo"`), headers: headers(version, toolsCall, "Mcp-Name: echo"), status: 200, want: statelessSeen},
		"prompt":                     {body: call("1", "prompts/get", `"name":"p"`, statelessMeta), headers: headers(version, "Mcp-Method: prompts/get", "Mcp-Name: p"), status: 200, want: statelessSeen},
		"prompt of another name":     {body: call("1", "prompts/get", `"name":"p"`, statelessMeta), headers: headers(version, "Mcp-Method: prompts/get", "Mcp-Name: q"), status: 400, want: badName("1"), reason: "header-mismatch"},
		"resource":                   {body: call("1", "resources/read", `"uri":"file:\/\/\/a b"`, statelessMeta), headers: headers(version, "Mcp-Method: resources/read", "Mcp-Name: file:///a b"), status: 200, want: statelessSeen},
		"resource of another URI":    {body: call("1", "resources/read", `"uri":"file:///a"`, statelessMeta), headers: headers(version, "Mcp-Method: resources/read", "Mcp-Name: file:///A"), status: 400, want: badName("1"), reason: "header-mismatch"},
		"task":                       {body: call("1", "tasks/get", `"taskId":"t"`, statelessMeta), headers: headers(version, "Mcp-Method: tasks/get", "Mcp-Name: t"), status: 200, want: statelessSeen},
		"task, another":              {body: call("1", "tasks/get", `"taskId":"t"`, statelessMeta), headers: headers(version, "Mcp-Method: tasks/get", "Mcp-Name: u"), status: 400, want: badName("1"), reason: "header-mismatch"},
		"task update":                {body: call("1", "tasks/update", `"taskId":"t"`, statelessMeta), headers: headers(version, "Mcp-Method: tasks/update"), status: 400, want: badName("1"), reason: "header-mismatch"},
		"task cancel":                {body: call("1", "tasks/cancel", `"taskId":"t"`, statelessMeta), headers: headers(version, "Mcp-Method: tasks/cancel", "Mcp-Name: t", "Mcp-Name: t"), status: 400, want: badName("1"), reason: "header-mismatch"},
		"no name header":             {body: tool(`"echo"`), headers: headers(version, toolsCall), status: 400, want: badName("1"), reason: "header-mismatch"},
		"other name header":          {body: tool(`"echo"`), headers: headers(version, toolsCall, "Mcp-Name: Echo"), status: 400, want: badName("1"), reason: "header-mismatch"},
		"two name headers":           {body: tool(`"echo"`), headers: headers(version, toolsCall, "Mcp-Name: echo", "Mcp-Name: echo"), status: 400, want: badName("1"), reason: "header-mismatch"},
		"name header without a name": {body: call("1", "tools/call", statelessMeta), headers: headers(version, toolsCall, "Mcp-Name: echo"), status: 400, want: badName("1"), reason: "header-mismatch"},
		"name is no string":          {body: tool(`7`), headers: headers(version, toolsCall, "Mcp-Name: 7"), status: 400, want: badName("1"), reason: "header-mismatch"},
		"blanks around the name":     {body: tool(`"echo"`), headers: headers(version, toolsCall, "Mcp-Name: \t echo\t "), status: 200, want: statelessSeen},
		"name in escapes":            {body: tool(`"\u0065cho"`), headers: headers(version, toolsCall, "Mcp-Name: echo"), status: 200, want: statelessSeen},
		"name in base64":             {body: tool(`"Hello"`), headers: headers(version, toolsCall, "Mcp-Name: =?base64?SGVsbG8=?="), status: 200, want: statelessSeen},
		"name in base64, not plain":  {body: tool(`"工具"`), headers: headers(version, toolsCall, "Mcp-Name: =?base64?5bel5YW3?="), status: 200, want: statelessSeen},
		"name as it is, not plain":   {body: tool(`"工具"`), headers: headers(version, toolsCall, "Mcp-Name: 工具"), status: 400, want: badName("1"), reason: "header-mismatch"},
		"base64 of another name":     {body: tool(`"hello"`), headers: headers(version, toolsCall, "Mcp-Name: =?base64?SGVsbG8=?="), status: 400, want: badName("1"), reason: "header-mismatch"},
		"base64 without padding":     {body: tool(`"Hello"`), headers: headers(version, toolsCall, "Mcp-Name: =?base64?SGVsbG8?="), status: 400, want: badName("1"), reason: "header-mismatch"},
		"base64 of bad characters":   {body: tool(`"Hello"`), headers: headers(version, toolsCall, "Mcp-Name: =?base64?SGVs!!!bG8=?="), status: 400, want: badName("1"), reason: "header-mismatch"},
		"base64 without prefix":      {body: tool(`"SGVsbG8=?="`), headers: headers(version, toolsCall, "Mcp-Name: SGVsbG8=?="), status: 200, want: statelessSeen},
		"base64 without suffix":      {body: tool(`"=?base64?SGVsbG8="`), headers: headers(version, toolsCall, "Mcp-Name: =?base64?SGVsbG8="), status: 200, want: statelessSeen},
		"base64 in capitals":         {body: tool(`"=?BASE64?SGVsbG8=?="`), headers: headers(version, toolsCall, "Mcp-Name: =?BASE64?SGVsbG8=?="), status: 200, want: statelessSeen},

		// Other messages.
		"batch":                           {body: "[" + statelessCall + "]", headers: headers(version), status: 400, want: badKind, reason: "message"},
		"result":                          {body: `{"jsonrpc":"2.0","id":1,"result":{}}`, headers: headers(version), status: 400, want: badKind, reason: "message"},
		"error":                           {body: `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m"}}`, headers: headers(version), status: 400, want: badKind, reason: "message"},
		"no message":                      {body: `{"jsonrpc":"1.0","id":1,"method":"m"}`, headers: headers(version), status: 400, want: refused(-32600, "1", `the member jsonrpc must be "2.0"`), reason: "message"},
		"notification":                    {body: notification(`"requestId":1`), headers: headers(version), status: 202},
		"notification with all":           {body: notification(statelessMeta), headers: headers(version, "Mcp-Method: notifications/cancelled"), status: 202},
		"notification without header":     {body: notification(statelessMeta), status: 400, want: badVersion(""), reason: "header-mismatch"},
		"notification of no string":       {body: notification(other("1")), headers: headers(version), status: 400, want: noVersion(""), reason: "meta"},
		"notification of another version": {body: notification(), headers: headers("MCP-Protocol-Version: 2027-01-31"), status: 400, want: unsupported("", "2027-01-31"), reason: "version"},
		"notification of another method":  {body: notification(), headers: headers(version, "Mcp-Method: ping"), status: 400, want: badMethod(""), reason: "header-mismatch"},
		"GET":                             {method: "GET", headers: headers(version), status: 405, want: refused(-32600, "", "Method not allowed"), reason: "method"},
		"GET of a later date":             {method: "GET", headers: headers("MCP-Protocol-Version: 2027-01-31", "Mcp-Session-Id: s"), status: 405, want: refused(-32600, "", "Method not allowed"), reason: "method"},
		"DELETE":                          {method: "DELETE", headers: headers(version, "Mcp-Session-Id: s"), status: 405, want: refused(-32600, "", "Method not allowed"), reason: "method"},
		"accept before the rest":          {body: call("1", "ping"), headers: headers(version, "Accept: application/json"), status: 406, want: refused(-32600, "", "Accept must admit application/json and text/event-stream"), reason: "accept"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			method := row.method
			if method == "" {
				method = "POST"
			}
			raw := request(method, "127.0.0.1", row.body, row.headers...)
			check := func(t *testing.T, counted *counts, resp *http.Response) {
				body, err := io.ReadAll(resp.Body)
				if err != nil {
					t.Fatal(err)
				}
				if resp.StatusCode != row.status || string(body) != row.want {
					t.Errorf("got  %d %s\nwant %d %s", resp.StatusCode, body, row.status, row.want)
				}
				if got := resp.Header.Get("Content-Type"); len(body) > 0 && got != typeJSON {
					t.Errorf("Content-Type: got %q", got)
				}
				want := map[string]int{}
				if row.reason != "" {
					want[fmt.Sprintf("%d %s", row.status, row.reason)] = 1
				}
				if diff := cmp.Diff(counted.rejected, want); diff != "" {
					t.Errorf("observed refusals (-got +want):\n%s", diff)
				}
				if row.status == 405 && resp.Header.Get("Allow") != "POST, OPTIONS" {
					t.Errorf("Allow: got %q", resp.Header.Get("Allow"))
				}
				if row.want == statelessSeen && resp.Header.Get("Mcp-Session-Id") != "" {
					t.Error("a stateless response names a session")
				}
			}
			counted, o := newCounts(), bothEras
			o.Observer = counted
			s := serve(t, seen, o)
			check(t, counted, dial(t, s.addr).send(raw).response(method))
			virtually(t, func(t *testing.T, serve func(Dispatcher, Options) *pipes) {
				counted, o := newCounts(), bothEras
				o.Observer = counted
				check(t, counted, serve(seen, o).dial(t).send(raw).response(method))
			})
		})
	}
}

// TestStatelessIsOff has a server with sessions only.
func TestStatelessIsOff(t *testing.T) {
	t.Parallel()
	s := serve(t, seen, Options{Revisions: legacyRevisions})
	unsupported := `{"jsonrpc":"2.0","error":{"code":-32602,"message":"MCP-Protocol-Version is not supported","data":{"supported":["2025-11-25","2025-06-18"],"requested":"2026-07-28"}}}`
	for _, row := range []struct {
		raw    string
		status int
		want   string
	}{
		{callRequest(), 400, unsupported},
		{request("GET", s.addr, "", "MCP-Protocol-Version: 2026-07-28"), 400, unsupported},
		{request("POST", s.addr, statelessCall), 200, `{"stateless":false,"version":"","session":"","last":""}`},
	} {
		if resp, body := do(t, s.addr, row.raw); resp.StatusCode != row.status || body != row.want {
			t.Errorf("%s: got %d %s, want %d %s", row.raw, resp.StatusCode, body, row.status, row.want)
		}
	}
}

// TestSessionsAreOff has a server without sessions but for those that began when it had them.
func TestSessionsAreOff(t *testing.T) {
	t.Parallel()
	s := serve(t, seen, Options{Stateless: []string{"2026-07-28"}})
	const older, session = "MCP-Protocol-Version: 2025-06-18", "Mcp-Session-Id: a"
	ping := call("1", "ping")
	badHeader := errorBody(-32020, "Header mismatch: MCP-Protocol-Version is not the version in params._meta", `,"id":1`)
	unsupported := `{"jsonrpc":"2.0","error":{"code":-32022,"message":"Unsupported protocol version","data":{"supported":["2026-07-28"],"requested":"2025-06-18"}}}`
	taken := func(version, session string) string {
		return fmt.Sprintf(`{"stateless":false,"version":%q,"session":%q,"last":""}`, version, session)
	}
	for _, row := range []struct {
		raw    string
		status int
		want   string
	}{
		{callRequest(), 200, `{"stateless":true,"version":"2026-07-28","session":"","last":""}`},
		{request("POST", s.addr, ping), 400, badHeader},
		{request("POST", s.addr, call("1", "initialize")), 200, taken("", "")},
		{request("POST", s.addr, ping, older), 400, strings.Replace(unsupported, `"error"`, `"id":1,"error"`, 1)},
		{request("POST", s.addr, ping, session), 200, taken("", "a")},
		{request("POST", s.addr, ping, session, older), 200, taken("2025-06-18", "a")},
		{request("POST", s.addr, ping, session, "MCP-Protocol-Version: 2025-06-19"), 400, strings.NewReplacer(`"error"`, `"id":1,"error"`, "2025-06-18", "2025-06-19").Replace(unsupported)},
		{request("GET", s.addr, ""), 405, errorBody(-32600, "Method not allowed", "")},
		{request("DELETE", s.addr, ""), 405, errorBody(-32600, "Method not allowed", "")},
		{request("GET", s.addr, "", older), 400, unsupported},
	} {
		if resp, body := do(t, s.addr, row.raw); resp.StatusCode != row.status || body != row.want {
			t.Errorf("%s: got %d %s, want %d %s", row.raw, resp.StatusCode, body, row.status, row.want)
		}
	}
}

// TestOlderEndpointsHaveOneEra sends stateless requests to the endpoints of HTTP+SSE.
func TestOlderEndpointsHaveOneEra(t *testing.T) {
	t.Parallel()
	d := newLinks()
	s := serveLinks(t, d, bothEras)
	want := `{"jsonrpc":"2.0","error":{"code":-32022,"message":"Unsupported protocol version","data":{"supported":["2025-11-25","2025-06-18"],"requested":"2026-07-28"}}}`
	for _, raw := range []string{at("/messages?sessionId=a", callRequest()), at("/sse", request("GET", s.addr, "", "MCP-Protocol-Version: 2026-07-28"))} {
		if resp, body := do(t, s.addr, raw); resp.StatusCode != 400 || body != want {
			t.Errorf("got %d %s", resp.StatusCode, body)
		}
	}
}

func TestStatelessDates(t *testing.T) {
	t.Parallel()
	for v, want := range map[string]bool{
		"2026-07-28": true, "2026-07-29": true, "2026-10-01": true, "9999-99-99": true, "2026-07-27": false, "2025-11-25": false,
		"": false, "2026-07-2": false, "2026-07-288": false, "2026/07/28": false, "2026-07-2x": false, "v999.0.0": false, "v999-00-00": false,
		"2026-7-028": false, "----------": false, "2026-07-28, 2026-07-28": false,
	} {
		if got := isStatelessDate(v); got != want {
			t.Errorf("%q: got %v", v, got)
		}
	}
}

// TestStatelessStatus checks that the dispatcher decides on the status of a response.
func TestStatelessStatus(t *testing.T) {
	t.Parallel()
	want := errorBody(-32601, "method not found", `,"id":7`)
	s := serve(t, funcs{post: func(x *Exchange) { x.Answer(404, []byte(want)) }}, bothEras)
	if resp, body := do(t, s.addr, callRequest()); resp.StatusCode != 404 || body != want {
		t.Errorf("got %d %s", resp.StatusCode, body)
	}
}
