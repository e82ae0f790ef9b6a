package main

// protocol is what is known of messages: codec and mcp.
var protocol = []mutation{
	{
		"depth is one level more", limit, "codec/lexer.go",
		"if depth+level >= l.max {", "if depth+level > l.max {", "", "",
	},
	{
		"depth of the envelope's objects is not bounded", limit, "codec/scan.go",
		"if depth > s.max {", "if depth > s.max+1 {", "", "",
	},
	{
		"a three-byte character may be a surrogate", validation, "codec/lexer.go",
		"x&0xff != 0xe0 && x&0xff != 0xed {", "x&0xff != 0xe0 {", "", "",
	},
	{
		"half a surrogate pair is an escape", validation, "codec/lexer.go",
		"if r < 0xd800 || r > 0xdfff {", "if r < 0xd800 || r >= 0xdc00 {", "", "",
	},
	{
		"a second member of params is no duplicate", validation, "codec/scan.go",
		"if *span != nil {", "if *span != nil && duplicate != reasonDupParam {", "", "",
	},
	{
		"an id is known though it is there twice", validation, "codec/scan.go",
		"if !s.badID && !s.dupID {", "if !s.badID {", "", "",
	},
	{
		"a batch has one message more", limit, "codec/envelope.go",
		"if n > limit {", "if n > limit+1 {", "", "",
	},
	{
		"a batch lies in a batch", validation, "codec/envelope.go",
		"if i < len(b) && b[i] == '[' {", "if i < len(b) && b[i] == '[' && n > limit {", "", "",
	},
	{
		"an error needs no message", validation, "codec/envelope.go",
		"!(s.errorCode && s.errorString)", "!s.errorCode", "", "",
	},
	{
		"a fraction is cut off", validation, "codec/integer.go",
		"if len(fraction) > 0 || len(bytes", "if len(bytes", "", "",
	},
	{
		"names count in any case to json/v2", validation, "internal/jsonv2/codec.go",
		"json.MatchCaseInsensitiveNames(false)", "json.MatchCaseInsensitiveNames(true)", "", "TestDecodeDuplicates",
	},
	{
		"a member may come twice to json/v2", validation, "internal/jsonv2/duplicate.go",
		"\t\t\treturn ErrDuplicate\n", "\t\t\treturn errors.ErrUnsupported\n", "", "TestDecodeDuplicates",
	},
	{
		"a supported revision is not agreed on", negotiation, "mcp/revision.go",
		"slices.Contains(supported, r) {", "slices.Contains(supported, r) && r == LatestLegacy {", "", "",
	},
	{
		"a revision that is not spoken is refused as by a server that knows it", negotiation, "transport/refusal.go",
		"if len(h.o.Stateless) == 0 {", "if len(h.o.Stateless) == 1 {", "", "TestStatelessIsOff",
	},
	{
		"a session ends with its revision", negotiation, "transport/stateless.go",
		"case namesSession(x, r) && ofSessions(requested) != 0:", "case namesSession(x, r) && ofSessions(requested) != 0 && len(h.o.Revisions) > 0:", "", "TestSessionsAreOff",
	},
	{
		"any revision may go on with a session", negotiation, "transport/stateless.go",
		"r.Has(mcp.FeatureSessions) {", "r.Valid() {", "", "",
	},
	{
		"a server without sessions takes requests without metadata", negotiation, "transport/stateless.go",
		"return len(h.o.Revisions) == 0 && h.bothEras(x) && x.SessionID == \"\"", "return len(h.o.Revisions) < 0 && h.bothEras(x) && x.SessionID == \"\"", "", "TestSessionsAreOff",
	},
	{
		"a list of revisions has one twice", validation, "revisions.go",
		"\t\tcase seen[r]:", "\t\tcase seen[r] && len(revisions) > 8:", "internal/spec/transports", "TestBadRevisionsAreNamed",
	},
	{
		"a pipe has metadata count where the revision is not spoken", negotiation, "stateless.go",
		"case len(all.stateless()) == 0:", "case len(all) == 0:", "internal/spec/transports", "TestUnspokenRevisionIsUnheardOf",
	},
	{
		"the newest revision is the last of the list", negotiation, "mcp/revision.go",
		"newest = max(newest, s)", "newest = s", "", "",
	},
	{
		"a feature outlives its last revision", negotiation, "mcp/revision.go",
		"(s.Until == 0 || r <= s.Until)", "(s.Until == 0 || r <= s.Until+1)", "", "",
	},
	{
		"structured content is any value a revision early", negotiation, "mcp/revision.go",
		"FeatureStructuredValues:     {Since: Revision20260728}", "FeatureStructuredValues:     {Since: Revision20251125}", "", "",
	},
	{
		"forms come with a client that opens URLs only", negotiation, "mcp/capability.go",
		"(c.Elicitation.Form != nil || c.Elicitation.URL == nil)", "true", "", "",
	},
	{
		"defaults of numbers reach 2025-06-18", negotiation, "mcp/project_question.go",
		"case *NumberSchema:\n\t\t\tc := *s\n\t\t\tc.Default = nil", "case *NumberSchema:\n\t\t\tc := *s", "", "",
	},
	{
		"sampling with a choice of tools goes to any client", negotiation, "mcp/project_question.go",
		"if len(p.Tools) > 0 || p.ToolChoice != nil {", "if len(p.Tools) > 0 {", "", "",
	},
	{
		"a resource that is not found keeps its code", negotiation, "mcp/errors.go",
		"code = CodeInvalidParams", "code = CodeResourceNotFound", "", "",
	},
}
