package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/internal/hostfile"
	"github.com/troupe-run/troupe/mcp"
)

// keeperCommand is the word for the process that keeps those of backends: main has it.
const keeperCommand = "keeper"

// startKeeper is the command that becomes a keeper, nil where the system does not say where this program is.
func startKeeper() []string {
	path, err := os.Executable()
	if err != nil {
		return nil
	}
	return []string{path, keeperCommand}
}

// commandBehind returns what stands behind --, a command to host. It is nil if there is nothing.
func commandBehind(cmd *cobra.Command, args []string) ([]string, error) {
	switch dash := cmd.ArgsLenAtDash(); {
	case dash < 0 && len(args) == 0:
		return nil, nil
	case dash != 0:
		return nil, fmt.Errorf("unknown command %q for %[2]q: a command to host stands behind --, as in: %[2]s -- %[3]s", args[0], cmd.CommandPath(), strings.Join(args, " "))
	case len(args) == 0 || args[0] == "":
		return nil, errors.New("there is no command behind --")
	}
	return args, nil
}

// backendsOf reads what is hosted in place of the demo: the command behind --, or else what the files of servers and the
// section backends say. A backend that is wrong is among them, with its error. It is nil for the demo.
func backendsOf(s *settings) (*hostfile.File, error) {
	var files []*hostfile.File
	switch {
	case s.command != nil && len(s.servers) > 0 && s.table.sourceOf("servers").rank == byCommandLine:
		return nil, faulty(errors.New("a command behind -- and servers exclude each other: put the command into the file"), "servers")
	case s.command != nil:
		files = append(files, hostfile.FromCommand(s.command...))
	default:
		for _, path := range s.servers {
			f, err := hostfile.Load(path)
			if err != nil {
				return nil, faulty(fmt.Errorf("servers: %w", err), "servers")
			}
			files = append(files, f)
		}
		if s.section.Path != "" {
			files = append(files, &s.section)
		}
	}
	if files == nil {
		return nil, nil
	}
	all := hostfile.Join(files...)
	switch {
	case s.conformance:
		return nil, faulty(errors.New("conformance is of the demo, and backends are served in its place"), "conformance")
	case !slices.ContainsFunc(all.Backends, hostfile.Backend.Usable):
		return nil, noBackend(all)
	}
	return all, nil
}

// noBackend says why none is left of what files have.
func noBackend(f *hostfile.File) error {
	faults := []string{"there is no backend to serve in " + f.Path}
	for _, b := range f.Backends {
		if b.Err != nil && !b.Disabled {
			faults = append(faults, oneLine(b.Err))
		}
	}
	return placed{errors.New(strings.Join(faults, "; "))}
}

// hosted are the backends that a server has in place of the demo.
type hosted struct {
	server *troupe.Server
	log    *slog.Logger
	now    *hostfile.File // what it has
	noted  map[hostfile.Note]bool
}

// newServer returns the server to serve. The second result is nil for the demo.
func newServer(s *settings, log *slog.Logger) (*troupe.Server, *hosted, error) {
	if s.hosted == nil {
		return s.demo(), nil, nil
	}
	// What a client hears with a single backend that has no prefix is that backend's.
	h := &hosted{server: troupe.NewServer(mcp.Implementation{Name: "troupe", Version: version()}, nil), log: log, now: new(hostfile.File), noted: make(map[hostfile.Note]bool)}
	return h.server, h, h.serve(s.hosted)
}

// serve has the server offer the backends of a file. One that is wrong stays as it was, or is left out. With an error all
// stay as they were.
func (h *hosted) serve(f *hostfile.File) error {
	changes := hostfile.Diff(h.now, f)
	h.logNotes(f.Notes)
	next := &hostfile.File{Path: f.Path}
	var all, wrong []troupe.Backend
	for _, b := range f.Backends {
		if b.Disabled {
			continue
		}
		if b.Err != nil {
			what, err := "is left out", b.Err
			if slices.Contains(changes.Broken, b.Name) && find(next, b.Name) < 0 {
				what, b = "stays as it was", h.now.Backends[find(h.now, b.Name)]
			}
			h.log.Error("a backend cannot be used, and "+what, "backend", b.Name, "error", oneLine(err))
			wrong = append(wrong, troupe.Backend{Name: b.Name, Fault: errors.New(oneLine(err))})
			if b.Err != nil {
				continue
			}
		}
		next.Backends = append(next.Backends, b)
		o := b.Options
		o.EnvFile = "" // Env has its variables, as they were when the file was read
		all = append(all, troupe.Backend{Name: b.Name, Target: b.Target, Options: o})
	}
	if all == nil {
		return noBackend(f)
	}
	if err := h.server.SetBackends(append(all, wrong...)); err != nil {
		return err
	}
	changes.Broken = nil // they are as they were
	if h.now.Backends != nil && changes.Any() {
		h.log.Info("the backends have changed", "added", changes.Added, "removed", changes.Removed, "replaced", changes.Replaced, "adjusted", changes.Adjusted, "reordered", changes.Reordered)
	}
	h.now = next
	h.logMissing()
	return nil
}

// logMissing logs which programs are not there: they may be before somebody calls, and otherwise nobody would hear of them until then.
func (h *hosted) logMissing() {
	for _, b := range h.now.Backends {
		if err := b.FindProgram(os.LookupEnv); err != nil {
			h.log.Warn("a backend would not start now", "backend", b.Name, "why", err)
		}
	}
}

// find returns the place of a backend in a file, or -1.
func find(f *hostfile.File, name string) int {
	return slices.IndexFunc(f.Backends, func(b hostfile.Backend) bool { return b.Name == name })
}

// logNotes logs what files say in vain, each thing once.
func (h *hosted) logNotes(notes []hostfile.Note) {
	for _, n := range notes {
		if !h.noted[n] {
			h.noted[n] = true
			h.log.Info("something in a file of backends has no effect", "note", n.String())
		}
	}
}

// shownBackends are how many backends are named where a person reads them.
const shownBackends = 12

// backendNames are the backends in a few words, without secrets. Without a file there are none.
func backendNames(f *hostfile.File) string {
	if f == nil {
		return ""
	}
	var names []string
	for _, b := range f.Backends {
		if b.Usable() {
			names = append(names, fmt.Sprintf("%s (%s)", b.Name, b.Mask(b.Target.String())))
		}
	}
	if more := len(names) - shownBackends; more > 0 {
		names = append(names[:shownBackends], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}

// leftOut are the backends that cannot be used, each with the reason.
func leftOut(f *hostfile.File) (all []string) {
	if f == nil {
		return nil
	}
	for _, b := range f.Backends {
		if b.Err != nil && !b.Disabled {
			all = append(all, b.Name+": "+oneLine(b.Err))
		}
	}
	return all
}

// checkBackends returns what is wrong with backends, each of which serve would leave out. What has no effect is written to w,
// and so are programs that are not there, which may be when somebody calls.
func checkBackends(s *settings, w io.Writer) error {
	if s.hosted == nil {
		return nil
	}
	for _, n := range s.hosted.Notes {
		fmt.Fprintln(w, n)
	}
	var faults []error
	for _, mistake := range s.hosted.Mistakes() {
		faults = append(faults, mistake)
	}
	for _, b := range s.hosted.Backends {
		if errors.Is(b.Err, hostfile.ErrUnset) && !b.Disabled {
			faults = append(faults, placed{fmt.Errorf("%s would be left out: %s", b.Name, oneLine(b.Err))})
		}
		if b.Usable() {
			if err := b.FindProgram(os.LookupEnv); err != nil {
				fmt.Fprintf(w, "%s would not start here: %v\n", b.Name, err)
			}
		}
	}
	return errors.Join(faults...)
}

// sectionLines are the section backends as the file of --config has it. Lines with secrets are comments.
func sectionLines(section *hostfile.File) []string {
	lines := []string{"# " + section.Path, "backends:"}
	for _, b := range section.Backends {
		own := b.Lines()
		for i, line := range own {
			secret := strings.Contains(line, "***")
			if strings.HasSuffix(line, ":") && i+1 < len(own) { // a mapping, of secrets alone
				secret = strings.Contains(own[i+1], "***") && strings.HasPrefix(own[i+1], "      ")
			}
			if secret {
				line = "# " + line
			}
			lines = append(lines, line)
		}
	}
	return lines
}
