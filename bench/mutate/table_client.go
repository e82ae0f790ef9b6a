package main

// calling is the client of any server.
var calling = []mutation{
	{
		"a redirect takes the token to another server", guard, "internal/client/connect.go",
		"CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },",
		"CheckRedirect: func(_ *http.Request, via []*http.Request) error {\n			if len(via) > 1 {\n				return http.ErrUseLastResponse\n			}\n			return nil\n		},", "", "TestBadServers",
	},
	{
		"a call whose stream is gone is sent again", guard, "internal/client/patience.go",
		"if errors.Is(err, ErrLost) {", "if errors.Is(err, ErrLost) && reads {", "", "TestStreamIsResumed",
	},
	{
		"a call that may have taken effect is sent again", guard, "internal/client/patience.go",
		"	if !reads {\n", "	if !reads && err == nil {\n", "", "TestComesAgain",
	},
	{
		"a stream without a session is resumed", guard, "internal/client/stream.go",
		"case s.last == \"\" || c.stateless():", "case s.last == \"\":", "", "TestComesAgain",
	},
	{
		"a body without an end is read to its end", limit, "internal/client/request.go",
		"	if len(body) > most {\n", "	if len(body) > most && id == \"\" {\n", "", "TestBadServers",
	},
	{
		"an event may have any number of lines", limit, "internal/eventstream/reader.go",
		"if len(r.data)+len(value) > r.most {", "if len(value) > r.most {", "", "TestReader",
	},
	{
		"a line may have any length", limit, "internal/eventstream/reader.go",
		"if len(r.line)+end > r.most {", "if end > r.most && r.most == 0 {", "", "TestReader",
	},
	{
		"a server names a header that breaks the request", validation, "internal/client/header.go",
		"if s.Header != \"\" && isToken(s.Header) {", "if s.Header != \"\" {", "", "TestParamHeaders",
	},
	{
		"Retry-After is not heeded", expiry, "internal/client/patience.go",
		"pause := max(after, p.pause)", "pause := p.pause", "", "TestComesAgain",
	},
	{
		"a stream that the server still has is given up", guard, "internal/client/stream.go",
		"!may && !errors.Is(err, errStillOpen)", "!may", "", "",
	},
	{
		"a stream is resumed before the server wants", expiry, "internal/client/stream.go",
		"for after := s.pause; ; {", "for after := 0 * s.pause; ; {", "", "TestResumeHeedsRetry",
	},
	{
		"a task that nobody waits for is left alone", guard, "internal/client/call.go",
		"			c.abandon(id)\n			return nil, context.Cause(ctx)", "			return nil, context.Cause(ctx)", "", "TestTaskIsFollowed",
	},
	{
		"a question of a task is answered twice", guard, "internal/client/call.go",
		"had[key] = true", "had[key] = false", "", "TestTaskIsFollowed",
	},
	{
		"a server chooses a revision that the user did not", negotiation, "internal/client/connect.go",
		"!known || c.o.Revision != 0 && spoken != c.o.Revision || spoken.Stateless()", "!known || spoken.Stateless()", "", "TestConnectAgrees",
	},
	{
		"a modern server is taken for an old one", negotiation, "internal/client/connect.go",
		"case mcp.CodeHeaderMismatch, mcp.CodeMissingCapability:", "case mcp.CodeMissingCapability:", "", "TestConnectAgrees",
	},
	{
		"what a server says moves the cursor of a terminal", validation, "cmd/troupe/remote.go",
		"return &failure{plain(text, mostLine), err}", "return &failure{text, err}", "", "TestCallTellsOfBadServers",
	},
}
