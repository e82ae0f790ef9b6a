package main

// remote is the store on NATS servers that several processes share.
var remote = []mutation{
	{
		"a node compiles its codecs while its clients wait", guard, "runtime.go",
		"		compiled.Go(fleetTypes)\n", "", "internal/spec/nodes", "TestTwoQuestionsCompileNothing",
	},
	{
		"a node compiles the codec of a letter with the first one", guard, "actors/news.go",
		"reflect.TypeFor[answerLetter](), ", "", "internal/spec/nodes", "TestTwoQuestionsCompileNothing",
	},
	{
		"a write that is not decided fails", merge, "cluster/records.go",
		"if !isUndecided(err) || time.Since(start) > callTimeout", "if isUndecided(err) || time.Since(start) > callTimeout || err == nil || true", "", "TestUndecided",
	},
	{
		"a node ends the leases of others", guard, "cluster/node.go",
		"		err = n.agree(ctx)\n", "		err = errors.Join(n.agree(ctx), n.voidLeases(ctx))\n", "", "TestRemoteLeases",
	},
	{
		"a stream with other rules is used", validation, "cluster/remote.go",
		`if what := differs(&have, &want); what != "" {`, `if what := differs(&have, &want); what == "all" {`, "", "TestRemoteStreams",
	},
	{
		"a stream of a newer release is used", validation, "cluster/remote.go",
		"version != want.Metadata[formatKey] {", `version == "" {`, "", "TestRemoteStreams",
	},
	{
		"a node without a size of its own changes that of the store", limit, "cluster/remote.go",
		"if n.opts.sized {", "if n.opts.MaxStore > 0 {", "", "TestRemoteStreams",
	},
	{
		"the wrong password is tried for half a minute", limit, "cluster/remote.go",
		"		case refused(err):\n", "		case refused(err) && ctx.Err() != nil:\n", "", "TestRemoteAccess",
	},
	{
		"a secret is printed", guard, "cluster/options.go",
		"	c.User = nil\n", "	c.Fragment = \"\"\n", "", "TestRemoteCheck|TestRemoteAccess",
	},
	{
		"a process without a lease takes work", guard, "internal/worker/pool.go",
		"if p.Shared && p.Store.Suspended() {", "if p.Shared && p.Store.Suspended() && s.ID == \"\" {", "", "TestAProcessWithoutALeaseBeginsNothing",
	},
	{
		"a stream that is gone keeps the others from being measured", merge, "cluster/pressure.go",
		"		if err != nil {\n			continue\n		}\n", "		if err != nil {\n			return\n		}\n", "", "TestMissingStreams",
	},
	{
		"a node offers the work of all others again", guard, "cluster/work.go",
		"if !n.succeeds || !validName(server) {", "if !validName(server) {", "", "TestReclaim",
	},
	{
		"a process leaves what the one before it ran", guard, "cluster/lease.go",
		"			l.node.succeeds = true\n", "			l.node.succeeds = rev == 0\n", "", "TestReclaim",
	},
	{
		"a node that cannot renew its lease says who is gone", guard, "cluster/lease.go",
		"		err = n.lease.confirm(ctx)\n", "", "", "TestMailGone",
	},
	{
		"a node that was away says who is gone", guard, "cluster/lease.go",
		"	case n.lease.steady():", "	case n.lease.age() >= 0:", "internal/spec/nodes", "TestARestartOfTheStoreEndsNoCall",
	},
	{
		"what others have found counts for nothing", merge, "cluster/lease.go",
		"	case string(why) == hasLeft:", "	case string(why) == hasLeft && false:", "", "TestMailGone",
	},
	{
		"what a read does not find is not there", guard, "cluster/records.go",
		"	if n.replicas <= 1 || !errors.Is(err, ErrNotFound)", "	if true || !errors.Is(err, ErrNotFound)", "", "TestNotThereIsAWrite",
	},
	{
		"a log of a leader that was replaced refuses an event id", guard, "actors/fence.go",
		"	if failed := d.node.store.Holds(ctx, key.path(), rev); failed != nil {", "	if failed := d.node.store.Holds(ctx, key.path(), rev); failed != nil && false {", "", "TestResumeByAnOldLog",
	},
	{
		"certificates are read once", guard, "cluster/remote.go",
		"	return append(o, nats.ClientTLSConfig(own, roots)), nil\n", "	cert, _ := own()\n	pool, _ := roots()\n	return append(o, nats.Secure(&tls.Config{Certificates: []tls.Certificate{cert}, RootCAs: pool})), nil\n", "", "TestRenewedCertificates",
	},
	{
		"a node without its lease holds its clients", guard, "actors/fleet.go",
		"	return f.lapsed && !was\n", "	return false && !was\n", "internal/spec/nodes", "TestNodeWithoutItsLeaseHoldsNobody",
	},
	{
		"a node without its lease takes resumes", guard, "actors/resume.go",
		"	if r.n.fleet.mail != nil && r.n.store.Lapsed() {", "	if r.n.fleet.mail != nil && r.n.store.Lapsed() && false {", "internal/spec/nodes", "TestNodeWithoutItsLeaseHoldsNobody",
	},
	{
		"a call is cut that its client cannot come back for", guard, "internal/attachment/attachment.go",
		"	if named {\n		a.Reconnect()", "	if named || !named {\n		a.Reconnect()", "internal/attachment", "TestRelease",
	},
	{
		"a lease that another boot has ended seems renewed each time", guard, "internal/lease/lease.go",
		"min(m.Renewed, m.sent-m.term-1)", "m.sent-m.term-1", "", "TestARenewal",
	},
	{
		"a tombstone is the end of a stream", guard, "cluster/records.go",
		"return kind == \"session\" || kind == \"task\"", "return kind != \"\"", "", "TestNotThereIsAWrite",
	},
	{
		"a guess at a session costs a write", limit, "actors/sessions.go",
		"				get = n.store.Peek\n", "				get = n.store.Get\n", "", "TestGuessesDoNotHoldUpSessions",
	},
	{
		"a guess at a task costs a write", limit, "internal/worker/pool.go",
		"	if key.tagged(p.Tag) {", "	if p.Tag != nil {", "", "TestGuessesCostNoWrite",
	},
	{
		"a writer believes the record that it reads", guard, "actors/fence.go",
		"		if err = d.node.store.Holds(ctx, w.path, rev); !errors.Is(err, ErrFenced) {", "		if err = nil; !errors.Is(err, ErrFenced) {", "actors/recovery", "TestKept",
	},
	{
		"a node that comes back does not ask whether its streams were taken", guard, "actors/fence.go",
		"	case taken:\n		return 0, errMaybeTaken\n", "	case taken && false:\n		return 0, errMaybeTaken\n", "internal/spec/nodes", "TestTakenOverAndForgotten",
	},
	{
		"an answer is dropped though nobody knows whether its asker is there", guard, "actors/pending.go",
		"elsewhere = !gone || failed != nil", "elsewhere = !gone && failed == nil", "internal/spec/nodes", "TestAnswerAfterALongOutage",
	},
	{
		"a writer that was never heard counts as made up", guard, "actors/pending.go",
		"case errors.Is(err, ErrNobody) && key.ID == \"\":", "case errors.Is(err, ErrNobody):", "internal/spec/histories", "TestKept/61",
	},
	{
		"an outcome is given up after a minute", expiry, "internal/worker/attempt.go",
		"context.WithoutCancel(a.ctx), a.rec.Left(a.p.Store.Now()))", "context.WithoutCancel(a.ctx), time.Minute)", "internal/spec/histories", "TestKept/18",
	},
	{
		"a renewal that was sent before counts", guard, "cluster/lease.go",
		"		waiting := l.waited()\n		ctx, cancel := context.WithTimeout(context.Background(), min(l.node.opts.Lease, callTimeout))\n		err := l.renew(ctx)\n",
		"		ctx, cancel := context.WithTimeout(context.Background(), min(l.node.opts.Lease, callTimeout))\n		err := l.renew(ctx)\n		waiting := l.waited()\n", "", "TestGoneNeedsARenewal",
	},
	{
		"a session record loses what a newer release says", merge, "internal/session/record.go",
		"		r.Unknown = unknown.Of[Record](data)\n", "		_ = unknown.Of[Record]\n", "actors", "TestRecordsKeepWhatANewerReleaseSays",
	},
	{
		"a writer record loses what a newer release says", merge, "internal/record/stream.go",
		"	return r.Unknown.Append(data), nil\n", "	return data, nil\n", "actors", "TestRecordsKeepWhatANewerReleaseSays",
	},
	{
		"a node is ready whose log takes no writes", guard, "serve.go",
		"	if stream := rt.cluster.Silent(); stream != \"\" {\n", "	if stream := rt.cluster.Silent(); false {\n", "internal/spec/nodes", "TestReadyNeedsTheStreams",
	},
	{
		"a stream that is gone counts as there", guard, "cluster/pressure.go",
		"			if _, err := n.fill(ctx, name); err == nil {\n", "			if _, err := n.fill(ctx, name); err == nil || true {\n", "", "TestOneStreamIsSilent",
	},
	{
		"a letter that is lost goes unnoticed", merge, "cluster/hearts.go",
		"	gap = h.Num > next\n", "	gap = h.Num > next+1\n", "", "TestMailGap",
	},
	{
		"the last letter is lost and goes unnoticed", merge, "cluster/hearts.go",
		"	if h.Form == letter.All {\n", "	if h.Form >= letter.All {\n", "", "TestMailGap",
	},
	{
		"what a dead node told last goes unnoticed", merge, "cluster/mail.go",
		"			m.missed(p)\n", "			_ = p\n", "", "TestMailSilence",
	},
	{
		"what an earlier boot told last goes unnoticed", merge, "cluster/hearts.go",
		"		gap = first && l.replaces(from, e) || gap\n", "", "", "TestMailSilence",
	},
	{
		"first contact is a gap", merge, "cluster/hearts.go",
		"		e = &heard{told: h.Num}\n", "		e = &heard{}\n", "", "TestMailGap",
	},
	{
		"a letter that is not sent has no number", merge, "cluster/outbox.go",
		"	case o.bytes+len(m.Data) > maxOutbox:\n", "	case o.bytes+len(m.Data) > maxOutbox:\n		o.told--\n", "", "TestOutbox",
	},
	{
		"an earlier boot counts as there", merge, "cluster/hearts.go",
		"l.heard[q].beat.entry < e.beat.entry", "l.heard[q].beat.entry > e.beat.entry", "", "TestMailGoodbye",
	},
	{
		"whoever said goodbye is there", expiry, "cluster/hearts.go",
		"		delete(l.heard, from)\n", "		e.heart = now\n", "", "TestMailGoodbye",
	},
	{
		"whoever is silent is there", expiry, "cluster/hearts.go",
		"if e.heart.IsZero() || now.Sub(e.heart) > within", "if e.heart.IsZero() || now.Sub(e.heart) > time.Hour", "", "TestMailNobody",
	},
	{
		"a letter goes to whom an address names with wildcards", validation, "cluster/mail.go",
		"if !validName(to.Node) || !validName(to.Boot) {", "if to.Node == \"\" {", "", "TestMail|TestMailNobody",
	},
	{
		"a letter is read whatever its MAC", seal, "cluster/unread.go",
		"ok = letter.Sealed(msg.Data, mac, on, msg.Reply) })", "ok = letter.Sealed(msg.Data, mac, on, msg.Reply) || true })", "", "TestForgedLetters",
	},
	{
		"the address for a reply is not covered by the MAC", seal, "internal/letter/letter.go",
		"[...]string{to, reply} {", "[...]string{to, \"\"} {", "", "TestSealed|TestForgedLetters",
	},
	{
		"a letter may come twice", guard, "internal/letter/replays.go",
		"	if bit == 0 || w.seen&bit != 0 {\n", "	if bit == 0 {\n", "", "TestReplays",
	},
	{
		"a reply is taken from anybody", seal, "cluster/inbox.go",
		"	if nobody || b.check == nil || b.check(m) {\n", "	if nobody || b.check == nil || b.check(m) || true {\n", "", "TestForgedReplies",
	},
	{
		"each epoch that is made up in a letter reads the key ring", limit, "cluster/unread.go",
		"	u.next = now.Add(u.pause)\n", "", "", "TestForgedEpochs",
	},
	{
		"a letter whose key is not known yet is lost", merge, "cluster/unread.go",
		"!known && h.Epoch > ring.newest()", "!known && h.Epoch > 1<<62", "", "TestRotatedLetters",
	},
	{
		"letters overtake those that wait for the key ring", merge, "cluster/unread.go",
		"		m.unread.wait()\n", "", "", "TestLettersOfANewKeyComeInOrder",
	},
	{
		"what a boot sends to others counts against a late letter", merge, "cluster/outbox.go",
		"	last, known := o.serials[subject]\n", "	last, known := o.sent, true\n", "", "TestSerials",
	},
	{
		"a node of an earlier release is joined", guard, "cluster/fleet.go",
		"		if e.Letters < letter.Oldest {\n", "		if e.Letters < 0 {\n", "", "TestEarlierRelease",
	},
	{
		"what nobody takes is unknown", validation, "cluster/mail.go",
		"		err = ErrNobody\n", "		err = ErrUnavailable\n", "", "TestMailNobody",
	},
	{
		"what waits to be sent has no bound", limit, "cluster/outbox.go",
		"	case o.bytes+len(m.Data) > maxOutbox:\n", "	case o.bytes > maxOutbox:\n", "", "TestOutbox",
	},
	{
		"the lease of a silent node is told as it was when it was heard", expiry, "cluster/members.go",
		"time.Millisecond - k.ago", "time.Millisecond", "", "TestMembers",
	},
	{
		"a boot whose place another has taken is listed", merge, "cluster/members.go",
		"other && !held", "false && other && !held", "", "TestMembers",
	},
	{
		"all boots that were ever heard are known", limit, "cluster/hearts.go",
		"	if len(l.heard) < maxHeard {\n", "	if len(l.heard) < 100*maxHeard {\n", "", "TestHeartsForget",
	},
	{
		"a user without the rights for messages is let in", guard, "cluster/mail.go",
		"errors.Is(refused, nats.ErrPermissionViolation) {", "errors.Is(refused, nats.ErrMaxPayload) {", "", "TestRights",
	},
	{
		"a newer letter is taken for one that is known", validation, "internal/letter/letter.go",
		"	case b[0] > Version:\n", "	case b[0] > Version+1:\n", "", "TestRead",
	},
	{
		"a letter says it is from any name", validation, "internal/letter/letter.go",
		"	case !is(h.Node, 1, maxName, false) ||", "	case !is(h.Node, 1, maxName, true) ||", "", "TestRead",
	},
	{
		"nodes with other settings share a store", guard, "cluster/fleet.go",
		"n.opts.settings()); what != \"\" {\n", "n.opts.settings()); what == \"all\" {\n", "", "TestFleetSettings",
	},
	{
		"of nodes that start together none stays", guard, "cluster/fleet.go",
		"if name == n.name || before != 0 && e.First > before {", "if name == n.name {", "", "TestFleetStartsTogether",
	},
	{
		"nodes that start together do not see each other", guard, "cluster/node.go",
		"n.fits(ctx, l.entry.First)", "n.fits(ctx, 1)", "", "TestFleetStartsTogether",
	},
	{
		"a node that is refused counts as there", expiry, "cluster/node.go",
		"			_ = n.bury(ctx, l.stream(), l.subject(), l.m.Rev)", "			_ = l.stream()", "", "TestFleetStartsTogether",
	},
	{
		"a node with other servers is logged at once", limit, "cluster/fleet.go",
		"		long := now.Sub(x.since) >= strangerAfter\n", "		long := now.Sub(x.since) >= 0\n", "", "TestStrangers",
	},
	{
		"another program shares a store", guard, "cluster/fleet.go",
		"n.lease.earlier(all[name].Programs); what != \"\" {", "n.lease.earlier(all[name].Programs); what == \"all\" {", "", "TestAnotherProgram",
	},
	{
		"the earlier of two programs is refused", guard, "internal/program/program.go",
		"its.Since < mine.Since)", "its.Since > mine.Since)", "cluster", "TestAnotherProgram",
	},
	{
		"of two programs that come together both stay", guard, "internal/program/program.go",
		"	c.Send()\n	c.Stored(rev)\n", "	c.Send()\n	c.Stored(rev + 1000)\n", "cluster", "TestProgramsThatStartTogether|TestEntriesThatSayNoProgram",
	},
	{
		"who finds another program later says nothing", guard, "cluster/fleet.go",
		"			clash = &what\n", "			_ = &what\n", "", "TestAnotherProgram",
	},
	{
		"a machine with a wrong clock starts", guard, "cluster/remote.go",
		"		if err := n.ClockWrong(); err != nil {\n", "		if err := error(nil); err != nil {\n", "", "TestClockThatIsWrong",
	},
	{
		"the store's clock follows the machine's", guard, "internal/remoteclock/clock.go",
		"	if last := c.last.Load(); last != nil {\n		now", "	if last := c.last.Load(); last == nil {\n		now", "", "",
	},
	{
		"a user who may not acknowledge work starts", guard, "cluster/remote.go",
		"	if refused := n.conn.LastError(); errors.Is(refused, nats.ErrPermissionViolation) && strings", "	if refused := n.conn.LastError(); err != nil && errors.Is(refused, nats.ErrPermissionViolation) && strings", "", "TestRights",
	},
	{
		"the store of several nodes lets in anybody", guard, "cluster/options.go",
		"	case l.Token == \"\" && l.CA == \"\":\n", "	case l.Token == \"\" && l.CA == \"\" && l.Cert != \"\":\n", "", "TestListenCheck",
	},
	{
		"a node without a certificate is let in", guard, "cluster/listen.go",
		"o.TLSVerify, o.TLSConfig.ClientAuth = true, tls.RequireAndVerifyClientCert", "o.TLSConfig.ClientAuth = tls.VerifyClientCertIfGiven", "", "TestListenTLS",
	},
	{
		"a stranger can have the store started again", guard, "cluster/outage.go",
		"if strings.Contains(text, \" - cid:\") {", "if strings.Contains(text, \" - cid: \") {", "", "TestListen",
	},
	{
		"a node that listens ends the leases of the others", guard, "cluster/node.go",
		"	if n.opts.Listen.set() {\n		return nil", "	if n.opts.Listen.set() && n.dir == nil {\n		return nil", "", "TestListen",
	},
	{
		"a node does not find the streams of one that listens", negotiation, "cluster/remote.go",
		"	n.opts.Prefix, n.prefix = \"\", \"\"\n", "	n.prefix = n.opts.Prefix + \".\"\n", "", "TestListen",
	},
	{
		"the entry stays when a node ends during an election", expiry, "cluster/lease.go",
		"for errors.Is(err, errNoResponders) && sleep(", "for errors.Is(err, errNoResponders) && ctx.Err() != nil && sleep(", "", "TestCloseDuringAnElection",
	},
	{
		"who is left behind counts as behind since it came", limit, "actors/resume.go",
		"			r.hold.since = time.Now()\n", "", "", "TestHowFarClientsAreBehind",
	},
}
