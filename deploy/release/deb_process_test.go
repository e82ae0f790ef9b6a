//go:build linux

package main

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/troupe-run/troupe/test/kit/when"
)

// debianRoot makes a root directory with what the scripts of a package call, and a database of dpkg in which that is installed.
func debianRoot(t *testing.T) string {
	t.Helper()
	for _, program := range []string{"dpkg", "dpkg-deb"} {
		if _, err := exec.LookPath(program); err != nil {
			when.Lacking(t, "there is no "+program)
		}
	}
	root := t.TempDir()
	for _, dir := range []string{"usr/bin", "usr/sbin", "usr/lib", "usr/lib64", "etc", "dev", "var/lib/dpkg/info", "var/lib/dpkg/updates", "tmp"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"bin", "sbin", "lib", "lib64"} {
		if err := os.Symlink("usr/"+dir, filepath.Join(root, dir)); err != nil {
			t.Fatal(err)
		}
	}
	for _, program := range []string{"sh", "getent", "useradd", "chgrp", "kill"} {
		copyProgram(t, root, program)
	}
	arch, err := output(t.Context(), ".", nil, "dpkg", "--print-architecture")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"etc/passwd": "root:x:0:0:root:/root:/bin/sh\n", "etc/group": "root:x:0:\n", "etc/shadow": "root:*:1::::::\n", "etc/gshadow": "root:*::\n",
		"etc/login.defs": "SYS_UID_MIN 100\nSYS_UID_MAX 999\nSYS_GID_MIN 100\nSYS_GID_MAX 999\n", "dev/null": "", "var/lib/dpkg/available": "",
		"var/lib/dpkg/status": "Package: passwd\nStatus: install ok installed\nPriority: required\nSection: admin\nMaintainer: A <a@example.com>\n" +
			"Architecture: " + arch + "\nVersion: 1:4.13\nDescription: of this machine\n\n",
	} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// TestDebian installs, upgrades, removes and purges the package of this machine in a root directory of its own. The service runs with the unit's command
// and variables as the package's user; its data outlive all of it.
func TestDebian(t *testing.T) {
	r := release(t)
	if runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64" {
		t.Skipf("there is no package for %s", runtime.GOARCH)
	}
	isolate(t)
	root := debianRoot(t)
	path := func(name string) string { return filepath.Join(root, name) }
	dpkg := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "dpkg", append([]string{"--root=" + root, "--log=" + path("tmp/log")}, args...)...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("dpkg %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	there := func(want bool, names ...string) {
		t.Helper()
		for _, name := range names {
			if _, err := os.Lstat(path(name)); errors.Is(err, fs.ErrNotExist) == want {
				t.Errorf("whether there is %s: want %v", name, want)
			}
		}
	}

	debs, err := filepath.Glob(filepath.Join(r.out, "troupe_*_"+runtime.GOARCH+".deb"))
	if err != nil || len(debs) != 1 {
		t.Fatalf("the packages are %v: %v", debs, err)
	}
	dpkg("--install", debs[0])
	there(true, "usr/bin/troupe", "usr/lib/systemd/system/troupe.service", "usr/lib/systemd/system/troupe.socket", "usr/lib/systemd/system/troupe-keeper.service", "usr/share/doc/troupe/copyright", "usr/share/doc/troupe/NOTICE")
	there(false, "var/lib/troupe", "etc/systemd")
	user := userOf(t, root, "troupe")
	settings, err := os.Stat(path("etc/troupe/troupe.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if owner := settings.Sys().(*syscall.Stat_t); settings.Mode().Perm() != 0o640 || owner.Uid != 0 || int(owner.Gid) != user {
		t.Errorf("the settings have the mode %v, and belong to %d:%d", settings.Mode(), owner.Uid, owner.Gid)
	}

	unit, err := os.ReadFile(path("usr/lib/systemd/system/troupe.service"))
	if err != nil {
		t.Fatal(err)
	}
	command := regexp.MustCompile(`(?m)^ExecStart=(.+)$`).FindSubmatch(unit)
	variable := regexp.MustCompile(`(?m)^Environment=(.+)$`).FindSubmatch(unit)
	if command == nil || variable == nil {
		t.Fatalf("the unit is\n%s", unit)
	}
	words := strings.Fields(string(command[1]))
	// systemd makes StateDirectory.
	if err := errors.Join(os.Mkdir(path("var/lib/troupe"), 0o700), os.Chown(path("var/lib/troupe"), user, user)); err != nil {
		t.Fatal(err)
	}
	c := container{root: root, user: user, command: words[:1], env: []string{strings.ReplaceAll(string(variable[1]), "%S", "/var/lib"), "TROUPE_LEASE=2m"}}
	if code, out := c.troupe(t, "config", "check", "--config", "/etc/troupe/troupe.yaml"); code != 0 || !strings.Contains(out, "ok") {
		t.Errorf("the settings: %d, %s", code, out)
	}
	serve := func() {
		t.Helper()
		s := c.start(t, words[1:])
		c.becomes(t, 0, "/readyz: ready\n", "--ready")
		s.signal(t, syscall.SIGTERM)
		s.ends(t, 0)
	}
	serve()

	edited := []byte("# edited\ndrain-delay: 0s\n")
	if err := os.WriteFile(path("etc/troupe/troupe.yaml"), edited, 0o640); err != nil {
		t.Fatal(err)
	}
	dpkg("--install", nextDeb(t, r))
	if out := dpkg("--status", "troupe"); !strings.Contains(out, "\nVersion: 99.1.2\n") {
		t.Errorf("after the upgrade:\n%s", out)
	}
	if text, err := os.ReadFile(path("etc/troupe/troupe.yaml")); err != nil || !bytes.Equal(text, edited) {
		t.Errorf("after the upgrade the settings are %q: %v", text, err)
	}
	serve()

	before := digests(t, path("var/lib/troupe"))
	if len(before) == 0 {
		t.Fatal("the service has no data")
	}
	kept := func() {
		t.Helper()
		if after := digests(t, path("var/lib/troupe")); !maps.Equal(after, before) {
			t.Errorf("the data were %v, and are %v", before, after)
		}
		if id := userOf(t, root, "troupe"); id != user {
			t.Errorf("the user of the data is %d", id)
		}
	}
	dpkg("--remove", "troupe")
	there(false, "usr/bin/troupe", "usr/lib/systemd/system/troupe.service")
	there(true, "etc/troupe/troupe.yaml")
	kept()
	if out := dpkg("--purge", "troupe"); !strings.Contains(out, "the data in /var/lib/troupe are kept") {
		t.Errorf("purging says %s", out)
	}
	there(false, "etc/troupe/troupe.yaml", "usr/share/doc/troupe")
	kept()
}

// nextDeb makes the package of a later release, out of the same program.
func nextDeb(t *testing.T, r published) string {
	t.Helper()
	dir := unpack(t, filepath.Join(r.out, "troupe_"+r.version+"_linux_"+runtime.GOARCH+".tar.gz"))
	read := func(name string) []byte {
		t.Helper()
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	d := debian{version: "v99.1.2", compression: "none", arch: runtime.GOARCH, src: source{dir: r.checkout}, files: tree{"troupe": executable(read("troupe")), "NOTICE": regular(read("NOTICE"))}, units: tree{}}
	for _, name := range append([]string{"troupe.yaml"}, unitNames...) {
		d.units[name] = regular(read("systemd/" + name))
	}
	info, err := os.Stat(filepath.Join(r.checkout, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	d.src.time = info.ModTime()
	to := filepath.Join(t.TempDir(), d.fileName())
	var b bytes.Buffer
	if err := errors.Join(d.write(&b, t.TempDir()), os.WriteFile(to, b.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	return to
}

// TestUnits holds the units to what systemd knows of them: nothing in them is wrong, and the service is exposed to little. The program that they name is
// in the root directory of the test, as a package would put it.
func TestUnits(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		when.Lacking(t, "there is no systemd-analyze")
	}
	var paths []string
	for _, unit := range unitNames {
		paths = append(paths, "../systemd/"+unit)
	}
	root := t.TempDir()
	dir := filepath.Join(root, "usr/lib/systemd/system")
	copyFile(t, "/bin/true", filepath.Join(root, "usr/bin/troupe"))
	copyFile(t, "/bin/true", filepath.Join(root, "bin/kill"))
	targets, err := filepath.Glob("/usr/lib/systemd/system/*.target")
	if err != nil {
		t.Fatal(err)
	}
	for _, unit := range append(targets, paths...) {
		copyFile(t, unit, filepath.Join(dir, filepath.Base(unit)))
		if err := os.Chmod(filepath.Join(dir, filepath.Base(unit)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	verify := exec.CommandContext(t.Context(), "systemd-analyze", "verify", "--recursive-errors=no", "--man=no", "--root="+root)
	verify.Args = append(verify.Args, unitNames...)
	if out, err := verify.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
	// The threshold is ten times the exposure, which must be so much at most; the keeper leaves programs of others what they need.
	for unit, most := range map[string]string{"troupe.service": "20", "troupe-keeper.service": "25"} {
		security := exec.CommandContext(t.Context(), "systemd-analyze", "security", "--offline=yes", "--no-pager", "--threshold="+most, "../systemd/"+unit)
		if out, err := security.CombinedOutput(); err != nil {
			t.Errorf("systemd-analyze security: %v\n%s", err, out)
		}
	}
}
