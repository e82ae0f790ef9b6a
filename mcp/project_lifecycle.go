package mcp

import "maps"

// For returns the result for a client of the revision. ProtocolVersion stays as it is.
func (x InitializeResult) For(r Revision) InitializeResult {
	x.Capabilities = x.Capabilities.For(r)
	x.ServerInfo = x.ServerInfo.For(r)
	return x
}

// For returns the capabilities that the revision knows. The set is open in every
// revision: experimental ones, extensions, and members that no revision defines stay;
// only the extensions for tasks and for pages are bound to their revisions. Completion needs no capability in a
// revision that has none for it.
func (s ServerCapabilities) For(r Revision) ServerCapabilities {
	if !CapCompletions.knownTo(r) {
		s.Completions = nil
	}
	if !CapTasks.knownTo(r) {
		s.Tasks = nil
	}
	s.Extensions = without(s.Extensions, ExtensionTasks, CapTasksExtension.knownTo(r))
	s.Extensions = without(s.Extensions, ExtensionUI, CapClientUI.knownTo(r))
	return s
}

// For returns the client's capabilities that count in the revision. A capability that the
// revision does not know is not declared, whatever the client sent. Members that no
// revision defines stay.
func (c ClientCapabilities) For(r Revision) ClientCapabilities {
	if c.Roots != nil && c.Roots.ListChanged && !CapClientRootsListChanged.knownTo(r) {
		c.Roots = &ListChanged{}
	}
	switch {
	case c.Elicitation == nil:
	case !CapClientElicitation.knownTo(r):
		c.Elicitation = nil
	case !CapClientElicitationURL.knownTo(r):
		c.Elicitation = &ElicitationCapability{} // forms are the only mode
	}
	if c.Sampling != nil && !CapClientSamplingTools.knownTo(r) {
		c.Sampling = &SamplingCapability{}
	}
	if !CapClientTasks.knownTo(r) {
		c.Tasks = nil
	}
	c.Extensions = without(c.Extensions, ExtensionTasks, CapClientTasksExtension.knownTo(r))
	c.Extensions = without(c.Extensions, ExtensionUI, CapClientUI.knownTo(r))
	return c
}

// without returns the extensions without one that is not known.
func without(all map[string]Object, name string, known bool) map[string]Object {
	if _, declared := all[name]; !declared || known {
		return all
	}
	all = maps.Clone(all)
	delete(all, name)
	return all
}

func (c Capability) knownTo(r Revision) bool { return c.Info().Span.Includes(r) }
