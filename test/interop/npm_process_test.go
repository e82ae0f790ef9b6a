package interop

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// releases are the tested releases of the TypeScript SDK: the last before each newer revision, and a recent one.
var releases = []string{"1.0.4", "1.12.3", "1.22.0", "1.32.2", "2.4.0"}

// TestTypeScript runs each release of the TypeScript SDK against a server: see npm/main.mjs. Each release has servers
// of its own, because it changes their lists and kills one of them.
func TestTypeScript(t *testing.T) {
	t.Parallel()
	modules := nodeModules(t)
	var seen coverage
	t.Run("releases", func(t *testing.T) {
		for _, release := range releases {
			t.Run(release, func(t *testing.T) {
				t.Parallel()
				driveTypeScript(t, release, modules, &seen)
			})
		}
	})
	if !t.Failed() && seen.has(releases) { // not with -run for some of them
		seen.checkTable(t)
	}
}

// nodeModules returns where the releases are installed, or skips the test where they cannot be.
func nodeModules(t *testing.T) string {
	t.Helper()
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			if os.Getenv("CI") == "true" {
				t.Fatal(err)
			}
			t.Skipf("this test needs Node.js and its npm: %v", err)
		}
	}
	modules, err := installed()
	if err != nil {
		t.Fatal(err)
	}
	return modules
}

// told is one line that npm/main.mjs writes.
type told struct {
	Way, Feature, Error string
	MS                  int
	Restart             string // how the server is to end first
}

// driveTypeScript runs npm/main.mjs with a release, and reports its output as tests.
func driveTypeScript(t *testing.T, release, modules string, seen *coverage) {
	data := t.TempDir()
	// A call that may not run again and whose client has not answered yet holds up the end of a process for as long as
	// it may.
	ends := []string{"--data", data, "--drain-wait", "3s"}
	s, mortal := start(t, "--memory", "--set", "page-size=7"), start(t, ends...)
	settings := map[string]string{
		"modules": modules, "sdk": release, "command": program,
		"http": s.endpoint, "sse": strings.TrimSuffix(s.endpoint, "/mcp") + "/sse", "mortal": mortal.endpoint,
	}
	runQuietly(t, func(l told, to io.Writer) {
		if l.Restart == "" {
			t.Run(l.Way+"/"+l.Feature, func(t *testing.T) {
				if l.Error != "" {
					t.Errorf("after %d ms: %s", l.MS, l.Error)
				}
			})
			seen.add(release, l.Way, l.Feature)
			return
		}
		if l.Restart == "end" {
			if err := mortal.stop(); err != nil {
				t.Error(err)
			}
		}
		mortal.restart(t, ends...)
		if _, err := io.WriteString(to, "restarted\n"); err != nil {
			t.Error(err)
		}
	}, "node", filepath.Join("npm", "main.mjs"), asJSON(settings))
	s.awaitGauge(t, "troupe_calls_in_flight", 0)
	s.awaitGauge(t, "troupe_requests_pending", 0)
}

// installed returns where the packages of npm/package-lock.json are. They are installed once per lock file, outside the
// repository, and may not run scripts of their own. An incomplete installation never gets the name that is looked for.
var installed = sync.OnceValues(func() (modules string, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("install the npm packages: %w", err)
		}
	}()
	var all []byte
	files := map[string][]byte{}
	for _, name := range []string{"package.json", "package-lock.json"} {
		if files[name], err = os.ReadFile(filepath.Join("npm", name)); err != nil {
			return "", err
		}
		all = append(all, files[name]...)
	}
	sum := sha256.Sum256(all)
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	cache = filepath.Join(cache, "troupe-ci")
	tree := filepath.Join(cache, hex.EncodeToString(sum[:8]))
	modules = filepath.Join(tree, "node_modules")
	if _, err := os.Stat(tree); err == nil {
		return modules, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	fresh, err := os.MkdirTemp(cache, "install.")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(fresh)
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(fresh, name), text, 0o644); err != nil {
			return "", err
		}
	}
	npm := exec.Command("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
	npm.Dir = fresh
	if out, err := npm.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm ci: %w\n%s", err, out)
	}
	if err := os.Rename(fresh, tree); err != nil {
		if _, missing := os.Stat(tree); missing != nil { // another process may have been first
			return "", err
		}
	}
	return modules, nil
})
