package main

// ends are what has a stream or a session end with the token that opened it, and what a narrower token has of it.
var ends = []mutation{
	{"what a token opened has no leeway", expiry, "principal.go", "return (&auth.Identity{Issuer: c.Issuer, Expires: c.Expires}).Ends()", "return c.Expires", "internal/spec/auth", "TestStreamsEndWithTheirToken"},
	{"a stream outlives its token while it is silent", expiry, "actors/heart.go", "		h.Contain(a.Lapse)\n", "", "internal/spec/auth", "TestSilentStreamsEndWithTheirToken"},
	{"a stream has an event after its token", expiry, "internal/attachment/attachment.go", "	case a.done || f.Num < a.next || a.lapsed():\n", "	case a.done || f.Num < a.next:\n", "", "TestNothingComesAfterUntil"},
	{"a resumed stream has an old event after its token", expiry, "internal/attachment/attachment.go", "!a.done && p.Num >= a.next && !a.lapsed()", "!a.done && p.Num >= a.next", "", "TestNothingComesAfterUntil"},
	{"a stream that catches up has an event after its token", expiry, "internal/attachment/attachment.go", "f.Num < a.next || a.done || a.lapsed()", "f.Num < a.next || a.done", "", "TestNothingComesAfterUntil"},
	{"a stream has a question after its token", expiry, "internal/attachment/attachment.go", "!a.done && a.live && !a.lapsed()", "!a.done && a.live", "", "TestNothingComesAfterUntil"},
	{"a call that nobody could resume ends with its token", expiry, "internal/attachment/attachment.go", "	case a.Answers && !a.Primes && !a.named:\n", "	case false:\n", "", "TestNothingComesAfterUntil"},
	{"a call that was spared ends at its first event", expiry, "internal/attachment/attachment.go", "		a.spared = true\n", "", "", "TestNothingComesAfterUntil"},
	{"a listener outlives its token while it is silent", expiry, "actors/heart.go", "return past(l.until, now)", "return false", "internal/spec/auth", "TestSilentStreamsEndWithTheirToken"},
	{"a listener hears after its token", expiry, "actors/listen.go", "	if past(l.until, time.Now()) {\n", "	if false {\n", "internal/spec/auth", "TestListenersEndWithTheirToken"},
	{"a session of HTTP+SSE outlives its token", expiry, "actors/heart.go", "		if past(l.until, now) {\n", "		if false {\n", "internal/spec/auth", "TestSSEEndsWithItsToken"},
	{"a session of HTTP+SSE has a message after its token", expiry, "actors/bound.go", "	if past(l.until, time.Now()) {\n", "	if false {\n", "internal/spec/auth", "TestSSEEndsWithItsToken"},
	{"a narrower token hears of a resource", guard, "session.go", "s.svc.Known, s.svc.Withholds = s.known, s.withholds", "s.svc.Known = s.known", "internal/spec/scope", "TestNarrowerTokenHearsOfNoUpdates"},
	{"a narrower token hears of a resource when it resumes", guard, "internal/attachment/attachment.go", "withheld, _ := a.Withholds(p.Entries[i].Data); withheld", "withheld, _ := a.Withholds(p.Entries[i].Data); withheld && a.live", "internal/spec/scope", "TestNarrowerTokenHearsOfNoUpdates"},
	{"a client is not sent back for what a wider token may have", guard, "internal/attachment/attachment.go", "	if a.Withholds != nil && (a.Primes || a.named) {\n", "	if false {\n", "internal/spec/scope", "TestNarrowerTokenHearsOfNoUpdates"},
	{"a narrower token is sent back for ever", guard, "actors/reader.go", "return subscription.Covers(to, uri) })", "return to == \"\" && subscription.Covers(to, uri) })", "internal/spec/scope", "TestNarrowerTokenHearsOfNoUpdates"},
	{"a listener hears of a resource below its own without the scope", guard, "stateless.go", "s.follows(later, uri) && !s.withheld(principal, uri)", "s.follows(later, uri) && !s.withheld(principal, \"\")", "internal/spec/scope", "TestUpdatesBelowNeedScopes"},
}
