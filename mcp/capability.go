package mcp

import (
	"iter"
	"strings"
)

// ExtensionTasks is the key of the tasks extension in a capability set's
// extensions (2026-07-28).
const ExtensionTasks = "io.modelcontextprotocol/tasks"

// Capability is a capability that a client can declare, or several, joined by |.
type Capability uint32

// CapNone is no capability.
const CapNone Capability = 0

// The capabilities of clients.
const (
	CapClientRoots Capability = 1 << iota
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
	CapClientUI
)

// capabilityPaths has the members from the capability set down, joined by dots; keys with dots stand last.
var capabilityPaths = map[Capability]string{
	CapClientRoots:            "roots",
	CapClientRootsListChanged: "roots.listChanged",
	CapClientSampling:         "sampling",
	CapClientSamplingContext:  "sampling.context",
	CapClientSamplingTools:    "sampling.tools",
	CapClientElicitation:      "elicitation",
	CapClientElicitationForm:  "elicitation.form",
	CapClientElicitationURL:   "elicitation.url",
	CapClientTasks:            "tasks",
	CapClientTasksList:        "tasks.list",
	CapClientTasksCancel:      "tasks.cancel",
	CapClientTasksSampling:    "tasks.requests.sampling.createMessage",
	CapClientTasksElicitation: "tasks.requests.elicitation.create",
	CapClientTasksExtension:   "extensions." + ExtensionTasks,
	CapClientUI:               "extensions." + ExtensionUI,
}

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

// String returns the path, such as "roots.listChanged". Of several capabilities it
// returns the paths, joined by commas.
func (c Capability) String() string {
	var paths []string
	for one := range c.Each() {
		paths = append(paths, capabilityPaths[one])
	}
	return strings.Join(paths, ", ")
}

// Has reports whether the client declares the capability, or all of several. It is true
// for [CapNone]. An elicitation capability that
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
