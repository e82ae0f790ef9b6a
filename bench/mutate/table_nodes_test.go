package mutate

// nodes: any node serves any client, and no node concludes more than it can know.
var nodes = []mutation{
	// Who may write a stream.
	{"no stream is taken over from a writer that is there", "actors/internal/takeover", "", "TestWhoIsTakenFrom",
		`func ($w $Writer) $MustBeGone($boot string, $given $Writer) bool { return «!$w.$IsOf($boot) && $w != $given» }`,
		`$w == $given && $w.$IsOf($boot)`},
	{"a node that may itself be taken for gone takes nothing over", "actors", "", "TestTakeoverWaitsForTheLease",
		`case $takeover.$CheckLease: $m.$Certain(!$n.$store.$Suspended()«»)`,
		`|| true`},
	{"a takeover is noted where the old writer looks for it", "actors/internal/takeover", "", "TestTakeoverIsNotedFirst",
		`«$m.$alone || !$m.$Writer.$MustBeGone($m.$self.$Boot, $m.$given)» { $m.$Marked(nil)`,
		`true`},
	{"a writer whose record is gone asks whether its streams were taken over", "actors", "test/spec/nodes", "TestTakenOverAndForgotten",
		`switch $taken, $err := $n.$store.$Taken($ctx); { case $err != nil: return 0, $err case $taken«»: return 0, $errMaybeTaken }`,
		`&& false`},
	{"a record that has expired does not count as taken over", "actors/internal/takeover", "", "TestWhose",
		`case $rec != nil: return $Taken case !$certain: return $Doubt } return «$Lost»`,
		`$Taken`},

	// What a store says that has just another leader.
	{"no event id is refused on the word of a leader that was replaced", "actors", "", "TestResumeByAnOldLog",
		`if $failed := $d.$store.$Holds($ctx, $key.$path(), $rev); $failed != nil «»{`,
		`&& false `},
	{"no writer gives way on the word of a leader that was replaced", "actors", "actors/recovery", "TestKept",
		`if $err = «$d.$store.$Holds($ctx, $w.$path, $rev)»; !errors.Is($err, $store.$ErrFenced) {`,
		`nil`},
	{"what a read does not find is looked for with a write, too", "cluster", "", "TestNotThereIsAWrite",
		`if «$n.$replicas <= 1» || !errors.Is($err, $store.$ErrNotFound)`,
		`true`},
	{"a tombstone does not prove that the record of a stream is gone", "cluster", "", "TestNotThereIsAWrite",
		`$kind, _, _ := strings.Cut(strings.TrimPrefix($subject, $n.$prefix), ".") return $kind «== "session" || $kind == "task"»`,
		`!= ""`},

	// Leases, and who is gone.
	{"a lease counts from when its renewal was sent", "cluster", "", "TestLeaseCountsFromTheSending",
		`for $m.$Renew(time.Since($l.$base)); ; {
			… $l.$calm.Store(int64($m.$SteadyFrom())) «$l.$renewed.Store(int64($m.$Renewed))» return $m.$Err`,
		`if $l.$renewed.Store(int64($m.$Renewed)); $m.$Err == nil { $l.$renewed.Store(int64(time.Since($l.$base))) }`},
	{"a lease is over once a newer process has the node's name", "internal/lease", "cluster", "TestLeaseOverwrittenByNewBoot",
		`$m.$Rev«, $m.$Renewed = 0, min($m.$Renewed, $m.$sent-$m.$term-1)» $m.$end($ErrTaken)`,
		` = 0`},
	{"a node ends no lease of another", "cluster", "", "TestRemoteLeases",
		`if $n.$opts.$Remote.$set() { «»$err = $n.$agree($ctx) } else { … if $bad := $n.$voidLeases($ctx); $bad != nil {`,
		`_ = $n.$voidLeases($ctx); `},
	{"no node that cannot renew its own lease says who is gone", "cluster", "", "TestMailGone",
		`if $err == nil && !$there { «$err = $n.$lease.$confirm($ctx)» }`,
		``},
	{"who is gone is decided by a renewal that began after the question", "cluster", "", "TestGoneNeedsARenewal",
		`«$waiting := $l.$waited()
			$ctx, $cancel := context.WithTimeout(context.Background(), min($l.$node.$opts.$Lease, $callTimeout))
			$err := $l.$renew($ctx)» if $waiting != nil {`,
		`$ctx, $cancel := context.WithTimeout(context.Background(), min($l.$node.$opts.$Lease, $callTimeout))
			$err := $l.$renew($ctx)
			$waiting := $l.$waited()`},
	{"a node that was away itself does not say who is gone", "cluster", "test/spec/nodes", "TestARestartOfTheStoreEndsNoCall",
		`case $another: return true, nil case «$n.$lease.$steady()»: if $n.$replicas > 1 {`,
		`true`},
	{"a node that is silent is not gone", "actors", "", "TestRetryWhileItsNodeIsSilent|TestMessagesWhileTheirNodeIsAway",
		`$gone, $err := $f.$mail.$Gone($ctx, $at) return $err == nil «&&» $gone`,
		`||`},
	{"an answer is kept until who asked is known to be gone", "actors", "", "TestAnswerToOneThatListensNoMore",
		`$failed = $f.$marks.$mark(… } $elsewhere = !$gone «|| $failed != nil» }`,
		`&& $failed == nil`},
	{"an outage ends no task", "internal/worker", "", "TestAnOutageEndsNoTask",
		`if $gone, $err := $p.$Store.$Gone($s.$ctx, $node, $boot); «$err != nil ||» !$gone && $kept {`,
		`$err == nil &&`},

	// A node that has lost its lease.
	{"a node that has lost its lease sends its clients to others", "actors", "test/spec/nodes", "TestNodeWithoutItsLeaseHoldsNobody",
		`$w.$lapsed = $n.$fleet.$mail != nil && $n.$store.$Lapsed() return «$w.$lapsed» && !$was`,
		`false`},
	{"a node that has lost its lease takes no resumes", "actors", "test/spec/nodes", "TestNodeWithoutItsLeaseHoldsNobody",
		`if $r.$n.$fleet.$mail != nil && $r.$n.$store.$Lapsed() «»{`,
		`&& false `},

	// What one node has changed.
	{"no node serves a session from an old record for long", "actors", "", "TestRecord|TestEndIsKnown",
		`int64($n.$clock.$running())-$at «> int64($recordAge)» ||`,
		`< 0`},
	{"the next request finds an ended session ended, at any node", "actors", "", "TestTheNextRequestFinds",
		`if $f.$tell($letterEnded, $m); «!» $expired { $f.$askOthers($ctx, $letterEnded, $m)`,
		``},
	{"a message between nodes that is lost is missed", "cluster", "", "TestMailGap",
		`$next++ } $gap = $h.$Num > $next«» $e.$told = max($e.$told, $h.$Num)`,
		`+1`},
	{"clients hear of what may have changed while messages were lost", ".", "test/spec/nodes", "TestNewsThatWereLost",
		`$s.$lists.$announce($p, $which{«true, true, true»}) $s.$resources.$repeatUpdates($p)`,
		``},
}
