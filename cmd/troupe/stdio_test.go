package main

import (
	"slices"
	"testing"

	"github.com/spf13/cobra"

	table "github.com/troupe-run/troupe/internal/limits"
)

// notOfStdio are the limits that troupe stdio does not have, by the reason.
var notOfStdio = map[string][]string{
	"it is about HTTP": {"max-header", "header-timeout", "body-timeout", "body-rate", "write-timeout", "connections", "connections-per-address", "drain-delay"},
	"messages on a pipe are no event streams, and are not stored": {"sse-grace", "stateless-grace", "retry", "streams-per-session", "streams-per-principal",
		"replay-age", "replay-events", "replay-bytes"},
	"the only client cannot be in another's way": {"call-rate", "call-burst", "principal-rate", "principal-burst", "calls-per-principal", "auth-failures",
		"sessions-per-principal", "pending-per-principal", "calls-per-node", "tasks-per-node", "open-tasks-per-principal", "open-tasks-per-node", "max-memory"},
	"nobody can go on with what it has started": {"keep"},
	"the session ends with the process":         {"session-idle", "session-unused", "session-max", "task-max", "max-store", "lease"},
}

// TestStdioDecidesOnEveryLimit has a new limit say whether troupe stdio takes it: with a name in stdioGroups or in
// notOfStdio.
func TestStdioDecidesOnEveryLimit(t *testing.T) {
	t.Parallel()
	var stdio settings
	stdio.register(&cobra.Command{}, stdioGroups)
	var without []string
	for reason, names := range notOfStdio {
		for _, name := range names {
			without = append(without, name)
			if stdio.table.Lookup(name) != nil {
				t.Errorf("stdio has %s, though %s", name, reason)
			}
		}
	}
	for _, s := range table.Sections() {
		for row := range table.Settings(s) {
			switch name := row.Setting(); {
			case slices.Contains(without, name):
				without = slices.DeleteFunc(without, func(other string) bool { return other == name })
			case stdio.table.Lookup(name) == nil:
				t.Errorf("stdio does not have %s: add it to stdioGroups, or here to notOfStdio", name)
			}
		}
	}
	if len(without) > 0 {
		t.Errorf("the table of limits has no %q", without)
	}
}
