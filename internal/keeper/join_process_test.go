//go:build unix

package keeper

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// joiner is what Join is called with, for a socket of the test's own. What is left of its keepers at the end of the test is a mistake.
func joiner(t *testing.T) (Options, Launch) {
	t.Helper()
	dir := t.TempDir()
	o := Options{Socket: filepath.Join(dir, "keeper.sock"), Log: quiet()}
	t.Cleanup(func() {
		if boot, _ := storedBoot(o.Socket); boot == "" {
			t.Error("no boot is stored")
		} else {
			await(t, "the end of what has the mark", func() bool { return len(marked(t, boot)) == 0 })
		}
	})
	return o, Launch{Program: []string{ownProgram(t), "keeper"}, Keep: time.Minute, Log: filepath.Join(dir, "log")}
}

// joined is a keeper, which ends with the test.
func joined(t *testing.T, o Options, l Launch) *Client {
	t.Helper()
	c, err := Join(t.Context(), o, l)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(c.PID(), syscall.SIGTERM)
		await(t, "the end of the keeper", func() bool { return !lives(c.PID()) })
		_ = c.Close()
	})
	return c
}

// TestJoin starts a keeper where there is none, and connects to one that is there.
func TestJoin(t *testing.T) {
	t.Parallel()
	o, l := joiner(t)
	first := joined(t, o, l)
	p, err := first.Start(t.Context(), spec(t, "a", "echo"))
	if err != nil {
		t.Fatal(err)
	}
	l.Program = []string{"/there/is/none"} // it is not needed
	next, err := Join(t.Context(), o, l)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = next.Close() }()
	if stored, stay := storedBoot(o.Socket); next.PID() != first.PID() || next.Boot() != first.Boot() || next.Boot() != stored || stay {
		t.Errorf("the second has %d %s, the first %d %s", next.PID(), next.Boot(), first.PID(), first.Boot())
	}
	q, err := next.Adopt(t.Context(), "a", 0)
	if err != nil || q.PID() != p.PID() {
		t.Errorf("adopted: %v", err)
	}
	<-first.Ended()
	if err := first.Err(); !errors.Is(err, ErrReplaced) {
		t.Errorf("the first: %v", err)
	}
	o.Socket = filepath.Join(filepath.Dir(o.Socket), "other.sock")
	if _, err := Join(t.Context(), o, l); err == nil || !strings.Contains(err.Error(), "/there/is/none") {
		t.Errorf("a program that is not there: %v", err)
	}
}

// TestJoinAfterKill ends what a killed keeper has left, and starts another one of the same boot.
func TestJoinAfterKill(t *testing.T) {
	t.Parallel()
	o, l := joiner(t)
	first := joined(t, o, l)
	p, err := first.Start(t.Context(), spec(t, "a", "away", "deaf"))
	if err != nil {
		t.Fatal(err)
	}
	expect(t, p, "ready")
	if left := marked(t, first.Boot()); len(left) == 0 {
		if _, err := listProcesses(); err == nil {
			t.Error("no process has the mark")
		}
	}
	_ = syscall.Kill(first.PID(), syscall.SIGKILL)
	<-first.Ended()
	next := joined(t, o, l)
	if left := marked(t, first.Boot()); len(left) > 0 {
		t.Errorf("left: %+v", left)
	}
	if next.PID() == first.PID() || next.Boot() != first.Boot() {
		t.Errorf("the second has %d %s, the first %d %s", next.PID(), next.Boot(), first.PID(), first.Boot())
	}
}

// TestServiceSweeps has a keeper that somebody else starts end what the one before has left that was killed, and who has started one without a socket do so itself.
func TestServiceSweeps(t *testing.T) {
	t.Parallel()
	o, l := joiner(t)
	leave := func(c *Client) {
		t.Helper()
		p, err := c.Start(t.Context(), spec(t, "a", "away", "deaf"))
		if err != nil {
			t.Fatal(err)
		}
		expect(t, p, "ready")
		_ = syscall.Kill(c.PID(), syscall.SIGKILL)
		<-c.Ended()
	}
	service(t, o.Socket)
	c, err := Dial(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	leave(c)
	service(t, o.Socket)
	if left := marked(t, c.Boot()); len(left) > 0 {
		t.Errorf("left: %+v", left)
	}
	if c, err = Join(t.Context(), Options{Log: quiet()}, l); err != nil {
		t.Fatal(err)
	}
	leave(c)
	await(t, "the end of what has the mark", func() bool { return len(marked(t, c.Boot())) == 0 })
}

// TestJoinAnEndingOne waits for a keeper that answers no more, and starts another.
func TestJoinAnEndingOne(t *testing.T) {
	t.Parallel()
	o, l := joiner(t)
	lock, err := os.OpenFile(lockOf(o.Socket), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := lockSocket(t.Context(), lock, o.Socket); err != nil {
		t.Fatal(err)
	}
	ending, err := net.Listen("unix", o.Socket)
	if err != nil {
		t.Fatal(err)
	}
	ending.(*net.UnixListener).SetUnlinkOnClose(false)
	go func() {
		for n := 0; ; n++ {
			conn, err := ending.Accept()
			if err != nil {
				return
			}
			if n == 2 { // Dial, the keeper that Spawn starts, and Dial again
				_ = ending.Close()
				_ = lock.Close()
			}
			if f, err := readFrame(bufio.NewReader(conn)); err == nil && f.kind == kindHello {
				answer, _ := appendControl(nil, kindRefused, refused{0, "hello", codeEnding, "the keeper"})
				_, _ = conn.Write(answer)
			}
			_ = conn.Close()
		}
	}()
	c := joined(t, o, l)
	if _, err := c.List(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestJoinOneThatWasTold waits for the end of a keeper that was told to end, and has no part in what that one still has.
func TestJoinOneThatWasTold(t *testing.T) {
	t.Parallel()
	o, l := joiner(t)
	first := joined(t, o, l)
	slow := spec(t, "a", "deaf")
	slow.Grace = time.Hour
	p, err := first.Start(t.Context(), slow)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, p, "ready")
	_ = syscall.Kill(first.PID(), syscall.SIGTERM)
	await(t, "a keeper that turns others away", func() bool {
		c, err := Dial(t.Context(), o)
		if c != nil {
			_ = c.Close()
		}
		return errors.Is(err, ErrEnding)
	})
	_ = syscall.Kill(p.PID(), syscall.SIGKILL)
	if next := joined(t, o, l); next.PID() == first.PID() {
		t.Error("it has joined the keeper that ends")
	}
}

// TestJoinAtOnce has all that come at the same time get the same keeper.
func TestJoinAtOnce(t *testing.T) {
	t.Parallel()
	o, l := joiner(t)
	clients, failures := make(chan *Client, 3), make(chan error, 3)
	for range cap(clients) {
		go func() {
			c, err := Join(t.Context(), o, l)
			failures <- err
			clients <- c
		}()
	}
	pids := map[int]bool{}
	for range cap(clients) {
		if err := <-failures; err != nil {
			t.Error(err)
		}
	}
	for range cap(clients) {
		if c := <-clients; c != nil {
			pids[c.PID()] = true
			_ = c.Close()
		}
	}
	if len(pids) != 1 {
		t.Errorf("the keepers are %v", pids)
	}
	_ = joined(t, o, l)
}

// TestJoinSaysHowLong has a keeper that is there keep what it has for as long as the newest client says.
func TestJoinSaysHowLong(t *testing.T) {
	t.Parallel()
	o, l := joiner(t)
	l.Keep = time.Hour
	first := joined(t, o, l)
	p, err := first.Start(t.Context(), spec(t, "a", "echo"))
	if err != nil {
		t.Fatal(err)
	}
	l.Keep = -1
	next, err := Join(t.Context(), o, l)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := next.Adopt(t.Context(), "a", 0); err != nil {
		t.Fatal(err)
	}
	_ = next.Close()
	await(t, "the end of the keeper", func() bool { return !lives(first.PID()) })
	if lives(p.PID()) {
		t.Error("its process lives")
	}
}

// TestJoinAnotherRelease leaves a keeper alone that it cannot speak to.
func TestJoinAnotherRelease(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := Options{Socket: filepath.Join(dir, "keeper.sock"), Log: quiet()}
	l, err := net.Listen("unix", o.Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		_, _ = readFrame(bufio.NewReader(conn))
		answer, _ := appendControl(nil, kindRefused, refused{0, "hello", codeVersion, "this one speaks 7 to 9"})
		_, _ = conn.Write(answer)
	}()
	if _, err := Join(t.Context(), o, Launch{Program: []string{"/there/is/none"}}); !errors.Is(err, ErrVersion) {
		t.Errorf("%v", err)
	}
}

// TestStoredBoots has the boot of a lock that is whole and no copy.
func TestStoredBoots(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "keeper.sock")
	lock, err := os.Create(lockOf(socket))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Close() }()
	text := func(boot string, stay bool) string {
		text, err := lockText(lock, boot, stay)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	whole, stays := text("a", false), text("a", true)
	for text, want := range map[string]string{
		"": "", whole: "a", stays: "a stay", whole[:len(whole)-1]: "", stays[:len(stays)-2]: "", "a\n": "", "a 0:0\n": "", "b" + whole: "ba", " " + whole: "", text(strings.Repeat("a", 65), false): "",
	} {
		if err := os.WriteFile(lockOf(socket), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, stay := storedBoot(socket)
		if stay {
			got += " stay"
		}
		if got != want {
			t.Errorf("%q is the boot %q, want %q", text, got, want)
		}
	}
	if err := os.WriteFile(lockOf(socket), []byte(whole), 0o600); err != nil {
		t.Fatal(err)
	}
	elsewhere := t.TempDir()
	if err := os.CopyFS(elsewhere, os.DirFS(filepath.Dir(socket))); err != nil {
		t.Fatal(err)
	}
	if got, _ := storedBoot(filepath.Join(elsewhere, "keeper.sock")); got != "" {
		t.Errorf("a copy has the boot %q", got)
	}
	for _, row := range []struct {
		boot string
		stay bool
		want string
	}{{"", false, "a"}, {"", true, "a"}, {"given", true, "given"}, {"", false, "given"}} {
		got, err := storeBoot(lock, socket, row.boot, row.stay)
		if stored, stay := storedBoot(socket); err != nil || got != row.want || stored != row.want || stay != row.stay {
			t.Errorf("%+v is stored as %q %t, %v", row, stored, stay, err)
		}
	}
}

// service runs a keeper as a service manager does, until the test ends.
func service(t *testing.T, socket string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(ownProgram(t), "keeper", "--socket", socket, "--stay")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	lines := bufio.NewReader(r)
	if _, err := lines.ReadString('\n'); err != nil { // it is ready
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		_ = r.Close()
	})
	return cmd
}

// TestJoinAService waits for a keeper that somebody starts anew, and starts one of its own where nobody does.
func TestJoinAService(t *testing.T) {
	t.Parallel()
	o, l := joiner(t)
	o.patience = time.Hour
	l.Program = []string{"/there/is/none"}
	first := service(t, o.Socket)
	c, err := Join(t.Context(), o, l)
	if err != nil || c.PID() != first.Process.Pid {
		t.Fatalf("of a service: %v", err)
	}
	_ = first.Process.Kill()
	<-c.Ended()
	_ = c.Close()
	clients := make(chan *Client)
	go func() {
		c, err := Join(t.Context(), o, l)
		if err != nil {
			t.Error(err)
		}
		clients <- c
	}()
	second := service(t, o.Socket)
	if c = <-clients; c == nil || c.PID() != second.Process.Pid {
		t.Fatal("of a service that was started anew: it is another one")
	}
	_ = second.Process.Kill()
	<-c.Ended()
	_ = c.Close()
	o.patience = 1
	l.Program = []string{ownProgram(t), "keeper"}
	_ = joined(t, o, l)
	if _, stay := storedBoot(o.Socket); stay {
		t.Error("one of its own stays")
	}
}

// TestServiceManagerHears has a keeper tell whoever has started it as a service that it can be used.
func TestServiceManagerHears(t *testing.T) {
	t.Parallel()
	o, l := joiner(t)
	address := filepath.Join(filepath.Dir(o.Socket), "notify.sock")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: address, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = manager.Close() }()
	l.Env = []string{"NOTIFY_SOCKET=" + address}
	_ = joined(t, o, l)
	text := make([]byte, 100)
	n, err := manager.Read(text)
	if err != nil || string(text[:n]) != "READY=1" {
		t.Errorf("it hears %q, %v", text[:n], err)
	}
}
