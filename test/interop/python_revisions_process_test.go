//go:build full

package interop

import (
	"path/filepath"
	"testing"
)

// TestPythonRevisionsLeftOut has releases of the Python SDK settle the revision with servers that speak only some: see
// python/revisions.py. Releases from 2.0 on ask for the newest by default.
func TestPythonRevisionsLeftOut(t *testing.T) {
	t.Parallel()
	for _, sdk := range pythonReleases(t, "clients of the Python SDK settle the revision") {
		modes := map[string]map[string]string{sessionsOnly: {"": revision}, "2025-06-18": {"": "2025-06-18"}}
		if sdk.stateless {
			modes[sessionsOnly]["legacy"], modes[stateless] = revision, map[string]string{"": stateless, stateless: stateless, "legacy": onlyNewest}
		}
		for spoken, of := range modes {
			t.Run(filepath.Base(sdk.dir)+"/"+spoken, func(t *testing.T) {
				t.Parallel()
				args := []string{filepath.Join("python", "revisions.py"), spoken, start(t, "--memory", "--revisions", spoken).endpoint}
				for mode := range of {
					args = append(args, mode)
				}
				checkSettled(t, map[string]map[string]string{spoken: of}, []string{"http"}, sdk.python, args...)
			})
		}
	}
}
