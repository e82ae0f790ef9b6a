package main

// revoked are revocations.
var revoked = []mutation{
	{
		"a token that was verified before is not held to the revocations", guard, "internal/bearer/checker.go",
		"	if v != nil && c.revoked(&v.Identity) == nil {\n", "	if v != nil {\n", "internal/spec/auth", "TestRevoked",
	},
	{
		"a token is held to the revocations only once it is known", guard, "internal/bearer/checker.go",
		"	if err == nil && v != nil {\n		if no", "	if err == nil && v == nil {\n		if no", "internal/spec/auth", "TestRevoked",
	},
	{
		"a revoked token passes the bound of those that fail", limit, "internal/bearer/checker.go",
		`	if len(r.Header["Authorization"]) > 0 {`, `	if v == nil && len(r.Header["Authorization"]) > 0 {`, "internal/spec/auth", "TestRevokedTokensFail",
	},
	{
		"an issuer does not count for a revocation", guard, "internal/revocation/table.go",
		`	return (r.Issuer == "" || r.Issuer == id.Issuer) && (r.Ban`, `	return (r.Ban`, "", "TestWhoIsRefused",
	},
	{
		"a token without iat counts", guard, "internal/revocation/table.go",
		"id.Issued.IsZero() || id.Issued.Before(r.Created)", "!id.Issued.IsZero() && id.Issued.Before(r.Created)", "", "TestWhoIsRefused",
	},
	{
		"a ban spares tokens that are issued later", guard, "internal/revocation/table.go",
		"(r.Ban || id.Issued", "(id.Issued", "", "TestWhoIsRefused",
	},
	{
		"a revocation refuses tokens that are issued later", guard, "internal/revocation/table.go",
		"id.Issued.IsZero() || id.Issued.Before(r.Created)", "true", "", "TestWhoIsRefused",
	},
	{
		"a revocation of a client is not looked for", guard, "internal/revocation/table.go",
		"range t.clients[id.Client]", "range t.clients[id.Subject]", "", "TestWhoIsRefused",
	},
	{
		"a revocation has no end", expiry, "internal/revocation/record.go",
		"return !r.Ban && !now.Before(r.Expires)", "return false", "", "TestARevocationEnds",
	},
	{
		"the record of a revocation stays", expiry, "internal/revocation/store.go",
		"	if !stored.Ban {\n", "	if stored.Ban {\n", "", "TestARevocationEnds",
	},
	{
		"a ban is weakened by a revocation", merge, "internal/revocation/record.go",
		"n.rest, n.Ban = old.rest, n.Ban || old.Ban", "n.rest = old.rest", "", "TestAgain",
	},
	{
		"a revocation is shortened by another one", merge, "internal/revocation/record.go",
		"	if n.Expires.Before(old.Expires) {\n", "	if false {\n", "", "TestAgain",
	},
	{
		"what a newer release has written of a revocation is dropped", merge, "internal/revocation/record.go",
		"return r.rest.Append(data), nil", "return data, nil", "", "TestOtherReleases",
	},
	{
		"a process that knows no revocations lets everybody in", guard, "internal/revocation/list.go",
		"	if t.unread {\n", "	if false {\n", "", "TestOtherProcesses",
	},
	{
		"what others revoke is read once", guard, "internal/revocation/list.go",
		"	return l.Shared || l.read.IsZero()\n", "	return l.read.IsZero()\n", "", "TestOtherProcesses",
	},
	{
		"what was removed while the store was away is not forgotten", merge, "internal/revocation/list.go",
		"	if whole {\n		maps", "	if false {\n		maps", "", "TestOtherProcesses",
	},
	{
		"what is known is forgotten when the store is away", guard, "internal/revocation/list.go",
		"	if err != nil {\n		return err\n	}\n	l.mu.Lock()\n	l.read, l.next", "	if err != nil {\n		found, whole, err = nil, true, nil\n	}\n	l.mu.Lock()\n	l.read, l.next", "", "TestOtherProcesses",
	},
	{
		"everything is read each time", limit, "internal/revocation/list.go",
		"	if whole {\n		next = 0\n	}\n", "	next = 0\n", "", "TestOtherProcesses",
	},
	{
		"what the revoked hold is not ended", guard, "internal/revocation/list.go",
		"	if len(news) > 0 && l.ctx.Err() == nil {\n", "	if false {\n", "", "TestOtherProcesses",
	},
	{
		"there is no bound on revocations", limit, "internal/revocation/store.go",
		"n >= limits.Revocations.Value()", "n > limits.Revocations.Value()", "", "TestTooMany",
	},
	{
		"a revocation needs no room", limit, "internal/revocation/store.go",
		"	if err == nil && !room {\n", "	if err == nil && !room && false {\n", "", "TestTooMany",
	},
	{
		"revocations fill the part of the key ring", limit, "cluster/sessions.go",
		"s.Bytes < s.MaxBytes/4*3, nil", "true, nil", "internal/nodestore", "TestRoomForRevocations",
	},
	{
		"what was deleted is not told of", merge, "cluster/sessions.go",
		"if bad == nil || errors.Is(bad, ErrNotFound) {", "if bad == nil {", "internal/nodestore", "TestRevokedOnOtherNodes",
	},
	{
		"an API key is revoked, and what it holds is not", guard, "internal/revocation/store.go",
		"	r, err := l.Revoke(ctx, Revocation{Subject: k.ID, Issuer: auth.KeyIssuer})\n", "	r := Revocation{Subject: k.ID, Issuer: auth.KeyIssuer}\n", "", "TestAnAPIKey",
	},
	{
		"what the revoked hold goes on on a node", guard, "operate.go",
		"		if err := actors.EndHeld(ctx, rt.node, tenant, holder); err != nil && ctx.Err() == nil {\n", "		if err := ctx.Err(); err != nil && ctx.Err() == nil {\n", "internal/spec/auth", "TestWhatTheRevokedHoldEnds",
	},
	{
		"tasks of a revoked client's users run on", guard, "operate.go",
		"			if !theirs && (r.Client != \"\" || r.Issuer == \"\") {", "			if false {\n", "internal/spec/auth", "TestWhatTheRevokedHoldEnds",
	},
	{
		"tasks of the revoked run on", guard, "operate.go",
		"			theirs := slices.Contains(tenants, t.Key.Tenant)\n", "			theirs := false\n", "internal/spec/auth", "TestWhatTheRevokedHoldEnds",
	},
	{
		"sessions of the revoked in the store go on", guard, "operate.go",
		"rt.cluster.SessionsOf(ctx, tenant)", `rt.cluster.SessionsOf(ctx, "not"+tenant)`, "internal/spec/auth", "TestIdleSessionsOfTheRevoked",
	},
	{
		"a request whose body comes after its owner was revoked goes on", guard, "visible.go",
		"	if s.rt.revokedMeanwhile(x) {\n", "	if false {\n", "internal/spec/auth", "TestRevokedMeanwhile",
	},
}
