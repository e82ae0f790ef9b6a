package main

// limits: nothing grows without bound, and bad input is refused and hurts nobody else.
var limits = []mutation{
	// What is bad.
	{
		"a message has each member once",
		"codec", "", "",
		`if *$span != nil «»{ $s.$refuse($duplicate, $at)`,
		`&& false `,
	},
	{
		"what a handler decodes has each member once",
		"internal/jsonv2", "", "TestDecodeDuplicates",
		`&& $readsMembers(reflect.TypeOf($v)) { return «$ErrDuplicate» } return errors.ErrUnsupported`,
		`errors.ErrUnsupported`,
	},
	{
		"a message is of bounded depth",
		"codec", "", "",
		`if $depth > $s.$max«» { return $s.$fail($reasonDepth, $i) }`,
		`+1`,
	},
	{
		"a message has a bounded number of values",
		"codec", "", "TestScanLimits",
		`$m.$Values = $s.$values if $s.$values «> $lim.$most()» {`,
		`< 0`,
	},
	{
		"the check of arguments has a budget",
		"internal/toolschema", "", "TestWideSchemas",
		`} return «min($minSteps+$stepsPerByte*$size, $maxSteps)» }`,
		`$maxSteps`,
	},
	{
		"a request with two lengths does not run",
		"transport/server", "transport", "TestFraming",
		`case !$faulty«»: case $whole == 0: return 0, $errFraming, $errFraming`,
		`|| true`,
	},
	{
		"an event id that is bad takes no stream over",
		"actors", "", "TestRefusedResumeOfAnEarlierReleaseTakesNothingOver",
		`_, «$err» = $probe.$check($ctx, $at, 1) return $rec, $r.$n.$streams.$certain(`,
		`_`,
	},
	{
		"a task that kills its processes is given up",
		"internal/task", "", "",
		`$r.$Runs = $endRun($r.$Runs, $RunLost, $now) if $r.$Lost «>= $MaxAttempts» {`,
		`< 0`,
	},

	// Clients that are slow.
	{
		"a body comes at some rate",
		"transport", "", "TestSlowBody",
		`«$h.$reads.$least = $h.$o.$BodyRate» return $h`,
		``,
	},
	{
		"a body that nobody reads has its time, too",
		"transport", "test/spec/transports", "TestBodiesThatDoNotCome",
		`defer $p.$conn.$handlerBegins() if «$p.$unread» { $h.$endBody($w) }`,
		`false`,
	},
	{
		"a response that its client does not read has its time",
		".", "test/spec/transports", "TestResponsesThatNobodyReads",
		`$door := $transport.$NewDrainListener($ln, $hs) «$door.$LimitWrites($rt.$opts.$Limits.$WriteTimeout)»`,
		``,
	},
	{
		"a stream that its client does not read is cut",
		"transport", "", "TestPipeRoom",
		`$queued+len($data)+1 > $p.$o.$MaxQueued && $queued >= «$p.$o.$MaxQueued/2» {`,
		`8*$p.$o.$MaxQueued`,
	},
	{
		"a slow client at another node is cut",
		"actors/internal/relay", "", "TestWindow",
		`case «$waiting+len($data) > $x.$most && $waiting >= $x.$most/2»:`,
		`$waiting < 0`,
	},

	// Shares.
	{
		"who comes late has a share of the calls",
		"internal/quota", "", "",
		`case $mine > max(1, «$part(int64($limit), $weight, $sum)»):`,
		`int64($limit)`,
	},
	{
		"one client does not fill the memory",
		"internal/quota", "", "",
		`$mine/2 <= $limit«-$limit/$reserve-$load»:`,
		``,
	},
	{
		"one client does not fill the store",
		"actors", "", "TestStoreIsShared",
		`$quota.$FairStore($used+$way, «»$mine, $c.$bytes, $limit`,
		`0*`,
	},
	{
		"one address does not have all connections",
		"transport/server", "transport", "TestCrowdOfAnAddress",
		`if $d.$crowd.$PerAddress > 0 && $from.IsValid() && «$own >= $d.$crowd.$PerAddress» {`,
		`$own < 0`,
	},
	{
		"one client has a bounded number of open tasks",
		"internal/quota", "internal/worker", "TestOpenTasks",
		`case $c.$each > 0 && «$c.$clients[$client] >= $c.$each»: return $OverLimit`,
		`false`,
	},
	{
		"a share that another node has told of is given back when it is silent",
		"internal/quota", "", "TestHeardInUse",
		`for $from, $h := range $e.$all { if «$now.Sub($h.$at) >= $HeardFor» { $e.$release($h.$in)`,
		`false`,
	},

	// What is counted, and what goes.
	{
		"a body without a length counts",
		"transport", "", "Counted",
		`if $no := $x.$charges.$holdBody(«int64(len($b) + $more)»); $no != nil {`,
		`0`,
	},
	{
		"what waits for the store counts",
		"actors", "", "TestWhatWaits",
		`«$s.$countWaiting()» $s.$heard.Store($s.$att != nil)`,
		``,
	},
	{
		"the log forgets",
		"cluster", "", "TestAppendsExpire",
		`nats.Header{$headerExpected: $a.$expected, $headerGuard: $a.$guard«, $headerTTL: $a.$ttl»}`,
		``,
	},

	// Guesses.
	{
		"an address whose tokens fail has to wait",
		"internal/bearer", "test/spec/auth", "TestManyFailures",
		`if $wait := $bucket.$Wait(time.Now()); $wait > 0 «»{`,
		`&& false `,
	},
	{
		"who guesses ids of sessions does not hold up the others",
		"actors", "", "Guesses",
		`$lookups := $d.$all if !$key.$tagged($in.$Session, $n.$keys) { $lookups = $d.«$guesses» }`,
		`$all`,
	},
}
