//go:build unix

package keeper

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// A rival is another process that uses a keeper, as a serve does.
type rival struct {
	cmd    *exec.Cmd
	pids   []int
	keeper int
	socket string
	boot   string
}

// serveElsewhere starts a process that spawns a keeper and has it start children, by their roles.
func serveElsewhere(t *testing.T, keep string, roles ...string) *rival {
	t.Helper()
	r := &rival{socket: filepath.Join(t.TempDir(), "keeper.sock"), boot: newToken()}
	r.cmd = exec.Command(ownProgram(t), "client", r.socket, r.boot, keep, strings.Join(roles, ","))
	r.cmd.Stderr = os.Stderr
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = r.cmd.Process.Kill()
		_ = r.cmd.Wait()
		if r.keeper != 0 {
			_ = syscall.Kill(r.keeper, syscall.SIGTERM)
			await(t, "the end of the keeper", func() bool { return !lives(r.keeper) })
		}
		await(t, "the end of what has the mark", func() bool { return len(marked(t, r.boot)) == 0 })
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		word, number, _ := strings.Cut(lines.Text(), " ")
		n, err := strconv.Atoi(number)
		if err != nil {
			t.Fatal(lines.Text())
		}
		switch word {
		case "pid":
			r.pids = append(r.pids, n)
		case "up":
			r.keeper = n
			return r
		}
	}
	t.Fatal("it did not come up")
	return nil
}

// lives reports whether a process runs: not one that has ended and waits for its parent, which here may be slow.
func lives(pid int) bool {
	if all, err := listProcesses(); err == nil {
		p, ok := all[pid]
		return ok && !p.zombie
	}
	return syscall.Kill(pid, 0) == nil
}

// kill ends the process at once.
func (r *rival) kill(t *testing.T) {
	t.Helper()
	if err := r.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = r.cmd.Wait()
}

func (r *rival) dial(t *testing.T) *Client {
	t.Helper()
	c, err := Dial(t.Context(), Options{Socket: r.socket, Log: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// TestAdopted has the process that started children be killed, and another one adopt them: with all they said, and what they are told.
func TestAdopted(t *testing.T) {
	t.Parallel()
	r := serveElsewhere(t, "1m", "echo", "say 3")
	r.kill(t)
	c := r.dial(t)
	var all []Kept
	var err error
	await(t, "what they say", func() bool { all, err = c.List(t.Context()); return len(all) == 2 && all[1].Last == 3 })
	if err != nil || len(all) != 2 || all[0].Note != "echo" || all[0].PID != r.pids[0] || all[1].PID != r.pids[1] || all[0].Held {
		t.Fatalf("list: %+v, %v", all, err)
	}
	echo, err := c.Adopt(t.Context(), "p0", 0)
	if err != nil || echo.PID() != r.pids[0] || echo.Note() != "echo" {
		t.Fatal(err)
	}
	send(t, echo, "again")
	expect(t, echo, "again")
	say, err := c.Adopt(t.Context(), "p1", 1) // line 1 was dealt with, and not acknowledged
	if err != nil {
		t.Fatal(err)
	}
	expect(t, say, "line 2")
	if _, err := c.Adopt(t.Context(), "p1", 0); !errors.Is(err, ErrExists) {
		t.Errorf("adopted twice: %v", err)
	}
	if _, err := c.Adopt(t.Context(), "p2", 0); !errors.Is(err, ErrAbsent) {
		t.Errorf("adopted nobody: %v", err)
	}
	// A third one takes over while the second lives, and gets what was not acknowledged.
	third := r.dial(t)
	if _, err := echo.Send(t.Context(), []byte("late")); err == nil {
		<-c.Ended()
	}
	<-c.Ended()
	if err := c.Err(); !errors.Is(err, ErrReplaced) {
		t.Errorf("the second one: %v", err)
	}
	if _, err := say.Receive(t.Context()); err != nil && !errors.Is(err, ErrReplaced) {
		t.Errorf("received from one that was taken over: %v", err)
	}
	say, err = third.Adopt(t.Context(), "p1", 0)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, say, "line 3")
	if s, err := say.Stop(t.Context(), ""); err != nil || s.Code != 0 {
		t.Errorf("%+v, %v", s, err)
	}
	if err := third.Bye(t.Context(), 0); err != nil {
		t.Error(err)
	}
	await(t, "the end of the keeper", func() bool { return !lives(r.keeper) })
}

// TestAdoptedTooLate has a process end that was adopted when nobody waited for it any more: its keeper takes it for held.
func TestAdoptedTooLate(t *testing.T) {
	t.Parallel()
	r := serveElsewhere(t, "1m", "echo", "echo")
	r.kill(t)
	c := r.dial(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if p, err := c.Adopt(ctx, "p0", 0); err == nil { // the answer was faster
		if _, err := p.Stop(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
	} else if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	await(t, "its end", func() bool { return !lives(r.pids[0]) })
	if p, err := c.Adopt(t.Context(), "p1", 0); err != nil || p.PID() != r.pids[1] {
		t.Errorf("the other one: %v", err)
	}
}

// TestMuchRemembered has processes adopted again after a break, all at once, of which more is remembered than a keeper says in one go.
func TestMuchRemembered(t *testing.T) {
	t.Parallel()
	f := spawned(t, time.Minute)
	front := newBreaker(t, f.socket)
	c, err := Dial(t.Context(), Options{Socket: front.path, Log: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	var all []*Process
	for i := range 4 {
		p, err := c.Start(t.Context(), spec(t, fmt.Sprint(i), "echo"))
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Remember("a", make([]byte, maxLedger-1000)); err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	if _, err := c.List(t.Context()); err != nil { // the keeper remembers it
		t.Fatal(err)
	}
	front.cut()
	for _, p := range all {
		send(t, p, "still here")
		expect(t, p, "still here")
	}
	if front.cuts != 1 || len(front.conns) != 1 {
		t.Errorf("it was cut %d times, and connected %d times since", front.cuts, len(front.conns))
	}
}

// TestUnadopted has a keeper end what nobody has adopted in time, and then itself.
func TestUnadopted(t *testing.T) {
	t.Parallel()
	r := serveElsewhere(t, "100ms", "echo", "and deaf")
	r.kill(t)
	await(t, "the end of the keeper", func() bool { return !lives(r.keeper) })
	if left := marked(t, r.boot); len(left) > 0 {
		t.Errorf("the keeper has ended before %v", left)
	}
	if _, err := Dial(t.Context(), Options{Socket: r.socket}); err == nil {
		t.Error("somebody answers")
	}
}

// TestIdleKeeper has a keeper end as soon as nobody has it and it has nothing, however long it would keep something; one that stays does not.
func TestIdleKeeper(t *testing.T) {
	t.Parallel()
	o, l := joiner(t)
	l.Keep = time.Hour
	for _, kept := range []bool{false, true} {
		c, err := Join(t.Context(), o, l)
		if err != nil {
			t.Fatal(err)
		}
		if kept {
			p, err := c.Start(t.Context(), spec(t, "a", "half"))
			if err != nil {
				t.Fatal(err)
			}
			<-p.Exited()
			p.Forget()
			if _, err := c.List(t.Context()); err != nil { // it has heard of that
				t.Fatal(err)
			}
		}
		_ = c.Close()
		await(t, "the end of the keeper", func() bool { return !lives(c.PID()) })
	}
	service(t, o.Socket)
	for range 2 {
		c, err := Dial(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.Close()
	}
}

// TestKilledKeeper has what a keeper leaves that was killed be found, and who uses it be told.
func TestKilledKeeper(t *testing.T) {
	t.Parallel()
	f := spawned(t, time.Minute)
	p := f.start(t, spec(t, "a", "away", "deaf"))
	expect(t, p, "ready")
	q := f.start(t, spec(t, "b", "echo"))
	n := send(t, q, "x")
	expect(t, q, "x")
	if err := q.HandedOver(t.Context(), n); err != nil {
		t.Error(err)
	}
	if err := syscall.Kill(f.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-f.Ended()
	if err := f.Err(); !errors.Is(err, ErrEnded) {
		t.Errorf("%v", err)
	}
	<-p.Exited()
	if _, err := p.Status(); !errors.Is(err, ErrEnded) {
		t.Errorf("%v", err)
	}
	if _, err := q.Send(t.Context(), []byte("y")); !errors.Is(err, ErrEnded) {
		t.Errorf("%v", err)
	}
	if _, err := q.Receive(t.Context()); !errors.Is(err, ErrEnded) {
		t.Errorf("%v", err)
	}
	if q.Fate(n) != HandedOver {
		t.Errorf("the fate of a line that was acknowledged is %v", q.Fate(n))
	}
	if _, err := sweep(t.Context(), f.boot); err != nil && !errors.Is(err, errNoCensus) {
		t.Error(err)
	}
	if left := marked(t, f.boot); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	// The next one takes its place.
	c, err := Spawn(t.Context(), f.options(), Launch{Program: []string{ownProgram(t), "keeper"}, Boot: f.boot, Log: f.log})
	if err != nil {
		t.Fatal(err)
	}
	if all, err := c.List(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("%v, %v", all, err)
	}
	if _, err := Spawn(t.Context(), f.options(), Launch{Program: []string{ownProgram(t), "keeper"}, Boot: f.boot, Log: f.log}); err == nil || !strings.Contains(err.Error(), "serves the socket") {
		t.Errorf("two keepers: %v", err)
	}
	_ = c.Bye(t.Context(), 0)
	await(t, "the end of the second keeper", func() bool { return !lives(c.PID()) })
}

// TestPartingIsNoFault has a keeper end that was told to, which nobody is warned of.
func TestPartingIsNoFault(t *testing.T) {
	t.Parallel()
	f := spawned(t, time.Minute)
	var log bytes.Buffer                                                                                  // read once all that writes it has ended
	c, err := Dial(t.Context(), Options{Socket: f.socket, Log: slog.New(slog.NewTextHandler(&log, nil))}) // in place of the first one
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Bye(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	<-c.Ended()
	if err := c.Err(); !errors.Is(err, ErrEnded) || log.Len() > 0 {
		t.Errorf("%v, and the log has %s", err, log.String())
	}
	await(t, "the end of the keeper", func() bool { return !lives(c.PID()) })
}

// TestReconnect breaks the connection again and again while lines go both ways.
func TestReconnect(t *testing.T) {
	t.Parallel()
	f := spawned(t, time.Minute)
	front := newBreaker(t, f.socket)
	c, err := Dial(t.Context(), Options{Socket: front.path, Log: quiet()}) // in place of the first one
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	p, err := c.Start(t.Context(), spec(t, "a", "echo"))
	if err != nil {
		t.Fatal(err)
	}
	const lines = 5000
	go func() {
		for i := range lines {
			if _, err := p.Send(t.Context(), fmt.Appendf(nil, "%d %s", i, strings.Repeat("x", i%700))); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	for i := range lines {
		line, err := p.Receive(t.Context())
		if want := fmt.Sprintf("%d %s", i, strings.Repeat("x", i%700)); err != nil || string(line.Text) != want {
			t.Fatalf("line %d: %.40q, %v", i, line.Text, err)
		}
		if i%3 == 0 {
			p.Ack(line.Number)
		}
		if i%500 == 250 {
			front.cut()
		}
	}
	if front.cuts != lines/500 {
		t.Errorf("it was cut %d times", front.cuts)
	}
	if s, err := p.Stop(t.Context(), ""); err != nil || s.Last != lines || s.Written != lines {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestReplacedUnheard has a client that was replaced lose its connection before it hears of it: it does not take the keeper back.
func TestReplacedUnheard(t *testing.T) {
	t.Parallel()
	f := spawned(t, time.Minute)
	front := newBreaker(t, f.socket)
	old, err := Dial(t.Context(), Options{Socket: front.path, Log: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = old.Close() })
	p, err := old.Start(t.Context(), spec(t, "a", "echo"))
	if err != nil {
		t.Fatal(err)
	}
	front.deaf.Store(true)
	fresh, err := Dial(t.Context(), Options{Socket: f.socket, Log: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = fresh.Close() })
	front.deaf.Store(false)
	front.cut()
	<-old.Ended()
	if _, failed := p.Status(); !errors.Is(old.Err(), ErrReplaced) || !errors.Is(failed, ErrReplaced) {
		t.Errorf("the old one: %v; its process: %v", old.Err(), failed)
	}
	p, err = fresh.Adopt(t.Context(), "a", 0)
	if err != nil {
		t.Fatal(err)
	}
	send(t, p, "still here")
	expect(t, p, "still here")
}

// A breaker carries connections to a socket until they are cut.
type breaker struct {
	path  string
	cuts  int
	conns chan net.Conn
	deaf  atomic.Bool // what the keeper says is lost
}

// hear returns what writes to a client, and drops what comes while it is deaf.
func (b *breaker) hear(conn net.Conn) io.Writer {
	return writer(func(text []byte) (int, error) {
		if b.deaf.Load() {
			return len(text), nil
		}
		return conn.Write(text)
	})
}

type writer func([]byte) (int, error)

func (w writer) Write(text []byte) (int, error) { return w(text) }

func newBreaker(t *testing.T, socket string) *breaker {
	t.Helper()
	b := &breaker{path: filepath.Join(t.TempDir(), "s"), conns: make(chan net.Conn, 1000)}
	l, err := net.Listen("unix", b.path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("unix", socket)
			if err != nil {
				_ = conn.Close()
				return
			}
			b.conns <- conn
			carry := func(to io.Writer, from, other net.Conn) {
				_, _ = io.Copy(to, from)
				_ = from.Close()
				_ = other.Close()
			}
			go carry(b.hear(conn), to, conn)
			go carry(to, conn, to)
		}
	}()
	return b
}

// cut breaks the connections there are, or the next one, and none that is made because of that.
func (b *breaker) cut() {
	for range max(1, len(b.conns)) {
		_ = (<-b.conns).Close()
		b.cuts++
	}
}

// TestBackPressure has a process that floods be read no further than the window, one that does not read take no more, and neither hold up a third.
func TestBackPressure(t *testing.T) {
	t.Parallel()
	f := spawned(t, time.Minute)
	flood := f.start(t, spec(t, "flood", "flood"))
	mute := f.start(t, spec(t, "mute", "mute"))
	echo := f.start(t, spec(t, "echo", "echo"))
	expect(t, mute, "ready")
	kept := func(id string) Kept {
		all, err := f.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range all {
			if k.ID == id {
				return k
			}
		}
		t.Fatalf("%s is gone", id)
		return Kept{}
	}
	const most = Window / (1000 + lineCost)
	await(t, "a full window", func() bool { return kept("flood").Last >= most })
	if last := kept("flood").Last; last > most+100 {
		t.Errorf("%d lines were read, and %d fill the window", last, most)
	}
	sent := uint64(0)
	for line := make([]byte, 1<<20); ; sent++ {
		line = bytes.Clone(line)
		mute.client.mu.Lock()
		full := mute.out.full(0)
		mute.client.mu.Unlock()
		if full {
			break
		}
		if _, err := mute.Send(t.Context(), line); err != nil {
			t.Fatal(err)
		}
	}
	if sent < 30 || sent > 32 {
		t.Errorf("%d MiB were taken", sent)
	}
	for range 100 {
		send(t, echo, "x")
		expect(t, echo, "x")
	}
	for range 3 * most { // it goes on as it is acknowledged
		line, err := flood.Receive(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		flood.Ack(line.Number)
	}
	s, err := mute.Stop(t.Context(), "it does not read")
	if err != nil || s.Signal != "terminated" || s.Written != 0 || s.Begun != 1 {
		t.Errorf("%+v, %v", s, err)
	}
	if got := []Fate{mute.Fate(1), mute.Fate(2), mute.Fate(sent)}; got[0] != Unknown || got[1] != Unsent || got[2] != Unsent {
		t.Errorf("the fates of its lines are %v", got)
	}
	if err := mute.HandedOver(t.Context(), 1); !errors.Is(err, ErrUnknownFate) {
		t.Error(err)
	}
	if err := mute.HandedOver(t.Context(), 2); !errors.Is(err, ErrUnsent) {
		t.Error(err)
	}
	// Nobody receives what it has said, and it ends all the same.
	if s, err := flood.Stop(t.Context(), ""); err != nil || s.Signal == "" && s.Code == 0 {
		t.Errorf("%+v, %v", s, err)
	}
	flood.Forget()
	await(t, "the last one alone", func() bool { all, err := f.List(t.Context()); return err == nil && len(all) == 1 })
}

// TestComplaintsRelayed has a part of what floods standard error come, and the end of it with the status.
func TestComplaintsRelayed(t *testing.T) {
	t.Parallel()
	f := spawned(t, time.Minute)
	p := f.start(t, spec(t, "a", "complain"))
	expect(t, p, "done")
	s, err := p.Stop(t.Context(), "")
	if err != nil || len(s.Stderr) != stderrTail || s.Stderr[stderrTail-1] != "no 19999" {
		t.Errorf("%+v, %v", s, err)
	}
	f.stderr.mu.Lock()
	defer f.stderr.mu.Unlock()
	if n := len(f.stderr.lines); n < stderrBurst/2 || n > 10_000 || f.stderr.lines[0] != "no 0" {
		t.Errorf("%d lines were relayed", n)
	}
}
