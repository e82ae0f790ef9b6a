package main

// public is the root package.
var public = []mutation{
	{
		"the keys of _meta are sent in any order", merge, "mcp/meta.go",
		"slices.Sorted(maps.Keys(m))", "slices.Collect(maps.Keys(m))", "", "TestMeta",
	},
	{
		"a server's own _meta changes with the program's", guard, "mcp/meta.go",
		"		out[key] = bytes.Clone(value)\n", "		out[key] = value\n", "", "TestMetaIsTheProgramsOwn",
	},
	{
		"a result names two servers", merge, "result.go",
		"	if codec.Optional(own, mcp.MetaServerInfo) == nil {\n", "	if len(own) > 0 {\n", "internal/spec/stateless", "TestStatelessToolResults",
	},
	{
		"the handler beside servers answers any Host", guard, "mount.go",
		"		if rt.guard.Refuse(w, r) {\n", "		if false {\n", "internal/spec/transports", "TestHandlerBesideServers",
	},
	{
		"the handler beside servers gets the paths of probes", guard, "mount.go",
		"	if h == nil || rt.opts.isProbe(r.URL.Path) {\n", "	if h == nil {\n", "internal/spec/transports", "TestHandlerBesideServers",
	},
	{
		"a drain does not wait for the handler beside servers", expiry, "drain.go",
		"func() bool { return rt.beside.Load() > 0 }", "nil", "internal/spec/transports", "TestDrainWaitsForHandler",
	},
	{
		"a call becomes a task as its process ends with the store", guard, "taskrun.go",
		"if s.rt.alone() && (ending || s.rt.leaving.Load()) {", "if s.rt.alone() && ending && false {", "internal/spec/task", "TestNoTaskOfAProcessThatEndsWithItsStore",
	},
	{
		"a call becomes a task by its grace as its process ends with the store", guard, "taskrun.go",
		"(ending || s.rt.leaving.Load())", "ending", "internal/spec/task", "TestNoTaskOfAProcessThatEndsWithItsStore",
	},
	{
		"the whole of a long progress message is stored with a task", guard, "taskrun.go",
		"maxProgressText = 4 << 10", "maxProgressText = 4 << 30", "internal/spec/task", "TestProgressOfALongCall",
	},
	{
		"a name that is taken is given away", guard, "catalogue.go",
		"		if _, replaced = m[name]; replaced && !replace {\n", "		if _, replaced = m[name]; false {\n", "internal/spec/server", "TestNamesTwice",
	},
	{
		"a certificate without a key is taken", guard, "options.go",
		"	if (o.TLSCert == \"\") != (o.TLSKey == \"\") {\n", "	if o.TLSCert == \"\" {\n		return nil\n	}\n	if false {\n", "internal/spec/transports", "TestBadCertificate",
	},
	{
		"each failed handshake is logged", limit, "serve.go",
		"	case strings.HasPrefix(text, \"http: TLS handshake error \"):\n", "	case strings.HasPrefix(text, \"http: TLS handshake errors \"):\n", "internal/spec/transports", "TestFailedHandshakes",
	},
	{
		"whatever clients make the server log is logged", limit, "serve.go",
		"		l.rt.hits.Rarely(slog.LevelWarn, \"the HTTP server reports an error\", slog.String(\"error\", text))", "		l.rt.log.Warn(text)", "", "TestServerLog",
	},
	{
		"the log shows ids", seal, "runtime.go",
		"	o.Log = slog.New(telemetry.Discreet(o.Log.Handler()))\n", "	_ = telemetry.Discreet(nil)\n", "internal/spec/recovery", "TestTheLogHasNoIds",
	},
	{
		"an id in an error is shown", seal, "internal/telemetry/log.go",
		"	case slog.KindAny:\n", "	case slog.KindAny + 100:\n", "", "TestDiscreet",
	},
	{
		"what a logger always has is shown", seal, "internal/telemetry/log.go",
		"d.next.WithAttrs(masked(attrs))", "d.next.WithAttrs(attrs)", "", "TestDiscreet",
	},
	{
		"a change beside DELETE is an error of the server", guard, "service.go",
		"	case errors.Is(err, ErrSessionEnded):\n", "	case errors.Is(err, ErrSessionEnded) && err == nil:\n", "internal/spec/session", "TestRacesWithDelete",
	},
	{
		"what the transport refuses is not logged", limit, "runtime.go",
		"	o.hits.Hit(limits.Hit(limits.HTTP, reason))\n", "", "", "TestWhatTheTransportRefusesIsLogged",
	},
	{
		"what is cut is not logged", limit, "runtime.go",
		"	o.hits.Hit(cmp.Or(limits.Hit(limits.Cuts, reason), limits.Hit(limits.HTTP, reason)))", "	_ = cmp.Or(limits.Hit(limits.Cuts, reason), limits.Hit(limits.HTTP, reason))", "", "TestWhatTheTransportRefusesIsLogged",
	},
	{
		"a long URI is not logged", limit, "resource.go",
		"	s.rt.hits.Hit(limits.MaxURI.Row)\n", "	_ = limits.MaxURI\n", "internal/spec/limits", "TestLimits$",
	},
	{
		"a share of a limit has no flag", limit, "internal/limits/row.go",
		"return r.Of, flagOf(r.Of)", "return \"\", flagOf(\"\")", "", "TestLog$",
	},
	{
		"what is usually hit is logged", limit, "internal/limits/log.go",
		"if r == nil || r.Usual {", "if r == nil {", "", "TestLog$",
	},
	{
		"each hit has a record", limit, "internal/limits/log.go",
		"now.Sub(h.logged) >= logEvery:", "now.Sub(h.logged) >= 0:", "", "TestLog$",
	},
	{
		"large arguments are read at once", limit, "tool.go",
		"	if c.large(args) {\n", "	if c.large(args) && t == nil {\n", "internal/spec/limits", "TestLargeArgumentsTakeTurns",
	},
	{
		"many read the metrics at once", limit, "runtime.go",
		"rt.scraping = quota.NewTurns[*quota.Account](1)", "rt.scraping = quota.NewTurns[*quota.Account](9)", "internal/spec/transports", "TestMetricsAreReadByOne",
	},
	{
		"a reader of the metrics keeps its turn", limit, "serve.go",
		"\t\tdefer time.AfterFunc(limits.ScrapeEvery.Value(), rt.scraping.Leave)\n", "", "internal/spec/transports", "TestMetricsAreReadByOne",
	},
	{
		"the metrics are read without a pause", limit, "serve.go",
		"defer time.AfterFunc(limits.ScrapeEvery.Value(), rt.scraping.Leave)", "defer rt.scraping.Leave()", "internal/spec/transports", "TestMetricsAreReadByOne",
	},
	{
		"the metrics are for everybody", guard, "serve.go",
		"rt.opts.HTTP.PublicMetrics || transport.Local(r)", "true", "internal/spec/transports", "TestMetricsOfThisMachine",
	},
	{
		"a proxy on this machine passes for a client of it", guard, "transport/origin.go",
		"!isLoopback(name) || passedOn(r.Header)", "!isLoopback(name)", "internal/spec/transports", "TestMetricsOfThisMachine",
	},
	{
		"a path where nothing is answers any name", guard, "serve.go",
		"if !rt.guard.Refuse(w, r) {\n\t\tw.Header()", "if true {\n\t\tw.Header()", "internal/spec/transports", "TestNamesOnEveryPath",
	},
	{
		"the probes answer any name", guard, "serve.go",
		"if nameless || !rt.guard.Refuse(w, r) {", "if nameless || r != nil {", "internal/spec/transports", "TestNamesOnEveryPath",
	},
	{
		"a page passes for a balancer's probe", guard, "serve.go",
		"!r.ProtoAtLeast(1, 1) && len(r.Header[\"Origin\"]) == 0", "!r.ProtoAtLeast(1, 1)", "internal/spec/transports", "TestNamesOnEveryPath",
	},
	{
		"the list of servers is for any name", guard, "serve.go",
		"if !rt.guard.Refuse(w, r) {\n\t\trt.respondText(w, r, http.StatusOK, rt.index())", "if true {\n\t\trt.respondText(w, r, http.StatusOK, rt.index())", "internal/spec/transports", "TestNamesOnEveryPath",
	},
	{
		"the probes stay on the main listener", guard, "serve.go",
		"if rt.opts.HTTP.HealthListen == \"\" {\n\t\tif probe", "if true {\n\t\tif probe", "internal/spec/transports", "TestHealthListen",
	},
	{
		"a write to a client that does not read has no end", limit, "serve.go",
		"\tdoor.LimitWrites(rt.opts.Limits.WriteTimeout)\n", "", "internal/spec/transports", "TestResponsesThatNobodyReads",
	},
	{
		"the system keeps megabytes for a connection", limit, "transport/drain_room.go",
		"\tboundBuffers(c)\n", "", "", "TestBuffersOfConnections",
	},
	{
		"a body that nobody wants has no end", limit, "transport/plain.go",
		"if p.unread {", "if false {", "internal/spec/transports", "TestBodiesThatDoNotCome",
	},
	{
		"a request counts only for a Handler", limit, "transport/guard.go",
		"if no := p.count(r, probe); no != nil {", "if no := (*refusal)(nil); no != nil {", "internal/spec/transports", "TestEveryRequestIsCounted",
	},
	{
		"a request counts only when its body is read", limit, "transport/handler.go",
		"no := x.count(r)", "no := (*refusal)(nil)", "internal/spec/transports", "TestEveryRequestIsCounted",
	},
	{
		"a connection that waits for its client keeps its place", limit, "transport/drain_room.go",
		"waits := idle || g.room.handlers.Load() <= 0 || writing > 0 && now-writing >= int64(unreadAfter)", "waits := idle || writing > now", "transport", "TestRoomAmongBusyConnections",
	},
	{
		"a connection whose request is handled makes room", guard, "transport/drain_room.go",
		"g.room.handlers.Load() <= 0", "true", "transport", "TestRoomAmongBusyConnections",
	},
	{
		"issuer and subject run together", guard, "principal.go",
		"	kind := uint64(len(p.Issuer))\n", "	kind := uint64(0)\n", "internal/spec/session", "",
	},
	{
		"all users of an issuer are one", guard, "principal.go",
		"if p.Issuer != \"\" && p.Subject == \"\" {", "if p.Issuer != \"\" && p.Subject == \"\" && r == nil {", "internal/spec/session", "TestIssuerWithoutASubject",
	},
	{
		"a cursor is anybody's", seal, "catalogue.go",
		`"cursor\x00" + key.Tenant + "\x00" + key.Server`, `"cursor\x00" + "\x00" + key.Server`, "internal/spec/transports", "TestBadCursors",
	},
	{
		"a cursor is for any list", seal, "catalogue.go",
		`key.Server + "\x00" + string(m.Method))`, `key.Server + "\x00")`, "internal/spec/transports", "TestBadCursors",
	},
	{
		"a page begins with the last item of the one before", limit, "catalogue.go",
		"if i < len(s.names) && s.names[i] == after {", "if i < len(s.names) && s.names[i] != after {", "internal/spec/server", "",
	},
	{
		"a page is as long as its list", limit, "catalogue.go",
		"if shown == size {", "if i == size {", "internal/spec/server", "",
	},
	{
		"a tool is called that its caller does not see", guard, "visible.go",
		"c.svc.srv.opts.Visible != nil && !c.view().sees(t.item()) {", "c.svc.srv.opts.Visible == nil && !c.view().sees(t.item()) {", "internal/spec/server", "",
	},
	{
		"a prompt is got that its caller does not see", guard, "visible.go",
		"return p, ok && c.view().sees(p.item())", "return p, ok", "internal/spec/server", "",
	},
	{
		"a list is announced that did not change for its listener", guard, "visible.go",
		"if announced[i] == method && now[i] != before[i] {", "if announced[i] == method {", "internal/spec/server", "",
	},
	{
		"a session keeps the token of its caller", guard, "visible.go",
		"p := principalOf(principal).withoutToken()", "p := principalOf(principal)", "internal/spec/server", "",
	},
	{
		"a listener keeps the token of its caller", guard, "visible.go",
		"return &view{caller: v.caller.withoutToken(), s: v.s}", "return &view{caller: v.caller, s: v.s}", "internal/spec/server", "",
	},
	{
		"next of an earlier run is good", guard, "method.go",
		"(*layerRun); ok && run.over.Load() {", "(*layerRun); ok && run == nil {", "internal/spec/server", "Middleware|Next",
	},
	{
		"next of a middleware that has returned is good", guard, "method.go",
		"if p.over.Load() || p.running[place].Load() == 0 {", "if p.over.Load() {", "internal/spec/server", "Middleware|Next",
	},
	{
		"lists by caller may be shared", guard, "result.go",
		"!s.rt.opts.authenticates() && s.srv.opts.Visible == nil {", "!s.rt.opts.authenticates() {", "internal/spec/stateless", "",
	},
	{
		"answers that a client gave are cached", guard, "result.go",
		"if call.asked.Load() || m.Responses != nil || m.State != nil {", "if call.asked.Load() {", "internal/spec/stateless", "",
	},
	{
		"a tool that is annotated insists", limit, "dispatch.go",
		"return ok && t.Rerun == Safe", "return ok && t.safe", "internal/spec/recovery", "TestLarge",
	},
}
