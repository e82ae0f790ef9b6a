package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// cgroup bounds the memory of a process: by a cgroup where this program may make one, otherwise not at all, and then
// the process alone keeps to its --max-memory, and the run measures whether it does.
type cgroup struct{ dir string }

// newCgroup makes a cgroup (version 2) below that of this process, or beside it. root is where cgroups are mounted, self
// the file that says which is ours.
func newCgroup(root, self string, bytes int64) *cgroup {
	b, err := os.ReadFile(self)
	if err != nil {
		return &cgroup{}
	}
	for line := range strings.Lines(string(b)) {
		own, ok := strings.CutPrefix(strings.TrimSpace(line), "0::")
		if !ok {
			continue
		}
		for _, above := range []string{own, filepath.Dir(own)} {
			dir := filepath.Join(root, above, fmt.Sprintf("troupe-soak-%d", os.Getpid()))
			if _, err := os.Stat(filepath.Join(root, above, "memory.max")); err != nil {
				continue // without it there is none below either
			}
			if os.Mkdir(dir, 0o755) != nil {
				continue
			}
			if os.WriteFile(filepath.Join(dir, "memory.max"), []byte(strconv.FormatInt(bytes, 10)), 0o644) == nil {
				_ = os.WriteFile(filepath.Join(dir, "memory.swap.max"), []byte("0"), 0o644)
				return &cgroup{dir}
			}
			_ = os.Remove(dir)
		}
	}
	return &cgroup{}
}

// take puts a process into the cgroup.
func (c *cgroup) take(pid int) error {
	if c.dir == "" {
		return nil
	}
	return os.WriteFile(filepath.Join(c.dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0o644)
}

// kills is how often the kernel has killed for the cgroup's limit.
func (c *cgroup) kills() int {
	b, err := os.ReadFile(filepath.Join(c.dir, "memory.events"))
	if c.dir == "" || err != nil {
		return 0
	}
	n := 0
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "oom_kill "); ok {
			n, _ = strconv.Atoi(v)
		}
	}
	return n
}

// close removes the cgroup, which has to be empty.
func (c *cgroup) close() {
	if c.dir != "" {
		_ = os.Remove(c.dir)
	}
}

func (c *cgroup) String() string {
	if c.dir == "" {
		return "--max-memory (GOMEMLIMIT); its resident memory is measured"
	}
	return "cgroup"
}
