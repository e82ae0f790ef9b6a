package keeper

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// cgroups makes control groups of version 2 below the one of this process, where that was delegated to it.
type cgroups struct {
	boot string
	once sync.Once
	base string // the directory of this process' group
	err  error  // why no group can be made

	mu      sync.Mutex       // guards enabled
	enabled map[string]error // the controllers that were tried, and why they cannot bound anything
}

// A cgroup is the group of one process and its descendants. A nil one is none.
type cgroup struct {
	path string
	dir  *os.File
}

// groupPrefix begins the names of the groups of a boot's keepers.
func groupPrefix(boot string) string { return "troupe-" + boot + "-" }

// make makes the group that a process is started in, if it is wanted.
func (c *cgroups) make(want Confine, mark string) (*cgroup, error) {
	if !want.Cgroup.on() {
		return nil, nil
	}
	c.once.Do(c.findBase)
	if c.err != nil {
		return nil, c.err
	}
	bounds := want.cgroupBounds()
	for _, b := range bounds {
		if err := c.enable(b.controller); err != nil {
			return nil, err
		}
	}
	g := &cgroup{path: filepath.Join(c.base, groupPrefix(c.boot)+strings.TrimPrefix(mark, c.boot+"-"))}
	if err := os.Mkdir(g.path, 0o755); err != nil {
		return nil, err
	}
	for _, b := range bounds {
		if err := os.WriteFile(filepath.Join(g.path, b.file), []byte(b.most), 0); err != nil {
			g.remove()
			return nil, err
		}
	}
	if want.Memory > 0 {
		_ = os.WriteFile(filepath.Join(g.path, "memory.oom.group"), []byte("1"), 0) // half a tree is of no use; Linux 4.19
	}
	var err error
	if g.dir, err = os.Open(g.path); err != nil {
		g.remove()
		return nil, err
	}
	return g, nil
}

// A groupBound is what one file of a group bounds.
type groupBound struct{ controller, file, most string }

// cgroupBounds returns what a group is to bound.
func (c *Confine) cgroupBounds() (all []groupBound) {
	if c.Memory > 0 {
		all = append(all, groupBound{"memory", "memory.max", strconv.FormatUint(c.Memory, 10)})
	}
	if c.Threads > 0 {
		all = append(all, groupBound{"pids", "pids.max", strconv.FormatUint(c.Threads, 10)})
	}
	if c.CPUs > 0 {
		const period = 100_000 // microseconds, of which so many are its own
		all = append(all, groupBound{"cpu", "cpu.max", fmt.Sprintf("%d %d", max(1000, int64(c.CPUs*period)), int64(period))})
	}
	return all
}

// findBase finds the group of this process.
func (c *cgroups) findBase() {
	if c.base, c.err = ownCgroup(); c.err != nil {
		return
	}
	probe := filepath.Join(c.base, groupPrefix(c.boot)+"probe")
	if err := os.Mkdir(probe, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		c.err = fmt.Errorf("the control group is not delegated: %w", err)
		return
	}
	_ = os.Remove(probe)
}

// enable has groups below this one bound what a controller counts. It returns the same each time.
func (c *cgroups) enable(controller string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err, tried := c.enabled[controller]
	if tried {
		return err
	}
	if c.enabled == nil {
		c.enabled = make(map[string]error)
	}
	err = c.tryEnable(controller)
	c.enabled[controller] = err
	return err
}

// tryEnable is enable, the first time. A group with such groups has no processes of its own, so that this one moves to a group beside them.
func (c *cgroups) tryEnable(controller string) error {
	offered, err := os.ReadFile(filepath.Join(c.base, "cgroup.controllers"))
	if err != nil {
		return err
	}
	if !slices.Contains(strings.Fields(string(offered)), controller) {
		return errors.New(controller + ": the controller is not delegated to " + c.base)
	}
	control := filepath.Join(c.base, "cgroup.subtree_control")
	if now, err := os.ReadFile(control); err == nil && slices.Contains(strings.Fields(string(now)), controller) {
		return nil
	}
	on := []byte("+" + controller)
	if err = os.WriteFile(control, on, 0); !errors.Is(err, syscall.EBUSY) {
		return err
	}
	leaf := filepath.Join(c.base, "troupe-keeper")
	if err := os.Mkdir(leaf, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	if err := os.WriteFile(filepath.Join(leaf, "cgroup.procs"), strconv.AppendInt(nil, int64(os.Getpid()), 10), 0); err != nil {
		return err
	}
	if err := os.WriteFile(control, on, 0); err != nil {
		return fmt.Errorf("%s: %s has other processes than this one: %w", controller, c.base, err)
	}
	return nil
}

// ownCgroup returns the directory of this process' group of version 2.
func ownCgroup() (string, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	return findCgroup(string(mounts), string(groups))
}

// findCgroup joins where the hierarchy of version 2 is mounted to the path of a process in it.
func findCgroup(mounts, groups string) (string, error) {
	path, found := "", false
	for line := range strings.Lines(groups) {
		if rest, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::"); ok {
			path, found = rest, true
		}
	}
	if !found {
		return "", errors.New("the system has no control groups of version 2")
	}
	for line := range strings.Lines(mounts) {
		// 36 35 98:0 /root /mount options - type source: see proc(5).
		before, after, ok := strings.Cut(line, " - ")
		fields := strings.Fields(before)
		if !ok || !strings.HasPrefix(after, "cgroup2 ") || len(fields) < 5 {
			continue
		}
		if below, ok := strings.CutPrefix(path, strings.TrimSuffix(fields[3], "/")); ok {
			return filepath.Join(fields[4], below), nil
		}
	}
	return "", errors.New("control groups of version 2 are not mounted")
}

func (g *cgroup) apply(attr *syscall.SysProcAttr) {
	if g != nil {
		attr.UseCgroupFD, attr.CgroupFD = true, int(g.dir.Fd())
	}
}

// kill ends all processes of the group at once, where the system can (Linux 5.14).
func (g *cgroup) kill() {
	if g != nil {
		_ = os.WriteFile(filepath.Join(g.path, "cgroup.kill"), []byte("1"), 0)
	}
}

// empty reports whether the group has no processes.
func (g *cgroup) empty() bool {
	if g == nil {
		return true
	}
	events, err := os.ReadFile(filepath.Join(g.path, "cgroup.events"))
	return err != nil || bytes.Contains(events, []byte("populated 0"))
}

// remove removes the group, whose processes have ended.
func (g *cgroup) remove() {
	if g == nil {
		return
	}
	if g.dir != nil {
		_ = g.dir.Close()
	}
	_ = os.Remove(g.path) // what is not empty stays, and the next sweep finds it
}

// sweepCgroups ends what keepers of a boot have left in groups below this process' own, and removes those that are empty.
func sweepCgroups(boot string) {
	base, err := ownCgroup()
	if err != nil {
		return
	}
	paths, _ := filepath.Glob(filepath.Join(base, groupPrefix(boot)+"*"))
	for _, path := range paths {
		g := &cgroup{path: path}
		g.kill()
		g.remove()
	}
}
