package main

// acting is actors.
var acting = []mutation{
	{
		"the log takes the bytes of subscriptions for their number", limit, "actors/peer.go",
		"full = limits.SubscribedURIs.Row", "full = limits.SubscriptionsPerSession.Row", "internal/spec/session", "TestSubscriptionLimits",
	},
	{
		"a request learns from its handler that the session is gone, and its client does not", guard, "actors/delivery.go",
		"	case a.gone:\n", "	case a.gone && a.later:\n", "", "TestRequestsBesideDelete",
	},
	{
		"a call beside DELETE has an empty response", guard, "actors/delivery.go",
		"d.stream == nil && d.sess.ended.Load():", "d.stream == nil && d.sess == nil:", "", "TestRequestsBesideDelete",
	},
	{
		"a batch beside DELETE has an empty response", guard, "actors/batch.go",
		"case len(answers) == 0 && s.sess.ended.Load():", "case len(answers) == 0 && conn == nil:", "", "TestRequestsBesideDelete",
	},
	{
		"a GET beside DELETE has an empty stream", guard, "actors/stream.go",
		"len(s.rec.Calls) == 0 && !s.sess.ended.Load() {", "len(s.rec.Calls) == 0 {", "", "TestRequestsBesideDelete",
	},
	{
		"a notification beside DELETE is accepted", guard, "actors/sessions.go",
		"	if s.ended.Load() {\n		unknownSession(c, nil)", "	if s.ended.Load() && c == nil {\n		unknownSession(c, nil)", "", "TestRequestsBesideDelete",
	},
	{
		"a refusal is not logged", limit, "actors/admission.go",
		"	rs.hits.Hit(limit)\n", "	_ = limit\n", "", "TestEachRefusalIsLogged",
	},
	{
		"a record of another epoch is one's own", guard, "internal/takeover/writer.go",
		"rec != nil && rec.Boot == boot && rec.Epoch == epoch:", "rec != nil && rec.Boot == boot:", "actors", "",
	},
	{
		"a record is stored again without the lease", guard, "internal/takeover/writer.go",
		"case !certain:", "case !certain && epoch == 0:", "actors", "",
	},
	{
		"a stream comes back that its session has replaced", guard, "actors/fence.go",
		"err == nil && standalone && sess.Standalone != key.ID:", "err == nil && standalone && sess.Standalone == \"\":", "", "",
	},
	{
		"a writer begins at the epoch of the one before", guard, "internal/takeover/writer.go",
		"return epoch + 1 + random%epochStep", "return epoch + random%2", "", "",
	},
	{
		"a body expires before its record", expiry, "actors/fence.go",
		"body, keeps := s.body, renews && s.live.Safe", "body, keeps := s.body, renews && s.live.Safe && s.m == nil", "", "",
	},
	{
		"a record outlives its log when the clock goes back", expiry, "internal/takeover/lifetime.go",
		"return l.written-ahead > maxBack", "return l.written-ahead > 1000*maxBack", "", "",
	},
	{
		"what came before the fence is not read", merge, "internal/takeover/machine.go",
		"func (m *Machine) Kept() { m.do = ReadLog }", "func (m *Machine) Kept() { m.do = Done }", "actors", "",
	},
	{
		"a stream is taken over without the lease", guard, "actors/takeover.go",
		"m.Certain(!n.store.Suspended())", "m.Certain(!n.store.Suspended() || !m.Log.Last)", "", "",
	},
	{
		"calls run again though nobody knows what they were told", guard, "internal/takeover/log.go",
		"l.Unknown, l.Sizes, l.reader = true, nil, stream.Reader{}", "l.Sizes, l.reader = nil, stream.Reader{}", "actors", "",
	},
	{
		"another's rewrite is one's own", guard, "internal/takeover/writer.go",
		"return stored.Boot == tried.Boot && stored.Epoch == tried.Epoch", "return stored.Epoch >= tried.Epoch", "", "",
	},
	{
		"a call of a batch is answered again", guard, "internal/takeover/calls.go",
		"case answered[string(c.ID)]:\n", "case answered[string(c.ID)] && !rec.May(i):\n", "", "",
	},
	{
		"a call runs again that may not", guard, "internal/takeover/calls.go",
		"case all || !rec.May(i) || i >= bodies:", "case all || i >= bodies:", "", "",
	},
	{
		"a second run repeats its progress", merge, "actors/takeover.go",
		"r.progressGate().Raise(j.sent.Progress)", "_ = r.progressGate()", "", "",
	},
	{
		"bytes cost nothing", limit, "actors/admission.go",
		"size/bytesPerToken + m", "m", "", "TestCosts",
	},
	{
		"values cost nothing", limit, "actors/admission.go",
		"n := size/bytesPerToken + m.Values/valuesPerToken", "n := size / bytesPerToken", "", "TestCosts",
	},
	{
		"a small ping costs", limit, "actors/admission.go",
		"if string(m.Method) != mcp.MethodPing {\n\t\tn++", "if string(m.Method) != mcp.MethodPing+\"s\" {\n\t\tn++", "", "TestCosts",
	},
	{
		"the client of stdio pays", limit, "actors/admission.go",
		"func (s *sessionAccount) cost(m *codec.Message, size int) int {\n\tif s.alone() {", "func (s *sessionAccount) cost(m *codec.Message, size int) int {\n\tif size < 0 {", "", "TestCosts",
	},
	{
		"GETs have no rate", limit, "actors/admission.go",
		"no := d.charge(nil, in, rateOfCalls, cost)", "no := d.charge(nil, in, rateOfCalls, 0)", "internal/spec/limits", "TestLimits",
	},
	{
		"a resume is as cheap as a GET", limit, "actors/admission.go",
		"cost += min(l.Stream.Bytes, replayAtOnce) / replayPerToken", "cost += min(l.Stream.Bytes, 0)", "internal/spec/limits", "TestLimits",
	},
	{
		"a session that is deleted costs nothing", limit, "actors/sessions.go",
		"n.accounts.forgive(in, perSession-1)", "n.accounts.forgive(in, perSession)", "", "TestBeginningsAreBounded",
	},
	{
		"a session that is deleted costs as much as one that stays", limit, "actors/sessions.go",
		"n.accounts.forgive(in, perSession-1)", "n.accounts.forgive(in, 0)", "", "TestBeginningsAreBounded",
	},
	{
		"a deleted session gives its tokens back twice", limit, "actors/sessions.go",
		"if first { // false", "if first || true { // false", "", "TestDeleteTwiceAtOnce",
	},
	{
		"a refused initialize costs a session", limit, "actors/sessions.go",
		"size) {\n\t\tn.accounts.forgive(in, perSession)", "size) {\n\t\tn.accounts.forgive(in, 0)", "", "TestARefusedInitialize",
	},
	{
		"notifications and answers have no rate", limit, "actors/sessions.go",
		"if !n.accounts.admitMessage(nil, in, m, len(body)) {\n\t\t\treturn", "if m == nil {\n\t\t\treturn", "", "TestMessagesCost",
	},
	{
		"initialize has no rate", limit, "actors/sessions.go",
		"if !n.accounts.admitMessage(nil, in, m, size) {", "if size < 0 {", "", "TestMessagesCost",
	},
	{
		"a ping before there is a session has no rate", limit, "actors/sessions.go",
		"if n.accounts.admitMessage(nil, in, m, len(body)) {\n\t\t\t\tin.Conn.Answer(200, pong", "if m != nil {\n\t\t\t\tin.Conn.Answer(200, pong", "", "TestMessagesCost",
	},
	{
		"a DELETE has no rate", limit, "actors/sessions.go",
		"if !n.accounts.admitMessage(nil, in, &codec.Message{}, 0) {", "if in == nil {", "", "TestDeletesCost",
	},
	{
		"messages of a batch have no rate", limit, "actors/batch.go",
		"chargeMessages(&s.sessionAccount, in, others)", "chargeMessages(&s.sessionAccount, in, messages{n: min(0, others.n)})", "", "TestMessagesCost",
	},
	{
		"messages over HTTP+SSE have no rate", limit, "actors/bound.go",
		"if !l.counts(in, m) && !n.accounts.admitMessage(", "if !l.counts(in, m) && in == nil && !n.accounts.admitMessage(", "", "TestMessagesOfBound",
	},
	{
		"batches over HTTP+SSE have no rate", limit, "actors/bound.go",
		"chargeMessages(&s.sessionAccount, in, others)", "chargeMessages(&s.sessionAccount, in, messages{})", "", "TestMessagesOfBound",
	},
	{
		"pings in a batch over HTTP+SSE have no rate", limit, "actors/bound.go",
		"			others.add(&e.m, len(e.raw))\n", "", "", "TestMessagesOfBound",
	},
	{
		"the messages of stdio have a rate", guard, "actors/admission.go",
		"messages) verdict {\n\tif s.alone() {", "messages) verdict {\n\tif s.alone() && c.n < 0 {", "", "TestMessagesOfBound",
	},
	{
		"the bytes of messages cost nothing", limit, "actors/admission.go",
		"perCall*(c.size/bytesPerToken+c.values", "perCall*(c.values", "", "TestMessagesCost",
	},
	{
		"the values of messages cost nothing", limit, "actors/admission.go",
		"bytesPerToken+c.values/valuesPerToken)", "bytesPerToken)", "", "TestMessagesCost",
	},
	{
		"what a resume reads after its first MiB costs nothing", limit, "actors/takeover.go",
		"	f.paid -= bytes\n", "", "", "TestAResumePays",
	},
	{
		"a resume without tokens goes on", limit, "actors/resume.go",
		"	if err := r.pay(ctx); err != nil {\n", "	if err := ctx.Err(); err != nil {\n", "", "TestAResumePays",
	},
	{
		"a resume without tokens breaks", limit, "actors/resume.go",
		"		r.patience.Reset(r.svc.Limits.ResumeWait)\n", "", "", "TestAResumePays",
	},
	{
		"who leaves a resume pays nothing", limit, "actors/takeover.go",
		"	for f.due() > 0 {\n", "	for f.paid < 0 {\n", "", "TestAResumePays",
	},
	{
		"a resume whose client is gone waits for tokens", limit, "actors/resume.go",
		"if err != nil || r.conn.Room(overNow) != nil {", "if err != nil {", "", "TestAResumePays",
	},
	{
		"listeners have no rate", limit, "actors/listen.go",
		"rateOfCalls, cost); no", "rateOfCalls, cost*0); no", "internal/spec/stateless", "TestStatelessLimits",
	},
	{
		"logs of lost streams are read all at once", limit, "actors/far.go",
		"		leave, err := d.lostLog(ctx, r.s, r.fare)\n", "		leave, err := func() {}, error(nil)\n", "", "TestLostLogs",
	},
	{
		"who holds the place of a lost log waits for memory", limit, "actors/takeover.go",
		"if f.now || pause(", "if pause(", "", "TestNobodyWaitsInAPlace",
	},
	{
		"the place of a lost log is kept", limit, "actors/far.go",
		"			defer leave()\n", "			_ = leave\n", "", "TestLostLogs",
	},
	{
		"a large filter is decoded out of turn", limit, "actors/listen.go",
		"if n.accounts.inTurn(n.base, from, a.charged.alone(), func() { err = work() }) {", "if err = work(); cost >= 0 {", "", "TestALargeFilter",
	},
	{
		"a listener that gets no turn counts as a stream", limit, "actors/listen.go",
		"			from.Held[heldStreams].Add(-1)\n		}\n	}()", "		}\n	}()", "", "TestALargeFilter",
	},
	{
		"a listener that gets no turn keeps its memory", limit, "actors/listen.go",
		"			held.Free()\n			from.Held", "			from.Held", "", "TestALargeFilter",
	},
	{
		"a listener that gets no turn has paid", limit, "actors/listen.go",
		"		n.accounts.giveBack(a.charged, &svc.Limits, from, cost)\n", "", "", "TestALargeFilter",
	},
	{
		"a large filter is decoded before it is counted", limit, "actors/listen.go",
		"decodedFilter*int64(len(m.Params))", "0*decodedFilter*int64(len(m.Params))", "", "TestALargeFilter",
	},
	{
		"what a listener holds is not asked for", limit, "actors/listen.go",
		"case holds > decoded && !room(holds):", "case holds < 0:", "", "TestManyResources",
	},
	{
		"a listener is counted by its request", limit, "actors/listen.go",
		"	held.Set(holds)\n", "", "", "TestALargeFilter",
	},
	{
		"what is appended fast is not spaced out", limit, "actors/batch.go",
		"if !s.turn && !pace.Take(", "if !s.turn && !pace.Take(time.Now(), own, int64(len(data))) && n == nil || pace == nil && !pace.Take(", "", "TestWhoAppendsMuch",
	},
	{
		"an append that had its turn waits for another", guard, "actors/stream.go",
		"s.turn = m.turn\n", "s.turn = m.turn && s.m == nil\n", "", "TestWhoAppendsMuch",
	},
	{
		"an append that waits for its turn is forgotten", guard, "actors/batch.go",
		"			_ = s.Post(resend{turn: true})\n", "", "", "TestWhoAppendsMuch",
	},
	{
		"the place of a large call is kept", guard, "actors/admission.go",
		"\tdefer d.Turns.Leave()\n", "", "", "TestLargeCallsTakeTurns",
	},
	{
		"a call that gets no turn has paid", limit, "actors/call.go",
		"	c.refund()\n", "", "", "TestARefusedTurn",
	},
	{
		"a call that gets no turn gets its tokens back twice", limit, "actors/call.go",
		"c.attempt > 1 || c.refunded.Swap(true)", "c.attempt > 1 || c.refunded.Load()", "", "TestARefusedTurn",
	},
	{
		"large params are decoded out of turn", limit, "call.go",
		"	if c.large(params) {\n", "	if c.large(params) && in == nil {\n", "internal/spec/limits", "TestLargeParams",
	},
	{
		"a large call waits for ever", limit, "actors/admission.go",
		"if !alone {", "if !alone && d == nil {", "", "TestLargeCallsTakeTurns",
	},
	{
		"the client of stdio is refused its turn", guard, "actors/call.go",
		"return st.alone\n", "return st.alone && c == nil\n", "", "TestLargeCallsTakeTurns",
	},
	{
		"an event of another epoch is resumed from", guard, "internal/replay/cursor.go",
		"first[0].Num != c.Pos.Append || first[0].Epoch != c.Pos.Epoch,", "first[0].Num != c.Pos.Append,", "actors", "",
	},
	{
		"an answer of the client is resumed from", validation, "internal/replay/cursor.go",
		"|| !first[0].Entries[c.Pos.Entry].Kind.Visible():", ":", "actors", "",
	},
	{
		"a replay leaves out what is gone", guard, "internal/replay/cursor.go",
		"if num != c.due || len(data) == 0 {", "if num < c.due {", "actors", "",
	},
	{
		"the beginning of another event is put before a part", guard, "internal/replay/cursor.go",
		"if num != c.due {", "if num > c.due {", "", "TestCursorReadsApart",
	},
	{
		"a bad event id takes a stream over", guard, "actors/resume.go",
		"_, err = probe.check(ctx, at, 1)\n", "_, _ = probe.check(ctx, at, 1)\n", "", "",
	},
	{
		"a node keeps in memory what another may go on with", guard, "actors/stream.go",
		"if s.m.Phase() != stream.Ended { // another", "if s.m.Phase() > stream.Lost { // another", "", "TestResumeFromMemory",
	},
	{
		"what is kept in memory is kept for good", limit, "actors/heart.go",
		"\tn.cache.Expire(now)\n", "", "", "TestResumeFromMemory",
	},
	{
		"a client gets from memory what the log has forgotten", limit, "internal/replay/cache.go",
		"len(r.appends) > 0 && r.first() < low", "len(r.appends) > 1<<40 && r.first() < low", "", "TestCache",
	},
	{
		"what is kept in memory goes on over a gap", guard, "internal/replay/cache.go",
		"a.Num != r.last()+1", "a.Num <= r.last()", "", "TestCache",
	},
	{
		"held resumes are not counted", limit, "actors/hold.go",
		"gets := h.from.Held[heldGets].Add(1);", "gets := h.from.Held[heldGets].Load();", "", "",
	},
	{
		"the account's refusal costs the session", limit, "actors/admission.go",
		"s.giveBack(l, now, cost)\n\t\treturn verdict{RateOfPrincipal", "return verdict{RateOfPrincipal", "", "",
	},
	{
		"a refused listener holds its place", limit, "actors/admission.go",
		"a.Held[heldStreams].Add(-1)\n\t\t\td.refusals.refuseVerdict(to, id", "d.refusals.refuseVerdict(to, id", "", "",
	},
	{
		"streams on their way do not count", limit, "actors/admission.go",
		"case quota.Over(mine+s.streams.Load(), l.Streams):", "case quota.Over(min(mine, 0)+s.streams.Load(), l.Streams):", "", "",
	},
	{
		"a refused question holds its place", limit, "actors/admission.go",
		"a.Held[heldPending].Add(-1)\n\t\t\td.refusals.count(PendingOfPrincipal)", "d.refusals.count(PendingOfPrincipal)", "", "",
	},
	{
		"one client fills the store", limit, "actors/service.go",
		"used+way, mine, c.bytes, limit", "used+way, 0*mine, c.bytes, limit", "", "",
	},
	{
		"what is on its way to the store has room twice", limit, "actors/service.go",
		"FairStore(used+way, ", "FairStore(used, ", "", "TestWhatIsOnItsWayCounts",
	},
	{
		"ten clients fill the store", limit, "internal/quota/bytes.go",
		"min(limit/share, (most-used)/newcomer)", "limit/share", "", "",
	},
	{
		"a large body has more than is left of the store", limit, "internal/quota/bytes.go",
		"case mine+n > min(limit/share", "case mine > min(limit/share", "", "",
	},
	{
		"clients share the store from the beginning", limit, "internal/quota/bytes.go",
		"used+n <= limit/2", "used+n <= 0", "", "",
	},
	{
		"events are not charged", limit, "actors/batch.go",
		"Used[EventBudget].Add(time.Now(), int64(bytes)", "Used[EventBudget].Add(time.Now(), 0*int64(bytes)", "", "TestEventsCount|TestWhatIsStored",
	},
	{
		"events that wait for the store have room", limit, "actors/service.go",
		"d.BytesOf(quota.Waiting) / 2", "0 * d.BytesOf(quota.Waiting)", "", "TestEventsCountBeforeTheyAreStored",
	},
	{
		"a store is filled to the brim", limit, "internal/quota/bytes.go",
		"case used > most:", "case used > limit:", "", "",
	},
	{
		"what is stored is not charged", limit, "actors/service.go",
		"c.of.Used[c.usage].Add(time.Now(), bytes, max(c.life, time.Second))", "c.of.Used[c.usage].Add(time.Now(), 0*bytes, max(c.life, time.Second))", "", "",
	},
	{
		"a state is good with other answers", seal, "actors/mrtr.go",
		"case m.round != p.taken || m.digest != p.digest:", "case m.round != p.taken:", "", "",
	},
	{
		"a state of an earlier round is good", seal, "actors/mrtr.go",
		"case r.phase == request.Parked && m.round == p.asked && p.wake != nil:", "case r.phase == request.Parked && p.wake != nil:", "", "",
	},
	{
		"an outcome is given for other answers", seal, "actors/mrtr.go",
		"case h.Round == st.Round && h.Digest == sum:", "case h.Round == st.Round:", "", "",
	},
	{
		"a call whose outcome is known runs again", guard, "actors/mrtr.go",
		"case st.Round <= h.Round:", "case st.Round < h.Round:", "", "",
	},
	{
		"a parked call takes a place among those in flight", limit, "actors/mrtr.go",
		"r.node.accounts.Leave(r.from) // it is not in flight while it waits\n\t\tr.from = nil", "_ = r.from", "", "",
	},
	{
		"a call asks once more than it may", limit, "actors/mrtr.go",
		"if in.Round == maxRounds {", "if in.Round > maxRounds {", "", "",
	},
	{
		"a call that may not run again does", guard, "actors/landing.go",
		"case !a.svc.Handler.Safe(m.Method, m.Name):", "case !a.svc.Handler.Safe(m.Method, m.Name) && st.Round > 1:", "", "TestRetryWhoseNodeIsGone|TestCallThatAnotherNodeGoesOnWith",
	},
	{
		"a session answers another's question", guard, "actors/pending.go",
		"if x, ok = q.open[id]; !ok || x.session != s {", "if x, ok = q.open[id]; !ok {", "", "",
	},
	{
		"a question is opened again that has its answer", merge, "actors/pending.go",
		"if past.Answer == nil {", "if past.Answer == nil || past.open == nil {", "", "",
	},
	{
		"two answers are taken at once", guard, "actors/pending.go",
		"case x.recording != nil:\n\t\treturn x.recording, false", "case x.recording != nil && x.recording.done:\n\t\treturn x.recording, false", "", "",
	},
	{
		"an answer that was not stored stays taken", guard, "actors/pending.go",
		"case err != nil && !x.lingers && !errors.Is(err, stream.ErrEnded):", "case err != nil && !x.lingers && t == nil:", "", "",
	},
	{
		"an answer is lost that comes when its call ends", guard, "actors/pending.go",
		"case err != nil && !x.lingers && !errors.Is(err, stream.ErrEnded):", "case err != nil && !x.lingers:", "internal/spec/task", "TestATaskThatComesWithTheCancelIsCancelled",
	},
	{
		"a batch has an id twice", validation, "actors/batch.go",
		"case seen[string(e.m.ID)]:", "case seen[string(e.m.ID)] && len(seen) > 1:", "", "",
	},
	{
		"answers and requests share a batch", validation, "actors/batch.go",
		"if answers > 0 && answers < len(all) {", "if answers > 1 && answers < len(all) {", "", "",
	},
	{
		"a batch that is refused leaves some of it running", guard, "actors/batch.go",
		"for _, r := range members {\n\t\t\t\ts.withdraw(r, err)", "for _, r := range members[min(1, len(members)):] {\n\t\t\t\ts.withdraw(r, err)", "", "",
	},
	{
		"a member that may not run again does", guard, "actors/batch.go",
		"Token: bytes.Clone(e.m.ProgressToken), Never: !safe})", "Token: bytes.Clone(e.m.ProgressToken)})", "", "",
	},
	{
		"a session is served in another revision", negotiation, "actors/sessions.go",
		"in.Version != \"\" && in.Version != v.rec.Revision {", "in.Version != \"\" && v.rec.Revision == \"\" {", "", "",
	},
	{
		"an older GET replaces a later one", merge, "actors/stored.go",
		"here && now.order > st.order; of.replaced {", "here && now.order > st.order+1<<40; of.replaced {", "", "",
	},
	{
		"a takeover outlives the session", guard, "actors/sessions.go",
		"if errors.Is(err, ErrNotFound) || err == nil && s.ended.Load() {", "if errors.Is(err, ErrNotFound) {", "", "",
	},
	{
		"a new call loses its id to one that ends", guard, "actors/session.go",
		"if r, ok := s.calls.Find(id); ok && r == m.req {", "if _, ok := s.calls.Find(id); ok {", "", "",
	},
	{
		"a session serves from an older record", merge, "actors/session.go",
		"for old := s.view.Load(); v.rev > old.rev; old = s.view.Load() {", "for old := s.view.Load(); v.rev != old.rev; old = s.view.Load() {", "", "",
	},
	{
		"a change is written over another's", merge, "actors/stored.go",
		"if rec, rev, err = n.sessions.read(ctx, s.key); err != nil {", "if _, rev, err = n.sessions.read(ctx, s.key); err != nil {", "", "",
	},
	{
		"a batch whose safe calls have their responses is left to the next process", guard, "actors/stream.go",
		"if s.live.May(i) && !s.answered[string(s.live.Calls[i].ID)] {", "if s.live.May(i) {", "", "",
	},
	{
		"a batch is left to the next process for a call that may not run again", guard, "actors/stream.go",
		"if s.live.May(i) && !s.answered[string(s.live.Calls[i].ID)] {", "if !s.answered[string(s.live.Calls[i].ID)] {", "", "",
	},
	{
		"a batch is not left to the next process", guard, "actors/stream.go",
		"if len(s.rec.Calls) > 0 && (s.node.drain.last() || !s.runsAgain()) {", "if len(s.rec.Calls) > 1 || len(s.rec.Calls) > 0 && !s.runsAgain() {", "", "",
	},
	{
		"a safe call is handed over by a process whose store ends with it", guard, "actors/stream.go",
		"	if s.node.drain.alone || !s.opened", "	if !s.opened", "internal/spec/recovery", "TestDrainOfAStoreInMemory",
	},
	{
		"a safe call hears nothing at the end of a process whose store ends with it", guard, "actors/node.go",
		"return d.alone && d.over.Load()", "return false", "internal/spec/recovery", "TestDrainOfAStoreInMemory",
	},
	{
		"a drain does not wait for safe calls where the store ends with the process", guard, "actors/request.go",
		"return r.node.drain.alone || ", "return ", "internal/spec/recovery", "TestDrainOfAStoreInMemory",
	},
	{
		"work beside a node takes the whole time of its drain", expiry, "actors/drain.go",
		"(beside == nil || late.Load() || !beside())", "(beside == nil || !beside())", "", "TestFinishLeavesTimeToHandOver",
	},
	{
		"a call is offered a task once at the end of its node", expiry, "actors/request.go",
		"		r.toldEnding = false\n	case leaving:", "	case leaving:", "internal/spec/task", "TestALongCallWithTooManyTasks",
	},
	{
		"a held resume carries no event id", guard, "actors/hold.go",
		"if h.at != \"\" {", "if h.at == \"-\" {", "", "TestResumeIsHeldForItsSession",
	},
	{
		"a stream is renewed that nobody can resume", expiry, "actors/stream.go",
		"> int64(s.svc.Limits.ReplayAge)", "> int64(1000*s.svc.Limits.ReplayAge)", "", "",
	},
	{
		"events come before the acknowledgement", guard, "actors/listen.go",
		"if l.acked {\n\t\t\tl.tell(m.data)", "if l.acked || len(l.early) >= 0 {\n\t\t\tl.tell(m.data)", "", "",
	},
	{
		"a listener hears of any list", guard, "actors/listen.go",
		"if l.svc == svc && l.filter.wants(method) {", "if l.svc == svc {", "", "",
	},
	{
		"the first message of a client is not stored before it is answered", expiry, "actors/sessions.go",
		"s.view.Load().rec.Fresh && !s.heard(in) {", "s.view.Load().rec.Fresh && id == nil && !s.heard(in) {", "", "TestFresh",
	},
	{
		"a session is charged for minutes and for days", limit, "actors/stored.go",
		"n.accounts.gone(in, &before, &s.svc.Limits.Session)\n", "_ = before\n", "", "TestFresh",
	},
	{
		"fresh sessions are not charged", limit, "actors/service.go",
		"n += a.Used[usedFresh].Amount(now)", "n += 0", "", "",
	},
	{
		"new sessions come back with the oldest", limit, "actors/service.go",
		"float64(p.Sessions) / time.Hour.Seconds()", "float64(p.Sessions) / (72 * time.Hour).Seconds()", "internal/spec/limits", "TestLimits/sessions",
	},
	{
		"bodies of any size are stored", limit, "actors/service.go",
		"return size <= maxRerunBody ||", "return size >= 0 ||", "", "TestLarge",
	},
	{
		"the size of a batch is that of its messages", limit, "actors/batch.go",
		"s.svc.again(&e.m, len(body))", "s.svc.again(&e.m, len(e.raw))", "", "TestLarge",
	},
	{
		"calls that are not stored are left to the next process", guard, "actors/request.go",
		"!r.svc.again(m, r.size)", "!r.svc.Handler.Safe(m.Method, m.Name)", "", "TestLarge",
	},
	{
		"a budget that is full stops what needs the other", limit, "actors/service.go",
		"used, limit := d.store.Use(c.in)\n", "used, limit := d.store.Use(SessionBudget)\n", "", "TestStoreIsShared",
	},
	{
		"room for calls is asked for a session", limit, "actors/admission.go",
		"if d.nearFull(SessionBudget) {", "if d.nearFull(SessionBudget) || d.nearFull(EventBudget) {", "", "TestStoreIsShared",
	},
	{
		"a step that is stored runs again", guard, "actors/step.go",
		"if s := c.journal.step(run.name); s != nil {", "if s := c.journal.step(run.name); s != nil && c.attempt < 2 {", "internal/spec/recovery", "TestStepsOfASessionRunOnce",
	},
	{
		"a node that woke late begins a step", guard, "actors/step.go",
		"return nil, c.assure(ctx, on)", "return nil, nil", "internal/spec/nodes", "TestStepsOfANodeThatWakesLate",
	},
	{
		"steps are forgotten with the log", merge, "internal/record/past.go",
		"r.Steps = slices.Clone(p.Steps)", "r.Steps = nil", "internal/spec/recovery", "TestStepsOfASessionRunOnce",
	},
	{
		"the steps of a call have no bound", limit, "actors/step.go",
		"if s.steps.Add(1) > maxSteps {", "if s.steps.Add(1) > maxSteps && bytes == 0 {", "", "TestStepsOfACallAreBounded",
	},
	{
		"a takeover forgets what steps take", limit, "actors/takeover.go",
		"w.steps.Store(int64(len(log.Steps)))\n	w.stepBytes.Store(int64(log.Steps.Size()))", "w.steps.Store(0)", "", "TestStepsOfACallAreBounded",
	},
	{
		"messages of a step stand for others", merge, "actors/step.go",
		"j.skipped = min(j.skipped+j.steps[name].Messages, j.sent.Messages)", "j.skipped = min(j.skipped, j.sent.Messages)", "", "TestStepsAndMessages",
	},
	{
		"messages of an inner step are not those of the outer one", merge, "actors/step.go",
		"run.parent.messages += run.messages", "run.parent.messages += 0", "", "TestStepsAndMessages",
	},
	{
		"a step of a batch is another call's", guard, "internal/record/step.go",
		" || step.Member != member {", " {", "internal/spec/recovery", "TestStepsOfABatch",
	},
	{
		"a requestState carries no steps", merge, "actors/mrtr.go",
		", Steps: c.carried()}", "}", "", "TestStepsAreCarried",
	},
	{
		"a call that is becoming a task keeps a result", guard, "actors/step.go",
		"	if d := c.Detached(); d != nil {\n		return d.KeepStep(ctx, s)\n	}\n	if full", "	if full", "", "TestStepsMoveToATask",
	},
	{
		"a task begins without the steps of its call", merge, "taskrun.go",
		"n.Steps = append(n.Steps, stepOf(&kept[i]))", "_ = stepOf(&kept[i])", "internal/spec/task", "TestStepsOfALongCall",
	},
}
