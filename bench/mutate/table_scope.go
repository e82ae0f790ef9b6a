package main

// scopes are who may do what.
var scopes = []mutation{
	{
		"a POST needs no scope", guard, "runtime.go",
		"func (d dispatcher) Post(x *transport.Exchange) {\n	in := d.input(x)\n	if d.forbids(x, &in) {", "func (d dispatcher) Post(x *transport.Exchange) {\n	in := d.input(x)\n	if false {", "internal/spec/scope", "",
	},
	{
		"a connection of HTTP+SSE needs no scope", guard, "runtime.go",
		"func (d dispatcher) Connect(x *transport.Exchange) {\n	in := d.input(x)\n	if d.forbids(x, &in) {", "func (d dispatcher) Connect(x *transport.Exchange) {\n	in := d.input(x)\n	if false {", "internal/spec/scope", "",
	},
	{
		"a message of HTTP+SSE needs no scope", guard, "runtime.go",
		"func (d dispatcher) Message(x *transport.Exchange) {\n	in := d.input(x)\n	if d.forbids(x, &in) {", "func (d dispatcher) Message(x *transport.Exchange) {\n	in := d.input(x)\n	if false {", "internal/spec/scope", "",
	},
	{
		"a GET needs no scope", guard, "runtime.go",
		"func (d dispatcher) Get(x *transport.Exchange) {\n	in := d.input(x)\n	if d.forbids(x, &in) {", "func (d dispatcher) Get(x *transport.Exchange) {\n	in := d.input(x)\n	if false {", "internal/spec/scope", "",
	},
	{
		"a DELETE needs no scope", guard, "runtime.go",
		"func (d dispatcher) Delete(x *transport.Exchange) {\n	in := d.input(x)\n	if d.forbids(x, &in) {", "func (d dispatcher) Delete(x *transport.Exchange) {\n	in := d.input(x)\n	if false {", "internal/spec/scope", "",
	},
	{
		"a batch needs what the server needs", guard, "visible.go",
		"			all = scope.Union(all, *s.needs(&e, principal))\n", "", "internal/spec/scope", "TestBatchIsRefusedWhole",
	},
	{
		"a challenge gives away what is hidden", guard, "visible.go",
		"ok && len(t.Scopes) > 0 && s.viewOf(func() Principal { return principalOf(principal) }).sees(t.item())", "ok && len(t.Scopes) > 0", "internal/spec/scope", "TestHiddenItemAsksForNoScope",
	},
	{
		"a template reads a guarded resource in another form", guard, "visible.go",
		"ok && within(of, vars) {\n				needs = ", "ok && within(of, vars) && false {\n				needs = ", "internal/spec/scope", "TestMethodsOfASession",
	},
	{
		"a middleware passes on a prompt that needs a scope", guard, "prompt.go",
		"	if err := call.lacking(p.needs); err != nil {\n", "	if err := call.lacking(nil); err != nil {\n", "internal/spec/scope", "TestMiddlewareAsksForMore",
	},
	{
		"a middleware passes on a resource that needs a scope", guard, "resource.go",
		"call.lacking(scope.Union(s.srv.opts.Scopes, found.needs))", "call.lacking(scope.Union(s.srv.opts.Scopes, nil))", "internal/spec/scope", "TestMiddlewareAsksForMore",
	},
	{
		"a middleware passes on a subscription that needs a scope", guard, "resource.go",
		"call.lacking(s.uriNeeds(call.view(), uri))", "call.lacking(nil)", "internal/spec/scope", "TestMiddlewareAsksForMore",
	},
	{
		"a middleware passes on a completion that needs a scope", guard, "prompt.go",
		"call.lacking(s.completionNeeds(call.view(), p.Ref.Type, p.Ref.Name, p.Ref.URI))", "call.lacking(nil)", "internal/spec/scope", "TestMiddlewareAsksForMore",
	},
	{
		"a listener needs no scope of a resource", guard, "stateless.go",
		"		case s.refusesTo(call, view, uri, &denied):\n", "", "internal/spec/scope", "TestStatelessMethods",
	},
	{
		"a listener needs no scope of a task", guard, "stateless.go",
		"call.lacking(t.Record.Scopes)", "call.lacking(t.Record.Scopes[:0])", "internal/spec/scope", "TestNarrowerTokenReadsNoTask",
	},
	{
		"a narrower token answers and cancels a task", guard, "tasks.go",
		"	if no := s.lacksTask(ctx, call, key); no != nil {\n", "	if no := s.lacksTask(ctx, call, key); false {\n", "internal/spec/scope", "TestNarrowerTokenReadsNoTask",
	},
	{
		"a narrower token resumes", guard, "actors/resume.go",
		"	w, rec, at, err := r.find(ctx)\n	if err == nil {\n", "	w, rec, at, err := r.find(ctx)\n	if false {\n", "internal/spec/scope", "TestNarrowerTokenResumesNothing",
	},
	{
		"a narrower token has a call run again", guard, "actors/resume.go",
		"	if err := r.permitted(&rec); err != nil {\n		return rec, err\n	}\n", "", "internal/spec/scope", "TestNarrowerTokenResumesNothing",
	},
	{
		"a stream does not know what its call needs", guard, "actors/delivery.go",
		"Scopes: r.call.Needs(),", "", "internal/spec/scope", "TestNarrowerTokenResumesNothing",
	},
	{
		"a stream does not know what its batch needs", guard, "actors/batch.go",
		"Scopes: in.needs()", "", "internal/spec/scope", "TestResumeOfABatch",
	},
	{
		"what was required is forgotten", guard, "visible.go",
		"		c.c.Need(needs)\n", "", "internal/spec/scope", "TestResumeNeedsWhatWasRequired",
	},
	{
		"a narrower token sends a call again", seal, "actors/mrtr.go",
		"		denied = a.svc.lacks(a.principal, st.Scopes)\n", "", "internal/spec/scope", "TestNarrowerTokenSendsNothingAgain",
	},
	{
		"a refusal of Require in a session has status 200", guard, "actors/delivery.go",
		"	case a.denied != nil:\n", "	case false:\n", "internal/spec/scope", "TestRequire",
	},
	{
		"a refusal of Require without a session has status 400", guard, "actors/stateless.go",
		"	case a.denied != nil:\n", "	case false:\n", "internal/spec/scope", "TestRequire",
	},
	{
		"a pipe lacks scopes", guard, "visible.go",
		"	case local:\n		return nil, true\n", "", "internal/spec/scope", "TestScopesOfAPipe",
	},
	{
		"a server asks for offline_access", validation, "internal/scope/scope.go",
		"		if s == OfflineAccess {\n", "		if false {\n", "internal/spec/scope", "TestScopesThatAreNone",
	},
	{
		"a challenge takes scopes away", merge, "auth/scope.go",
		"slices.Concat(granted, needed)", "needed", "internal/spec/scope", "TestMethodsOfASession",
	},
	{
		"a narrower token reads what a call has said", guard, "tasks.go",
		"no != nil && !everything {", "false && no != nil && !everything {", "internal/spec/scope", "TestNarrowerTokenReadsNoMessage",
	},
	{
		"two servers are one resource", guard, "mount.go",
		"other != \"\" {", "false {", "internal/spec/auth", "TestOneResourceAServer",
	},
	{
		"paths that are not there take those of servers", guard, "internal/bearer/checker.go",
		"		if rs.HasSSE {\n", "		if true {\n", "internal/spec/auth", "TestPathsThatAreNotThere",
	},
	{
		"an opaque token that counted waits behind others", limit, "auth/introspection.go",
		"	if again {\n", "	if false {\n", "", "TestKnownOpaqueTokens",
	},
	{
		"a clock that is ahead has keys serve for ever", expiry, "auth/keyring.go",
		"	if !stamp.After(k.stamp) {\n", "	if false {\n", "", "TestClockFarAhead",
	},
	{
		"a key that ends in thousands of years goes after a day", expiry, "internal/apikey/record.go",
		"min(r.Expires.Sub(now), farthest)", "r.Expires.Sub(now)", "internal/apikey", "TestFarEnds",
	},
}
