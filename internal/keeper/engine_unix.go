//go:build unix

package keeper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// maxProcesses is how many processes an engine takes.
const maxProcesses = 10_000

// An engine has processes, and speaks to who uses them. In a keeper it is the parent of all orphans below it; in another program it has its children alone.
type engine struct {
	log      *slog.Logger
	boot     string
	release  string
	life     string // what no other engine has
	isKeeper bool   // whether it is a keeper: all that this process can wait for is its own
	forest   forest
	launcher *launcher
	runWake  chan struct{} // what run waits for may have changed

	mu         sync.Mutex
	custody    custody
	kept       map[uint64]*child
	byID       map[string]*child
	byPID      map[int]*child // those that were not reaped
	peer       *peer          // the one that owns it
	lastHandle uint64
	ending     bool // nothing is started any more
	over       bool // nobody is spoken to any more
}

// newEngine returns an engine that must be run. keep is how long it keeps what nobody holds; stay has it stay with nothing and nobody; keeper says whether this process is a keeper.
func newEngine(log *slog.Logger, boot, release string, keep time.Duration, stay, keeper bool, shim []string) *engine {
	e := &engine{log: log, boot: boot, release: release, life: newToken(), isKeeper: keeper, runWake: make(chan struct{}, 1), kept: map[uint64]*child{}, byID: map[string]*child{}, byPID: map[int]*child{}}
	e.custody = newCustody(keep, stay, time.Now())
	if keeper {
		if err := becomeSubreaper(); err == nil {
			e.forest.keeper = os.Getpid()
		} else {
			log.Warn("descendants may be lost", "why", err)
		}
	}
	e.launcher = newLauncher(shim, boot)
	return e
}

// run carries on until nobody has the engine and it has nothing, or the context ends: then it ends all. It is the end of its processes.
func (e *engine) run(ctx context.Context) {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	defer signal.Stop(ended)
	stopReaping := make(chan struct{})
	reaping := make(chan struct{})
	go func() {
		defer close(reaping)
		for {
			e.reap()
			select {
			case <-ended:
			case <-stopReaping:
				return
			}
		}
	}()
	defer func() {
		close(stopReaping)
		<-reaping
		e.launcher.close()
	}()
	done := ctx.Done()
	for {
		wait, over := e.judgeCustody()
		if over {
			return
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-e.runWake:
		case <-done:
			done = nil
			e.endAll(keeperEnds)
		}
		t.Stop()
	}
}

// judgeCustody ends what nobody has adopted in time. It returns how long nothing more is to be done, and whether the engine is over.
func (e *engine) judgeCustody() (time.Duration, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	handles, over := e.custody.takeExpired(now)
	for _, handle := range handles {
		c := e.kept[handle]
		if c == nil {
			continue
		}
		if e.forgetChild(c); !c.gone {
			c.beginEnd("nobody has adopted it")
		}
	}
	if e.ending {
		over = true
		for _, c := range e.kept {
			over = over && c.gone
		}
	}
	e.over = over
	wait := longWait
	if at, ok := e.custody.nextExpiry(); ok {
		wait = max(0, at.Sub(now))
	}
	return wait, over
}

// endAll ends all processes, and has nothing started any more.
func (e *engine) endAll(reason string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ending = true
	for _, c := range e.kept {
		if !c.gone {
			c.beginEnd(reason)
		}
	}
	wakeUp(e.runWake)
}

// forgetChild drops what a child says from now on and what its holder has not acknowledged, and the child itself if it is gone. The caller holds e.mu.
func (e *engine) forgetChild(c *child) {
	c.forgot = true
	c.out = sentLines{acked: c.out.last, last: c.out.last, sent: c.out.last}
	wakeUp(c.room)
	if c.gone {
		e.remove(c)
	}
}

// reap waits for all that has ended. A keeper is the parent of orphans, too; elsewhere somebody else may wait for other processes, and only children are asked for.
func (e *engine) reap() {
	e.forest.withForkingLock(func() {
		if e.isKeeper {
			for {
				var wait syscall.WaitStatus
				pid, err := syscall.Wait4(-1, &wait, syscall.WNOHANG, nil)
				if errors.Is(err, syscall.EINTR) {
					continue
				}
				if err != nil || pid <= 0 {
					return
				}
				e.markReaped(pid, wait, true)
			}
		}
		e.mu.Lock()
		var pids []int
		for pid := range e.byPID {
			pids = append(pids, pid)
		}
		e.mu.Unlock()
		for _, pid := range pids {
			var wait syscall.WaitStatus
			got, err := syscall.Wait4(pid, &wait, syscall.WNOHANG, nil)
			if got == pid || errors.Is(err, syscall.ECHILD) { // or somebody else was faster
				e.markReaped(pid, wait, got == pid)
			}
		}
	})
}

// start starts a child, and tells who has asked for it.
func (e *engine) start(c *child) {
	forking := func(fork func()) {
		e.forest.withForkingLock(func() {
			c.prepareBadge()
			fork()
		})
	}
	made, err := e.launcher.start(c.spec, c.mark, forking, func(pid int) {
		e.mu.Lock()
		defer e.mu.Unlock()
		c.family.root = pid
		e.byPID[pid] = c
	})
	if err != nil {
		e.failStart(c, made, err)
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	c.made, c.starting = made, false
	go c.feedInput()
	go c.readOutput()
	go c.readStderr()
	e.log.Info("process started", "id", c.spec.ID, "pid", c.family.root, "unenforced", made.unenforced)
	if p := c.asker; p != nil && p == e.peer {
		e.attachChild(c, p)
		p.sendControl(kindStarted, started{c.request, c.handle, c.family.root, made.unenforced})
	} else {
		e.custody.abandon(c.handle, time.Now())
		wakeUp(e.runWake)
	}
	c.asker = nil
	if e.ending {
		c.beginEnd(keeperEnds)
	} else if c.stop.stage != stageRunning {
		c.carryOutEnd()
	}
}

// failStart ends what has begun of a child that could not be started, and says why.
func (e *engine) failStart(c *child, made *launched, err error) {
	e.mu.Lock()
	begun := c.family.root != 0
	if begun {
		c.stop.grace, c.stop.term = 0, 0
		c.stop.beginEnd(time.Now())
	}
	e.mu.Unlock()
	if begun {
		c.endFamily()
		made.group.remove()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.log.Warn("process not started", "id", c.spec.ID, "why", err)
	if p := c.asker; p != nil && p == e.peer {
		p.refuse(c.request, kindStart, err)
	}
	e.remove(c)
}

// attachChild gives a child to a peer, which has all lines that it has not acknowledged. The caller holds e.mu.
func (e *engine) attachChild(c *child, p *peer) {
	if e.custody.hold(p.number, c.handle) == nil {
		c.holder = p
		c.queued = false
		c.inTold = 0
		c.scheduleSend(true)
	}
}

// takeCensus lists the processes of the system, as they are from now on.
func (e *engine) takeCensus() *census {
	return e.forest.takeCensus(time.Now(), func() map[int]bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		roots := map[int]bool{}
		for pid := range e.byPID {
			roots[pid] = true
		}
		return roots
	})
}

// judge says whose the processes of a census are, and ends those of families that are gone. The caller holds e.mu.
func (e *engine) judge(c *census) map[*family][]procEntry {
	if c.failure != nil {
		return nil
	}
	fresh := !c.judged
	var families []*family
	for _, child := range e.kept {
		if !child.gone && child.family.root != 0 {
			families = append(families, &child.family)
		}
	}
	found := e.forest.judge(c, families)
	if fresh {
		for _, p := range found[nil] {
			_ = signalProcess(p, syscall.SIGKILL)
		}
	}
	return found
}

// markReaped says that a process has ended. It is a child, or an orphan that came to this process. The caller holds forest.forking.
func (e *engine) markReaped(pid int, wait syscall.WaitStatus, known bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.byPID[pid]
	if c == nil {
		return
	}
	delete(e.byPID, pid)
	c.family.reaped = true
	c.wait, c.waitKnown = wait, known
	c.stop.markExited(time.Now())
	c.carryOutEnd()
}

// remove forgets a child. The caller holds e.mu.
func (e *engine) remove(c *child) {
	delete(e.kept, c.handle)
	delete(e.byID, c.spec.ID)
	e.custody.drop(c.handle)
	c.holder = nil
	wakeUp(e.runWake)
}

// hangUp closes the connection after all that it is to be told.
func (e *engine) hangUp() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.peer != nil {
		e.peer.hangUp()
	}
}

// beginStart starts a process, unless it is the second time that this is asked for. The caller holds e.mu.
func (e *engine) beginStart(p *peer, v start) error {
	if c := e.byID[v.Spec.ID]; c != nil {
		switch {
		case c.token != v.Token:
			return fmt.Errorf("%w: %s", ErrExists, v.Spec.ID)
		case c.forgot: // nobody was there for too long, and how it ends is told to nobody
			return fmt.Errorf("%w: %s, which nobody had in time", ErrEnding, v.Spec.ID)
		case c.starting:
			c.asker, c.request = p, v.Request
		default:
			if err := c.out.resume(0); err != nil {
				return err
			}
			p.sendControl(kindStarted, started{v.Request, c.handle, c.family.root, c.made.unenforced})
			e.attachChild(c, p)
			if c.gone {
				c.tellExit()
			}
		}
		return nil
	}
	switch err := v.Spec.checkAndFill(); {
	case err != nil:
		return err
	case e.ending:
		return fmt.Errorf("%w: the keeper", ErrEnding)
	case len(e.kept) >= maxProcesses:
		return fmt.Errorf("%w: %d", ErrMany, len(e.kept))
	}
	e.lastHandle++
	c := newChild(e, e.lastHandle, v.Token, v.Spec, newMark(e.boot, newToken()), time.Now())
	if err := e.custody.hold(p.number, c.handle); err != nil {
		return errors.Join(ErrReplaced, err)
	}
	c.asker, c.request = p, v.Request
	e.kept[c.handle], e.byID[c.spec.ID] = c, c
	go e.start(c)
	return nil
}

// adopt gives a process to a peer. The caller holds e.mu.
func (e *engine) adopt(p *peer, v adopt) error {
	c := e.byID[v.ID]
	switch {
	case c == nil || c.forgot:
		return fmt.Errorf("%w: %s", ErrAbsent, v.ID)
	case c.starting:
		return fmt.Errorf("%w: %s is being started", ErrAbsent, v.ID)
	case c.holder == p:
		return fmt.Errorf("%w: %s was started or adopted over this connection", ErrExists, v.ID)
	}
	if err := c.out.resume(v.Have); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrSpec, v.ID, err)
	}
	a := adopted{Request: v.Request, Handle: c.handle, Pending: c.in.bytes, Unenforced: c.made.unenforced}
	for _, name := range c.ledger.names() {
		p.frames = appendText(p.frames, kindRecall, c.handle, name, c.ledger.texts[name])
	}
	e.attachChild(c, p)
	if a.Kept = c.keptFor(p); c.gone {
		a.Status = &c.status
	}
	p.sendControl(kindAdopted, a)
	return nil
}
