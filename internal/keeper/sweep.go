//go:build unix

package keeper

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Sweep ends what a keeper has left that was killed: the processes whose environment this user may read and has a mark of that boot, with their descendants, and whoever is in the session or group of one. It
// returns how many it has signalled, and when none is left. It must not be called while a keeper of that boot lives. Where the system does not list processes it finds nobody, and says so.
//
// A descendant that has left its session and its parents and has made itself another environment is found by nobody but its keeper.
func Sweep(ctx context.Context, boot string) (int, error) {
	if err := checkBoot(boot); err != nil {
		return 0, err
	}
	sweepCgroups(boot)
	signalled := map[procKey]bool{}
	for wait := pollLeft; ; wait = min(2*wait, pollMost) {
		all, err := listProcesses()
		if err != nil {
			return 0, fmt.Errorf("keeper: sweep: %w", err)
		}
		left := leftBehind(all, boot, markOf)
		if len(left) == 0 {
			return len(signalled), nil
		}
		for _, p := range left {
			_ = signalProcess(p, syscall.SIGKILL) // who cannot be signalled is there the next time
			signalled[procKey{p.pid, p.start}] = true
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return len(signalled), fmt.Errorf("keeper: sweep: %d are left: %w", len(left), context.Cause(ctx))
		}
	}
}

// sweepTime is how long what a killed keeper has left may take to end.
const sweepTime = 10 * time.Second

// sweepLeft ends what a keeper of a socket has left that was killed. It has the lock of the socket meanwhile: a keeper that has it lives, whether its socket is there or not, and one that starts waits.
func sweepLeft(ctx context.Context, o Options, l Launch) {
	stored, _ := storedBoot(o.Socket)
	boot := cmp.Or(l.Boot, stored)
	if boot == "" {
		return // there was none
	}
	lock, err := os.OpenFile(lockOf(o.Socket), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return // no keeper can be started there: whoever starts one says why
	}
	defer func() { _ = lock.Close() }()
	if unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, sweepTime)
	defer cancel()
	n, err := Sweep(ctx, boot)
	if n > 0 {
		o.Log.Warn("a keeper was killed: what it has left was ended", "processes", n)
	}
	if err != nil {
		o.Log.Warn("what a killed keeper has left, if there was one, may be there still", "why", err)
	}
}

// A procKey is one process for good.
type procKey struct {
	pid   int
	start uint64
}

// leftBehind returns the processes that Sweep ends: none that is this one or an ancestor of it, and none that has ended and waits for its parent.
func leftBehind(all map[int]procEntry, boot string, marked func(pid int) string) []procEntry {
	spared := map[int]bool{}
	for pid := os.Getpid(); pid > 0 && !spared[pid]; pid = all[pid].parent {
		spared[pid] = true
	}
	found := map[int]bool{}
	sessions := map[int]bool{}
	for pid, p := range all {
		if !spared[pid] && !p.zombie && strings.HasPrefix(marked(pid), boot+"-") {
			found[pid] = true
			sessions[p.session], sessions[p.group] = true, true
		}
	}
	for pid := range spared {
		delete(sessions, all[pid].session)
		delete(sessions, all[pid].group)
	}
	delete(sessions, 0)
	for pid, p := range all {
		if sessions[p.session] || sessions[p.group] {
			found[pid] = true
		}
	}
	for again := len(found) > 0; again; {
		again = false
		for pid, p := range all {
			if !found[pid] && found[p.parent] {
				found[pid], again = true, true
			}
		}
	}
	var left []procEntry
	for pid := range found {
		if !spared[pid] && !all[pid].zombie {
			left = append(left, all[pid])
		}
	}
	return left
}
