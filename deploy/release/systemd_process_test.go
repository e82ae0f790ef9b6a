//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-run/troupe/test/kit/when"
)

// boot starts systemd as the first process of namespaces of its own, in a copy of this machine's files that nobody else sees. $1 is an empty directory, and
// the rest are files for /run/packages. The root is changed by pivot_root, as what chroot has confined may not make namespaces of users.
const boot = `set -e
top=$1; shift
mount --make-rprivate /
mount -t tmpfs tmpfs "$top"
mkdir "$top/upper" "$top/work" "$top/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$top/upper,workdir=$top/work" "$top/root"
cd "$top/root"
mount -t tmpfs tmpfs run
mkdir run/packages run/old
cp "$@" run/packages
mount -t tmpfs tmpfs tmp
mount -t tmpfs tmpfs dev
for node in 'null 1 3' 'zero 1 5' 'full 1 7' 'random 1 8' 'urandom 1 9' 'tty 5 0'; do
	set -- $node
	mknod -m 666 "dev/$1" c "$2" "$3"
done
mkdir dev/shm dev/pts
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
: >dev/console
mount -t proc proc proc
mount -t sysfs sysfs sys
mkdir -p sys/fs/cgroup
mount -t cgroup2 cgroup2 sys/fs/cgroup
ip link set lo up
pivot_root . run/old
umount -l /run/old
exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin container=oci /lib/systemd/systemd --system --unit=basic.target
`

// system is a system that runs under systemd.
type system struct{ pid int }

// bootSystem boots this machine's system once more, with files in /run/packages.
func bootSystem(t *testing.T, files ...string) system {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can boot a system")
	}
	for _, program := range []string{"unshare", "nsenter", "pivot_root", "ip", "dpkg", "systemctl"} {
		if _, err := exec.LookPath(program); err != nil {
			when.Lacking(t, "there is no "+program)
		}
	}
	args := append([]string{"--pid", "--mount", "--uts", "--ipc", "--net", "--cgroup", "--fork", "--kill-child", "sh", "-c", boot, "boot", t.TempDir()}, files...)
	p := begin(t, exec.Command("unshare", args...))
	var s system
	t.Cleanup(func() {
		if s.pid > 0 {
			_ = syscall.Kill(s.pid, syscall.SIGKILL) // and so all that runs in it
		}
	})
	for end := time.Now().Add(hung); ; time.Sleep(50 * time.Millisecond) {
		select {
		case err := <-p.exited:
			t.Skipf("this kernel boots no system in namespaces of its own: %v: %s", err, p.said)
		default:
		}
		if time.Now().After(end) {
			t.Fatalf("the system does not come up: %s", p.said)
		}
		if s.pid == 0 {
			children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", p.cmd.Process.Pid, p.cmd.Process.Pid))
			s.pid, _ = strconv.Atoi(strings.TrimSpace(string(children)))
			continue
		}
		// Until then it is the shell that mounts what the system needs.
		if name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", s.pid)); string(name) != "systemd\n" {
			continue
		}
		if _, out := s.run(t, "systemctl", "is-system-running"); out == "running\n" || out == "degraded\n" {
			return s
		}
	}
}

// prepare returns a command that runs in the system.
func (s system) prepare(args ...string) *exec.Cmd {
	return exec.Command("nsenter", append([]string{"--target", strconv.Itoa(s.pid), "--mount", "--pid", "--net", "--ipc", "--uts", "--cgroup", "--root", "--wd"}, args...)...)
}

// run runs a command in the system, and returns its exit code and what it has written.
func (s system) run(t *testing.T, args ...string) (int, string) {
	t.Helper()
	out, err := s.prepare(args...).CombinedOutput()
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		return e.ExitCode(), string(out)
	}
	if err != nil {
		t.Error(err)
		return -1, ""
	}
	return 0, string(out)
}

// must runs a command that must succeed, and returns what it has written.
func (s system) must(t *testing.T, args ...string) string {
	t.Helper()
	code, out := s.run(t, args...)
	if code != 0 {
		_, log := s.run(t, "journalctl", "--no-pager", "--lines=50", "--unit=troupe.service", "--unit=troupe-keeper.service")
		t.Fatalf("%v ends with %d: %s\n%s", args, code, out, log)
	}
	return out
}

// property is what systemd says of the service.
func (s system) property(t *testing.T, name string) string {
	t.Helper()
	return strings.TrimSpace(s.must(t, "systemctl", "show", "troupe.service", "--value", "--property="+name))
}

// becomesReady waits until the service lets clients in.
func (s system) becomesReady(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(hung); ; time.Sleep(50 * time.Millisecond) {
		if code, out := s.run(t, "troupe", "health", "--ready"); code == 0 {
			return
		} else if time.Now().After(end) {
			t.Fatalf("it does not become ready: %s", out)
		}
	}
}

// write writes the settings of the service.
func (s system) write(t *testing.T, settings string) {
	t.Helper()
	cmd := s.prepare("tee", "/etc/troupe/troupe.yaml")
	cmd.Stdin = strings.NewReader(settings)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// TestSystemd installs the package in a system that systemd runs, and has systemd start, restart, reload, upgrade and stop the service under all that the unit
// confines it to, while clients call.
func TestSystemd(t *testing.T) {
	r := release(t)
	packages, err := filepath.Glob(filepath.Join(r.out, "troupe_*_"+runtime.GOARCH+".deb"))
	if err != nil || len(packages) != 1 {
		t.Fatalf("the packages are %v: %v", packages, err)
	}
	next := nextDeb(t, r)
	s := bootSystem(t, packages[0], next)
	s.must(t, "dpkg", "--install", "/run/packages/"+filepath.Base(packages[0]))
	for _, unit := range []string{"troupe.socket", "troupe.service"} {
		if _, out := s.run(t, "systemctl", "is-enabled", unit); out != "disabled\n" {
			t.Errorf("after the installation %s is %s", unit, out)
		}
		if _, out := s.run(t, "systemctl", "is-active", unit); out != "inactive\n" {
			t.Errorf("after the installation %s is %s", unit, out)
		}
	}
	s.must(t, "systemctl", "enable", "--quiet", "--now", "troupe.socket", "troupe.service")
	s.must(t, "troupe", "health", "--ready") // it is, once systemd says so
	keeper := strings.TrimSpace(s.must(t, "systemctl", "show", "troupe-keeper.service", "--value", "--property=MainPID"))
	if code, _ := s.run(t, "test", "-S", "/var/lib/troupe/keeper.sock"); keeper == "0" || code != 0 {
		t.Errorf("the keeper is %s, and whether it has its socket: %d", keeper, code)
	}
	main := s.property(t, "MainPID")
	status := s.must(t, "cat", "/proc/"+main+"/status")
	for _, want := range []string{`(?m)^CapEff:\t0+$`, `(?m)^CapBnd:\t0+$`, `(?m)^NoNewPrivs:\t1$`, `(?m)^Seccomp:\t2$`} {
		if !regexp.MustCompile(want).MatchString(status) {
			t.Errorf("the process is confined to less than %s:\n%s", want, status)
		}
	}

	// Clients call all the while, and none is refused: the socket stays.
	var calls atomic.Int64
	ended, stop := make(chan error, 1), make(chan struct{})
	go func() {
		for {
			select {
			case <-stop:
				ended <- nil
				return
			default:
			}
			out, err := s.prepare("troupe", "call", "http://127.0.0.1:8080/mcp", "echo", `{"text":"all the world's a stage"}`).CombinedOutput()
			if err != nil || !strings.Contains(string(out), "all the world's a stage") || strings.Contains(string(out), "refused") {
				ended <- fmt.Errorf("a call: %v, %s", err, out)
				return
			}
			calls.Add(1)
		}
	}()
	another := func(what string, do func()) {
		t.Helper()
		before := s.property(t, "MainPID")
		do()
		s.becomesReady(t)
		if after := s.property(t, "MainPID"); after == before || after == "0" {
			t.Errorf("%s: the process was %s, and is %s", what, before, after)
		}
	}
	meanwhile := func(what string, do func()) {
		t.Helper()
		seen := calls.Load()
		another(what, do)
		for end := time.Now().Add(hung); calls.Load() < seen+2; time.Sleep(10 * time.Millisecond) {
			if len(ended) > 0 || time.Now().After(end) {
				return // which is told below
			}
		}
	}
	for range 3 {
		meanwhile("restart", func() { s.must(t, "systemctl", "restart", "troupe.service") })
	}
	meanwhile("upgrade", func() { s.must(t, "dpkg", "--install", "/run/packages/"+filepath.Base(next)) })
	close(stop)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	t.Logf("%d calls", calls.Load())

	s.write(t, "drain-delay: 0s\napi-keys: true\n")
	s.must(t, "systemctl", "reload", "troupe.service")
	for end := time.Now().Add(hung); !strings.Contains(s.must(t, "journalctl", "--no-pager", "--unit=troupe.service"), "the config file was read again"); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the settings are not read again")
		}
	}
	another("other settings", func() { s.must(t, "systemctl", "restart", "troupe.service") })
	if code, out := s.run(t, "troupe", "tools", "http://127.0.0.1:8080/mcp"); code == 0 || !strings.Contains(out, "401") {
		t.Errorf("with api-keys nobody needs a key: %s", out)
	}
	if now := strings.TrimSpace(s.must(t, "systemctl", "show", "troupe-keeper.service", "--value", "--property=MainPID")); now != keeper {
		t.Errorf("the keeper was %s, and is %s after restarts and an upgrade", keeper, now)
	}
	another("kill -9", func() { s.must(t, "kill", "-9", s.property(t, "MainPID")) })
	if n := s.property(t, "NRestarts"); n != "1" {
		t.Errorf("systemd has restarted it %s times", n)
	}

	s.write(t, "no-such-setting: 1\n")
	if code, out := s.run(t, "systemctl", "restart", "troupe.service"); code == 0 {
		t.Errorf("it starts with wrong settings: %s", out)
	}
	if state := s.property(t, "ActiveState"); state != "failed" {
		t.Errorf("with wrong settings it is %s, and not left alone", state)
	}
	s.write(t, "drain-delay: 0s\n")
	s.must(t, "systemctl", "restart", "troupe.service")
	s.must(t, "troupe", "call", "http://127.0.0.1:8080/mcp", "echo", `{"text":"hello"}`)

	s.write(t, "drain-delay: 0s\nbackends:\n  demo: {command: troupe, args: [stdio], isolation: shared}\n")
	s.must(t, "systemctl", "restart", "troupe.service")
	hosted := func() (children string) {
		t.Helper()
		s.must(t, "troupe", "call", "http://127.0.0.1:8080/mcp", "demo__echo", `{"text":"hello"}`)
		return s.must(t, "sh", "-c", "cat /proc/"+keeper+"/task/*/children")
	}
	command := hosted()
	another("restart beside a command", func() { s.must(t, "systemctl", "restart", "troupe.service") })
	another("kill -9 beside a command", func() { s.must(t, "kill", "-9", s.property(t, "MainPID")) })
	if now := hosted(); now != command || strings.TrimSpace(now) == "" {
		t.Errorf("after a restart and a kill the commands are %q, and were %q", now, command)
	}

	s.must(t, "dpkg", "--remove", "troupe")
	for _, unit := range unitNames {
		if _, out := s.run(t, "systemctl", "is-active", unit); out != "inactive\n" {
			t.Errorf("after the package is removed %s is %s", unit, out)
		}
	}
	s.must(t, "dpkg", "--purge", "troupe")
	if out := s.must(t, "ls", "-A", "/var/lib/troupe"); !strings.Contains(out, "jetstream\n") {
		t.Errorf("after purging the data are %s", out)
	}
}
