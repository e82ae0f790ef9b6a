package main

// apiKeys are API keys.
var apiKeys = []mutation{
	{
		"a key with another checksum counts", guard, "auth/apikey.go",
		"if key[apiKeyLength-keyChecksum:] != string(sum[:]) {", "if key == string(sum[:]) {", "", "APIKey",
	},
	{
		"a revoked key counts", guard, "auth/apikeys.go",
		"if !key.Revoked.IsZero() {", "if false {", "", "TestRevokedAPIKeys",
	},
	{
		"a verdict of a key holds for ever", guard, "auth/apikeys.go",
		"f.verdict == v && now.Sub(f.read) < keyFresh", "f.verdict == v", "", "TestRevokedAPIKeys",
	},
	{
		"a known key counts while it is looked up, however long", guard, "auth/apikeys.go",
		"now.Sub(f.read) < stale || failing", "f.key != nil || stale == 0 || failing", "", "TestRevokedAPIKeys",
	},
	{
		"requests wait for a store that does not answer", limit, "auth/apikeys.go",
		"|| failing && f.key != nil)", "|| failing && f == nil)", "", "TestTheStoreOfAPIKeysIsAway",
	},
	{
		"an unknown key is not remembered", limit, "auth/apikeys.go",
		"(f == nil || now.Sub(f.read) >= keyFresh)", "(f == nil || f.key == nil || now.Sub(f.read) >= keyFresh)", "", "TestUnknownAPIKeysAreNoFlood",
	},
	{
		"unknown keys displace known ones", guard, "auth/apikeys.go",
		"		t.known.put(e.digest, e)\n", "		t.unknown.put(e.digest, e)\n", "", "TestUnknownAPIKeysAreNoFlood",
	},
	{
		"a key without an answer is unknown", guard, "auth/apikeys.go",
		"if err != nil && !unknown {", "if err != nil && !unknown && last != nil {", "", "TestTheStoreOfAPIKeysIsAway",
	},
	{
		"a key is good for every server", guard, "auth/authority.go",
		"if err == nil && !v.Serves(server.names...) {", "if false {", "", "TestServersOfAPIKeys",
	},
	{
		"a use is noted with each look-up", limit, "auth/apikeys.go",
		"key.Used.Before(day(began)) && e.noted.Before(day(began)) && ", "", "", "TestWhenAPIKeysWereUsed",
	},
	{
		"a secret that was replaced counts on", guard, "internal/apikey/store.go",
		"sooner(r.Expires, of.Ends)", "r.Expires", "", "TestKeys",
	},
	{
		"a note of a use brings a revoked key back", merge, "internal/apikey/store.go",
		"		r.Used = day\n", "		r.Used, r.Revoked = day, time.Time{}\n", "", "TestUsed",
	},
	{
		"a revoked key is rotated", guard, "internal/apikey/store.go",
		"			if r.ended(now) {\n", "			if false {\n", "", "TestKeys",
	},
	{
		"a revoked key is kept for ever", limit, "internal/apikey/record.go",
		"		return keepRevoked\n", "		return 0\n", "", "TestRecordsGo",
	},
	{
		"what a newer release has written is dropped", merge, "internal/apikey/record.go",
		"return r.rest.Append(data), nil", "return data, nil", "", "TestOtherReleases",
	},
	{
		"API keys fill the part of the key ring", limit, "cluster/sessions.go",
		"s.Bytes < s.MaxBytes/2, nil", "true, nil", "internal/apikey", "TestRoom",
	},
}
