//go:build unix && !linux

package keeper

import (
	"errors"
	"os"
	"strings"
	"syscall"
)

// errNoConfinement is why a process cannot be confined here.
var errNoConfinement = errors.New("this system has none of it: a process is confined on Linux alone")

func selfPath() string {
	path, err := os.Executable()
	if err != nil {
		return os.Args[0]
	}
	return path
}

func shimFailure([]string) error { return errNoConfinement }

func setNoNewPrivs() error { return errNoConfinement }

func dropCores() error { return syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{}) }

// SystemPaths are none where files are not restricted.
func SystemPaths() []Allowance { return nil }

// A variant is the one way in which a process is made here.
type variant struct{ without []string }

func variants(c Confine) ([]variant, error) {
	if names := namesOf(c); names != "" {
		return nil, errors.New(names + ": " + errNoConfinement.Error())
	}
	var v variant
	if c.NoNetwork.on() {
		v.without = append(v.without, "network")
	}
	if c.OwnPIDs.on() {
		v.without = append(v.without, "pids")
	}
	return []variant{v}, nil
}

// namesOf names what is required and cannot be had.
func namesOf(c Confine) string {
	var names []string
	if c.NoNetwork == Require {
		names = append(names, "network")
	}
	if c.OwnPIDs == Require {
		names = append(names, "pids")
	}
	return strings.Join(names, ", ")
}

func (v variant) missing(error) []string {
	var all []string
	for _, name := range v.without {
		all = append(all, name+": "+errNoConfinement.Error())
	}
	return all
}

func (v variant) refusedBy(error) bool { return false }

func (v variant) apply(*syscall.SysProcAttr) {}

func runShim() int { return 126 }

// cgroups makes none.
type cgroups struct{ boot string }

type cgroup struct{}

func (c *cgroups) make(want Confine, _ string) (*cgroup, error) {
	if want.Cgroup.on() {
		return nil, errNoConfinement
	}
	return nil, nil
}

func (g *cgroup) apply(*syscall.SysProcAttr) {}
func (g *cgroup) kill()                      {}
func (g *cgroup) empty() bool                { return true }
func (g *cgroup) remove()                    {}

func sweepCgroups(string) {}
