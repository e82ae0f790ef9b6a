package main

// tasks are the durable tasks: what is stored of them, and who may change that.
var tasks = []mutation{
	{
		"a part is stored for any attempt", guard, "cluster/task.go",
		"g := guard{subject: n.subject(\"task.\" + task), seq: rev}", "g := guard{any: true, seq: rev}", "", "TestParts",
	},
	{
		"a part of another task is stored", validation, "cluster/task.go",
		"!validTokens(task, 3) || !validTokens(name, 1)", "!validTokens(task, 3) && !validTokens(name, 1)", "", "TestParts",
	},
	{
		"a list has the parts of tasks", validation, "cluster/task.go",
		`filter := n.subject("task." + tenant + "." + server + ".*")`, `filter := n.subject("task." + tenant + "." + server + ".>")`, "", "TestTasksAreListed",
	},
	{
		"a page begins with the last task of the one before", merge, "cluster/task.go",
		"from = s.seq + 1\n", "from = s.seq\n", "", "TestTasksAreListed",
	},
	{
		"work of a dead process is given out by its own time", guard, "cluster/work.go",
		"MemoryStorage: !n.opts.shared(),", "MemoryStorage: false,", "", "TestWorkOfADeadProcess",
	},
	{
		"work lasts for ever", expiry, "cluster/work.go",
		`[]byte(what), ttl, guard{any: true})`, `[]byte(what), 0*ttl, guard{any: true})`, "", "TestWork",
	},
	{
		"all servers share one queue", guard, "cluster/work.go",
		`FilterSubject: n.subject("work." + server)`, `FilterSubject: n.subject("work.*")`, "", "TestWork",
	},
	{
		"an attempt that was taken over stores a step", guard, "internal/worker/attempt.go",
		"if a.rec.State == task.Ended || a.rec.Epoch != a.epoch {", "if a.rec.State == task.Ended {", "", "TestAnAttemptThatWakesLate",
	},
	{
		"the answer to a stored step says that the task is the attempt's own", guard, "internal/worker/step.go",
		"	a.sure.Store(sent)", "	a.sure.Store(max(sent, time.Now().UnixNano()))", "", "TestAnAnswerThatWaited",
	},
	{
		"steps do not count for the share of a principal", limit, "internal/worker/step.go",
		"a.storing(ctx, len(data), ForStep,", "a.storing(ctx, len(data), ForResult,", "internal/spec/task", "TestStepsCountForTheShare",
	},
	{
		"a process that stood still begins a step that another has stored", guard, "internal/worker/step.go",
		"since >= 0 && since < int64(sureFor) {", "since >= 0 {", "", "TestAnAttemptThatWakesLate",
	},
	{
		"a stored step runs again", guard, "internal/worker/step.go",
		"if !a.again {", "if !a.again || a.Number > 0 {", "", "TestStepsRunOnce",
	},
	{
		"the name of a step is used twice", guard, "actors/step.go",
		"if u.steps.next(name) > 1 {", "if u.steps.next(name) > 1 && name == \"\" {", "", "TestStepsThatNobodyFinds",
	},
	{
		"a task that may not run again runs again", guard, "internal/worker/attempt.go",
		"case epoch > 1 && !s.Safe(r.Method, r.Name):", "case epoch > 1 && !s.Safe(r.Method, r.Name) && bad != nil:", "", "TestNeverRunsOnce",
	},
	{
		"a task that waits keeps its place", limit, "internal/worker/question.go",
		"		_ = a.work.Load().Done()\n		a.p.free(a.work.Load())\n	}\n	return a.wake, nil", "		_ = a.work.Load().Done()\n	}\n	return a.wake, nil", "", "TestWaitingHoldsNoPlace",
	},
	{
		"an attempt begins before its request was read", guard, "internal/worker/attempt.go",
		"if bad != nil && !errors.Is(bad, errNoRequest) {", "if bad != nil && !errors.Is(bad, errNoRequest) && key.ID == \"\" {", "", "TestARequestThatCannotBeReadNow",
	},
	{
		"a write without an answer counts as another's", merge, "internal/worker/attempt.go",
		"if errors.Is(err, actors.ErrConflict) && unknown {", "if errors.Is(err, actors.ErrConflict) && unknown && key.ID == \"\" {", "", "TestAnUnknownWrite",
	},
	{
		"two work messages begin two attempts", guard, "internal/worker/pool.go",
		"if p.starting[key] != nil {", "if p.starting[key] != nil && p.closed {", "", "TestTwoAnswersAtOnce",
	},
	{
		"a cancel that comes early is not told", guard, "internal/worker/tasks.go",
		"w.cancelled = true", "w.cancelled = w.cancelled && err == nil", "", "TestCancelBeforeTheHandlerRuns",
	},
	{
		"a cancel is not told to the handler", guard, "internal/worker/tasks.go",
		"		if a != nil {\n			a.cancel(ErrCancelled)", "		if a != nil && err != nil {\n			a.cancel(ErrCancelled)", "", "TestCancel",
	},
	{
		"the end of a lifetime is not told", expiry, "internal/worker/attempt.go",
		"a.cancel(ErrExpired)", "_ = a.cancel", "", "TestExpiry",
	},
	{
		"a node that closes lets its work go", guard, "internal/worker/pool.go",
		"		case <-p.ended:\n", "		case <-p.base.Done():\n", "", "TestADrainKeepsItsWork",
	},
	{
		"work is removed whose record is not there", guard, "internal/worker/pool.go",
		"_ = w.Later(min(time.Second<<min(n-early, 20), mostLate))", "_ = w.Done()", "", "TestAClockThatIsAhead|TestAnAnswerThatTakes",
	},
	{
		"an attempt that has expired by its own clock removes its work", guard, "internal/worker/attempt.go",
		"case errors.Is(cause, ErrCancelled): // who", "case errors.Is(cause, ErrCancelled), errors.Is(cause, ErrExpired): // who", "", "TestAClockThatIsAhead",
	},
	{
		"work that is lost is not offered again", guard, "internal/worker/compare.go",
		"if there, err := has(); there || err != nil {", "if there, err := has(); there || err != nil || ctx != nil {", "", "TestLostWork",
	},
	{
		"what a leader that was replaced does not have is lost", guard, "internal/worker/compare.go",
		"		there, err = has()\n", "		_, err = has()\n", "", "TestNotThereIsAskedAfterAWrite",
	},
	{
		"a task that runs in another process is offered again", guard, "internal/worker/compare.go",
		"if r.State == task.Running && !p.dead(ctx, &r) {", "if r.State == task.Running && !p.dead(ctx, &r) && ctx == nil {", "", "TestOneProcessCompares",
	},
	{
		"a number that a stream gives twice is that of the lost work", guard, "internal/worker/compare.go",
		"if o.seq != r.Work {", "if o.seq > 0 {", "internal/spec/task", "TestTaskWhoseWorkIsLostRuns",
	},
	{
		"a task is made that nothing runs", guard, "internal/worker/serving.go",
		"	if fault := s.fault.Load(); fault != nil {\n		return fmt.Errorf(\"worker", "	if fault := s.fault.Load(); fault != nil && ctx == nil {\n		return fmt.Errorf(\"worker", "", "TestNoTaskIsMade",
	},
	{
		"work of another task is a task's own", guard, "cluster/work.go",
		"of == tenant && id == task, nil", "of == tenant && id != \"\", nil", "", "TestWorkByItsNumber",
	},
	{
		"a consumer asks for more than the account allows", limit, "cluster/work.go",
		"case ok && no.ErrorCode == codeMaxAckPending && want.MaxAckPending > 1:", "case ok && no.ErrorCode == codeMaxAckPending && want.MaxAckPending > maxWork:", "internal/spec/nodes", "TestTasksRunWithin",
	},
	{
		"a consumer goes that others use", guard, "cluster/work.go",
		"} else if i.NumWaiting == 0 {", "} else if i.NumWaiting >= 0 {", "", "TestWorkByItsNumber",
	},
	{
		"a server that was unmounted keeps its consumer", expiry, "internal/worker/serving.go",
		"			p.retire(s)\n", "", "internal/spec/nodes", "TestConsumersCome",
	},
	{
		"a server without tasks has a consumer", limit, "internal/worker/pool.go",
		"if p.Shared && (s.Makes == nil || s.Makes()) {", "if p.Shared {", "internal/spec/nodes", "TestConsumersCome",
	},
	{
		"a task that could not be created leaves its request", expiry, "internal/worker/tasks.go",
		"			p.undo(key, c, o.seq)\n", "			p.Ledger.Settle(c, false)\n", "", "TestAFailedCreationLeavesNothing",
	},
	{
		"a task keeps its request", expiry, "internal/worker/attempt.go",
		"return a.p.Store.DropPart(ctx, a.Key.path(), requestPart, a.stored)", "return nil", "", "TestWhatAnEndedTaskKeeps",
	},
	{
		"a cancelled task keeps its steps", expiry, "internal/worker/ending.go",
		"	if how == task.Cancelled {\n		name = \"\"", "	if how == 0 {\n		name = \"\"", "", "TestWhatAnEndedTaskKeeps",
	},
	{
		"an answer may have any size", limit, "internal/worker/tasks.go",
		"(size(r.Questions) > maxAsked || ", "(size(r.Questions) < 0 || ", "", "TestTooMuchIsAsked",
	},
	{
		"questions may have any size", limit, "internal/worker/question.go",
		"if size(r.Questions) > maxAsked || ", "if size(r.Questions) < 0 || ", "", "TestTooMuchIsAsked",
	},
	{
		"more run than there are places", limit, "internal/worker/places.go",
		"case line == nil && l.may(g.who):", "case line == nil:", "", "TestTasksQueue",
	},
	{
		"all who queue tasks share a line", guard, "internal/worker/pool.go",
		"who: principal(tenant, from)}", "who: principal(\"all\", from[:0])}", "", "TestNobodyWaitsBehindAFlood",
	},
	{
		"clients of a tenant share a line", guard, "internal/worker/pool.go",
		"who: principal(tenant, from)}", "who: principal(tenant, from[:0])}", "", "TestNobodyWaitsBehindAFlood",
	},
	{
		"one principal has all of the line", limit, "internal/worker/places.go",
		"case len(line) >= 2*(l.room-l.held):", "case len(line) >= 1<<20:", "", "TestNobodyWaitsBehindAFlood",
	},
	{
		"the last places are for all", limit, "internal/worker/places.go",
		"return l.taken < l.most-l.most/lastPlaces ||", "return l.taken < l.most ||", "", "TestTheLastPlaces",
	},
	{
		"a principal may have any number of open tasks", limit, "internal/worker/census.go",
		"case c.each > 0 && c.of[who] >= c.each:", "case c.each < 0:", "", "TestOpenTasks",
	},
	{
		"a node may have any number of open tasks", limit, "internal/worker/census.go",
		"case c.all > 0 && len(c.tasks) >= c.all:", "case c.all < 0:", "", "TestOpenTasks",
	},
	{
		"what another process has ended stays open", expiry, "internal/worker/pool.go",
		"case err == nil && r.State == task.Ended:", "case err == nil && r.State > task.Ended:", "", "TestOpenTasksOfTwoProcesses",
	},
	{
		"tasks of an earlier process are not open", expiry, "internal/worker/pool.go",
		"	p.census.see(key, g.who, 0)\n", "", "", "TestOpenTasks",
	},
	{
		"work that the store overlooked is not asked for", guard, "internal/worker/offer.go",
		"if q == nil || p.closed || s.asking.Swap(true) {", "if q != nil || p.closed || s.asking.Swap(true) {", "", "TestOverlookedWork",
	},
	{
		"the socket of operators is anybody's", guard, "internal/admin/server.go",
		"err = os.Chmod(file, 0o600)", "err = os.Chmod(file, 0o666)", "", "TestTheSocket",
	},
	{
		"the socket of a server that runs is taken", guard, "internal/admin/server.go",
		"if c, err := net.Dial(\"unix\", path); err == nil {", "if c, err := net.Dial(\"unix\", path+\".none\"); err == nil {", "", "TestTheSocket",
	},
	{
		"a file in place of the socket is removed", guard, "internal/admin/server.go",
		"case err == nil && old.Mode().Type() != fs.ModeSocket:", "case err == nil && old.Mode().Type() == fs.ModeDir:", "", "TestTheSocket",
	},
	{
		"a server removes another's socket", guard, "internal/admin/server.go",
		"gone == nil && os.SameFile(now, s.file) {", "gone == nil && now != nil {", "", "TestCloseLeavesAnothersSocket",
	},
	{
		"a list of operators has what was not asked for", validation, "internal/admin/task.go",
		"return state == want", "return state != \"\" && want != \"\"", "", "TestRequests",
	},
	{
		"a record tells of all runs", limit, "internal/task/record.go",
		"kept := r.Runs[max(0, len(r.Runs)+1-KeptRuns):]", "kept := r.Runs", "", "TestRuns",
	},
	{
		"steps whose value comes first are not told", merge, "internal/worker/look.go",
		"if s.Began == 0 {", "if s.Began < 0 {", "", "TestLook",
	},
	{
		"an attempt that stored a step counts", limit, "internal/task/attempt.go",
		"if r.Lost++; r.stored {", "if r.Lost++; r.stored && r.Lost < 0 {", "", "TestAttempts",
	},
	{
		"progress of a task falls", guard, "taskrun.go",
		"(value <= r.value || ", "(value < -r.value || ", "internal/spec/task", "TestProgressOfATaskIsBounded",
	},
	{
		"progress of a task has no bound", limit, "taskrun.go",
		"now.Sub(r.told) < every", "now.Sub(r.told) < 0*every", "internal/spec/task", "TestProgressOfATaskIsBounded",
	},
	{
		"progress is told again by a later run", guard, "taskrun.go",
		"r.Request.Session == \"\" || r.Again() ||", "r.Request.Session == \"\" ||", "internal/spec/task", "TestProgressIsNotToldAgain",
	},
	{
		"the result that comes while a task is made is lost", merge, "taskrun.go",
		"		if err == nil {\n			res.Value", "		if err == nil && false {\n			res.Value", "internal/spec/task", "TestACallThatEndsAsItBecomesATask",
	},
	{
		"a middleware's copy of a call becomes the task", merge, "taskrun.go",
		"whole := call.asItCame()", "whole := call", "internal/spec/task", "TestLongCallsThroughMiddleware/changes_the_params",
	},
	{
		"a middleware that panics leaves a task behind", guard, "method.go",
		"		if !returned { // it may panic", "		if returned && false { // it may panic", "internal/spec/task", "TestLongCallsThroughMiddleware/panics",
	},
	{
		"a middleware that tries again makes a promise again", guard, "taskrun.go",
		"if !whole.fate.CompareAndSwap(nil, promised) {", "if whole.fate.Store(promised); whole.fate.Load() == nil {", "internal/spec/task", "TestLongCallsThroughMiddleware/tries_again",
	},
	{
		"progress of a task does not name it", negotiation, "taskrun.go",
		"	p[\"_meta\"] = mcp.Raw", "	_ = mcp.Raw", "internal/spec/task", "TestMessagesOfATaskNameIt",
	},
	{
		"a question goes out as a task that its client takes plainly", validation, "ask.go",
		"qs[i].TTL > 0 && host.takes(qs[i].Method)", "qs[i].TTL > 0", "internal/spec/task", "TestOnlyWhatIsDeclaredIsAugmented",
	},
	{
		"a client that takes questions only as tasks is not asked again", guard, "ask.go",
		"no.Code != mcp.CodeInvalidRequest || host == nil", "no.Code != mcp.CodeParseError || host == nil", "internal/spec/task", "TestAClientMayInsistOnATask",
	},
	{
		"an answer with a member task is a task", validation, "internal/hosted/host.go",
		"q.Valid != nil && q.Valid(a.Result)", "q.Valid != nil && q.TTL == 0", "internal/spec/task", "TestAnAnswerInPlaceOfATask",
	},
	{
		"a client's task is looked at once in its life", limit, "internal/hosted/wire.go",
		"min(max(s.every, 0), float64(mostWait.Milliseconds()))", "max(s.every, 0)", "internal/spec/task", "TestThePollIntervalIsHeeded",
	},
	{
		"a client that says much of its task is asked as often", limit, "internal/hosted/host.go",
		"least := min(leastWait, left)", "least := 0 * min(leastWait, left)", "internal/spec/task", "TestAStatusNotificationIsAHint",
	},
	{
		"the id of a client's task has any length", validation, "internal/hosted/wire.go",
		"|| len(id) > maxID {", "{", "internal/spec/task", "TestATaskThatCannotBeUnderstood",
	},
	{
		"the state of another task counts", validation, "internal/hosted/host.go",
		"err == nil && t.id != f.t.id {", "err == nil && t.id == \"\" {", "internal/spec/task", "TestATaskThatCannotBeUnderstood",
	},
	{
		"a client may fail without end", limit, "internal/hosted/host.go",
		"f.faults == failures:", "f.faults == failures*failures:", "internal/spec/task", "TestATaskThatCannotBeUnderstood",
	},
	{
		"a task that its client has forgotten is cancelled", guard, "internal/hosted/host.go",
		"if !f.settled && !f.t.status.Terminal()", "if !f.t.status.Terminal()", "internal/spec/task", "TestTheOutcomeIsThatOfTheQuestion",
	},
	{
		"what a client refused before it forgot is lost", guard, "internal/hosted/host.go",
		"if f.refused != nil {", "if f.refused != nil && f.looks == 0 {", "internal/spec/task", "TestTheOutcomeIsThatOfTheQuestion",
	},
	{
		"a client that refuses a result is asked for it again at once", guard, "internal/hosted/host.go",
		"mcp.TaskInputRequired && !f.asked\n", "mcp.TaskInputRequired\n", "internal/spec/task", "TestATaskThatNeedsInputIsAskedForItsResult",
	},
	{
		"a task is not looked at when its time is over", expiry, "internal/hosted/host.go",
		"f.end.Add(lastLook)", "f.end.Add(0*lastLook)", "internal/spec/task", "TestATaskThatNobodyWaitsForIsCancelled",
	},
	{
		"the result that an earlier run asked for is not its", guard, "internal/hosted/host.go",
		"f.result = f.Call.Recorded(resultKey(f.t.id))", "f.result = f.Call.Recorded(f.t.id)", "internal/spec/task", "TestARerunGoesOnWithTheClientsTask",
	},
	{
		"a later run takes an old look for its own", guard, "actors/ask.go",
		"\tif q.Passing {\n", "\tif q.Passing && use == 0 {\n", "internal/spec/task", "TestARerunGoesOnWithTheClientsTask",
	},
	{
		"the task of a call that goes on elsewhere is cancelled", guard, "actors/ask.go",
		"[]error{ErrStreamLost, ErrClosing, ErrSessionEnded,", "[]error{ErrSessionEnded,", "internal/spec/task", "TestADrainLeavesTheClientsTask",
	},
	{
		"a task that comes late is nobody's", guard, "actors/ask.go",
		"case qs[i].Late != nil && c.over(err):", "case qs[i].Late != nil && c == nil:", "internal/spec/task", "TestATaskThatComesTooLateIsCancelled",
	},
	{
		"a late task is waited for without end", expiry, "actors/pending.go",
		"time.NewTimer(lateWait)", "time.NewTimer(1000 * lateWait)", "internal/spec/task", "TestATaskThatComesTooLateIsCancelled",
	},
	{
		"a question that became a task is withdrawn by its request", guard, "actors/ask.go",
		"x == nil || qs[i].Late != nil ||", "x == nil || i < 0 ||", "internal/spec/task", "TestATaskThatComesTooLateIsCancelled",
	},
	{
		"each request of a hosted question counts", limit, "actors/pending.go",
		"\tif !asked.Part {\n", "\tif asked != nil {\n", "internal/spec/task", "TestHostedQuestionsCount",
	},
	{
		"hosted questions are not bounded", limit, "actors/pending.go",
		"\tq.count(x, 1)\n	return func() {", "\tq.count(x, 0)\n	return func() {", "internal/spec/task", "TestHostedQuestionsCount",
	},
	{
		"all suspects run at once", limit, "internal/worker/suspect.go",
		"mostSuspects = limits.TaskSuspects.Value()", "mostSuspects = 10 * limits.TaskSuspects.Value()", "", "TestFewSuspectsRunAtATime",
	},
	{
		"a suspect stays one after a step", guard, "internal/worker/step.go",
		"	a.clear()\n", "	_ = a.clear\n", "", "TestSuspectsAreCleared",
	},
	{
		"a suspect stays one however long it runs", expiry, "internal/worker/attempt.go",
		"time.AfterFunc(suspectFor, clear)", "time.AfterFunc(suspectFor, func() {})", "", "TestSuspectsAreCleared",
	},
	{
		"a second run has no place for its question", guard, "actors/ask.go",
		"pending.place(s, c.attempt > 1)", "pending.place(s, c.attempt > 1 && s == nil)", "internal/spec/task", "TestARerunGoesOnWithTheClientsTask",
	},
	{
		"a question that its client may still take does not count", limit, "actors/pending.go",
		"\tif x.part && q.open[x.id] == x {\n", "\tif x.part && q.open[x.id] != x {\n", "internal/spec/task", "TestHostedQuestionsCount",
	},
	{
		"a record is written with six bytes for each angle bracket", limit, "internal/task/record.go",
		"data, err := codec.Marshal(r)", "_ = codec.Marshal\n\tdata, err := json.Marshal(r)", "internal/spec/task", "TestAnswersToTheBrim",
	},
	{
		"answers leave no room for what comes later", limit, "internal/worker/question.go",
		"len(data) <= maxRecord-reserved", "len(data) <= maxRecord", "", "TestAnswersThatTakeAllRoom",
	},
	{
		"an outcome that does not fit has the task run again", limit, "internal/worker/attempt.go",
		"if errors.Is(err, errTooBig) {", "if errors.Is(err, errTooBig) && false {", "", "TestNoRoomForAnOutcome",
	},
	{
		"answers go to any process", guard, "internal/worker/held.go",
		"!gone || err != nil {", "(!gone || err != nil) && is != errHeld {", "", "TestAnswersOfSharedTasks",
	},
	{
		"work that is there twice runs twice", guard, "internal/worker/held.go",
		"r.Work != 0 && r.Work != w.Seq()", "r.Work != 0 && r.Work != r.Work", "", "TestWorkThatIsOfferedTwice",
	},
	{
		"a task that may not run again ends with an outage", guard, "internal/worker/held.go",
		"!gone || err != nil {", "!gone && err == nil {", "", "TestAnOutageEndsNoTask",
	},
	{
		"a cancellation that is not stored takes what the task has", guard, "internal/worker/tasks.go",
		"err != nil && !errors.Is(err, task.ErrEnded)", "err == task.ErrWaiting", "", "TestACancellationThatIsNotStored",
	},
	{
		"what a task stores counts for as long as its first one", limit, "internal/quota/lasting.go",
		"l.all()[index].Add(at, n, lasts)", "l.all()[0*index].Add(at, n, lasts)", "", "TestLasting",
	},
	{
		"what ends early is taken from others", limit, "internal/quota/usage.go",
		"case u.window - 1:\n\t\tu.before = max(0, u.before-n)", "default:\n\t\tu.now = max(0, u.now-n)", "", "TestTakeBack",
	},
	{
		"an earlier question holds up the reminder of the next", guard, "reminder.go",
		"old.asked >= me.asked", "old.asked > 0", "internal/spec/task", "TestEachQuestionIsReminded",
	},
	{
		"who has given way says that nobody asks", guard, "reminder.go",
		"if s.asking.CompareAndDelete(key.ID, me) && rs.rt.shared() {", "if s.asking.CompareAndDelete(key.ID, me) || rs.rt.shared() {", "internal/spec/nodes", "TestResultsAfterEachOther",
	},
}
