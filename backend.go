package troupe

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"

	"github.com/troupe-run/troupe/host"
	"github.com/troupe-run/troupe/internal/backend/naming"
	"github.com/troupe-run/troupe/internal/hostfile"
	"github.com/troupe-run/troupe/internal/hosting"
)

// AddBackend has the server offer what another server has: its tools, prompts, resources and their templates, behind those of the server
// itself, and in the order of AddBackend. It runs when somebody needs it, and at the first start to find out what it lists.
//
// Names of tools and prompts have the backend's name and two underscores in front; URIs stay. Of several items with one name, or one URI,
// the first is there. A server without items of its own, and with one backend whose Options.Prefix is [host.NoPrefix], looks
// exactly like that. Params and results pass as they are: schemas are the backend's to enforce. ServerOptions.Scopes and Visible hold for
// its items, too, and Options.Scopes beside them.
//
// A backend of the same name is replaced. Its instances stay if they would run in the same way.
//
// AddBackend panics for a nil server, for a name that cannot be one, for a target or options that [host.Options.Check] refuses or whose EnvFile
// cannot be read, and for a prefix that could give two items one name.
func AddBackend(s *Server, name string, t host.Target, o host.Options) {
	must(addBackend(s, Backend{Name: name, Target: t, Options: o}, true))
}

// TryAddBackend is AddBackend with an error in place of a panic, as [TryAddTool] is [AddTool].
func TryAddBackend(s *Server, name string, t host.Target, o host.Options) error {
	return addBackend(s, Backend{Name: name, Target: t, Options: o}, false)
}

func addBackend(s *Server, b Backend, replace bool) error {
	if s == nil {
		return fmt.Errorf("troupe: backend %q: %w", b.Name, errNoServer)
	}
	return changeBackends(s, func(all []Backend) ([]Backend, error) {
		at := slices.IndexFunc(all, func(of Backend) bool { return of.Name == b.Name && of.Fault == nil })
		switch {
		case at < 0:
			return append(all, b), nil
		case !replace:
			return nil, fmt.Errorf("troupe: backend %q: there is one of this name already: only AddBackend replaces it", b.Name)
		}
		all[at] = b
		return all, nil
	})
}

// RemoveBackends removes backends, whose instances end. It ignores names that the server does not have.
func (s *Server) RemoveBackends(names ...string) {
	must(changeBackends(s, func(all []Backend) ([]Backend, error) {
		return slices.DeleteFunc(all, func(b Backend) bool { return slices.Contains(names, b.Name) }), nil
	}))
}

// SetBackends has the server offer exactly these backends, in this order, as after a file that lists them was read again. Those that run in the
// same way as before keep their instances. The error is that of [TryAddBackend], for each of them that is wrong; nothing changes then. Those with a
// Fault are only shown to operators, by troupe backends.
func (s *Server) SetBackends(all []Backend) error {
	return changeBackends(s, func([]Backend) ([]Backend, error) { return slices.Clone(all), nil })
}

// changeBackends has edit make other backends of a copy of those that the server has.
func changeBackends(s *Server, edit func(all []Backend) ([]Backend, error)) error {
	b := &s.backends
	b.mu.Lock()
	defer b.mu.Unlock()
	next, err := edit(slices.Clone(b.all))
	if err != nil {
		return err
	}
	if err := checkBackends(next); err != nil {
		return err
	}
	b.all = next
	if slices.ContainsFunc(next, func(b Backend) bool { return hosting.NeedsScopes(b.Options) }) {
		s.scoped.Store(true)
	}
	if svc := s.mount.mountedService(); svc != nil {
		svc.hosting.configure(next)
		for list := range announced {
			s.mount.listChanged(list)
		}
	}
	return nil
}

// backendNames are the names that the prefix of a backend can be made of.
var backendNames = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,46}$`)

// checkBackends settles the options of backends, and returns what is wrong with them.
func checkBackends(all []Backend) error {
	var faults []error
	for i := range all {
		b := &all[i]
		if b.Fault != nil {
			continue
		}
		fault := func(err error) { faults = append(faults, fmt.Errorf("troupe: backend %q: %w", b.Name, err)) }
		if !backendNames.MatchString(b.Name) {
			fault(errors.New("want a name of 1 to 46 of A-Z a-z 0-9 _ . -"))
		}
		if err := b.Options.Check(b.Target); err != nil {
			fault(err)
		}
		if err := readEnvFile(b); err != nil {
			fault(err)
		}
		prefix := naming.Prefix(b.Name, b.Options.Prefix)
		for _, other := range all[:i] {
			if other.Fault != nil {
				continue
			}
			if other.Name == b.Name {
				fault(errors.New("there are two of this name"))
			} else if theirs := naming.Prefix(other.Name, other.Options.Prefix); naming.Clash(prefix, theirs) {
				fault(fmt.Errorf("its prefix %q and that of %s, %q, begin alike, so that two tools could have one name", prefix, other.Name, theirs))
			}
		}
	}
	return errors.Join(faults...)
}

// readEnvFile puts the variables of Options.EnvFile into Options.Env, which goes before them.
func readEnvFile(b *Backend) error {
	path := b.Options.EnvFile
	if path == "" {
		return nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("Options.EnvFile: %w", err)
	}
	env, err := hostfile.ReadVariables(path, data)
	if err != nil {
		return fmt.Errorf("Options.EnvFile: %w", err)
	}
	maps.Copy(env, b.Options.Env)
	b.Options.Env, b.Options.EnvFile = env, ""
	return nil
}
