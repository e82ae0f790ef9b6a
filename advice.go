package troupe

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
)

// advice is a word of the log about what a program has registered: it works, but probably not as it was meant.
type advice struct {
	text  string
	attrs []slog.Attr
}

// mostAdvice is how much advice waits until the server is mounted.
const mostAdvice = 100

// advise logs advice about the server at once, or when a Runtime mounts it: until then there is no log.
func (m *mountPoint) advise(a advice) {
	m.mu.Lock()
	s := m.s
	if s == nil && len(m.advice) < mostAdvice {
		m.advice = append(m.advice, a)
	}
	m.mu.Unlock()
	if s != nil {
		s.log(a)
	}
}

func (s *service) log(a advice) {
	s.rt.log.LogAttrs(context.Background(), slog.LevelWarn, a.text, append([]slog.Attr{slog.String("server", s.id)}, a.attrs...)...)
}

// adviseReplaced tells of an item that another one of the same name has replaced. While the server is mounted, that is how a
// program changes an item, and may do so often.
func (s *Server) adviseReplaced(kind, name string) {
	attrs := []slog.Attr{slog.String("kind", kind), slog.String("name", shown(name))}
	if here := s.mount.service(); here != nil {
		here.rt.hits.Rarely(slog.LevelInfo, "an item of a server was replaced by another of the same name", append(attrs, slog.String("server", here.id))...)
		return
	}
	s.mount.advise(advice{"two items of a server have the same name: the later one has replaced the other", attrs})
}

// errTaken refuses an item whose name another one has.
func errTaken(name string) error {
	return fmt.Errorf("%q: there is one of this name already: only the Add functions without Try replace it", name)
}

// mostOfToolName is how long the specification advises names of tools to be (2025-11-25, server/tools, "Tool Names").
const mostOfToolName = 128

// adviseName tells of a name that the specification advises against: some clients refuse it.
func (s *Server) adviseName(tool string) {
	var odd []string
	seen := map[rune]bool{}
	for _, c := range tool {
		if strings.ContainsRune("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.", c) || seen[c] {
			continue
		}
		seen[c] = true
		odd = append(odd, fmt.Sprintf("%q", c))
	}
	name := slog.String("name", shown(tool))
	if odd != nil {
		s.mount.advise(advice{"the name of a tool has characters that some clients do not take: the specification advises A-Z, a-z, 0-9, _, - and .",
			[]slog.Attr{name, slog.String("characters", strings.Join(odd, " "))}})
	}
	if len(tool) > mostOfToolName {
		s.mount.advise(advice{"the name of a tool is longer than some clients take: the specification advises 128 characters at most",
			[]slog.Attr{name, slog.Int("characters", len(tool))}})
	}
}
