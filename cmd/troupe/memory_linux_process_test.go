package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe/bench/loadgen"
	"github.com/troupe-run/troupe/test/kit/when"
)

// memoryGroup is a cgroup that bounds memory.
type memoryGroup struct{ dir, kills string } // kills is the file that counts what was killed for want of memory

// newMemoryGroup makes a cgroup of the first or the second version.
func newMemoryGroup(t *testing.T, bytes int) *memoryGroup {
	t.Helper()
	var errs []string
	for _, v := range []struct{ root, limit, kills string }{
		{"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.oom_control"},
		{"/sys/fs/cgroup", "memory.max", "memory.events"},
	} {
		dir, err := os.MkdirTemp(v.root, "troupe-test-")
		if err == nil {
			t.Cleanup(func() { _ = os.Remove(dir) })
			err = os.WriteFile(filepath.Join(dir, v.limit), strconv.AppendInt(nil, int64(bytes), 10), 0o600)
		}
		if err == nil {
			return &memoryGroup{dir, filepath.Join(dir, v.kills)}
		}
		errs = append(errs, err.Error())
	}
	when.Lacking(t, "there is no cgroup for memory: "+strings.Join(errs, "; "))
	return nil
}

// enter has a command begin in the group.
func (g *memoryGroup) enter(cmd *exec.Cmd) {
	args := append([]string{"sh", "-c", `echo $$ >"$0/cgroup.procs" && exec "$@"`, g.dir, cmd.Path}, cmd.Args[1:]...)
	cmd.Path, cmd.Args = "/bin/sh", args
}

// killed is how many processes of the group were killed for want of memory.
func (g *memoryGroup) killed(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile(g.kills)
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(text))
	at := slices.Index(fields, "oom_kill")
	if at < 0 {
		t.Fatalf("%s: %s", g.kills, text)
	}
	n, err := strconv.Atoi(fields[at+1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// awaitRoom waits until half of what clients may hold is free. Calls that wait for their clients do so for minutes more.
func (p *process) awaitRoom(t *testing.T) {
	t.Helper()
	held := regexp.MustCompile(`(?m)^troupe_memory_held_bytes\{.*\} (\S+)$`)
	for end := time.Now().Add(hung); ; time.Sleep(time.Second) {
		_, _, body := p.request(t, "GET", "/metrics", "", "")
		found, sum := held.FindAllStringSubmatch(body, -1), 0.0
		for _, of := range found {
			n, err := strconv.ParseFloat(of[1], 64)
			if err != nil {
				t.Fatal(err)
			}
			sum += n
		}
		if len(found) > 0 && sum < 8<<20 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%.0f bytes are held: %s", sum, body)
		}
	}
}

// TestSmallMemoryProcess serves with 128 MiB of memory, and says no more of it than the cgroup does. Whatever load comes, the process lives on, and refuses what it has no
// room for by the name of the limit; calls that take little are all answered.
func TestSmallMemoryProcess(t *testing.T) {
	when.Full(t, "seconds of load for each scenario")
	program, g := binary(t), newMemoryGroup(t, 128<<20)
	p := startPrepared(t, g.enter, "--data", t.TempDir(), "--set", "call-rate=0", "--set", "principal-rate=0", "--set", "connections-per-address=0")
	p.base = p.await(t, `(http://127\.0\.0\.1:\d+)/metrics`)[1]
	for _, row := range []struct {
		load   string
		little bool
	}{
		{"--scenario echo --clients 64 --duration 5s", true},
		{"--scenario echo --clients 64 --revision 2026-07-28 --duration 5s", true},
		{"--scenario mixed --clients 64 --duration 1s", true},
		{"--scenario progress --clients 64 --duration 1s", true},
		{"--scenario tasks --clients 32 --duration 1s", true},
		{"--scenario echo --clients 32 --size 1000000 --duration 5s", false},
		{"--scenario echo --clients 32 --size 1000000 --revision 2026-07-28 --duration 5s", false},
		{"--scenario progress --clients 64 --duration 5s", false}, // which fills the store
		{"--scenario hold --count 5000", false},
		{"--scenario streams --count 500", false},
		{"--scenario parked --count 200 --revision 2026-07-28", false},
		{"--scenario resume --count 300", false},
		{"--scenario fanout --count 300", false},
		{"--scenario slow --duration 5s", false},
		{"", false}, // its sessions leave memory a minute after their last request
		{"--scenario echo --clients 64 --duration 5s", true},
	} {
		if row.load == "" {
			p.awaitRoom(t)
			continue
		}
		file := filepath.Join(t.TempDir(), "report.json")
		args := append([]string{"bench", p.base + "/mcp", "--json", file, "--pid", strconv.Itoa(p.cmd.Process.Pid)}, strings.Fields(row.load)...)
		out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
		if n := g.killed(t); n > 0 {
			t.Fatalf("%s: it was killed for want of memory", row.load)
		}
		r, failed := loadgen.Read(file)
		switch {
		case failed != nil && row.little:
			t.Fatalf("%s: %v: %s", row.load, err, out)
		case failed != nil: // the first operation was refused
			t.Logf("%s: %v: %s", row.load, err, out)
			continue
		case row.little && r.Failed() > 0:
			t.Errorf("%s: %v", row.load, r.Examples)
		}
		t.Logf("%s: %d operations, %.0f MiB, %v, %v", row.load, r.Operations, r.Resident, r.Errors, r.Examples)
	}
	if status, _, body := p.request(t, "GET", "/healthz", "", ""); status != 200 {
		t.Errorf("/healthz is answered with %d: %s", status, body)
	}
}
