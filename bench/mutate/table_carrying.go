package main

// carrying is transport.
var carrying = []mutation{
	{
		"a request in chunks over TLS leaves its connection open", guard, "transport/drain_listener.go",
		"if _, encrypted := c.(*tls.Conn); encrypted {", "if _, encrypted := c.(*tls.Conn); encrypted && g == nil {", "internal/spec/transports", "TestChunksOverTLS",
	},
	{
		"a request in chunks to another server leaves its connection open", guard, "transport/exchange.go",
		"len(r.TransferEncoding) > 0 && !framed(r) {", "len(r.TransferEncoding) > 0 && framed(r) {", "", "TestAdmission",
	},
	{
		"large bodies are scanned at once", limit, "transport/admit.go",
		"return len(x.Body) > limits.TurnBytes.Value() && x.account != nil }", "return len(x.Body) < 0 && x.account != nil }", "", "TestLargeBodiesTakeTurns",
	},
	{
		"small bodies wait", limit, "transport/admit.go",
		"return len(x.Body) > limits.TurnBytes.Value() && x.account != nil }", "return x.account != nil }", "", "TestLargeBodiesTakeTurns",
	},
	{
		"the place of a large body is kept", guard, "transport/admit.go",
		"\t\tdefer turns.Leave()\n", "", "", "TestLargeBodiesTakeTurns",
	},
	{
		"any host is let in", guard, "transport/origin.go",
		"if from == withoutPort && len(o.AllowHosts) == 0 {", "if len(o.AllowHosts) == 0 {", "", "",
	},
	{
		"any host is let in beyond loopback", guard, "transport/origin.go",
		"if from == withoutPort && len(o.AllowHosts) == 0 {", "if from != onLoopback && len(o.AllowHosts) == 0 {", "", "",
	},
	{
		"a name passes for an address", guard, "transport/origin.go",
		"return err == nil && a.Is6() == v6 && a.Zone() == \"\"", "return a.Is6() == v6 || err != nil", "", "",
	},
	{
		"any address is a host over loopback", guard, "transport/origin.go",
		"return ok && from == beyond && isAddress(name)", "return ok && isAddress(name)", "", "",
	},
	{
		"an address of a type that is not known is out of reach", guard, "transport/origin.go",
		"\treturn beyond\n}", "\treturn withoutPort\n}", "", "",
	},
	{
		"a page of another origin asks other paths", guard, "transport/guard.go",
		"no := g.h.o.admitNames(r)", "no := (*refusal)(nil)", "internal/spec/transports", "TestNamesOnEveryPath|TestHealthListen",
	},
	{
		"a host is allowed on any port", guard, "transport/origin.go",
		"(p == \"\" || p == port) {", "(p == \"\" || p == port || port != \"\") {", "", "",
	},
	{
		"an origin of another port is one's own", guard, "transport/origin.go",
		"return ok && strings.EqualFold(name, ownName) && port == ownPort", "return ok && strings.EqualFold(name, ownName)", "", "",
	},
	{
		"an origin of any scheme is one's own", guard, "transport/origin.go",
		"default:\n\t\treturn false\n\t}\n\tname, port, ok := splitHost(authority)", "}\n\tname, port, ok := splitHost(authority)", "", "",
	},
	{
		"an origin is a local page's though nothing is local", guard, "transport/origin.go",
		"ok := splitHost(authority)\n\tif !ok {\n\t\treturn false\n\t}\n\tif loopback && isLoopback(name) {", "ok := splitHost(authority)\n\tif !ok {\n\t\treturn false\n\t}\n\tif isLoopback(name) {", "", "",
	},
	{
		"a second origin is not looked at", validation, "transport/admit.go",
		"len(origin) > 1 || len(origin) == 1 && !o.originAllowed(", "len(origin) > 0 && !o.originAllowed(", "", "",
	},
	{
		"a second session id is not looked at", validation, "transport/admit.go",
		"if len(v) > 1 || !visible(v[0]) {", "if !visible(v[0]) {", "", "",
	},
	{
		"an event id is of any length", limit, "transport/admit.go",
		"if len(v) > 1 || len(v[0]) > maxEventID {", "if len(v) > 1 {", "", "",
	},
	{
		"a client need not take event streams", validation, "transport/admit.go",
		"!json || !sse {", "!json && !sse {", "", "",
	},
	{
		"a body is packed", validation, "transport/admit.go",
		"len(v) == 1 && !strings.EqualFold(v[0], \"identity\") {", "len(v) == 1 && strings.EqualFold(v[0], \"\") {", "", "",
	},
	{
		"a body of the most that may be is refused", limit, "transport/admit.go",
		"if r.ContentLength > h.o.MaxBody {", "if r.ContentLength >= h.o.MaxBody {", "", "",
	},
	{
		"preflights come before the origin", guard, "transport/admit.go",
		"if no := h.o.admitNames(r); no != nil {", "if no := h.o.admitNames(r); no != nil && r.Method != http.MethodOptions {", "", "",
	},
	{
		"a session id has a blank", validation, "transport/admit.go",
		"if s[i] < 0x21 || s[i] > 0x7e {", "if s[i] < 0x20 || s[i] > 0x7e {", "", "",
	},
	{
		"a revision is any text after the first date", negotiation, "transport/stateless.go",
		"if dash := i == 4 || i == 7; dash != (version[i] == '-') || !dash && version[i]-'0' > 9 {", "if dash := i == 4 || i == 7; dash != (version[i] == '-') {", "", "",
	},
	{
		"header and message say different revisions", negotiation, "transport/stateless.go",
		"if !codec.SameString(m.ProtocolVersion, requested) {", "if requested == \"\" {", "", "",
	},
	{
		"the method of a notification's header is not looked at", validation, "transport/stateless.go",
		"if len(method) > 0 && !saysMethod(method, m) {", "if len(method) > 1 && !saysMethod(method, m) {", "", "",
	},
	{
		"a request says nothing of its client", validation, "transport/stateless.go",
		"if !isObject(declared[0]) {", "if declared[0] == nil {", "", "",
	},
	{
		"the header of a resource names another", validation, "transport/stateless.go",
		"case mcp.MethodResourcesRead:\n\t\treturn m.URI, true", "case mcp.MethodResourcesRead:\n\t\treturn m.URI, len(m.URI) == 0", "", "",
	},
	{
		"a type with a quality of nothing is accepted", validation, "transport/media.go",
		"admitted := !zeroQuality(params)", "admitted := !zeroQuality(params) || media == \"*/*\"", "", "",
	},
	{
		"the last range counts, not the most specific", validation, "transport/media.go",
		"case specificity > v.specificity:", "case specificity > 0:", "", "",
	},
	{
		"a message is in any charset", validation, "transport/media.go",
		"!strings.EqualFold(v, \"utf-8\") && !strings.EqualFold(v, \"utf8\") {", "v == \"\" {", "", "",
	},
	{
		"a reader that stops is written to without bound", limit, "transport/pipe.go",
		"queued+len(data)+1 > p.o.MaxQueued && queued >= p.o.MaxQueued/2 {", "queued+len(data)+1 > p.o.MaxQueued && queued >= 8*p.o.MaxQueued {", "", "",
	},
	{
		"a connection that nobody serves yet is none", guard, "transport/drain_listener.go",
		"return n + len(d.late) + len(d.conns) - d.away", "return len(d.conns) - d.away", "", "TestDrainListenerCountsFromTheStart",
	},
	{
		"what came before the door was shut is refused", guard, "transport/drain_listener.go",
		"if n := len(d.late); n > 0 && !d.closed {", "if n := len(d.late); n > 1 && !d.closed {", "", "",
	},
	{
		"a connection is closed under a request that has come", guard, "transport/drain_conn.go",
		"if n = lastLook(g.Conn, p); n == 0 {", "if n = 0; n == 0 {", "", "",
	},
	{
		"a connection is asked to leave while it is served", guard, "transport/drain_conn.go",
		"if g.idle && !g.closing {", "if !g.closing {", "", "",
	},
	{
		"a connection that stayed has the deadline of the past", guard, "transport/drain_conn.go",
		"_ = g.Conn.SetReadDeadline(g.until)", "_ = g.until", "", "",
	},
	{
		"one address has any number of connections", limit, "transport/drain_room.go",
		"own >= d.crowd.PerAddress {", "own < 0 {", "", "TestCrowdOfAnAddress",
	},
	{
		"one address has a connection too many", limit, "transport/drain_room.go",
		"own >= d.crowd.PerAddress {", "own > d.crowd.PerAddress {", "", "TestCrowdOfAnAddress",
	},
	{
		"connections have no bound together", limit, "transport/drain_room.go",
		"len(d.conns) >= d.crowd.All {", "len(d.conns) < 0 {", "", "TestCrowdOfAnAddress",
	},
	{
		"a proxy is bounded like a client", limit, "transport/crowd.go",
		"if (Forwarded{Trusted: w.Exempt}).trusts(a) {", "if (Forwarded{}).trusts(a) {", "", "TestCrowdOfAnAddress",
	},
	{
		"the same address makes room for itself", guard, "transport/drain_room.go",
		"owned > own+1 && !g.away", "owned > own-1 && !g.away", "", "TestRoomInACrowd",
	},
	{
		"a closed connection keeps its place", limit, "transport/drain_listener.go",
		"if d.from[g.from]--; d.from[g.from] == 0 {", "if d.from[g.from] == 0 {", "", "TestCrowdOfAnAddress",
	},
	{
		"a connection that was closed for others is remembered as leaving", limit, "transport/drain_conn.go",
		"\tg.mu.Lock()\n\tg.stays()\n\tg.mu.Unlock()\n", "", "", "TestRoomInACrowd",
	},
	{
		"an idle connection that ends is a slow header", limit, "transport/drain_conn.go",
		"\tg.header = false\n\tif g.idle = waits", "\tif g.idle = waits", "", "TestHeadersAreCounted",
	},
	{
		"a slow header is not counted", limit, "transport/drain_conn.go",
		"if g.header && err != nil && errors.Is(err, os.ErrDeadlineExceeded) {", "if g.header && err != nil && n < 0 && errors.Is(err, os.ErrDeadlineExceeded) {", "", "TestHeadersAreCounted",
	},
	{
		"a large header is not counted", limit, "transport/drain_conn.go",
		"if bytes.HasPrefix(p, headerTooLarge) {", "if bytes.HasPrefix(p, headerTooLarge) && len(p) == 0 {", "", "TestHeadersAreCounted",
	},
	{
		"health has any number of connections", limit, "serve.go",
		"All: limits.HealthConnections.Value(),", "All: 0,", "internal/spec/transports", "TestHealthConnections",
	},
	{
		"connections are not bounded", limit, "serve.go",
		"transport.Crowd{All: all, PerAddress: perAddress,", "transport.Crowd{All: -all, PerAddress: -perAddress,", "internal/spec/transports", "TestConnections",
	},
	{
		"a network of IPv6 is many addresses", limit, "internal/quota/account.go",
		"a.Prefix(64)", "a.Prefix(128)", "", "",
	},
	{
		"the reserve of files is for clients", limit, "internal/limits/connections.go",
		"files - min(reserve, files/4)", "files", "", "",
	},
	{
		"one address has all connections", limit, "internal/limits/connections.go",
		"max(all/addressPart, 1)", "all", "", "",
	},
	{
		"a request with two lengths runs", guard, "transport/drain_conn.go",
		"case !faulty:", "case !faulty || n >= 0:", "", "TestFraming",
	},
	{
		"a request with two lengths runs at the second look", guard, "transport/drain_conn.go",
		"g.over.Store(true)", "", "", "TestFraming",
	},
	{
		"a length is seen once in a connection", guard, "transport/framing.go",
		"f.begun, f.length, f.coding = false, false, false", "f.begun, f.length = false, false", "", "TestFraming",
	},
	{
		"a name is a name in one case alone", guard, "transport/framing.go",
		"bytes.EqualFold(line[:len(name)], name)", "bytes.Equal(line[:len(name)], name)", "", "TestFraming",
	},
	{
		"a header ends with a folded line", guard, "transport/framing.go",
		"return f.judge(line)", "if line[0] == '\\t' {\n\t\t\t\tf.end()\n\t\t\t\treturn false\n\t\t\t}\n\t\t\treturn f.judge(line)", "", "TestFraming",
	},
	{
		"a name in pieces is not seen", guard, "transport/framing.go",
		"line, f.n = f.line[:f.n], 0", "line, f.n = f.line[:min(f.n, 3)], 0", "", "TestFraming",
	},
	{
		"the middle of a long line counts for nothing", guard, "transport/framing.go",
		"n != f.left || f.long {", "n != f.left {", "", "TestFramingOfPaddedLengths",
	},
	{
		"a body takes time that nobody waits for it", limit, "transport/watchdog.go",
		"w.rested += time.Since(w.paused)", "w.rested += 0 * time.Since(w.paused)", "", "TestABodyIsWaitedFor",
	},
	{
		"a request that Authenticate aborts stays counted", limit, "transport/handler.go",
		"if !passed { // it is refused", "if !passed && no != nil { // it is refused", "", "TestAbortedRequests",
	},
	{
		"a small body that is refused costs nothing", limit, "transport/admit.go",
		"h.o.Owe(x.account, len(x.Body), values)", "h.o.Owe(x.account, 0*len(x.Body), 0*values)", "internal/spec/transports", "TestSmallRefusedBodiesArePaidFor",
	},
	{
		"what a proxy brings comes from this machine", guard, "transport/origin.go",
		"!isLoopback(name) || passedOn(r.Header)", "!isLoopback(name)", "internal/spec/transports", "TestMetricsOfThisMachine",
	},
}
