package interop

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// settled is one line of a program that settles the revision: what it chose and came to, or why it failed.
type settled struct {
	Spoken, Transport, Mode, Revision, Text, Error string
	Done                                           bool
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
			settings, err := json.Marshal(map[string]any{"modules": modules, "sdk": release, "command": program, "spoken": urls})
			if err != nil {
				t.Fatal(err)
			}
			checkSettled(t, modes, []string{"http", "stdio"}, "node", filepath.Join("npm", "revisions.mjs"), string(settings))
		})
	}
}

// checkSettled runs a program that settles the revision over each transport, in each mode. modes has, by what the server speaks, the
// revision that each is to come to, or a part of its error.
func checkSettled(t *testing.T, modes map[string]map[string]string, transports []string, command string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*patience)
	defer cancel()
	client := exec.CommandContext(ctx, command, args...)
	var stderr bytes.Buffer
	client.Stderr = &stderr
	out, err := client.Output()
	got, want, done := make(map[string]string), make(map[string]string), false
	for line := range bytes.Lines(out) {
		var l settled
		if err := json.Unmarshal(line, &l); err != nil {
			t.Errorf("it writes %s", line)
			continue
		}
		if done = l.Done; done {
			continue
		}
		way := l.Spoken + " " + l.Transport + " " + l.Mode
		if got[way] = l.Revision; l.Error != "" {
			got[way] = l.Error
			if part := modes[l.Spoken][l.Mode]; strings.Contains(l.Error, part) {
				got[way] = part
			}
		} else if l.Text != "hello" {
			t.Errorf("%s: the tool answers with %q", way, l.Text)
		}
	}
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
	if err != nil || !done {
		t.Errorf("%s ends with %v, all done %t, and says %s", command, err, done, &stderr)
	}
}
