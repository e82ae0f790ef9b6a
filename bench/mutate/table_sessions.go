package main

// sessions: a client keeps its session, in whatever revision, through deploys and crashes.
var sessions = []mutation{
	{
		"a session stays in its revision",
		"actors", "test/spec/session", "TestHandshakes",
		`$in.$Version != "" && «$in.$Version != $v.$rec.$Revision» {`,
		`$v.$rec.$Revision == ""`,
	},
	{
		"a session goes on when a deploy leaves its revision out",
		"transport", "", "TestSessionsAreOff",
		`case $namesSession($x, $r) && $ofSessions($requested) != 0«»: $x.$Version = $ofSessions($requested).String()`,
		`&& false`,
	},
	{
		"a session outlives the process once a request of it has its response",
		"actors", "", "TestFresh",
		`if $s = $d.$found($in, $id, $s, $err); $s != nil && $s.$view.Load().$rec.$Fresh && «»!($home{$s}).$heard($in) {`,
		`$id == nil && `,
	},
	{
		"a session that is used lasts for days, not minutes",
		"actors/internal/session", "", "",
		`($first bool) { $first«, $r.$Fresh = $r.$Fresh, false» return $first }`,
		` = $r.$Fresh`,
	},
	{
		"a session ends in the end, however much it is used",
		"actors/internal/session", "", "",
		`if $end := $r.$Created.Add($l.$Absolute); $end.Before(«$r.$Expires») {`,
		`$r.$Created`,
	},
	{
		"what is created replaces nothing",
		"cluster", "", "TestRecordRefusals",
		`case errors.Is($lastErr, $store.$ErrNotFound): $seq = 0 case $lastErr != nil «|| len($s.$data) > 0»:`,
		``,
	},
	{
		"a change of a session is made to what others have made of it",
		"actors", "", "TestOlderChangeIsReportedLast",
		`if «$rec», $rev, $err = $n.$read($ctx, $s.$key); $err != nil { return $err }`,
		`_`,
	},
	{
		"a value that another call has set is not overwritten",
		".", "test/spec/nodes", "TestCallsOfOneSessionAtOnce|TestValueThatAnotherCallHasSet",
		`if $read && «»!bytes.Equal($old, $seen) { return nil, $ErrValueChanged }`,
		`len($seen) < 0 && `,
	},
	{
		"a session never goes back to an older record",
		"actors", "", "TestOlderChangeIsReportedLast",
		`for $old := $s.$view.Load(); $v.$rev «>» $old.$rev; $old = $s.$view.Load() {`,
		`!=`,
	},
	{
		"a deploy that is rolled back loses nothing that the newer release has stored of a session",
		"actors/internal/session", "actors", "TestRecordsKeepWhatANewerReleaseSays",
		`«$r.$Unknown = $unknown.$Of[$Record]($data)»`,
		`_ = $unknown.$Of[$Record]`,
	},
	{
		"an older release leaves the directory of a newer one as it is",
		"cluster", "", "TestRefusedDirectories",
		`«$dec.DisallowUnknownFields()» if $err := $dec.Decode(&$identity{}); $err != nil {`,
		``,
	},
	{
		"a session that its client has ended stays ended",
		"actors", "", "TestDeleteDuringATakeover",
		`if errors.Is($err, $store.$ErrNotFound) «|| $err == nil && $s.$ended.Load()» {`,
		``,
	},
	{
		"a deploy leaves a batch of safe calls to the next process",
		"actors", "", "TestBatchIsHandedOverWhileSomeOfItMayRunAgain",
		`if «len($s.$rec.$Calls) > 0 && ($s.$node.$drain.$last() || !$s.$runsAgain())» { $s.$step(`,
		`len($s.$rec.$Calls) > 1 || len($s.$rec.$Calls) > 0 && !$s.$runsAgain()`,
	},
	{
		"a process whose store ends with it answers its calls itself",
		"actors", "test/spec/recovery", "TestDrainOfAStoreInMemory",
		`if «$s.$node.$drain.$alone ||» !$s.$opened`,
		``,
	},
	{
		"a drain has time to hand its calls over",
		"actors", "", "TestFinishLeavesTimeToHandOver",
		`($beside == nil || «$late.Load() ||» !$beside())`,
		``,
	},
	{
		"a deploy serves the connections that have come",
		"transport/server", "transport", "TestListenerServesWhoCameInTime",
		`if $n := len($d.$waiting); $n > «0» && !$d.$closed {`,
		`1`,
	},
	{
		"a deploy closes no connection under a request",
		"transport/server", "transport", "TestCloseIdle",
		`if $n = «$lastLook($g.$Conn, $p)»; $n == 0 { _ = $g.$Conn.Close() return 0, io.EOF, nil }`,
		`0`,
	},
	{
		"what is acknowledged with --sync 0s is on the disk",
		"cluster", "", "TestFlushThatFails",
		`$failed = fmt.Errorf("%w: flush: %w", $store.$ErrUnavailable, $failed) } $f.$end($g, «$failed»)`,
		`nil`,
	},
}
