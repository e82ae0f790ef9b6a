package mcp

import (
	"iter"
	"strings"
)

// ExtensionTasks is the key of the tasks extension in a capability set's
// extensions (2026-07-28).
const ExtensionTasks = "io.modelcontextprotocol/tasks"

// Side is the side that declares a capability.
type Side uint8

// The sides.
const (
	ServerSide Side = iota + 1
	ClientSide
)

// Capability is a capability that one side can declare, or several of one side, joined by |.
type Capability uint32

// CapNone is no capability.
const CapNone Capability = 0

// The capabilities. Those of clients begin with CapClient.
const (
	CapTools Capability = 1 << iota
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

	CapClientRoots
	CapClientRootsListChanged
	CapClientSampling
	CapClientSamplingContext
	CapClientSamplingTools
	CapClientElicitation
	CapClientElicitationForm
	CapClientElicitationURL
	CapClientTasks
	CapClientTasksList
	CapClientTasksCancel
	CapClientTasksSampling
	CapClientTasksElicitation
	CapClientTasksExtension

	CapSkills
	CapClientUI
)

// CapabilityInfo describes one capability.
type CapabilityInfo struct {
	Path string // members from the capability set down, joined by dots; keys with dots stand last
	Side Side
	Span Span // the revisions that know it; outside of them nothing needs it
}

var capabilityTable = map[Capability]CapabilityInfo{
	CapTools:                {"tools", ServerSide, Span{Since: Revision20241105}},
	CapToolsListChanged:     {"tools.listChanged", ServerSide, Span{Since: Revision20241105}},
	CapPrompts:              {"prompts", ServerSide, Span{Since: Revision20241105}},
	CapPromptsListChanged:   {"prompts.listChanged", ServerSide, Span{Since: Revision20241105}},
	CapResources:            {"resources", ServerSide, Span{Since: Revision20241105}},
	CapResourcesSubscribe:   {"resources.subscribe", ServerSide, Span{Since: Revision20241105}},
	CapResourcesListChanged: {"resources.listChanged", ServerSide, Span{Since: Revision20241105}},
	CapLogging:              {"logging", ServerSide, Span{Since: Revision20241105}},
	CapCompletions:          {"completions", ServerSide, Span{Since: Revision20250326}},
	CapTasks:                {"tasks", ServerSide, Span{Revision20251125, Revision20251125}},
	CapTasksList:            {"tasks.list", ServerSide, Span{Revision20251125, Revision20251125}},
	CapTasksCancel:          {"tasks.cancel", ServerSide, Span{Revision20251125, Revision20251125}},
	CapTasksToolsCall:       {"tasks.requests.tools.call", ServerSide, Span{Revision20251125, Revision20251125}},
	CapTasksExtension:       {"extensions." + ExtensionTasks, ServerSide, Span{Since: Revision20260728}},

	CapClientRoots:            {"roots", ClientSide, Span{Since: Revision20241105}},
	CapClientRootsListChanged: {"roots.listChanged", ClientSide, Span{Revision20241105, Revision20251125}},
	CapClientSampling:         {"sampling", ClientSide, Span{Since: Revision20241105}},
	CapClientSamplingContext:  {"sampling.context", ClientSide, Span{Since: Revision20251125}},
	CapClientSamplingTools:    {"sampling.tools", ClientSide, Span{Since: Revision20251125}},
	CapClientElicitation:      {"elicitation", ClientSide, Span{Since: Revision20250618}},
	CapClientElicitationForm:  {"elicitation.form", ClientSide, Span{Since: Revision20251125}},
	CapClientElicitationURL:   {"elicitation.url", ClientSide, Span{Since: Revision20251125}},
	CapClientTasks:            {"tasks", ClientSide, Span{Revision20251125, Revision20251125}},
	CapClientTasksList:        {"tasks.list", ClientSide, Span{Revision20251125, Revision20251125}},
	CapClientTasksCancel:      {"tasks.cancel", ClientSide, Span{Revision20251125, Revision20251125}},
	CapClientTasksSampling:    {"tasks.requests.sampling.createMessage", ClientSide, Span{Revision20251125, Revision20251125}},
	CapClientTasksElicitation: {"tasks.requests.elicitation.create", ClientSide, Span{Revision20251125, Revision20251125}},
	CapClientTasksExtension:   {"extensions." + ExtensionTasks, ClientSide, Span{Since: Revision20260728}},

	// No revision bounds skills. Pages need the _meta of tools.
	CapSkills:   {"extensions." + ExtensionSkills, ServerSide, Span{Since: Revision20241105}},
	CapClientUI: {"extensions." + ExtensionUI, ClientSide, Span{Since: Revision20250618}},
}

// Info describes the capability. It is zero for [CapNone] and for several capabilities.
func (c Capability) Info() CapabilityInfo { return capabilityTable[c] }

// Each yields the capabilities that c has, one at a time.
func (c Capability) Each() iter.Seq[Capability] {
	return func(yield func(Capability) bool) {
		for rest := c; rest != 0; rest &= rest - 1 {
			if !yield(rest & -rest) {
				return
			}
		}
	}
}

// String returns the path, such as "tools.listChanged". Of several capabilities it
// returns the paths, joined by commas.
func (c Capability) String() string {
	var paths []string
	for one := range c.Each() {
		paths = append(paths, one.Info().Path)
	}
	return strings.Join(paths, ", ")
}

// Has reports whether the server declares the capability, or all of several. It is true
// for [CapNone], and false for a capability of clients.
func (s *ServerCapabilities) Has(c Capability) bool {
	for one := range c.Each() {
		if !s.has(one) {
			return false
		}
	}
	return true
}

func (s *ServerCapabilities) has(c Capability) bool {
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
		_, ok := s.Extensions[ExtensionTasks]
		return ok
	case CapSkills:
		_, ok := s.Extensions[ExtensionSkills]
		return ok
	}
	return false
}

// Has reports whether the client declares the capability, or all of several. It is true
// for [CapNone], and false for a capability of servers. An elicitation capability that
// names neither mode includes [CapClientElicitationForm]; one that names only url does
// not.
func (c *ClientCapabilities) Has(want Capability) bool {
	for one := range want.Each() {
		if !c.has(one) {
			return false
		}
	}
	return true
}

func (c *ClientCapabilities) has(want Capability) bool {
	switch want {
	case CapClientRoots:
		return c.Roots != nil
	case CapClientRootsListChanged:
		return c.Roots != nil && c.Roots.ListChanged
	case CapClientSampling:
		return c.Sampling != nil
	case CapClientSamplingContext:
		return c.Sampling != nil && c.Sampling.Context != nil
	case CapClientSamplingTools:
		return c.Sampling != nil && c.Sampling.Tools != nil
	case CapClientElicitation:
		return c.Elicitation != nil
	case CapClientElicitationForm:
		return c.Elicitation != nil && (c.Elicitation.Form != nil || c.Elicitation.URL == nil)
	case CapClientElicitationURL:
		return c.Elicitation != nil && c.Elicitation.URL != nil
	case CapClientTasks:
		return c.Tasks != nil
	case CapClientTasksList:
		return c.Tasks != nil && c.Tasks.List != nil
	case CapClientTasksCancel:
		return c.Tasks != nil && c.Tasks.Cancel != nil
	case CapClientTasksSampling:
		return c.Tasks != nil && c.Tasks.Requests != nil && c.Tasks.Requests.Sampling != nil &&
			c.Tasks.Requests.Sampling.CreateMessage != nil
	case CapClientTasksElicitation:
		return c.Tasks != nil && c.Tasks.Requests != nil && c.Tasks.Requests.Elicitation != nil &&
			c.Tasks.Requests.Elicitation.Create != nil
	case CapClientTasksExtension:
		_, ok := c.Extensions[ExtensionTasks]
		return ok
	case CapClientUI:
		_, ok := c.Extensions[ExtensionUI]
		return ok
	}
	return false
}
