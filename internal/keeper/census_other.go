//go:build unix && !linux

package keeper

import (
	"errors"
	"syscall"
)

// listProcesses has no list where there is no /proc: who is left of a family is known by its group alone.
func listProcesses() (map[int]procEntry, error) { return nil, errNoCensus }

func readProcess(int) (procEntry, bool) { return procEntry{}, false }

func markOf(int) string { return "" }

func setNewBadge() (uint64, error) { return 0, nil }

func badgeOf(int) uint64 { return 0 }

func hasBadge(int) bool { return false }

func signalProcess(p procEntry, signal syscall.Signal) error { return syscall.Kill(p.pid, signal) }

// errNoSubreaper is why a descendant that leaves its group outlives a keeper here.
var errNoSubreaper = errors.New("this system has no subreapers: a descendant that leaves its process group is not found, and outlives its keeper")

func becomeSubreaper() error { return errNoSubreaper }
