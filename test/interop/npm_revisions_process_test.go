package interop

import (
	"io"
	"maps"
	"path/filepath"
	"strings"
	"testing"
)

// settled is one line of a program that settles the revision: what it chose and came to, or why it failed.
type settled struct {
	Spoken, Transport, Mode, Revision, Text, Error string
}

// onlyNewest is what a client with sessions tells its user of a server that has none.
const onlyNewest = "Unsupported protocol version: this server speaks only " + stateless

// TestTypeScriptRevisionsLeftOut has releases of the TypeScript SDK settle the revision with servers that speak only some: see
// npm/revisions.mjs. Release 2.4.0 begins a session unless it is told to find out what the server speaks.
func TestTypeScriptRevisionsLeftOut(t *testing.T) {
	t.Parallel()
	modules := nodeModules(t)
	for release, modes := range map[string]map[string]map[string]string{
		"1.32.2": {sessionsOnly: {"": revision}, "2025-06-18": {"": "2025-06-18"}, stateless: {"": onlyNewest}},
		"2.4.0": {
			sessionsOnly: {"": revision, "auto": revision, "newest": "the server did not offer pinned protocol version"},
			"2025-06-18": {"": "2025-06-18", "auto": "2025-06-18", "newest": "the server did not offer pinned protocol version"},
			stateless:    {"": onlyNewest, "auto": stateless, "newest": stateless},
		},
	} {
		t.Run(release, func(t *testing.T) {
			t.Parallel()
			urls := make(map[string]string)
			for spoken := range modes {
				urls[spoken] = start(t, "--memory", "--revisions", spoken).endpoint
			}
			settings := asJSON(map[string]any{"modules": modules, "sdk": release, "command": program, "spoken": urls})
			checkSettled(t, modes, []string{"http", "stdio"}, "node", filepath.Join("npm", "revisions.mjs"), settings)
		})
	}
}

// checkSettled runs a program that settles the revision over each transport, in each mode. modes has, by what the server speaks, the
// revision that each is to come to, or a part of its error.
func checkSettled(t *testing.T, modes map[string]map[string]string, transports []string, command string, args ...string) {
	t.Helper()
	got, want := make(map[string]string), make(map[string]string)
	runScript(t, func(l settled, _ io.Writer) {
		way := l.Spoken + " " + l.Transport + " " + l.Mode
		if got[way] = l.Revision; l.Error != "" {
			got[way] = l.Error
			if part := modes[l.Spoken][l.Mode]; strings.Contains(l.Error, part) {
				got[way] = part
			}
		} else if l.Text != "hello" {
			t.Errorf("%s: the tool answers with %q", way, l.Text)
		}
	}, command, args...)
	for spoken, of := range modes {
		for mode, outcome := range of {
			for _, transport := range transports {
				want[spoken+" "+transport+" "+mode] = outcome
			}
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("they came to %q, want %q", got, want)
	}
}
