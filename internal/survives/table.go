package survives

// Kind is what may survive.
type Kind struct {
	Name  string
	Cells [len(Breaks)]Cell // in the order of Breaks
}

// Breaks are what may happen.
var Breaks = [...]string{"connection breaks", "deploy", "kill -9", "power cut", "another node", "NATS away"}

// Cell is what happens to a kind of work then.
type Cell struct {
	Word string // in the table
	Says string // a sentence or two on it
	// Tests hold it: import paths below the root of the repository, and names. A cell without one is not promised.
	Tests []string
}

// NotPromised is the word of a cell that no test holds.
const NotPromised = "not promised"

const (
	recovery   = "test/spec/recovery."
	nodes      = "test/spec/nodes."
	stateless  = "test/spec/stateless."
	task       = "test/spec/task."
	transports = "test/spec/transports."
	command    = "cmd/troupe."
	examples   = "examples."
	simulated  = "actors/recovery.TestHistories"
	ofSDKs     = "test/interop.TestLongCallsOfSDKs" // clients of others, and three nodes
)

// Sentences that several cells have.
const (
	asFlushed = "As of the last flush."
	cancels   = "Closing the connection cancels the call."
	nothing   = "Nothing is there to resume."
	anyNode   = "Any node serves the next request."
	kept      = "A keeper has it for 30 s, until the next process on the data directory goes on with it."
	once      = "Once it is a task it is kept like any task."
)

// Table is all that is promised.
var Table = []Kind{
	{"Session, to 2025-11-25", [len(Breaks)]Cell{
		{"goes on", "Its streams are resumed after the last event that the client has: none is lost, none comes twice.", []string{transports + "TestResumeFromEveryEvent"}},
		{"goes on", "Idle streams end, and say when to come back; the next process knows the session.", []string{recovery + "TestDrainAnswersAndHandsOver", recovery + "TestDrainHasClientsComeBack", ofSDKs}},
		{"goes on", "The next process has the session with its settings and values, and every event that a client has seen.", []string{recovery + "TestSessionsAndStreamsSurviveACrash", ofSDKs}},
		{"goes on", asFlushed + " An event id that was lost is refused, and never stands for another event.", []string{recovery + "TestPowerCutTakesNoIDTwice", simulated}},
		{"goes on", "Each request may reach another node.", []string{nodes + "TestAnyNodeKnowsTheSession"}},
		{"waits", "Requests say when to come back, resumes are held, and all goes on when the store answers.", []string{nodes + "TestARestartOfTheStoreEndsNoCall"}},
	}},
	{"Safe call in it", [len(Breaks)]Cell{
		{"runs on", "The response waits for the client's return.", []string{transports + "TestConnectionBreaksAndTheCallRunsOn"}},
		{"runs again", "In the next process; what the client has seen does not come again.", []string{recovery + "TestRestartUnderASafeCall", ofSDKs}},
		{"runs again", "Once they have become streams: after 250 ms, or with the first message. A call that had not leaves a broken connection.", []string{recovery + "TestSessionsAndStreamsSurviveACrash", ofSDKs}},
		{"runs again", asFlushed, []string{simulated}},
		{"runs on", "Where they began, while their streams, questions and answers go by way of any node.", []string{nodes + "TestNodeWithoutItsLeaseHoldsNobody", nodes + "TestAnswersOfAnySizeAtAnotherNode"}},
		{"runs on", "What they send waits for the store, and comes when it answers.", []string{nodes + "TestARestartOfTheStoreEndsNoCall"}},
	}},
	{"Other call in it", [len(Breaks)]Cell{
		{"runs on", "The response waits for the client's return.", []string{transports + "TestConnectionBreaksAndTheCallRunsOn"}},
		{"ends first", "The process waits for them, as long as its drain may take; what still runs then ends with -32010.", []string{recovery + "TestDrainWaitsOnlyForWhatNobodyElseCanEnd", recovery + "TestDrainRefusesWhatCouldNotEnd"}},
		{"-32010", "\"Whether it took effect is unknown\", once, when the stream is resumed.", []string{recovery + "TestSessionsAndStreamsSurviveACrash"}},
		{"-32010", asFlushed, []string{simulated}},
		{"runs on", "As those above.", []string{nodes + "TestAnswersOfAnySizeAtAnotherNode"}},
		{"runs on", "As those above.", []string{nodes + "TestARestartOfTheStoreEndsNoCall"}},
	}},
	{"Task", [len(Breaks)]Cell{
		{"runs on", "Any connection asks for them, also after their session has ended.", []string{task + "TestATaskOutlivesItsSession"}},
		{"goes on", "In another process, after their last step, if they are safe to run again.", []string{command + "TestTwoProcessesShareTasks", examples + "TestDurable"}},
		{"goes on", "After their last step, with the questions and answers they had; one that may not run again ends with -32010.", []string{command + "TestQuestionsOfTasksSurviveAKill", examples + "TestTasks"}},
		{"goes on", asFlushed + " A task whose work was lost runs all the same.", []string{task + "TestTaskWhoseWorkIsLostRuns", simulated}},
		{"goes on", "Any node reads, answers and cancels them.", []string{nodes + "TestTasksElsewhere"}},
		{"goes on", "Those that run do; what they store waits.", []string{command + "TestTasksWhileNATSIsAway"}},
	}},
	{"2026-07-28: safe, tasks", [len(Breaks)]Cell{
		{"resend", cancels + " " + once, []string{stateless + "TestClosingTheConnectionCancelsTheCallAndNotTheParking"}},
		{"a task", "The client is given a task in place of the result, and the run goes on as that.", []string{task + "TestALongCallOutlivesItsProcess", ofSDKs}},
		{"resend", nothing + " " + once, []string{command + "TestAnyProcessServesTheNextRequest", task + "TestALongCallOutlivesItsProcess", ofSDKs}},
		{"resend", "As with kill -9, and as of the last flush.", []string{task + "TestTaskWhoseWorkIsLostRuns"}},
		{"runs on", anyNode, []string{command + "TestAnyProcessServesTheNextRequest"}},
		{"runs on", "Where it runs; it becomes no task meanwhile.", []string{nodes + "TestNodeWithoutItsLeaseHoldsNobody"}},
	}},
	{"2026-07-28: safe, no tasks", [len(Breaks)]Cell{
		{"resend", cancels, []string{stateless + "TestClosingTheConnectionCancelsTheCallAndNotTheParking"}},
		{"ends first", "The process waits for them; what still runs two seconds before the end is told to send again.", []string{command + "TestCallsAtTheEndOfAProcess", ofSDKs}},
		{"resend", nothing, []string{command + "TestAnyProcessServesTheNextRequest", ofSDKs}},
		{"resend", nothing, []string{command + "TestAnyProcessServesTheNextRequest"}},
		{"runs on", anyNode, []string{command + "TestAnyProcessServesTheNextRequest"}},
		{"runs on", "Where it runs.", []string{nodes + "TestNodeWithoutItsLeaseHoldsNobody"}},
	}},
	{"2026-07-28: other call", [len(Breaks)]Cell{
		{"cancelled", cancels, []string{stateless + "TestClosingTheConnectionCancelsTheCallAndNotTheParking"}},
		{"ends first", "The process waits for them; what still runs at the end of its drain ends with -32010.", []string{command + "TestCallsAtTheEndOfAProcess"}},
		{"unknown", "Its client cannot know whether the call took effect: that is what tasks are for.", []string{command + "TestAnyProcessServesTheNextRequest"}},
		{"unknown", "As with kill -9.", []string{command + "TestAnyProcessServesTheNextRequest"}},
		{"runs on", anyNode, []string{command + "TestAnyProcessServesTheNextRequest"}},
		{"runs on", "Where it runs.", []string{nodes + "TestNodeWithoutItsLeaseHoldsNobody"}},
	}},
	{"2026-07-28: question", [len(Breaks)]Cell{
		{"waits", "The request has its response, which asks; the next one brings the answer.", []string{stateless + "TestClosingTheConnectionCancelsTheCallAndNotTheParking"}},
		{"runs again", "If they are safe to run again, with the answers they had; others end first, or with -32010.", []string{recovery + "TestDrainOfStatelessCalls", stateless + "TestQuestionWhoseProcessHasEnded"}},
		{"runs again", "If they are safe to run again; others end with -32010.", []string{stateless + "TestParkedCallOverACrash", stateless + "TestQuestionWhoseProcessHasEnded"}},
		{"runs again", "As with kill -9: the client brings what the call needs.", []string{stateless + "TestParkedCallOverACrash"}},
		{"goes on", "The answer finds the run, whichever node it comes to.", []string{stateless + "TestQuestionsOverAlternatingProcesses"}},
		{NotPromised, "", nil},
	}},
	{"2026-07-28: listener", [len(Breaks)]Cell{
		{"reopen", "At any node.", []string{transports + "TestStreamsThatStay"}},
		{"reopen", "The stream ends in order.", []string{command + "TestListenersAtTheEndOfAProcess"}},
		{"reopen", nothing, []string{command + "TestAnyProcessServesTheNextRequest"}},
		{"reopen", nothing, []string{command + "TestAnyProcessServesTheNextRequest"}},
		{"goes on", "They hear what happens on any node.", []string{nodes + "TestUpdatesElsewhere", nodes + "TestListsElsewhere"}},
		{"reopen", "A node that may have missed something says so by ending them.", []string{nodes + "TestNewsThatWereLost"}},
	}},
	{"Process of a backend", [len(Breaks)]Cell{
		{"goes on", "With all that it holds: it is its session's, and not a connection's.", []string{command + "TestHostedSurvivesAKill"}},
		{"goes on", kept, []string{command + "TestHostedSurvivesAKill"}},
		{"goes on", kept, []string{command + "TestHostedSurvivesAKill", command + "TestHostedIsNotKeptForEver"}},
		{"ends", "With the machine, as with its keeper; the next call has another one.", []string{command + "TestHostedKeeperKilled"}},
		{NotPromised, "", nil},
		{NotPromised, "", nil},
	}},
	{"HTTP+SSE", [len(Breaks)]Cell{
		{"ends", "The session is its connection.", []string{transports + "TestSSESessionEndsWithItsConnection"}},
		{"ends", "After its calls have ended.", []string{transports + "TestSSEDrain"}},
		{"ends", "The session is its connection; its tasks go on.", []string{transports + "TestSSESessionEndsWithItsConnection"}},
		{"ends", "The session is its connection; its tasks go on.", []string{transports + "TestSSESessionEndsWithItsConnection"}},
		{"goes on", "Messages may come to any node.", []string{transports + "TestMessagesOverSSEToAnotherProcess"}},
		{"goes on", "On its connection.", []string{nodes + "TestNodeWithoutItsLeaseHoldsNobody"}},
	}},
	{"stdio", [len(Breaks)]Cell{
		{"ends", "The session is its process.", []string{transports + "TestStdioEnds"}},
		{"ends", "After its calls have ended.", []string{command + "TestStdioProcess"}},
		{"ends", "The session is its process; its tasks go on in the next one.", []string{transports + "TestStdioEnds"}},
		{"ends", "The session is its process; its tasks go on in the next one.", []string{transports + "TestStdioEnds"}},
		{"one process", "There is none.", []string{command + "TestStdioProcess"}},
		{NotPromised, "", nil},
	}},
}
