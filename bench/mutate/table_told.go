package main

// told is what nodes tell each other of sessions, lists, resources and tasks.
var told = []mutation{
	{
		"a record is served whatever its age", expiry, "actors/told.go",
		"int64(n.clock.running())-at > int64(recordAge)", "int64(n.clock.running())-at < 0", "", "TestRecord|TestEndIsKnown",
	},
	{
		"each request reads an old record", limit, "actors/told.go",
		"	for !s.reading.CompareAndSwap(nil, r) {\n", "	for s.key.ID == \"\" && !s.reading.CompareAndSwap(nil, r) {\n", "", "TestRecordIsReadAgain",
	},
	{
		"a session without requests is not looked at", expiry, "actors/told.go",
		"	case active:\n", "	case active && s.key.ID == \"\":\n", "", "TestEndIsKnown|TestStandaloneStreamMoves",
	},
	{
		"a node believes its own old record that a session has expired", guard, "actors/session.go",
		"		if s.shared { // another", "		if s.shared && s.key.ID == \"\" { // another", "", "TestExpiryInABand",
	},
	{
		"each node tells its program that a session has expired", guard, "actors/told.go",
		"		if rev != 0 && n.store.Delete", "		if rev == 0 {\n			s.endSession()\n		} else if n.store.Delete", "", "TestExpiryInABand|TestEndIsKnown",
	},
	{
		"the nodes are not told of a DELETE", merge, "actors/sessions.go",
		"	d.node.fleet.ended(ctx, s.key, &s.view.Load().rec, false)\n", "", "", "TestEndIsKnown",
	},
	{
		"the stream of a session that is not in memory outlives a DELETE", merge, "actors/told.go",
		"; ok && !m.Expired { // its session", "; ok && m.Expired { // its session", "", "TestStreamOfASessionThatEndsElsewhere",
	},
	{
		"a client has its answer before the other nodes know of its level", merge, "actors/told.go",
		"		f.askOthers(ctx, letterSessionChanged, m)\n	}\n	f.tell", "	}\n	f.tell", "", "TestTheNextRequestFinds|TestChangeIsKnownToTheWriter",
	},
	{
		"a client has its answer before the other nodes know of its end", merge, "actors/told.go",
		"!expired {\n		f.askOthers", "expired {\n		f.askOthers", "", "TestTheNextRequestFinds",
	},
	{
		"only this node forgets the roots", merge, "actors/told.go",
		"	if s.shared {\n		p.node.fleet.forgotten", "	if !s.shared {\n		p.node.fleet.forgotten", "", "TestTheNextRequestFinds",
	},
	{
		"a stream that is named late replaces a newer one", guard, "actors/stored.go",
		"of.replaced = of.replaced || here && now.order", "of.replaced = here && now.order", "", "TestNamingThatComesLate",
	},
	{
		"a session that has ended is served where there is no place to end it", guard, "actors/told.go",
		"		s.asOf.Store(doubted) // should there be", "		_ = s // should there be", "", "TestEndThatFindsNoPlace",
	},
	{
		"what an update said of an old record counts", guard, "actors/peer.go",
		"	case err != nil: // what edit said", "	case err != nil && failed == nil: // what edit said", "", "TestUpdateThatIsRefused",
	},
	{
		"a client waits for a node that is silent", limit, "actors/told.go",
		"	ctx, cancel := context.WithTimeout(ctx, knownWait)\n", "	ctx, cancel := context.WithTimeout(ctx, time.Minute)\n", "", "TestTheNextRequestFinds",
	},
	{
		"a process that stood still serves from what it knew", merge, "actors/told.go",
		"	n.fleet.pulse.Feel()\n", "", "", "TestTheNextRequestFinds",
	},
	{
		"roots are kept that may have changed", merge, "actors/told.go",
		"	if s.asOf.Swap(int64(at)) < n.fleet.lost.Load() {", "	if s.asOf.Swap(int64(at)) < n.fleet.lost.Load() && s.key.ID == \"\" {", "", "TestTheNextRequestFinds",
	},
	{
		"a record is believed that was read before it changed", merge, "actors/told.go",
		"			anew = false // whatever", "			return other.err // whatever", "", "TestValueThatIsBeingRead",
	},
	{
		"what this node knows is believed to be as it was set", merge, "actors/stored.go",
		"	for read := !s.shared; ; read = true {", "	for read := true; ; read = true {", "", "TestValueOfAnotherNode|TestUpdateThatIsRefused",
	},
	{
		"a value that another call has set is overwritten", merge, "session.go",
		"		if read && !bytes.Equal(old, seen) {", "		if read && len(key) == 0 && !bytes.Equal(old, seen) {", "internal/spec/nodes", "TestCallsOfOneSessionAtOnce|TestValueThatAnotherCallHasSet",
	},
	{
		"the writer answers before it has read", merge, "actors/told.go",
		"			if err := s.catchUp(m.Rev); err != nil", "			if err := error(nil); err != nil", "", "TestChangeIsKnownToTheWriter",
	},
	{
		"updates between a subscription and its late discovery are lost", merge, "actors/told.go",
		"!old && s.Hears(uri) {", "!old && uri == \"\" {", "", "TestChangeIsKnownToTheWriter",
	},
	{
		"a hint that a record has changed is ignored", merge, "actors/told.go",
		" || s.view.Load().rev < s.behind.Load()\n", "\n", "", "TestNewsWhileASessionIsRead|TestChangeIsKnownToTheWriter",
	},
	{
		"a value is read from a record that has changed", merge, "actors/session.go",
		"	if s.shared {\n		if err := s.reread(s.node.sessions.lookups", "	if s.shared && s.key.ID == \"\" {\n		if err := s.reread(s.node.sessions.lookups", "", "TestValueOfAnotherNode",
	},
	{
		"news of a session that is being read are lost", merge, "actors/told.go",
		"	if !begins && !reads {", "	if !reads {", "", "TestNewsWhileASessionIsRead",
	},
	{
		"the end of a session that is being read is lost", merge, "actors/told.go",
		"	if !here && !begins {\n", "	if !here {\n", "", "TestNewsWhileASessionIsRead",
	},
	{
		"the former standalone stream goes on elsewhere", merge, "actors/stored.go",
		"		n.fleet.replaced(key)\n", "", "", "TestStreamThatIsReplacedElsewhere",
	},
	{
		"a letter about standalone streams ends a call", guard, "actors/told.go",
		"; ok && len(st.rec.Calls) == 0 {", "; ok {", "", "TestLettersAreJudged",
	},
	{
		"a cancel reaches no other node", merge, "actors/sessions.go",
		"		if errors.Is(err, errNotHere) && s.shared {", "		if errors.Is(err, errNotHere) && !s.shared {", "", "TestCancelElsewhere",
	},
	{
		"a cancel of what runs here is told to all", limit, "actors/sessions.go",
		"		if errors.Is(err, errNotHere) && s.shared {", "		if (err == nil || errors.Is(err, errNotHere)) && s.shared {", "", "TestCancelElsewhere",
	},
	{
		"an id that no call has is told to all", limit, "actors/told.go",
		"	if len(id) > maxToken {", "	if len(id) > 1<<30 {", "", "TestCancelElsewhere",
	},
	{
		"the reason of a cancel may fill a letter", limit, "actors/told.go",
		"	if len(reason) > mostReason {", "	if len(reason) < 0 {", "", "TestCancelElsewhere",
	},
	{
		"other nodes do not hear of a resource", merge, "actors/node.go",
		"	n.fleet.updated(svc.ID, uri, below)\n", "", "", "TestUpdatesReachAllNodes",
	},
	{
		"each update is a message", limit, "actors/news.go",
		"	if old := d.all[*u]; old != nil {\n", "	if old := d.all[*u]; old != nil && old.again {\n", "", "TestUpdatesAreGathered",
	},
	{
		"the last update of many is not told", merge, "actors/news.go",
		"		old.again = true\n", "", "", "TestUpdatesAreGathered",
	},
	{
		"there is no bound to what updates are remembered", limit, "actors/news.go",
		"(len(d.all) >= mostTold || ", "(", "", "TestUpdatesAreGathered",
	},
	{
		"updates that were told are remembered", limit, "actors/news.go",
		"			delete(d.all, u)\n", "", "", "TestUpdatesAreGathered",
	},
	{
		"lost messages are not made good", merge, "actors/news.go",
		"	f.repeats(\"\")\n", "", "", "TestMissedNews",
	},
	{
		"sessions are served from records whose changes were lost", expiry, "actors/news.go",
		"	f.misses()\n", "", "", "TestMissedNewsAreMadeGood",
	},
	{
		"sessions that miss news are not looked at", merge, "actors/news.go",
		"		_ = s.Post(idleTick{}) // its record is outdated\n", "", "", "TestMissedNewsAreMadeGood",
	},
	{
		"listeners that miss news are told nothing", merge, "actors/news.go",
		"		_ = l.Post(repeatMissed{})\n", "", "", "TestMissedNewsAreMadeGood",
	},
	{
		"connections that miss news are told nothing", merge, "actors/news.go",
		"			l.repeat(f.news)\n", "", "", "TestMissedNewsAreMadeGood",
	},
	{
		"lost messages are made good as often as they are lost", limit, "actors/news.go",
		"		if pause(n.base, repeatPause) != nil {", "		if pause(n.base, 0) != nil {", "", "TestMissedNewsAreRepeatedOnceASecond",
	},
	{
		"a notification may fill a letter", limit, "actors/news.go",
		"	if len(t.Params) > mostParams {", "	if len(t.Params) < 0 {", "", "TestNewsArrive",
	},
	{
		"a letter may change any number of lists", limit, "actors/news.go",
		"min(len(m.Lists), mostLists)", "len(m.Lists)", "", "TestNewsArrive",
	},
	{
		"a node that follows a task is not told of its changes", merge, "news.go",
		"		rt.tasks.Heard(key, task.Kind(t.Ended))\n", "", "internal/spec/nodes", "TestTasksElsewhere",
	},
	{
		"a node tells nobody of its tasks", merge, "news.go",
		"	if rev != 0 || !here {", "	if rev != 0 && !here && session == \"\" {", "internal/spec/nodes", "TestTasksElsewhere",
	},
	{
		"progress is told to the node of the task alone", merge, "news.go",
		"	if rev != 0 || !here {", "	if rev != 0 {", "internal/spec/nodes", "TestTasksElsewhere",
	},
	{
		"an old state of a task is told after a new one", merge, "news.go",
		"	if n.told[key] >= t.Rev {", "	if n.told[key] == t.Rev {", ".", "TestNewsOfTasksComeInOrder",
	},
	{
		"the states of any number of tasks are remembered", limit, "news.go",
		"n.told == nil || len(n.told) >= toldTasks", "n.told == nil", ".", "TestNewsOfTasksComeInOrder",
	},
	{
		"a digest may be any text", validation, "news.go",
		"list >= 0 && validDigest(c.Digest) {", "list >= 0 {", ".", "TestNewsOfListsAreJudged",
	},
	{
		"a cancel elsewhere is noticed when it is time to look", merge, "internal/worker/follow.go",
		"	if a != nil && a.heard.Add(1) == 1 {", "	if a != nil && a.heard.Add(1) == 0 {", "", "TestHeardFromAnotherProcess",
	},
	{
		"tasks whose news were lost are looked at when it is time to look", merge, "internal/worker/follow.go",
		"	for key := range p.followers {\n		p.look(key)\n", "	for range p.followers {\n", "", "TestHeardFromAnotherProcess",
	},
	{
		"the other nodes do not hear of a list", merge, "catalogue.go",
		"		s.tellLists(here, again)\n", "", "internal/spec/nodes", "TestListsElsewhere",
	},
	{
		"a list is told of at each node that changes it", merge, "lists.go",
		"	e.set(list, other)\n", "", "internal/spec/nodes", "TestListsElsewhere",
	},
	{
		"who got a list before it changed is not told", merge, "lists.go",
		"	return e.latest[list] == now && ", "	return e.latest[list] == now && now == \"\" && ", "internal/spec/nodes", "TestListsElsewhere",
	},
	{
		"all are told again though nobody has got the list", limit, "lists.go",
		"time.Duration(e.got[list].Load()) >= e.at[list]", "e.at[list] > 0", "internal/spec/nodes", "TestListsElsewhere",
	},
	{
		"a new stream does not begin with the lists of other nodes", merge, "catalogue.go",
		"	s.announce(p, s.elsewhere.differ())\n", "	s.announce(p, which{})\n", "internal/spec/nodes", "TestListsOfWhoComesLater",
	},
	{
		"a list that may have changed while messages were lost is not told", merge, "news.go",
		"	s.announce(p, which{true, true, true})\n", "	s.announce(p, which{})\n", "internal/spec/nodes", "TestNewsThatWereLost",
	},
	{
		"where items are hidden, the filter of other nodes does not count", merge, "lists.go",
		" || s.opts.Visible != nil\n", "\n", "internal/spec/nodes", "TestHiddenListsElsewhere",
	},
	{
		"a connection stays silent once its stream was taken over here", expiry, "actors/far.go",
		"		r.att.Hush(false) // the writer before", "		// the writer before", "internal/spec/histories", "TestKept/1109",
	},
	{
		"a retry is refused where an earlier run of its call waits", merge, "actors/landing.go",
		"; other { // also", "; other && verdict != refused { // also", "internal/spec/histories", "TestKept/1068",
	},
	{
		"what a node told before it was heard is not missed", merge, "cluster/hearts.go",
		"			e.told = 0\n", "			e.told = h.Num\n", "internal/spec/histories", "TestKept/1082",
	},
	{
		"all who come back ask other nodes at once", limit, "actors/far.go",
		"		defer turns.Leave()\n", "		turns.Leave()\n", "", "TestAttachesAreBounded",
	},
	{
		"a late report of another node counts", merge, "internal/quota/elsewhere.go",
		"	case n <= h.n:\n		return\n", "	case n <= h.n:\n", "", "TestHear",
	},
	{
		"a bucket owes all that was taken elsewhere", limit, "internal/quota/bucket.go",
		"	most := min(b.l.TokensAt(now)+float64(b.l.Limit()), float64(b.size))\n", "	most := float64(b.size)\n", "", "TestHear",
	},
	{
		"what was in use elsewhere is never given back", limit, "internal/quota/elsewhere.go",
		"	t.release(before) //", "	t.release(before[:0]) //", "", "TestHeardInUse",
	},
	{
		"a silent process counts for ever", expiry, "internal/quota/elsewhere.go",
		"		if now.Sub(h.at) >= HeardFor {", "		if false {", "", "TestHeardInUse",
	},
	{
		"an account that is used elsewhere is dropped", guard, "internal/quota/account.go",
		" || a.reports.Load() != 0", "", "", "TestHeardInUse",
	},
	{
		"what is in flight elsewhere does not count", limit, "internal/quota/admit.go",
		"Over(mine+a.elsewhere.Load(), t.lim.Each)", "Over(mine, t.lim.Each)", "", "TestHeardInUse",
	},
	{
		"what a client takes is reported again each second", limit, "internal/quota/elsewhere.go",
		"b.taken.Swap(0)", "b.taken.Load()", "", "TestReport",
	},
	{
		"nobody hears that a client uses nothing any more", expiry, "actors/fleet.go",
		"len(all) == 0 && !f.used ||", "len(all) == 0 ||", "", "TestUsageIsToldOnceMore",
	},
	{
		"all clients have the same weight", limit, "internal/quota/weight.go",
		"	return int64(min(max(w[c], 1), MostWeight))\n", "	return 1\n", "", "TestWeights",
	},
	{
		"a weight does not count for others", limit, "internal/quota/admit.go",
		"t.active.Add(a.weight)", "t.active.Add(1)", "", "TestWeights",
	},
	{
		"a connection stays when its session ended while its writer was dead", expiry, "actors/resume.go",
		"				r.att.Cut()\n				return\n			}\n			defer r.s.left()", "				return\n			}\n			defer r.s.left()", "internal/spec/histories", "TestKept/101627",
	},
	{
		"a resume gets no answer from a node that ends", guard, "actors/hold.go",
		"			h.n.refusals.unavailable(h, nil)\n			return false\n", "			return false\n", "internal/spec/histories", "TestKept/100561",
	},
	{
		"a change that is told twice counts twice", guard, "actors/pending.go",
		"if slices.Contains(k.told[:], change) {", "if slices.Contains(k.told[3:], change) {", "", "TestChangeThatIsToldTwice",
	},
}
