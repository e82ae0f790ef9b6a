//go:build unix

package keeper

import (
	"fmt"
	"syscall"
	"time"
)

// drainTime is how long a pipe is read after all that it was given to have ended: somebody who is no descendant may have it.
const drainTime = 100 * time.Millisecond

// beginEnd ends a child and its descendants. The caller holds e.mu.
func (c *child) beginEnd(reason string) {
	if c.stop.beginEnd(time.Now()) {
		c.reason = reason
	}
	c.carryOutEnd()
}

// carryOutEnd starts the goroutine that ends a child, unless its start is not over: that does it then. The caller holds e.mu.
func (c *child) carryOutEnd() {
	wakeUp(c.endWake)
	if !c.starting && !c.ending {
		c.ending = true
		go c.endFamily()
	}
}

// endFamily does what the child's stopping says until nobody is left.
func (c *child) endFamily() {
	e := c.engine
	begun := time.Now()
	warned := false
	for {
		left := 1
		e.mu.Lock()
		ask := c.stop.closed && (c.stop.exited || c.stop.stage == stageKilling)
		e.mu.Unlock()
		if ask {
			left = len(c.listMembers())
			if !c.group().empty() {
				left++
			}
		}
		e.mu.Lock()
		act, wait := c.stop.step(time.Now(), left)
		e.mu.Unlock()
		switch act {
		case actCloseInput:
			close(c.closed)
			if c.made != nil {
				_ = c.made.input.Close()
			}
		case actTerminate:
			c.terminate()
		case actKill:
			c.kill()
			if !warned && time.Since(begun) > 10*time.Second+c.spec.Grace+c.spec.Term {
				warned = true
				e.log.Warn("a process does not end after SIGKILL", "id", c.spec.ID, "pid", c.family.root, "left", left)
			}
		case actFinish:
			c.finish()
			return
		}
		if wait > 0 {
			t := time.NewTimer(wait)
			select {
			case <-t.C:
			case <-c.endWake:
			}
			t.Stop()
		}
	}
}

// listMembers returns who of a child's family lives, as the system lists it from now on. Where it lists nobody, the group stands for all.
func (c *child) listMembers() []procEntry {
	e := c.engine
	census := e.takeCensus()
	e.mu.Lock()
	defer e.mu.Unlock()
	if census.failure != nil {
		if groupLeft(c.family.root) {
			return []procEntry{{pid: c.family.root, group: c.family.root}}
		}
		return nil
	}
	var left []procEntry
	for _, p := range e.judge(census)[&c.family] {
		if !p.zombie || e.forest.keeper != 0 { // who is no subreaper cannot reap it
			left = append(left, p)
		}
	}
	return left
}

// terminate sends SIGTERM to the group of a child. Once the child itself is reaped, its number may be another group's, and each member is asked.
func (c *child) terminate() {
	e := c.engine
	e.mu.Lock()
	reaped := c.family.reaped
	if !reaped {
		_ = syscall.Kill(-c.family.root, syscall.SIGTERM)
	}
	e.mu.Unlock()
	if reaped {
		for _, p := range c.listMembers() {
			if p.group == c.family.root {
				_ = signalProcess(p, syscall.SIGTERM)
			}
		}
	}
}

// kill sends SIGKILL to each of a child's family. Who is made meanwhile is found the next time.
func (c *child) kill() {
	e := c.engine
	c.group().kill()
	e.mu.Lock()
	if !c.family.reaped {
		_ = syscall.Kill(-c.family.root, syscall.SIGKILL)
	}
	e.mu.Unlock()
	for _, p := range c.listMembers() {
		if p.start == 0 {
			_ = syscall.Kill(-p.group, syscall.SIGKILL) // there is no list
			continue
		}
		_ = signalProcess(p, syscall.SIGKILL)
	}
}

// finish tells how a child ended, of which nothing is left but what lies in its pipes.
func (c *child) finish() {
	e := c.engine
	e.mu.Lock()
	c.draining = true
	e.mu.Unlock()
	if c.made != nil {
		wakeUp(c.room)
		over := time.Now().Add(drainTime)
		_ = c.made.output.SetReadDeadline(over)
		_ = c.made.stderr.SetReadDeadline(over)
		<-c.outDone
		<-c.errDone
		c.made.close()
		c.made.group.remove()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	c.gone = true
	c.status = Status{Code: c.wait.ExitStatus(), Unknown: !c.waitKnown, Reason: c.reason, Stderr: c.complaints.lastLines(), Last: c.out.last, Begun: c.in.begun, Written: c.in.written}
	if c.waitKnown && c.wait.Signaled() {
		c.status.Signal = c.wait.Signal().String()
	}
	if !c.waitKnown {
		c.status.Code = 0
	}
	e.log.Info("process ended", "id", c.spec.ID, "pid", c.family.root, "how", c.status.String(), "after", time.Since(c.began).Round(time.Millisecond))
	switch {
	case c.starting: // its start says why it failed
	case c.forgot:
		e.remove(c)
	case c.holder != nil:
		c.tellExit()
	}
	wakeUp(e.runWake)
}

// newMark returns the mark of a child.
func newMark(boot, nonce string) string { return fmt.Sprintf("%s-%s", boot, nonce) }
