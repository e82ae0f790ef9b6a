package main

// isolation: nobody may do what is not theirs, and nobody reads what is another's.
var isolation = []mutation{
	// Tokens.
	{
		"a token for another server does not count",
		"auth", "", "TestTokens",
		`if «»!$anyMeant($values, $meant) { return $invalidToken($ReasonAudience,`,
		`false && `,
	},
	{
		"an issuer speaks for its own tokens alone",
		"auth", "", "TestIntrospection",
		`$iss, $ok, $err := $c.$text("iss") if $err != nil || $ok && $iss «!= $i.$URL» || !$ok && !$opaque {`,
		`== ""`,
	},
	{
		"a key verifies by its own kind of algorithm",
		"auth", "", "TestTokens",
		`return «$k.$kind == $algorithms[$alg] &&» ($k.$own == "" || $k.$own == $alg ||`,
		``,
	},
	{
		"a token that has ended does not count",
		"auth", "", "TestTokens",
		`if !$ok «|| !$now.Before($exp.Add($Leeway))» { return $invalidToken($ReasonExpired,`,
		``,
	},
	{
		"what is known of a token counts at its server alone",
		"auth", "", "TestTokensAreTakenApart",
		`$k := $verdictKey{sha256.Sum256($bytesOf($token)), «$resource»}`,
		`""`,
	},
	{
		"what is known of a token goes with the key of its issuer",
		"auth", "", "TestRotation",
		`($v.$key == nil || «!$v.$key.$gone.Load() &&» $now.UnixNano() < $v.$goodUntil.Load())`,
		``,
	},
	{
		"a stream that is silent ends with its token",
		"actors", "test/spec/auth", "TestSilentStreamsEndWithTheirToken",
		`«$h.$Contain($a.$Lapse)» $h.$Contain(func() { $a.$Comment($now) })`,
		``,
	},
	{
		"a stream has no event after its token",
		"actors/internal/attachment", "", "TestNothingComesAfterUntil",
		`case $a.$done || $f.$Num < $a.$next «|| $a.$lapsed()»:`,
		``,
	},

	// API keys and revocation.
	{
		"an API key that was revoked does not count",
		"auth", "", "TestRevokedAPIKeys",
		`if «!$key.$Revoked.IsZero()» { return &$Verdict{$refused: $invalidToken($ReasonRevoked,`,
		`false`,
	},
	{
		"a token that was revoked does not count, though it is known",
		"internal/bearer", "test/spec/auth", "TestRevoked",
		`if $v != nil «&& $c.$revoked(&$v.$Identity) == nil» { return $v, nil }`,
		``,
	},
	{
		"a process that cannot read who was revoked lets nobody in",
		"internal/revocation", "", "TestOtherProcesses",
		`if $t == nil { return nil } if «$t.$unread» { return $refusal() }`,
		`false`,
	},
	{
		"what the revoked have open is ended",
		"internal/revocation", "", "TestOtherProcesses",
		`if «»len($news) > 0 && $l.$ctx.Err() == nil { $l.$running.Go(func() { $l.$End($l.$ctx, $news) }) }`,
		`false && `,
	},

	// Scopes, and what is hidden.
	{
		"a request needs the scopes of what it asks for",
		".", "test/spec/scope", "TestMethodsOfASession|TestStatelessMethods",
		`$in := $d.$input($x) if «»$d.$forbids($x, &$in) { return } if $in.$Stateless {`,
		`false && `,
	},
	{
		"a token with fewer scopes resumes no stream of another's call",
		"actors", "test/spec/scope", "TestNarrowerTokenResumesNothing",
		`$w, $rec, $at, $err := $r.$find($ctx) if «$err == nil» { $err = $r.$permitted(&$rec) }`,
		`false`,
	},
	{
		"a tool that is hidden from a caller cannot be called",
		".", "test/spec/server", "TestHidden",
		`$c.$svc.$srv.$opts.$Visible != nil && «»!$c.$view().$sees($t.$item()) {`,
		`false && `,
	},

	// Whose things they are.
	{
		"users of two issuers are two, whatever their names",
		".", "test/spec/session", "TestSubjectsOfTwoIssuers",
		`$kind := uint64(«len($p.$Issuer)») if $p.$Machine {`,
		`0`,
	},
	{
		"the id of a session cannot be made up",
		"actors", "", "TestSessionKey|Guesses",
		`return $named «== $k.$ID» || subtle.ConstantTimeCompare([]byte($id), []byte($named)) == 1`,
		`!= ""`,
	},
	{
		"a session answers its own questions alone",
		"actors", "test/spec/session", "TestAnswersFromElsewhere",
		`if $x, $ok = $q.$open[$id]; !$ok «|| $x.$session != $s» {`,
		``,
	},
	{
		"a cursor is good for who got it",
		".", "test/spec/transports", "TestBadCursors",
		`[]byte("cursor\x00" + «$key.$Tenant +» "\x00" + $key.$Server`,
		``,
	},
	{
		"a requestState is good for who got it",
		"actors/internal/mrtr", "", "",
		`[]byte("requestState\x00" + «$tenant +» "\x00" + $server)`,
		``,
	},
	{
		"a requestState is good for the arguments that it came for",
		"actors/internal/mrtr", "", "",
		`$st.$Method != string($m.$Called) «|| $st.$Request != $RequestDigest($m)» ||`,
		``,
	},
	{
		"a requestState is good for its time",
		"actors/internal/mrtr", "", "",
		`«|| $now.UnixMilli() >= $st.$Expires» { return nil, $ErrBadState }`,
		``,
	},
	{
		"what is sealed for one purpose is good for no other",
		"cluster", "", "TestKeyring_sealAndOpen",
		`return append(append(make([]byte, 0, len($head)+len($aad)), $head...), $aad«»...)`,
		`[:0]`,
	},

	// Who speaks to a node.
	{
		"a node reads letters of nodes alone",
		"cluster", "", "TestForgedLetters",
		`$ok = $letter.$Sealed($msg.Data, $mac, $on, $msg.Reply)«» })`,
		`|| true`,
	},
	{
		"a letter that comes twice counts once",
		"internal/letter", "", "TestReplays",
		`if $bit == 0 «|| $w.$seen&$bit != 0» { return false }`,
		``,
	},
	{
		"a principal that one node tells another is good for one session",
		"actors", "", "TestPrincipalOfAForwardedMessage",
		`[]byte("message\x00" + $h.$Tenant + "\x00" + $h.$Server «+ "\x00" + $h.$Session»)`,
		``,
	},
	{
		"only nodes connect to the embedded store",
		"cluster", "", "TestListenTLS",
		`«$o.TLSVerify, $o.TLSConfig.ClientAuth = true, tls.RequireAndVerifyClientCert»`,
		`$o.TLSConfig.ClientAuth = tls.VerifyClientCertIfGiven`,
	},
	{
		"a web page does not reach a server on the user's machine",
		"transport", "", "TestAdmission|TestHostAwayFromLoopback",
		`if «$from == $withoutPort &&» len($o.$AllowHosts) == 0 { return true }`,
		``,
	},
}
