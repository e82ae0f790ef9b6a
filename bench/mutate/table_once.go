package main

// once: no event, answer or task is lost or doubled, and a request has exactly one response.
var once = []mutation{
	// What is stored of a stream.
	{
		"the store takes appends of the writer alone",
		"cluster", "", "TestRefusedGuardIsToldApart",
		`nats.Header{«$headerExpected: $a.$expected, $headerGuard: $a.$guard,» $headerTTL: $a.$ttl}`,
		``,
	},
	{
		"an append that was refused does not count as stored",
		"actors/internal/stream", "actors/recovery", "TestKept",
		`func ($m *$Machine) $Step($e $Event, $out []$Effect) []$Effect { switch $e.$Op {
			… case $Stored: return $m.$stored($out)
			… case $Guarded, $Ours, $Absent, $Created: «»return $m.$guard($e, $out)`,
		`if $e.$Op == $Guarded { return $m.$stored($out) }; `,
	},
	{
		"no event is sent before it is stored",
		"actors/internal/stream", "actors/recovery", "TestKept",
		`$part := $f.$parts[$f.$sent] «»$setEpoch($part, $m.$epoch)
			… $out = append($out, $Effect{$Do: $Deliver, $Num: $f2.$num, $Epoch: $m.$epoch, $Entries: $f2.$entries, $Last: $f2.$last})`,
		`; if len($f.$parts) == 1 {
			$out = append($out, $Effect{$Do: $Deliver, $Num: $f.$num, $Epoch: $m.$epoch, $Entries: $f.$entries, $Last: $f.$last})
		}`,
	},
	{
		"a record says what the log has forgotten",
		"actors/internal/record", "actors/recovery", "TestKept",
		`«$r.$Digest = $p.$Digest.$Clone()» $r.$Steps = slices.Clone($p.$Steps)`,
		``,
	},
	{
		"an event id stands for one event",
		"actors/internal/stream", "actors/recovery", "TestKept",
		`return strconv.AppendUint($b, «$p.$Epoch*$maxEntries+» uint64($p.$Entry), 10)`,
		``,
	},

	// What comes to a client that resumes.
	{
		"an event of a writer that was replaced is not resumed from",
		"actors/internal/replay", "actors", "TestRefusedResumeOfAnEarlierReleaseTakesNothingOver",
		`case len($first) == 0 || $first[0].$Num != $c.$Pos.$Append «|| $first[0].$Epoch != $c.$Pos.$Epoch»,`,
		``,
	},
	{
		"a replay leaves nothing out",
		"actors/internal/replay", "actors", "TestLogWithAHole",
		`if «$num != $c.$due || len($data) == 0» { $c.$fault = $ErrBadEvent }`,
		`$num < $c.$due`,
	},
	{
		"a replay has no append of another round of the log",
		"cluster", "", "TestModel",
		`if $s.$Num «== $from+uint64($i)» && len($s.$Data) > 0 {`,
		`> 0 && $i >= 0`,
	},
	{
		"an event that another node has not passed on is read from the log",
		"actors/internal/attachment", "actors", "TestLostFrames",
		`case $a.$live «&& $f.$From <= $a.$next»: $a.$writeNew(`,
		``,
	},
	{
		"what is replayed from memory has no gap",
		"actors/internal/replay", "", "TestCache",
		`if $r != nil && $a.$Num «!= $r.$last()+1» { $c.$drop($r)`,
		`<= $r.$last()`,
	},
	{
		"a stream is replayed from memory by its writer alone",
		"actors", "", "TestResumeFromMemory",
		`if $over «&& $rec.$Boot == $r.$n.$boot» { $rec.$End = $end`,
		``,
	},
	{
		"who takes a stream over forgets what it had of it in memory",
		"actors", "", "TestResumeFromMemory",
		`«$n.$cache.$Drop($w.$path)» $n.$k.$Start(&$w.$Actor, $KindStream, $w.$path, $w)`,
		``,
	},
	{
		"a record that is stored again has a later epoch",
		"actors", "", "TestForgottenIsNotTaken",
		`$Epoch: «»$takeover.$NextEpoch($s.$m.$Epoch2(), $randomStep())}`,
		`$s.$m.$Epoch2() + 0*`,
	},
	{
		"a takeover reads what its predecessor stored last",
		"actors/internal/takeover", "actors", "TestAppendJustBeforeATakeover",
		`case $m.$ours: … $m.$do = $Done default: $m.$do = $CheckLease }
			… func ($m *$Machine) $Kept() { $m.$do = «$ReadLog» }`,
		`$Done`,
	},

	// Calls that run again, and their questions.
	{
		"a call that may not run again does not",
		"actors/internal/takeover", "", "",
		`case $all || «!$rec.$May($i) ||» $i >= $bodies:`,
		``,
	},
	{
		"a call that has its answer is not answered again",
		"actors/internal/takeover", "", "",
		`case $answered[string($c.$ID)]«»: case $all || !$rec.$May($i) || $i >= $bodies:`,
		`&& !$rec.$May($i)`,
	},
	{
		"a second run does not repeat progress",
		"actors", "test/spec/recovery", "TestRestartUnderASafeCall",
		`if $j.$sent.$Progressed { «$lasting{$r}.$progressGate().$Raise($j.$sent.$Progress)» }`,
		`_ = $lasting{$r}.$progressGate()`,
	},
	{
		"a step of a call whose result is stored does not run again",
		"actors", "test/spec/recovery", "TestStepsOfASessionRunOnce",
		`$run.$keeps, $run.$on = true, $on if $s := $c.$journal.$step($run.$name); $s != nil «»{ return $s, nil }`,
		`&& false `,
	},
	{
		"a retry runs no call again that may not",
		"actors", "", "TestRetryWhoseNodeIsGone|TestCallThatAnotherNodeGoesOnWith",
		`case !$a.$svc.$Handler.$Safe($m.$Method, $m.$Name)«»: $faults.$Lost.$Tell($a.$to, $m.$ID)`,
		`&& false`,
	},
	{
		"a retry gets the outcome that is known",
		"actors", "test/spec/stateless", "TestSameStateAgainHasTheSameOutcome",
		`return $settled, $h.$Rest case $st.$Round «<=» $h.$Round: return $refused, nil`,
		`<`,
	},
	{
		"a question has one answer",
		"actors", "", "TestTwoAnswersAtOnce",
		`case $x.$recording != nil«»: return $x.$recording, false`,
		`&& false`,
	},
	{
		"a message that comes to a session twice counts once",
		"actors", "", "TestMessageThatComesAgain",
		`if $name, $ok := $repeats($s.$sess.$key, $m, $body); $ok «»{`,
		`&& false `,
	},
	{
		"a batch whose session ends has a response",
		"actors", "", "TestRequestsBesideDelete",
		`case len($answers) == 0 && «$s.$sess.$ended()»: $faults.$SessionEnded.$Tell($conn, nil)`,
		`$conn == nil`,
	},

	// Tasks.
	{
		"a task that may not run again does not",
		"internal/worker", "", "TestNeverRunsOnce",
		`case $epoch > 1 && !$s.$Safe($r.$Method, $r.$Name)«»: _ = $r.$Finish(`,
		`&& $epoch < 0`,
	},
	{
		"an attempt that was taken over stores no step",
		"internal/worker", "", "TestAnAttemptThatIsTakenOverInAStep",
		`if $k := $f.$known.$Load(); $k.$rec.$State == $task.$Ended «|| $k.$rec.$Epoch != $k.$epoch» { return $f.$endLost($task.$ErrEnded) }`,
		``,
	},
	{
		"a task whose work is lost runs all the same",
		"internal/worker", "", "TestLostWork",
		`if $there, $err := $has(); $there || $err != nil «»{ return $err }`,
		`|| true `,
	},
}
