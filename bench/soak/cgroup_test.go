package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestCgroup makes a cgroup where there may be one: in a directory that has the files of a cgroup with a bound on memory.
func TestCgroup(t *testing.T) {
	t.Parallel()
	root, self := t.TempDir(), filepath.Join(t.TempDir(), "cgroup")
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(self, "4:memory:/elsewhere\n0::/a/b\n")
	if err := os.MkdirAll(filepath.Join(root, "a", "b"), 0o700); err != nil {
		t.Fatal(err)
	}
	if c := newCgroup(root, self, 1<<20); c.dir != "" || c.take(1) != nil || c.kills() != 0 {
		t.Errorf("made %q where memory cannot be bounded", c.dir)
	}
	write(filepath.Join(root, "a", "memory.max"), "max\n")
	c := newCgroup(root, self, 1<<20)
	if c.dir == "" || filepath.Dir(c.dir) != filepath.Join(root, "a") {
		t.Fatalf("made %q, want one below a", c.dir)
	}
	if err := c.take(42); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"memory.max": "1048576", "memory.swap.max": "0", "cgroup.procs": "42"} {
		if got, err := os.ReadFile(filepath.Join(c.dir, name)); err != nil || string(got) != want {
			t.Errorf("%s is %q, %v; want %q", name, got, err, want)
		}
	}
	write(filepath.Join(c.dir, "memory.events"), "low 0\noom 3\noom_kill 2\n")
	if n := c.kills(); n != 2 {
		t.Errorf("%d kills, want 2", n)
	}
}
