package hosting

import (
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/backend/listing"
	"github.com/troupe-run/troupe/mcp"
)

// About is what backends say of themselves, as far as a server says it in their place.
type About struct {
	// Alone says that the server looks exactly like its one backend: ServerInfo and Instructions are those, raw; nil for none.
	Alone                    bool
	ServerInfo, Instructions []byte
	// Capabilities are those of all that the server does not have by itself, or those of the one backend.
	Capabilities mcp.ServerCapabilities

	of *mounted // the one backend
	in *reading
}

// About returns what a caller is told of the backends. own says that the server has items of its own.
func (s *Server) About(c *Caller, own bool) About {
	all := *s.mounted.Load()
	if len(all) == 1 && all[0].prefix == "" && !own {
		if r := s.reading(all[0], c); r != nil {
			return About{Alone: true, ServerInfo: r.settled.ServerInfo, Instructions: r.settled.Instructions, Capabilities: r.capabilities(), of: all[0], in: r}
		}
	}
	var a About
	for _, m := range all {
		r := s.reading(m, c)
		if r == nil {
			continue
		}
		caps := r.capabilities()
		if caps.Completions != nil {
			a.Capabilities.Completions = caps.Completions
		}
		if caps.Tasks != nil {
			a.Capabilities.Tasks = caps.Tasks
		}
		if len(caps.Extensions) > 0 && a.Capabilities.Extensions == nil {
			a.Capabilities.Extensions = make(map[string]mcp.Object)
		}
		delete(caps.Extensions, mcp.ExtensionSkills) // nothing says of which of several backends a skill is
		for name, value := range caps.Extensions {
			if _, taken := a.Capabilities.Extensions[name]; !taken {
				a.Capabilities.Extensions[name] = value
			}
		}
	}
	return a
}

// WholeBackend stands for all of the one backend that the server looks exactly like, for requests that name no item: nil if it is no such
// server, or the backend does not declare the extension.
func (a *About) WholeBackend(extension string) *Item {
	if !a.Alone || codec.Optional(codec.Optional(a.in.settled.Capabilities, "extensions"), extension) == nil {
		return nil
	}
	return &Item{&listing.Item{Backend: a.of.Name}, listing.Resources, a.of, a.in}
}
