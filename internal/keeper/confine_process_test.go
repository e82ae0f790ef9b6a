//go:build linux

package keeper

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/troupe-run/troupe/test/kit/when"
)

// says starts a child that says one line, and returns that.
func (f *fixture) says(t *testing.T, c Confine, words ...string) (string, *Process, error) {
	t.Helper()
	s := spec(t, newToken(), words...)
	s.Confine = c
	p, err := f.Start(t.Context(), s)
	if err != nil {
		return "", nil, err
	}
	line, err := p.Receive(t.Context())
	if err != nil {
		status, _ := p.Status()
		t.Fatalf("%v: %v", err, status.Stderr)
	}
	p.Ack(line.Number)
	return string(line.Text), p, nil
}

// supported returns the ways of confinement that this system has, by trying.
func (f *fixture) supported(t *testing.T, name string, c Confine) bool {
	t.Helper()
	_, _, err := f.says(t, c, "try", "pid")
	if err != nil {
		if !errors.Is(err, ErrConfine) || !strings.Contains(err.Error(), name) {
			t.Fatalf("%s: %v", name, err)
		}
		t.Logf("not here: %v", err)
	}
	return err == nil
}

// TestConfinement tries each way that the kernel has, and reads the error of each that it has not.
func TestConfinement(t *testing.T) {
	t.Parallel()
	when.Unraced(t, "it is about what the kernel does to dozens of processes")
	f := spawned(t, time.Minute)
	before := len(filesOf(t, f.PID()))
	t.Run("privileges", func(t *testing.T) {
		for mode, want := range map[Mode]string{Require: "1", Off: "0"} {
			s := spec(t, newToken(), "mute")
			s.Confine.Privileges = mode
			p := f.start(t, s)
			text, err := os.ReadFile("/proc/" + strconv.Itoa(p.PID()) + "/status")
			if err != nil || !strings.Contains(string(text), "NoNewPrivs:\t"+want) {
				t.Errorf("%s: %v", mode, err)
			}
			if _, err := p.Stop(t.Context(), ""); err != nil {
				t.Error(err)
			}
			p.Forget()
		}
	})
	t.Run("limits", func(t *testing.T) {
		got, _, err := f.says(t, Confine{Limits: Require, OpenFiles: 30}, "try", "files")
		if err != nil || !strings.Contains(got, "too many open files") || len(strings.Fields(got)[0]) != 2 {
			t.Errorf("%q, %v", got, err)
		}
		s := spec(t, newToken(), "try", "pid")
		s.Confine = Confine{Limits: Require, AddressSpace: 8 << 20}
		if p, err := f.Start(t.Context(), s); err == nil { // the kernel ends a program that does not fit
			<-p.Exited()
			if s, err := p.Status(); err != nil || s.Code == 0 {
				t.Errorf("a program that needs more has run: %+v, %v", s, err)
			}
			p.Forget()
		} else if !errors.Is(err, ErrStart) {
			t.Errorf("%v", err)
		}
		if os.Getuid() == 0 {
			if _, _, err := f.says(t, Confine{Limits: Require, Processes: 10}, "try", "pid"); !errors.Is(err, ErrConfine) || !strings.Contains(err.Error(), "root") {
				t.Errorf("%v", err)
			}
		}
	})
	t.Run("files", func(t *testing.T) {
		dir, other := t.TempDir(), t.TempDir()
		for _, d := range []string{dir, other} {
			if err := os.WriteFile(filepath.Join(d, "f"), []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		c := Confine{Files: Require, Paths: []Allowance{{Path: dir, Write: true}}}
		if !f.supported(t, "files", c) {
			return
		}
		c2 := Confine{Files: Require, Paths: []Allowance{{Path: dir}}}
		for _, row := range []struct {
			c          Confine
			what, path string
			ok         bool
		}{
			{c, "read", filepath.Join(dir, "f"), true}, {c, "write", filepath.Join(dir, "g"), true}, {c, "read", "/etc/passwd", true},
			{c, "read", filepath.Join(other, "f"), false}, {c, "write", filepath.Join(other, "f"), false}, {c, "write", "/etc/troupe-test", false},
			{c2, "read", filepath.Join(dir, "f"), true}, {c2, "write", filepath.Join(dir, "f"), false}, {c, "write", "/dev/null", true},
			{c, "read", "/proc/" + strconv.Itoa(f.PID()) + "/environ", os.Getuid() == 0}, {c, "read", "/proc/self/environ", true}, // root may read that of all
		} {
			got, _, err := f.says(t, row.c, "try", row.what, row.path)
			if err != nil || (got == "ok") != row.ok {
				t.Errorf("%s %s: %q, %v", row.what, row.path, got, err)
			}
		}
		if text, _ := os.ReadFile(filepath.Join(other, "f")); string(text) != "x" {
			t.Errorf("a file outside has %q", text)
		}
		if _, _, err := f.says(t, Confine{Files: Require, Paths: []Allowance{{Path: "/there-is-none"}}}, "try", "pid"); !errors.Is(err, ErrConfine) || !strings.Contains(err.Error(), "/there-is-none") {
			t.Errorf("a path that is not there: %v", err)
		}
	})
	t.Run("network and pids", func(t *testing.T) {
		if f.supported(t, "pids", Confine{OwnPIDs: Require}) {
			got, p, err := f.says(t, Confine{OwnPIDs: Require, Limits: Require, OpenFiles: 100, Files: Try, Paths: []Allowance{{Path: "/"}}}, "try", "pid")
			if err != nil || got != "1" {
				t.Errorf("its pid is %s, %v", got, err)
			}
			<-p.Exited()
			q, err := f.Start(t.Context(), Spec{ID: "deaf in its own", Command: []string{ownProgram(t), "child", "away", "deaf"}, Grace: time.Millisecond, Term: time.Millisecond, Confine: Confine{OwnPIDs: Require}})
			if err != nil {
				t.Fatal(err)
			}
			expect(t, q, "ready")
			if _, err := q.Stop(t.Context(), ""); err != nil {
				t.Error(err)
			}
			q.Forget()
		}
		if f.supported(t, "network", Confine{NoNetwork: Require}) {
			got, _, err := f.says(t, Confine{NoNetwork: Require}, "try", "read", "/proc/self/net/dev")
			text, _, _ := f.says(t, Confine{NoNetwork: Require}, "try", "dial")
			if err != nil || got != "ok" || !strings.Contains(text, "unreachable") {
				t.Errorf("%q %q, %v", got, text, err)
			}
		}
	})
	t.Run("cgroup", func(t *testing.T) {
		if f.supported(t, "cgroup", Confine{Cgroup: Require}) {
			s := spec(t, "grouped", "away", "strip", "deaf")
			s.Confine.Cgroup = Require
			p := f.start(t, s)
			expect(t, p, "ready")
			if _, err := p.Stop(t.Context(), ""); err != nil {
				t.Error(err)
			}
			p.Forget()
		}
		f.supported(t, "cgroup", Confine{Cgroup: Require, Memory: 64 << 20})
		_, p, err := f.says(t, Confine{Cgroup: Try, Memory: 64 << 20}, "try", "pid")
		if err != nil || len(p.Unenforced()) > 0 && !strings.HasPrefix(p.Unenforced()[0], "cgroup: ") {
			t.Errorf("%v, %v", p, err)
		}
	})
	await(t, "as many open files as before", func() bool { return len(filesOf(t, f.PID())) <= before })
	if base, err := ownCgroup(); err == nil {
		if left, _ := filepath.Glob(filepath.Join(base, groupPrefix(f.boot)+"*")); len(left) > 0 {
			t.Errorf("control groups are left: %v", left)
		}
	}
}

// TestCoreDumps are off whatever a spec says.
func TestCoreDumps(t *testing.T) {
	t.Parallel()
	f := spawned(t, time.Minute)
	p := f.start(t, spec(t, "a", "echo"))
	var limit unix.Rlimit
	if err := unix.Prlimit(p.PID(), unix.RLIMIT_CORE, nil, &limit); err != nil || limit.Max != 0 {
		t.Errorf("%+v, %v", limit, err)
	}
}

func TestFindCgroup(t *testing.T) {
	t.Parallel()
	const unified = "22 1 0:21 / /sys rw - sysfs sysfs rw\n31 22 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n"
	const hybrid = "31 22 0:26 / /sys/fs/cgroup ro - tmpfs tmpfs ro\n32 31 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n33 31 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
	const inside = "31 22 0:26 /a/b /sys/fs/cgroup ro - cgroup2 cgroup ro\n"
	for _, row := range []struct{ mounts, groups, want string }{
		{unified, "0::/user.slice/x\n", "/sys/fs/cgroup/user.slice/x"}, {hybrid, "4:memory:/m\n0::/\n", "/sys/fs/cgroup/unified"}, {inside, "0::/a/b/c\n", "/sys/fs/cgroup/c"},
		{inside, "0::/z\n", ""}, {unified, "4:memory:/m\n", ""}, {"", "0::/\n", ""},
	} {
		if got, err := findCgroup(row.mounts, row.groups); got != row.want || (err == nil) != (row.want != "") {
			t.Errorf("%q: %q, %v, want %q", row.groups, got, err, row.want)
		}
	}
}

func TestParseStat(t *testing.T) {
	t.Parallel()
	const rest = " S 10 20 30 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 5 0 12345 1 1 1"
	if p, ok := parseStat(7, []byte("7 (a ) b) (c)"+rest)); !ok || p != (procEntry{pid: 7, parent: 10, group: 20, session: 30, start: 12345, pages: 1}) {
		t.Errorf("%+v, %v", p, ok)
	}
	if p, ok := parseStat(7, []byte("7 (a) Z 10 20 30 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 12345 1")); !ok || !p.zombie {
		t.Errorf("a zombie: %+v, %v", p, ok)
	}
	if p, ok := parseStat(7, []byte("7 (a) Z 10 20 30 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 3 0 12345 1")); !ok || p.zombie {
		t.Errorf("one whose first thread has ended: %+v, %v", p, ok)
	}
	for _, text := range []string{"", "7 (a", "7 (a) S 1 2"} {
		if _, ok := parseStat(7, []byte(text)); ok {
			t.Errorf("%q was read", text)
		}
	}
}
