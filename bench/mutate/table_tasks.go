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
		"MemoryStorage: n.server != nil,", "MemoryStorage: false,", "", "TestWorkOfADeadProcess",
	},
	{
		"work lasts for ever", expiry, "cluster/work.go",
		`[]byte(tenant+"."+task), ttl, guard{any: true})`, `[]byte(tenant+"."+task), 0*ttl, guard{any: true})`, "", "TestWork",
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
		"a stored step runs again", guard, "internal/worker/step.go",
		"if !a.again {", "if !a.again || a.Number > 0 {", "", "TestStepsRunOnce",
	},
	{
		"the name of a step is used twice", guard, "internal/worker/step.go",
		"if !a.steps.take(name) {", "if !a.steps.take(name) && name == \"\" {", "", "TestStepsRunOnce",
	},
	{
		"a task that may not run again runs again", guard, "internal/worker/attempt.go",
		"case epoch > 1 && !s.Safe(r.Method, r.Name):", "case epoch > 1 && !s.Safe(r.Method, r.Name) && bad != nil:", "", "TestNeverRunsOnce",
	},
	{
		"a task that waits keeps its place", limit, "internal/worker/attempt.go",
		"		_ = a.work.Load().Done()\n		a.p.leave()\n	}\n	return a.wake, nil", "		_ = a.work.Load().Done()\n	}\n	return a.wake, nil", "", "TestWaitingHoldsNoPlace",
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
		"an answer that was lost is not made good", guard, "internal/worker/tasks.go",
		"if r.State == task.Queued && p.Store", "if r.State == task.Queued && r.Created < 0 && p.Store", "", "TestAnswerAgain",
	},
	{
		"an answer may have any size", limit, "internal/worker/tasks.go",
		"if err == nil && size(r.Questions) > maxAsked {", "if err == nil && size(r.Questions) < 0 {", "", "TestTooMuchIsAsked",
	},
	{
		"questions may have any size", limit, "internal/worker/attempt.go",
		"if size(r.Questions) > maxAsked {", "if size(r.Questions) < 0 {", "", "TestTooMuchIsAsked",
	},
	{
		"more run than there are places", limit, "internal/worker/pool.go",
		"	default:\n	}\n	t := time.NewTicker(keepEvery)", "	default:\n		return true\n	}\n	t := time.NewTicker(keepEvery)", "", "TestTasksQueue",
	},
	{
		"work that the store overlooked is not asked for", guard, "internal/worker/pool.go",
		"q != nil && len(p.slots) < cap(p.slots) {", "q != nil && p.closed {", "", "TestOverlookedWork",
	},
	{
		"an attempt that stored a step counts", limit, "internal/task/attempt.go",
		"if r.Lost++; r.stored {", "if r.Lost++; r.stored && r.Lost < 0 {", "", "TestAttempts",
	},
}
