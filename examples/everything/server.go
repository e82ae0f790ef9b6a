package everything

import (
	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
)

// New returns the server, to be mounted by a Runtime.
func New() *troupe.Server { return NewWith(troupe.ServerOptions{}) }

// NewWith is New with options of the caller's, such as an ID of its own where a
// Runtime has several. What they leave out is as in New.
func NewWith(o troupe.ServerOptions) *troupe.Server {
	if o.Instructions == "" {
		o.Instructions = "A demonstration of every feature. Start with the tools echo, count and ask."
	}
	if o.Complete == nil {
		o.Complete = complete
	}
	s := troupe.NewServer(mcp.Implementation{Name: "everything", Title: "Troupe: everything", Version: "1.0.0"}, &o)

	addEcho(s)
	addMeasure(s)
	addCount(s)
	addSleep(s)
	addAsk(s)
	addTick(s)
	addClient(s)
	addChange(s)

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

	addResources(s)
	addPrompts(s)
	return s
}
