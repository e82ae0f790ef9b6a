//go:build unix

package host

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe/internal/keeper"
)

func TestMain(m *testing.M) {
	Main()
	os.Exit(m.Run())
}

// TestMainKeeps has this program start itself as the keeper of a process, and as what confines one.
func TestMainKeeps(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if got := Kept(); !slices.Equal(got, []string{self, "troupe-keeper"}) {
		t.Fatalf("the command is %q", got)
	}
	dir := t.TempDir()
	c, err := keeper.Join(t.Context(), keeper.Options{Socket: filepath.Join(dir, "keeper.sock")}, keeper.Launch{Program: Kept(), Keep: time.Minute, Log: filepath.Join(dir, "keeper.log")})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Bye(t.Context(), 0); err != nil {
			t.Error(err)
		}
		_ = c.Close()
	}()
	if c.PID() == os.Getpid() {
		t.Error("the keeper is this process")
	}
	p, err := c.Start(t.Context(), keeper.Spec{ID: "a", Command: []string{"/bin/cat"}, Confine: keeper.Confine{Limits: keeper.Require, OpenFiles: 100}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Send(t.Context(), []byte("hello")); err != nil {
		t.Fatal(err)
	}
	line, err := p.Receive(t.Context())
	if err != nil || string(line.Text) != "hello" {
		t.Errorf("%q, %v", line.Text, err)
	}
}

// TestMainEnds has a process that was started as a keeper be nothing else.
func TestMainEnds(t *testing.T) {
	t.Parallel()
	program := Kept()
	out, err := exec.Command(program[0], program[1], "--unknown").CombinedOutput()
	if e, ok := errors.AsType[*exec.ExitError](err); !ok || e.ExitCode() != 2 || !strings.Contains(string(out), "-socket string") || strings.Contains(string(out), "PASS") {
		t.Errorf("%v: %s", err, out)
	}
}
