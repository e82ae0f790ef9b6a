package protocol

import "github.com/troupe-run/troupe/mcp"

// The capabilities of servers. They share their type with those of clients, whose values they do
// not have.
const (
	CapTools mcp.Capability = 1 << (iota + 16)
	CapToolsListChanged
	CapPrompts
	CapPromptsListChanged
	CapResources
	CapResourcesSubscribe
	CapResourcesListChanged
	CapLogging
	CapCompletions
	CapTasks
	CapTasksList
	CapTasksCancel
	CapTasksToolsCall
	CapTasksExtension
	CapSkills
)

// capabilitySpans has the revisions that know a capability; outside of them nothing needs it. No
// revision bounds skills, and pages need the _meta of tools.
var capabilitySpans = map[mcp.Capability]Span{
	CapTools:                      Span{Since: mcp.Revision20241105},
	CapToolsListChanged:           Span{Since: mcp.Revision20241105},
	CapPrompts:                    Span{Since: mcp.Revision20241105},
	CapPromptsListChanged:         Span{Since: mcp.Revision20241105},
	CapResources:                  Span{Since: mcp.Revision20241105},
	CapResourcesSubscribe:         Span{Since: mcp.Revision20241105},
	CapResourcesListChanged:       Span{Since: mcp.Revision20241105},
	CapLogging:                    Span{Since: mcp.Revision20241105},
	CapCompletions:                Span{Since: mcp.Revision20250326},
	CapTasks:                      Span{mcp.Revision20251125, mcp.Revision20251125},
	CapTasksList:                  Span{mcp.Revision20251125, mcp.Revision20251125},
	CapTasksCancel:                Span{mcp.Revision20251125, mcp.Revision20251125},
	CapTasksToolsCall:             Span{mcp.Revision20251125, mcp.Revision20251125},
	CapTasksExtension:             Span{Since: mcp.Revision20260728},
	mcp.CapClientRoots:            Span{Since: mcp.Revision20241105},
	mcp.CapClientRootsListChanged: Span{mcp.Revision20241105, mcp.Revision20251125},
	mcp.CapClientSampling:         Span{Since: mcp.Revision20241105},
	mcp.CapClientSamplingContext:  Span{Since: mcp.Revision20251125},
	mcp.CapClientSamplingTools:    Span{Since: mcp.Revision20251125},
	mcp.CapClientElicitation:      Span{Since: mcp.Revision20250618},
	mcp.CapClientElicitationForm:  Span{Since: mcp.Revision20251125},
	mcp.CapClientElicitationURL:   Span{Since: mcp.Revision20251125},
	mcp.CapClientTasks:            Span{mcp.Revision20251125, mcp.Revision20251125},
	mcp.CapClientTasksList:        Span{mcp.Revision20251125, mcp.Revision20251125},
	mcp.CapClientTasksCancel:      Span{mcp.Revision20251125, mcp.Revision20251125},
	mcp.CapClientTasksSampling:    Span{mcp.Revision20251125, mcp.Revision20251125},
	mcp.CapClientTasksElicitation: Span{mcp.Revision20251125, mcp.Revision20251125},
	mcp.CapClientTasksExtension:   Span{Since: mcp.Revision20260728},
	CapSkills:                     Span{Since: mcp.Revision20241105},
	mcp.CapClientUI:               Span{Since: mcp.Revision20250618},
}

// ServerHas reports whether the server declares the capability, or all of several. It is true for
// [mcp.CapNone], and false for a capability of clients.
func ServerHas(s *mcp.ServerCapabilities, c mcp.Capability) bool {
	for one := range c.Each() {
		if !serverHasOne(s, one) {
			return false
		}
	}
	return true
}

func serverHasOne(s *mcp.ServerCapabilities, c mcp.Capability) bool {
	switch c {
	case CapTools:
		return s.Tools != nil
	case CapToolsListChanged:
		return s.Tools != nil && s.Tools.ListChanged
	case CapPrompts:
		return s.Prompts != nil
	case CapPromptsListChanged:
		return s.Prompts != nil && s.Prompts.ListChanged
	case CapResources:
		return s.Resources != nil
	case CapResourcesSubscribe:
		return s.Resources != nil && s.Resources.Subscribe
	case CapResourcesListChanged:
		return s.Resources != nil && s.Resources.ListChanged
	case CapLogging:
		return s.Logging != nil
	case CapCompletions:
		return s.Completions != nil
	case CapTasks:
		return s.Tasks != nil
	case CapTasksList:
		return s.Tasks != nil && s.Tasks.List != nil
	case CapTasksCancel:
		return s.Tasks != nil && s.Tasks.Cancel != nil
	case CapTasksToolsCall:
		return s.Tasks != nil && s.Tasks.Requests != nil && s.Tasks.Requests.Tools != nil &&
			s.Tasks.Requests.Tools.Call != nil
	case CapTasksExtension:
		_, ok := s.Extensions[mcp.ExtensionTasks]
		return ok
	case CapSkills:
		_, ok := s.Extensions[mcp.ExtensionSkills]
		return ok
	}
	return false
}
