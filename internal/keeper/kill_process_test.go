//go:build linux

package keeper

import (
	"context"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/troupe-run/troupe/test/kit/when"
)

// rude are children that do not end when they should, each with how many lines it says at first.
var rude = map[string]struct {
	role  string
	lines int
}{
	"ignores the end of its input and SIGTERM": {"deaf", 1},
	"never reads":             {"mute", 1},
	"a wrapper that lingers":  {"and deaf", 1},
	"a wrapper of a wrapper":  {"and and deaf", 1},
	"a session of its own":    {"away deaf", 1},
	"sessions below sessions": {"away away deaf", 1},
	"has left its parents, its session and its environment": {"away strip deaf", 1},
	"ends, and leaves one that has its pipes":               {"leave deaf", 1},
	"ends, and leaves one in a session of its own":          {"leave daemon deaf", 1},
	"floods its output":                                     {"flood", 1},
	"floods its output from below":                          {"and flood", 1},
	"has children that nobody waits for":                    {"zombies", 1},
}

// TestRudeChildren ends each of them for certain: no process, no zombie, and no open file of the keeper is left.
func TestRudeChildren(t *testing.T) {
	t.Parallel()
	f := spawned(t, time.Minute)
	calm := f.start(t, spec(t, "calm", "echo"))
	send(t, calm, "x")
	expect(t, calm, "x")
	before := len(filesOf(t, f.PID()))
	for name, child := range rude {
		t.Run(name, func(t *testing.T) {
			p := f.start(t, spec(t, name, strings.Fields(child.role)...))
			for range child.lines {
				line, err := p.Receive(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				p.Ack(line.Number)
			}
			if !strings.HasPrefix(child.role, "leave") { // its end is the end of all
				if _, err := p.Stop(t.Context(), ""); err != nil {
					t.Fatal(err)
				}
			}
			<-p.Exited()
			p.Forget()
			if left := below(t, f.PID()); len(left) != 1 || left[0].pid != calm.PID() {
				t.Errorf("left below the keeper: %+v", left)
			}
		})
	}
	await(t, "as many open files as before", func() bool { return len(filesOf(t, f.PID())) <= before })
	send(t, calm, "y")
	expect(t, calm, "y")
}

// below returns all descendants of a process, those that have ended and were not waited for among them.
func below(t testing.TB, pid int) []procEntry {
	t.Helper()
	all, err := listProcesses()
	if err != nil {
		t.Fatal(err)
	}
	g := genealogy{all: all, children: map[int][]int{}, of: map[int]*family{}}
	for pid, p := range all {
		g.children[p.parent] = append(g.children[p.parent], pid)
	}
	var f family
	g.of[pid] = &f
	g.spread(pid)
	delete(g.of, pid)
	var found []procEntry
	for pid := range g.of {
		found = append(found, all[pid])
	}
	return found
}

// TestManyTrees ends many trees at once, that fork all the time or ignore everything.
func TestManyTrees(t *testing.T) {
	t.Parallel()
	f := spawned(t, time.Minute)
	var all []*Process
	for i := range 12 {
		role := []string{"away deaf", "and deaf", "zombies", "and away deaf"}[i%4]
		all = append(all, f.start(t, spec(t, fmt.Sprint(i), strings.Fields(role)...)))
	}
	for _, p := range all {
		expect(t, p, "ready")
	}
	done := make(chan error)
	for _, p := range all {
		go func() {
			_, err := p.Stop(t.Context(), "")
			done <- err
		}()
	}
	for range all {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if left := below(t, f.PID()); len(left) > 0 {
		t.Errorf("left: %+v", left)
	}
}

// TestKills has ten fixed cases of who is killed, among what: in the end nothing with a mark is left, and no zombie.
func TestKills(t *testing.T) {
	t.Parallel()
	when.Unraced(t, "each case is a serve, a keeper and its trees, whose code other tests run")
	for name, row := range map[string]struct {
		roles []string
		kill  func(t *testing.T, r *rival)
		sweep bool
	}{
		"serve, with one that obeys":            {[]string{"echo"}, killServe, false},
		"serve, with a wrapper that lingers":    {[]string{"and deaf"}, killServe, false},
		"serve, with sessions of their own":     {[]string{"away deaf", "away away deaf"}, killServe, false},
		"serve, with an environment of its own": {[]string{"away strip deaf"}, killServe, false},
		"serve, with one that floods":           {[]string{"flood", "mute"}, killServe, false},
		"keeper, with one that obeys":           {[]string{"echo"}, killKeeper, true},
		"keeper, with trees":                    {[]string{"and deaf", "away deaf"}, killKeeper, true},
		"keeper and serve, with trees":          {[]string{"and deaf", "away away deaf", "zombies"}, func(t *testing.T, r *rival) { killServe(t, r); killKeeper(t, r) }, true},
		"a wrapper, with what it has started":   {[]string{"and deaf"}, killRoot, false},
		"a server below its wrapper":            {[]string{"and deaf"}, killBelow, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := serveElsewhere(t, "50ms", row.roles...)
			await(t, "all that is to be started", func() bool { return len(marked(t, r.boot)) >= len(row.roles) })
			row.kill(t, r)
			if row.sweep {
				if _, err := sweep(context.Background(), r.boot); err != nil {
					t.Error(err)
				}
				if left := marked(t, r.boot); len(left) > 0 {
					t.Errorf("left: %+v", left)
				}
				return
			}
			if r.cmd.ProcessState != nil {
				await(t, "the end of the keeper", func() bool { return !lives(r.keeper) })
				if left := marked(t, r.boot); len(left) > 0 {
					t.Errorf("left: %+v", left)
				}
			}
		})
	}
}

func killServe(t *testing.T, r *rival) { r.kill(t) }

func killKeeper(t *testing.T, r *rival) {
	if err := syscall.Kill(r.keeper, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	await(t, "the end of the keeper", func() bool { return !lives(r.keeper) })
}

func killRoot(t *testing.T, r *rival) {
	if err := syscall.Kill(r.pids[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	await(t, "the end of what it has started", func() bool { return len(below(t, r.keeper)) == 0 })
}

func killBelow(t *testing.T, r *rival) {
	var child []procEntry
	await(t, "the server", func() bool { child = below(t, r.pids[0]); return len(child) == 1 })
	if err := signalProcess(child[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	await(t, "the end of the server", func() bool { _, there := readProcess(child[0].pid); return !there || len(below(t, r.pids[0])) == 0 })
	r.kill(t)
}

// TestSignals has a keeper end nothing at the signals that are for who started it, and all at SIGTERM.
func TestSignals(t *testing.T) {
	t.Parallel()
	f := spawned(t, time.Minute)
	p := f.start(t, spec(t, "a", "echo"))
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGHUP, syscall.SIGPIPE, syscall.SIGQUIT} {
		if err := syscall.Kill(f.PID(), s); err != nil {
			t.Fatal(err)
		}
	}
	send(t, p, "x")
	expect(t, p, "x")
	// What a keeper does not hear, its children do.
	q := f.start(t, spec(t, "b", "mute"))
	expect(t, q, "ready")
	if err := syscall.Kill(q.PID(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	<-q.Exited()
	if s, err := q.Status(); err != nil || s.Signal != "hangup" {
		t.Errorf("%+v, %v", s, err)
	}
	r := f.start(t, spec(t, "c", "away", "deaf"))
	expect(t, r, "ready")
	if err := syscall.Kill(f.PID(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-r.Exited()
	if s, err := r.Status(); err != nil || s.Reason != keeperEnds {
		t.Errorf("%+v, %v", s, err)
	}
	<-f.Ended()
	if err := f.Err(); err == nil || !strings.Contains(err.Error(), "it has ended") {
		t.Errorf("%v", err)
	}
}

// TestReplacedStopped has a keeper end though a client that was replaced does not read any more.
func TestReplacedStopped(t *testing.T) {
	t.Parallel()
	f := spawned(t, time.Minute)
	f.start(t, spec(t, "a", "flood"))
	old := speak(t, f.socket)
	old.say(t, kindHello, `{"oldest":1,"newest":1}`)
	old.hear(t)
	old.say(t, kindAdopt, `{"request":1,"id":"a","have":0}`)
	old.hear(t) // and no more: what follows fills the socket
	before, same := 0, 0
	await(t, "a full socket", func() bool {
		now := unread(t, old.Conn)
		if same++; now == 0 || now != before {
			before, same = now, 0
		}
		return same == 20
	})
	next, err := Dial(t.Context(), f.options())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = next.Close() })
	if err := syscall.Kill(f.PID(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	await(t, "the end of the keeper", func() bool { return !lives(f.PID()) })
}

// unread returns how many bytes wait in a connection.
func unread(t *testing.T, conn net.Conn) int {
	t.Helper()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	if e := raw.Control(func(fd uintptr) { n, err = unix.IoctlGetInt(int(fd), unix.TIOCINQ) }); e != nil || err != nil {
		t.Fatal(e, err)
	}
	return n
}
