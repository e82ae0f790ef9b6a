package everything

import (
	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
)

// New returns the demo, for Runtime.Mount.
func New() *troupe.Server { return NewWith(troupe.ServerOptions{}) }

// NewWith is New with the caller's options, such as an ID where a Runtime has several
// servers. Options that are left out are as in New.
func NewWith(o troupe.ServerOptions) *troupe.Server {
	s := empty(o)
	addDemo(s)
	return s
}

// NewConformance is NewWith with the tools that the official conformance suite
// calls. They have the names and answers that the suite asks for.
func NewConformance(o troupe.ServerOptions) *troupe.Server {
	s := empty(o)
	addDemo(s)
	addFixture(s)
	return s
}

// empty returns the server without features.
func empty(o troupe.ServerOptions) *troupe.Server {
	if o.Instructions == "" {
		o.Instructions = "A demonstration of every feature. Start with the tools echo, count and ask."
	}
	if o.Complete == nil {
		o.Complete = complete
	}
	return troupe.NewServer(mcp.Implementation{Name: "everything", Title: "Troupe: everything", Version: "1.0.0"}, &o)
}

// addDemo adds the tools to try by hand, and all resources and prompts.
func addDemo(s *troupe.Server) {
	addEcho(s)
	addMeasure(s)
	addJob(s)
	addCount(s)
	addSleep(s)
	addAsk(s)
	addCaller(s)
	addTick(s)
	addClient(s)
	addChange(s)
	addLink(s)
	addDelegate(s)
	addResources(s)
	addSkills(s)
	addPages(s)
	addPrompts(s)
	addInputPrompt(s)
}

// addFixture adds the tools of the conformance suite.
func addFixture(s *troupe.Server) {
	addContent(s)
	addFailure(s)
	addProgress(s)
	addLogging(s)
	addSampling(s)
	addElicitation(s)
	addForms(s)
	addReconnection(s)
	addSchema(s)
	addInputs(s)
	addRequests(s)
	addTriggers(s)
	addTasks(s)
}
