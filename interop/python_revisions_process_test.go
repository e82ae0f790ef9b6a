//go:build full

package interop

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestPythonRevisionsLeftOut has releases of the Python SDK settle the revision with servers that speak only some: see
// python/revisions.py. Releases from 2.0 on ask for the newest by default.
func TestPythonRevisionsLeftOut(t *testing.T) {
	t.Parallel()
	dirs := filepath.SplitList(os.Getenv(pythonSDKs))
	if len(dirs) == 0 {
		t.Skipf("it is not proven that clients of the Python SDK settle the revision: $%s names no releases, see interop/README.md", pythonSDKs)
	}
	for _, dir := range dirs {
		python := filepath.Join(dir, "bin", "python3")
		out, err := exec.CommandContext(t.Context(), python, "-c", `import mcp; print(2 if hasattr(mcp, "Client") else 1)`).CombinedOutput()
		if err != nil {
			t.Errorf("%s does not have the SDK: %v\n%s", python, err, out)
			continue
		}
		modes := map[string]map[string]string{sessionsOnly: {"": revision}, "2025-06-18": {"": "2025-06-18"}}
		if strings.TrimSpace(string(out)) == "2" {
			modes[sessionsOnly]["legacy"], modes[stateless] = revision, map[string]string{"": stateless, stateless: stateless, "legacy": onlyNewest}
		}
		for spoken, of := range modes {
			t.Run(filepath.Base(dir)+"/"+spoken, func(t *testing.T) {
				t.Parallel()
				args := []string{filepath.Join("python", "revisions.py"), spoken, start(t, "--memory", "--revisions", spoken).endpoint}
				for mode := range of {
					args = append(args, mode)
				}
				checkSettled(t, map[string]map[string]string{spoken: of}, []string{"http"}, python, args...)
			})
		}
	}
}
