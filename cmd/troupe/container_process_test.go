//go:build linux

package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// imageUser is a user that no image knows.
const imageUser = 12345

// bareImage makes a root directory with the program, and what that is linked with. There is nothing else in it, and imageUser can write nothing but /data.
func bareImage(t *testing.T) (root string) {
	t.Helper()
	program := binary(t)
	if os.Geteuid() != 0 {
		t.Skip("only root can change the root directory")
	}
	root = t.TempDir()
	put := func(from, to string) {
		t.Helper()
		to = filepath.Join(root, to)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		in, err := os.Open(from)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = in.Close() }()
		out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o755)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(out, in); err != nil {
			t.Fatal(err)
		}
		if err := out.Close(); err != nil {
			t.Fatal(err)
		}
	}
	put(program, "troupe")
	libraries, _ := exec.Command("ldd", program).Output() // it fails for a program that needs none
	for _, path := range regexp.MustCompile(`(?m)(/\S+) \(0x`).FindAllStringSubmatch(string(libraries), -1) {
		put(path[1], path[1])
	}
	data := filepath.Join(root, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(data, imageUser, imageUser); err != nil {
		t.Fatal(err)
	}
	return root
}

// inImage has a command run in an image, as its user and with nothing but variables in its environment.
func inImage(root string, variables ...string) func(*exec.Cmd) {
	return func(cmd *exec.Cmd) {
		cmd.Path, cmd.Args[0], cmd.Dir, cmd.Env = "/troupe", "/troupe", "/", append([]string{}, variables...) // never nil, which would be this process's
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: imageUser, Gid: imageUser}}
	}
}

// TestBareImage serves in an image that has nothing: no home, no temporary directory, no /proc, a root that cannot be written, and a user without a name. Settings come from the
// environment, and so does troupe health, without a shell. Without a data directory it says what to set.
func TestBareImage(t *testing.T) {
	t.Parallel()
	root := bareImage(t)
	p := startPrepared(t, inImage(root, "TROUPE_DATA=/data", "TROUPE_DRAIN_DELAY=0s"))
	p.base = p.await(t, `(http://127\.0\.0\.1:\d+)/metrics`)[1]
	session := p.session(t)
	p.echo(t, session)
	if code, _, body := p.request(t, "GET", "/metrics", "", ""); code != 200 {
		t.Errorf("/metrics is answered with %d: %s", code, body)
	}
	health := exec.Command("/troupe", "health", "--ready")
	inImage(root, "TROUPE_LISTEN="+strings.TrimPrefix(p.base, "http://"))(health)
	if out, err := health.CombinedOutput(); err != nil || !strings.HasSuffix(string(out), "/readyz: ready\n") {
		t.Errorf("troupe health: %v, %s", err, out)
	}
	p.signal(t, syscall.SIGTERM)
	if code := p.exit(t); code != 0 {
		t.Errorf("it ended with %d:\n%s", code, p.stderr)
	}
	p = startPrepared(t, inImage(root, "TROUPE_DATA=/data"))
	p.base = p.await(t, `(http://127\.0\.0\.1:\d+)/metrics`)[1]
	p.echo(t, session)

	for want, variables := range map[string][]string{
		"there is no home directory to keep data in: set --data DIR, TROUPE_DATA or --memory": nil,
		"the data directory /elsewhere cannot be used":                                        {"TROUPE_DATA=/elsewhere"},
		"set TMPDIR to a directory that can be written":                                       {"TROUPE_MEMORY=true"},
	} {
		p := startPrepared(t, inImage(root, variables...))
		if code := p.exit(t); code == 0 || !strings.Contains(p.stderr.String(), want) {
			t.Errorf("%q: it ended with %d, want %q:\n%s", variables, code, want, p.stderr)
		}
	}
	// What keeps nothing needs a place for a moment of its start alone.
	temporary := startPrepared(t, inImage(root, "TROUPE_MEMORY=true", "TMPDIR=/data"))
	temporary.await(t, `(http://127\.0\.0\.1:\d+)/metrics`)
}

// TestFirstProcess is the first process of a container, to which the system passes no signal that it does not handle.
func TestFirstProcess(t *testing.T) {
	t.Parallel()
	p := startPrepared(t, func(cmd *exec.Cmd) {
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
		probe := exec.Command(cmd.Path, "version")
		probe.SysProcAttr = cmd.SysProcAttr
		if err := probe.Run(); errors.Is(err, syscall.EPERM) {
			t.Skip("only root can make containers")
		}
	}, "--memory", "--drain-delay", "0s")
	p.base = p.await(t, `(http://127\.0\.0\.1:\d+)/metrics`)[1]
	p.echo(t, p.session(t))
	p.signal(t, syscall.SIGTERM)
	if code := p.exit(t); code != 0 {
		t.Errorf("it ended with %d:\n%s", code, p.stderr)
	}
}

// TestSignalDuringTheStart ends a process that still reads its settings.
func TestSignalDuringTheStart(t *testing.T) {
	t.Parallel()
	binary(t)
	file := filepath.Join(t.TempDir(), "troupe.yaml")
	if err := syscall.Mkfifo(file, 0o600); err != nil {
		t.Fatal(err)
	}
	p := startAny(t, "--memory", "--config", file)
	settings, err := os.OpenFile(file, os.O_WRONLY, 0) // once it reads there
	if err != nil {
		t.Fatal(err)
	}
	p.signal(t, syscall.SIGTERM)
	if _, err := settings.WriteString("page-size: 7\n"); err != nil {
		t.Fatal(err)
	}
	if err := settings.Close(); err != nil {
		t.Fatal(err)
	}
	if code := p.exit(t); code != 0 || !strings.Contains(p.stderr.String(), "ended") {
		t.Errorf("it ended with %d:\n%s", code, p.stderr)
	}
}
