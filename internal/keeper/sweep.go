//go:build unix

package keeper

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"time"
)

// sweep ends what a keeper has left that was killed: the processes whose environment this user may read and has a mark of that boot, with their descendants, and whoever is in the session or group of one. It
// returns when none is left, and says how many it has signalled. No keeper of that boot may live. Where the system does not list processes it finds nobody, and says so.
//
// A descendant that has left its session and its parents and has made itself another environment is found by nobody but its keeper.
func sweep(ctx context.Context, boot string) (int, error) {
	sweepCgroups(boot)
	signalled := map[procKey]bool{}
	nobody := false
	for wait := pollLeft; ; wait = min(2*wait, pollMost) {
		all, err := listProcesses()
		if err != nil {
			return 0, fmt.Errorf("keeper: sweep: %w", err)
		}
		left := leftBehind(all, boot, markOf)
		if len(left) == 0 && nobody { // twice in a row, as a list is no moment: a process may end that is in it, after it has begun one that is not
			return len(signalled), nil
		}
		nobody = len(left) == 0
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

// sweepLeft is sweep where an error changes nothing, and is logged.
func sweepLeft(ctx context.Context, boot string, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(ctx, sweepTime)
	defer cancel()
	n, err := sweep(ctx, boot)
	if n > 0 {
		log.Warn("a keeper was killed: what it has left was ended", "processes", n)
	}
	if err != nil {
		log.Warn("what a killed keeper has left, if there was one, may be there still", "why", err)
	}
}

// A procKey is one process for good.
type procKey struct {
	pid   int
	start uint64
}

// leftBehind returns the processes that sweep ends: none that is this one or an ancestor of it, and none that has ended and waits for its parent.
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
