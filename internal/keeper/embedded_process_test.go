//go:build unix

package keeper

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/internal/bubble"
)

// TestEmbedded has children of this process itself, with the same lines, ends and errors.
func TestEmbedded(t *testing.T) {
	t.Parallel()
	boot := newToken()
	c, err := StartEmbedded(t.Context(), Options{Log: quiet()}, boot, nil)
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{Client: c, boot: boot, stderr: &collected{}}
	p := f.start(t, spec(t, "a", "echo"))
	for i := range 100 {
		send(t, p, fmt.Sprint("line ", i))
		expect(t, p, fmt.Sprint("line ", i))
	}
	// Another child of the same process is not reaped by it.
	if out, err := exec.Command(ownProgram(t), "child", "half").CombinedOutput(); err == nil || err.(*exec.ExitError).ExitCode() != 3 || !strings.Contains(string(out), "half") {
		t.Errorf("%s, %v", out, err)
	}
	q := f.start(t, spec(t, "b", "half"))
	<-q.Exited()
	if s, err := q.Status(); err != nil || s.Code != 3 || len(s.Stderr) != 1 {
		t.Errorf("%+v, %v", s, err)
	}
	r := f.start(t, spec(t, "c", "away", "deaf"))
	expect(t, r, "ready")
	if s, err := r.Stop(t.Context(), "enough"); err != nil || s.Reason != "enough" {
		t.Errorf("%+v, %v", s, err)
	}
	s := spec(t, "d", "echo")
	s.Confine = Confine{Files: Require}
	if _, err := f.Start(t.Context(), s); !errors.Is(err, ErrConfine) {
		t.Errorf("confined without a shim: %v", err)
	}
	s.Confine = Confine{Limits: Try}
	d := f.start(t, s)
	if len(d.Unenforced()) != 1 || !strings.Contains(d.Unenforced()[0], "limits") {
		t.Errorf("unenforced: %q", d.Unenforced())
	}
	u := f.start(t, spec(t, "e", "and", "deaf"))
	expect(t, u, "ready")
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if left := marked(t, boot); len(left) > 0 {
		t.Errorf("left after Close: %+v", left)
	}
	if _, err := d.Send(t.Context(), nil); !errors.Is(err, ErrClosed) {
		t.Errorf("%v", err)
	}
	_ = c.Close()
}

// TestOverEngine has an engine that is over turn away who comes.
func TestOverEngine(t *testing.T) {
	t.Parallel()
	e := newEngine(quiet(), "a", "", 0, false, false, nil)
	e.endAll("")
	e.run(t.Context())
	ours, theirs := net.Pipe()
	go func() { _ = e.serve(theirs) }()
	if _, err := newClient(t.Context(), Options{}, ours, nil); !errors.Is(err, ErrEnding) {
		t.Errorf("%v", err)
	}
}

// TestIdleEngine has an engine be over as soon as it has nobody and nothing: with what it starts with, and after clients that have left it nothing.
func TestIdleEngine(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		e := newEngine(quiet(), "a", "", time.Hour, false, false, nil)
		defer e.launcher.close()
		is := func(want bool, wait time.Duration) {
			t.Helper()
			synctest.Wait()
			if got, over := e.judgeCustody(); over != want || got != wait {
				t.Errorf("it is over: %t, and is asked again in %v, want %t, %v", over, got, want, wait)
			}
		}
		is(false, time.Hour)
		time.Sleep(time.Hour - 1)
		is(false, 1)
		var clients []*Client
		for range 2 {
			ours, theirs := net.Pipe()
			go func() { _ = e.serve(theirs) }()
			c, err := newClient(t.Context(), Options{Log: quiet()}, ours, nil)
			if err != nil {
				t.Fatal(err)
			}
			clients = append(clients, c)
		}
		time.Sleep(24 * time.Hour)
		is(false, longWait)
		_ = clients[0].Close() // which was replaced
		is(false, longWait)
		e.mu.Lock()
		_ = e.custody.hold(2, 7)
		e.mu.Unlock()
		_ = clients[1].Close()
		is(false, time.Hour)
		e.mu.Lock()
		e.custody.drop(7)
		e.mu.Unlock()
		is(true, 0)
	})
}

// TestEmbeddedKilled has the children of a process that is killed end with it, those of a thread that the runtime would have ended among them.
func TestEmbeddedKilled(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("the system ends no child with its parent")
	}
	boot := newToken()
	cmd := exec.Command(ownProgram(t), "embed", boot)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	word := make([]byte, 2)
	if _, err := out.Read(word); err != nil || string(word) != "up" {
		t.Fatal(string(word), err)
	}
	if n := len(marked(t, boot)); n != 1 {
		t.Errorf("%d have its mark", n)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	await(t, "the end of its child", func() bool { return len(marked(t, boot)) == 0 })
}

// embedAndWait has a child that ends by nothing but SIGKILL, and waits until it is killed itself.
func embedAndWait(boot string) int {
	ctx := context.Background()
	c, err := StartEmbedded(ctx, Options{Log: quiet()}, boot, nil)
	if err != nil {
		return 1
	}
	p, err := c.Start(ctx, Spec{ID: "a", Command: []string{os.Args[0], "child", "deaf"}})
	if err != nil {
		return 1
	}
	if _, err := p.Receive(ctx); err != nil {
		return 1
	}
	runtime.GC()
	time.Sleep(time.Millisecond)
	fmt.Print("up")
	block()
	return 0
}
