package everything

import (
	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
)

// New returns the server, to be mounted by a Runtime.
func New() *troupe.Server {
	s := troupe.NewServer(
		mcp.Implementation{Name: "everything", Title: "Troupe: everything", Version: "1.0.0"},
		&troupe.ServerOptions{
			Instructions: "A demonstration of every feature. Start with the tools echo, count and ask.",
			Complete:     complete,
		})

	addEcho(s)
	addCount(s)
	addSleep(s)
	addAsk(s)
	addTick(s)
	addClient(s)

	addContent(s)
	addFailure(s)
	addProgress(s)
	addLogging(s)
	addSampling(s)
	addElicitation(s)
	addForms(s)
	addReconnection(s)
	addSchema(s)

	addResources(s)
	addPrompts(s)
	return s
}
