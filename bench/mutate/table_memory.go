package main

// memory is what clients have the node hold, and what keeps them from holding more.
var memory = []mutation{
	{
		"a process that rests keeps its garbage", limit, "internal/memory/memory.go",
		"now == last && bytes > needed+worth {", "now != last && bytes > needed+worth {", "", "TestGiveBack",
	},
	{
		"a process that rests collects again and again", limit, "internal/memory/memory.go",
		"			needed = bytes\n", "", "", "TestGiveBack",
	},
	{
		"the principal that holds most is the first", limit, "internal/quota/accounts.go",
		"most = max(most, of(a))", "most = max(most, 0*of(a))", "", "",
	},
	{
		"what a principal has stored is that of all", limit, "actors/node.go",
		"return storedFor(a, b)", "return 0", "internal/spec/server", "TestStoreGauges",
	},
	{
		"an idle actor keeps the response", limit, "actors/request.go",
		"	r.result.data = nil\n", "", "", "TestResponsesAreNotKept",
	},
	{
		"the response is kept until its stream is stored", limit, "actors/request.go",
		"	r.out.Free()\n	r.out = nil\n	if paced", "	if paced", "", "TestResponsesAreNotKept",
	},
	{
		"what waits for the store is held against all", limit, "internal/quota/bytes.go",
		"limit - (load - waiting)", "limit - load", "", "",
	},
	{
		"accounts that hold little hold any number of bytes together", limit, "internal/quota/bytes.go",
		"left >= 0 && mine", "mine", "", "",
	},
	{
		"a stream is opened without asking", limit, "transport/memory.go",
		"	if x.resumes {\n", "	if n == 0 {\n", "", "TestStreamsAreAskedFor",
	},
	{
		"a resume is refused for its memory", limit, "transport/memory.go",
		"return r.ProtoMajor == 1 && r.Method == http.MethodGet", "return false && r.Method == http.MethodGet", "", "TestStreamsAreAskedFor",
	},
	{
		"a few that hold little take the last eighth", limit, "internal/quota/bytes.go",
		"max(leastBytes, left/little)", "max(leastBytes, limit/128)", "", "TestHowManyLeaveRoom",
	},
	{
		"nothing is too much for the node", limit, "internal/quota/bytes.go",
		"case load > limit:", "case load < 0:", "", "",
	},
	{
		"one account may hold all there is", limit, "internal/quota/bytes.go",
		"mine/2 <= limit-limit/reserve-load:", "mine/2 <= limit:", "", "",
	},
	{
		"nothing is left for accounts that hold little", limit, "internal/quota/bytes.go",
		"case left >= 0 && mine", "case left > limit && mine", "", "",
	},
	{
		"an account that holds bytes is dropped", guard, "internal/quota/account.go",
		"a.load.Load() != 0 || a.bytes.Load() != 0 ||", "a.load.Load() != 0 ||", "", "",
	},
	{
		"a dropped account is charged", guard, "internal/quota/bytes.go",
		"	mine := a.bytes.Add(n)\n	if a.dropped.Load() {", "	mine := a.bytes.Add(n)\n	if a.dropped.Load() && n < 0 {", "", "",
	},
	{
		"a refusal leaves its bytes counted", limit, "internal/quota/bytes.go",
		"	if no != Admitted {\n		t.bytes.Add(-n)\n		a.bytes.Add(-n)", "	if no != Admitted {\n		t.bytes.Add(-n)", "", "",
	},
	{
		"a holding is freed twice", limit, "internal/quota/holding.go",
		"h.n.Swap(over); old > 0 {", "h.n.Load(); old > 0 {", "", "",
	},
	{
		"a holding that has been freed is charged again", limit, "internal/quota/holding.go",
		"for old := h.n.Load(); old != over; old = h.n.Load() {", "for old := h.n.Load(); ; old = h.n.Load() {", "", "TestHolding$",
	},
	{
		"a body is read before it is counted", guard, "transport/admit.go",
		"if no := x.holdBody(max(r.ContentLength, 0)); no != nil {", "if no := x.holdBody(0); no != nil {", "", "Counted",
	},
	{
		"a body without a length is not counted", limit, "transport/admit.go",
		"if no := x.holdBody(int64(len(b) + more)); no != nil {", "if no := x.holdBody(0); no != nil {", "", "Counted",
	},
	{
		"a body may trickle", limit, "transport/handler.go",
		"	h.reads.least = h.o.BodyRate\n", "", "", "TestSlowBody",
	},
	{
		"the rate of a body is looked at once", limit, "transport/watchdog.go",
		"	return min(left, trickleEvery)", "	return left", "", "TestSlowBody",
	},
	{
		"the rate of a body counts from its beginning", limit, "transport/watchdog.go",
		"d.least > 0 && age >= trickleAfter && float64", "d.least > 0 && age >= 0 && float64", "", "TestABodyHasItsTime",
	},
	{
		"what has come of a body does not count for its rate", limit, "transport/admit.go",
		"		x.watch.got.Store(int64(len(b)))\n", "", "", "TestSlowBody",
	},
	{
		"what decoding makes is not counted", limit, "transport/admit.go",
		"if no := x.holdValues(); no != nil {", "if no := (*refusal)(nil); no != nil {", "", "Counted",
	},
	{
		"a request is not given back", limit, "transport/exchange.go",
		"	x.body = nil\n	x.letRequestGo()", "	x.body = nil", "", "Counted",
	},
	{
		"what is queued is not counted", limit, "transport/stream.go",
		"	if !x.holdQueue() {", "	if x.s == nil && !x.holdQueue() {", "", "Counted",
	},
	{
		"what was queued is not given back", limit, "transport/stream.go",
		"	s.backlog.wrote(n, s.queued())\n	x.letQueueGo()", "	s.backlog.wrote(n, s.queued())", "", "Counted",
	},
	{
		"a stream's end gives nothing back", limit, "transport/stream.go",
		"	x.letGo(quota.Queues, s.held)\n	s.held = 0", "	s.held = 0", "", "Counted",
	},
	{
		"a plain response is not counted", limit, "transport/exchange.go",
		"if held > requestBytes && x.hold(quota.Queues, held) != nil {", "if held < 0 && x.hold(quota.Queues, held) != nil {", "", "Counted",
	},
	{
		"a message has any number of values", limit, "codec/scan.go",
		"if s.values > lim.values() {", "if s.values < 0 {", "", "TestScanLimits",
	},
	{
		"values in arrays are not counted", limit, "codec/lexer.go",
		"		l.values += values\n", "", "", "TestValues",
	},
	{
		"inputResponses has any number of members", limit, "internal/mrtr/responses.go",
		"if members++; members > limits.Responses.Value() {", "if members++; members > 100*limits.Responses.Value() {", "", "",
	},
	{
		"answers that nobody asked for are kept", limit, "internal/mrtr/responses.go",
		"ok && (asked == nil || slices.Contains(asked, name)) {", "ok && (asked == nil || slices.Contains(asked, name) || name != \"\") {", "", "",
	},
	{
		"any tag is right", guard, "actors/store.go",
		"return named == k.ID || subtle.ConstantTimeCompare([]byte(id), []byte(named)) == 1", "return named != \"\" || subtle.ConstantTimeCompare([]byte(id), []byte(named)) == 1", "", "TestSessionKey|Guesses",
	},
	{
		"guesses hold up sessions", guard, "actors/sessions.go",
		"		lookups = d.guesses", "		lookups = d.lookups", "", "Guesses",
	},
	{
		"epochs that are gone read the key ring", limit, "cluster/keyring.go",
		"!r.began.Before(asked) || epoch <= max(r.current, highest(r.newer)) {", "!r.began.Before(asked) {", "", "TestKeyring_unknownEpochs",
	},
	{
		"each epoch that is made up reads the key ring", limit, "cluster/keyring.go",
		"		if wait > 0 {\n\t\t\ttime.Sleep(wait)", "		if wait > time.Hour {\n\t\t\ttime.Sleep(wait)", "", "TestKeyring_unknownEpochs",
	},
	{
		"a read of the key ring that began before is enough", guard, "cluster/keyring.go",
		"if !r.began.Before(asked) ||", "if !r.began.Before(asked.Add(-2*time.Hour)) ||", "", "TestKeyring_unknownEpochs",
	},
	{
		"a tag is of the process", seal, "cluster/keyring.go",
		"	h := hmac.New(sha256.New, *key)", "	h := hmac.New(sha256.New, []byte(r.node.boot))", "", "TestTag",
	},
	{
		"a parked call is not counted", limit, "actors/stateless.go",
		"if apart && !a.charged.alone() {", "if apart && a.charged.alone() {", "internal/spec/limits", "TestBytesHeld|TestMemoryIsShared",
	},
	{
		"a parked call is not given back", limit, "actors/request.go",
		"	r.memory.Reset()\n", "", "internal/spec/limits", "TestMemoryOfCalls",
	},
	{
		"what waits for the log is not counted", limit, "actors/stream.go",
		"	s.countWaiting()\n", "", "", "TestWhatWaits",
	},
	{
		"what waited for the log is not given back", limit, "actors/batch.go",
		"case held == 0:\n\t\ts.waits.Reset()", "case held == 0:", "", "TestWhatWaits",
	},
	{
		"what waits for a stream that panics is not given back", limit, "actors/stream.go",
		"	s.waits.Reset()\n", "", "", "TestWhatWaits",
	},
	{
		"the results of a batch are not counted", limit, "actors/batch.go",
		"		s.gather.size += 2 * len(m.entries[i].Data)\n", "", "", "TestWhatWaits",
	},
	{
		"what is being stored is not counted", limit, "internal/stream/machine.go",
		"n := m.queued + 2*m.flight.size", "n := m.queued", "actors", "TestWhatWaits",
	},
	{
		"calls of a client with its share of the memory do not wait", limit, "actors/call.go",
		"n > waitingStep && c.r", "n < 0 && c.r", "", "TestCrowdedCallsWait",
	},
	{
		"notifications to a client with its share of the memory wait", limit, "actors/stored.go",
		"st.queued.Load() > waitingStep &&", "st.queued.Load() < 0 &&", "", "TestCrowdedSessions",
	},
	{
		"a kept response is not counted", limit, "actors/mrtr.go",
		"	if !st.alone {\n\t\tin", "	if st.alone {\n\t\tin", "internal/spec/limits", "TestMemoryOfOutcomes",
	},
	{
		"a response is kept though there is no room", limit, "actors/mrtr.go",
		"			return // as if there were too many\n", "", "internal/spec/limits", "TestMemoryOfOutcomes",
	},
	{
		"a kept response is not given back", limit, "internal/mrtr/outcomes.go",
		"	if x.Free != nil {\n\t\tx.Free()\n\t}\n", "", "", "TestOutcomesAreFreed",
	},
	{
		"the response that a parked call keeps is not counted", limit, "actors/mrtr.go",
		"		r.memory.Grow(int64(len(rest)))\n", "", "internal/spec/limits", "TestMemoryOfOutcomes",
	},
	{
		"what a resume reads is not counted", limit, "actors/resume.go",
		"	to, err := r.fare.afford(ctx, from, to, r.bytes)\n", "	var err error\n", "", "TestReadsOfTheLog",
	},
	{
		"a resume reads as much as ever when there is little room", limit, "actors/takeover.go",
		"for to > from && !f.charge(l.mostOf(from, to, all)) {", "for to > from && !f.charge(l.mostOf(from, to, all)) && f == nil {", "", "TestReadsOfTheLog",
	},
	{
		"what a resume has read is counted as the most that it could read", limit, "actors/takeover.go",
		"f.held.Set(int64(bytes + appends*appendBytes))", "_ = appends", "", "TestReadsOfTheLog",
	},
	{
		"what a resume has read is not given back", limit, "actors/takeover.go",
		"func (f *fare) end() {\n\tf.held.Reset()", "func (f *fare) end() {", "", "TestReadsOfTheLog",
	},
	{
		"a resume that has begun breaks when there is no room", limit, "actors/resume.go",
		"for err != nil && r.att != nil && ctx.Err() == nil {", "for err != nil && r.att != nil && ctx.Err() != nil {", "", "TestResumesWait",
	},
	{
		"what a takeover reads is not counted", limit, "actors/takeover.go",
		"if to, err = f.afford(ctx, from, to, 0); err == nil {", "if f != nil {", "", "TestTakeoversAreHeld",
	},
	{
		"what a takeover has read is not given back", limit, "actors/takeover.go",
		"	defer f.held.Free()\n", "", "", "TestTakeoversAreHeld",
	},
	{
		"a call that runs again is not counted", limit, "actors/takeover.go",
		"	r.memory.ChargeAnyway(", "	_ = 0 * len(body); new(quota.Holding).ChargeAnyway(", "", "TestTakeoversAreHeld",
	},
	{
		"a session is not given back", limit, "actors/session.go",
		"	s.memory.Free()\n", "", "internal/spec/limits", "TestMemoryOfCalls",
	},
	{
		"a listener is not given back", limit, "actors/listen.go",
		"	l.held.Free()\n	l.from.Held", "	l.from.Held", "internal/spec/limits", "TestMemoryOfCalls",
	},
	{
		"a node's memory of a stream counts though another has had it", guard, "actors/far.go",
		"if over && rec.Boot == r.n.boot {", "if over {", "", "TestResumeFromMemory",
	},
	{
		"a node that takes a stream over again has its memory of before", guard, "actors/takeover.go",
		"	n.cache.Drop(w.path) // of an earlier time as its writer\n", "", "", "TestResumeFromMemory",
	},
	{
		"a record that is stored again has the epoch that it had", guard, "actors/fence.go",
		"Epoch: takeover.NextEpoch(s.m.Epoch(), randomStep())", "Epoch: s.m.Epoch()", "", "TestForgottenIsNotTaken",
	},
}
