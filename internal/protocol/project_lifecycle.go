package protocol

import (
	"encoding/json"
	"maps"

	"github.com/troupe-run/troupe/mcp"
)

// ErrorFor returns the error for a peer of the revision. It is e itself when nothing has to change.
// Since 2026-07-28 a resource that is not found is [mcp.CodeInvalidParams], with the same data, and
// no error makes a user open URLs: [mcp.CodeURLElicitationRequired] becomes
// [mcp.CodeInvalidRequest]. An error whose data names capabilities that the client lacks is
// [mcp.CodeMissingCapability] since then, and [mcp.CodeInvalidRequest] before.
func ErrorFor(e *mcp.Error, r mcp.Revision) *mcp.Error {
	code := e.Code
	switch {
	case !r.Stateless():
		if code == mcp.CodeMissingCapability {
			code = mcp.CodeInvalidRequest
		}
	case code == mcp.CodeInvalidRequest && namesLacking(e.Data):
		code = mcp.CodeMissingCapability
	case code == mcp.CodeResourceNotFound:
		code = mcp.CodeInvalidParams
	case code == mcp.CodeURLElicitationRequired:
		code = mcp.CodeInvalidRequest
	}
	if code == e.Code {
		return e
	}
	return &mcp.Error{Code: code, Message: e.Message, Data: e.Data}
}

// namesLacking reports whether the data of an error say which capabilities a client lacks.
func namesLacking(data []byte) bool {
	var lacking struct {
		RequiredCapabilities map[string]any `json:"requiredCapabilities"`
	}
	return len(data) > 0 && json.Unmarshal(data, &lacking) == nil && lacking.RequiredCapabilities != nil
}

// FilterWithin returns the notifications of f that a server with these capabilities sends: the
// content of the acknowledgement of a listen request.
func FilterWithin(f mcp.SubscriptionFilter, s *mcp.ServerCapabilities) mcp.SubscriptionFilter {
	f.ToolsListChanged = f.ToolsListChanged && ServerHas(s, CapToolsListChanged)
	f.PromptsListChanged = f.PromptsListChanged && ServerHas(s, CapPromptsListChanged)
	f.ResourcesListChanged = f.ResourcesListChanged && ServerHas(s, CapResourcesListChanged)
	if !ServerHas(s, CapResourcesSubscribe) {
		f.ResourceSubscriptions = nil
	}
	if !ServerHas(s, CapTasksExtension) {
		f.TaskIDs = nil
	}
	return f
}

// InitializeResultFor returns the result for a client of the revision. ProtocolVersion stays as it
// is.
func InitializeResultFor(x mcp.InitializeResult, r mcp.Revision) mcp.InitializeResult {
	x.Capabilities = ServerCapabilitiesFor(x.Capabilities, r)
	x.ServerInfo = ImplementationFor(x.ServerInfo, r)
	return x
}

// ServerCapabilitiesFor returns the capabilities that the revision knows. The set is open in every
// revision: experimental ones, extensions, and members that no revision defines stay; only the
// extensions for tasks and for pages are bound to their revisions. Completion needs no capability
// in a revision that has none for it.
func ServerCapabilitiesFor(s mcp.ServerCapabilities, r mcp.Revision) mcp.ServerCapabilities {
	if !knownTo(CapCompletions, r) {
		s.Completions = nil
	}
	if !knownTo(CapTasks, r) {
		s.Tasks = nil
	}
	s.Extensions = without(s.Extensions, mcp.ExtensionTasks, knownTo(CapTasksExtension, r))
	s.Extensions = without(s.Extensions, mcp.ExtensionUI, knownTo(mcp.CapClientUI, r))
	return s
}

// ClientCapabilitiesFor returns the client's capabilities that count in the revision. A capability
// that the revision does not know is not declared, whatever the client sent. Members that no
// revision defines stay.
func ClientCapabilitiesFor(c mcp.ClientCapabilities, r mcp.Revision) mcp.ClientCapabilities {
	if c.Roots != nil && c.Roots.ListChanged && !knownTo(mcp.CapClientRootsListChanged, r) {
		c.Roots = &mcp.ListChanged{}
	}
	switch {
	case c.Elicitation == nil:
	case !knownTo(mcp.CapClientElicitation, r):
		c.Elicitation = nil
	case !knownTo(mcp.CapClientElicitationURL, r):
		c.Elicitation = &mcp.ElicitationCapability{} // forms are the only mode
	}
	if c.Sampling != nil && !knownTo(mcp.CapClientSamplingTools, r) {
		c.Sampling = &mcp.SamplingCapability{}
	}
	if !knownTo(mcp.CapClientTasks, r) {
		c.Tasks = nil
	}
	c.Extensions = without(c.Extensions, mcp.ExtensionTasks, knownTo(mcp.CapClientTasksExtension, r))
	c.Extensions = without(c.Extensions, mcp.ExtensionUI, knownTo(mcp.CapClientUI, r))
	return c
}

// without returns the extensions without one that is not known.
func without(all map[string]mcp.Object, name string, known bool) map[string]mcp.Object {
	if _, declared := all[name]; !declared || known {
		return all
	}
	all = maps.Clone(all)
	delete(all, name)
	return all
}

// knownTo reports whether the revision knows a capability.
func knownTo(c mcp.Capability, r mcp.Revision) bool { return capabilitySpans[c].Includes(r) }
