//go:build full

package interop

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// pythonSDKs names the environment variable with the directories of the Python SDK's releases: see README.md.
const pythonSDKs = "TROUPE_PYTHON_SDKS"

// pythonSDK is a release of the Python SDK.
type pythonSDK struct {
	dir, python string
	stateless   bool // it speaks 2026-07-28
}

// pythonReleases returns the releases that the environment names. Without one it skips the test, which says what is not proven then.
func pythonReleases(t *testing.T, unproven string) (all []pythonSDK) {
	t.Helper()
	dirs := filepath.SplitList(os.Getenv(pythonSDKs))
	if len(dirs) == 0 {
		t.Skipf("it is not proven that %s: $%s names no releases, see interop/README.md", unproven, pythonSDKs)
	}
	for _, dir := range dirs {
		python := filepath.Join(dir, "bin", "python3")
		out, err := exec.CommandContext(t.Context(), python, "-c", `import mcp; print(2 if hasattr(mcp, "Client") else 1)`).CombinedOutput()
		if err != nil {
			t.Errorf("%s does not have the SDK: %v\n%s", python, err, out)
			continue
		}
		all = append(all, pythonSDK{dir, python, strings.TrimSpace(string(out)) == "2"})
	}
	return all
}

// TestPython takes the server away for 5 s under clients of the Python SDK with default settings: see
// python/restart.py. A session's calls return by themselves, and its standalone stream carries later messages.
func TestPython(t *testing.T) {
	t.Parallel()
	for _, sdk := range pythonReleases(t, "clients of the Python SDK outlive a restart of 5 s") {
		eras := []string{"sessions"}
		if sdk.stateless {
			eras = append(eras, "stateless")
		}
		for _, era := range eras {
			for _, how := range []string{"killed", "ended in order"} {
				if era == "stateless" && how == "killed" {
					continue // without sessions, running work ends with the process
				}
				t.Run(filepath.Base(sdk.dir)+"/"+era+"/"+how, func(t *testing.T) {
					t.Parallel()
					outlivePython(t, sdk.python, era, how)
				})
			}
		}
	}
}

// pythonRun is the outcome of a run of python/restart.py.
type pythonRun struct {
	revision string
	told     map[string]string // the outcomes of its calls
	progress []float64
	logs     []string // from the standalone stream
	done     bool
	stderr   bytes.Buffer
	exit     error
	away     time.Duration // for how long there was no server, 0 if it was not restarted
}

// outlivePython judges a run. On a busy machine the server may be so slow to start again that the clients have given
// up, which proves nothing: then it runs once more.
func outlivePython(t *testing.T, python, era, how string) {
	const late = 7500 * time.Millisecond
	r := runPython(t, python, era, how)
	for try := 1; r.away > late && try < 3; try++ {
		t.Logf("nobody served for %.1f s, so it is run again", r.away.Seconds())
		r = runPython(t, python, era, how)
	}
	t.Logf("nobody served for %.2f s", r.away.Seconds())
	want := map[string]string{"count": "counted to 12", "sleep": "slept 10000 ms", "echo": "still here"}
	wantRevision, wantLogs := stateless, []string(nil)
	if era == "sessions" {
		want["tick"] = "ticked 2 times"
		wantRevision, wantLogs = revision, []string{"1 of 2", "2 of 2"}
	}
	if r.exit != nil || !r.done {
		t.Errorf("python ends with %v, all done %t, and says %s", r.exit, r.done, &r.stderr)
	}
	if r.away == 0 {
		t.Error("the server was not restarted")
	}
	if r.revision != wantRevision {
		t.Errorf("the revision is %q, want %s", r.revision, wantRevision)
	}
	if !maps.Equal(r.told, want) {
		t.Errorf("the calls came to %q, want %q", r.told, want)
	}
	if !slices.Equal(r.progress, []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}) {
		t.Errorf("progress came as %v, want each number to 12", r.progress)
	}
	if !slices.Equal(r.logs, wantLogs) {
		t.Errorf("the session's own stream carried %q, want %q", r.logs, wantLogs)
	}
}

// runPython runs python/restart.py, and restarts the server once its call has counted to 2.
func runPython(t *testing.T, python, era, how string) *pythonRun {
	t.Helper()
	const away = 5 * time.Second
	data := t.TempDir()
	s := start(t, "--data", data)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	client := exec.CommandContext(ctx, python, filepath.Join("python", "restart.py"), s.endpoint, era)
	r := &pythonRun{told: map[string]string{}}
	client.Stderr = &r.stderr
	in, err := client.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := client.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Start(); err != nil {
		t.Fatal(err)
	}
	var counted float64 // when the call had counted to 2, in seconds of the program's clock
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var l struct {
			Revision, Call, Text, Error string
			Progress, At                float64
			Logs                        []string
			Done                        bool
		}
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			t.Errorf("it writes %s", lines.Bytes())
			continue
		}
		switch {
		case l.Revision != "":
			r.revision = l.Revision
		case l.Error != "":
			r.told[l.Call] = "error: " + l.Error
		case l.Call != "":
			r.told[l.Call] = l.Text
			t.Logf("%s had its result %.1f s after the server was told to go", l.Call, l.At-counted)
		case l.Logs != nil:
			r.logs = l.Logs
		case l.Done:
			r.done = true
		case l.Progress > 0:
			r.progress = append(r.progress, l.Progress)
		}
		if l.Progress != 2 || r.away != 0 {
			continue
		}
		counted = l.At
		if how == "killed" {
			s.kill()
		} else if err := s.stop(); err != nil {
			t.Error(err)
		}
		gone := time.Now()
		time.Sleep(away)
		s.restart(t, "--data", data)
		r.away = time.Since(gone)
		_, _ = io.WriteString(in, "back\n") // if it has ended, its exit status says so
	}
	r.exit = client.Wait()
	return r
}
