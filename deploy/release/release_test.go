package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestCommandLine refuses what would make something else than was meant.
func TestCommandLine(t *testing.T) {
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "a"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"--out names no directory":       nil,
		"not defined: -verson":           {"--verson", "v0.1.0"},
		"\"there\" is no flag":           {"--out", "x", "there"},
		"is no platform of a release":    {"--out", t.TempDir(), "--only", "linux/amd64,plan9/386"},
		"has files already, such as a":   {"--out", full, "--only", "linux/amd64"},
		"\"0.1\" is no version such as":  {"--out", t.TempDir(), "--version", "0.1"},
		"\"v0.1\" is no version such as": {"--out", t.TempDir(), "--version", "v0.1"},
	} {
		if err := run(t.Context(), args, io.Discard, io.Discard); !errors.Is(err, errUsage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want an error of usage with %q", args, err, want)
		}
	}
	var said bytes.Buffer
	if err := run(t.Context(), []string{"--help"}, &said, io.Discard); err != nil || !strings.Contains(said.String(), "SHA256SUMS") {
		t.Errorf("--help: %v, %s", err, said.String())
	}
}

func TestPlatforms(t *testing.T) {
	for only, want := range map[string]string{
		"": "linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64", "windows/arm64,linux/amd64": "linux/amd64 windows/arm64",
	} {
		if got, err := parsePlatforms(only); err != nil || strings.Join(names(got), " ") != want {
			t.Errorf("%q: got %v, %v, want %s", only, got, err, want)
		}
	}
}

// repository makes a repository of one commit and returns its directory and the commit.
func repository(t *testing.T) (dir, commit string) {
	t.Helper()
	dir = t.TempDir()
	for _, command := range [][]string{
		{"git", "init", "--quiet", "."}, {"git", "config", "user.name", "A"}, {"git", "config", "user.email", "a@example.com"},
		{"git", "commit", "--quiet", "--allow-empty", "--message", "one", "--date", "2026-01-02T03:04:05Z"},
	} {
		if _, err := output(t.Context(), dir, []string{"GIT_COMMITTER_DATE=2026-01-02T03:04:05Z"}, command[0], command[1:]...); err != nil {
			t.Fatal(err)
		}
	}
	commit, err := output(t.Context(), dir, nil, "git", "rev-parse", "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	return dir, commit
}

// TestVersionOfTheCommit clones a commit with the tag that it is asked for, and refuses one that another commit has.
func TestVersionOfTheCommit(t *testing.T) {
	dir, commit := repository(t)
	t.Setenv("SOURCE_DATE_EPOCH", "")
	var said bytes.Buffer
	o := order{source: dir, version: "v1.2.3", log: progress{&said}}
	src, err := o.clone(t.Context(), filepath.Join(t.TempDir(), "src"))
	if err != nil {
		t.Fatal(err)
	}
	if want := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC); src.commit != commit || !src.time.Equal(want) {
		t.Errorf("got commit %s of %v, want %s of %v", src.commit, src.time, commit, want)
	}
	if tag, err := output(t.Context(), src.dir, nil, "git", "describe", "--tags", "--exact-match"); err != nil || tag != "v1.2.3" {
		t.Errorf("the clone has the tag %q: %v", tag, err)
	}
	if tag, err := output(t.Context(), dir, nil, "git", "tag"); err != nil || tag != "" {
		t.Errorf("the checkout has the tag %q: %v", tag, err)
	}

	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	if err := os.WriteFile(filepath.Join(dir, "new"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if src, err = o.clone(t.Context(), filepath.Join(t.TempDir(), "src")); err != nil || src.time.Unix() != 1700000000 {
		t.Errorf("with SOURCE_DATE_EPOCH everything is of %v: %v", src.time, err)
	}
	if _, err := os.Stat(filepath.Join(src.dir, "new")); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(said.String(), "in no commit") {
		t.Errorf("a file that is in no commit: %v, told %q", err, said.String())
	}
	t.Setenv("SOURCE_DATE_EPOCH", "yesterday")
	if _, err = o.clone(t.Context(), filepath.Join(t.TempDir(), "src")); err == nil {
		t.Error("SOURCE_DATE_EPOCH may be no number")
	}

	t.Setenv("SOURCE_DATE_EPOCH", "")
	for _, command := range [][]string{{"tag", "--no-sign", "v1.2.3"}, {"commit", "--quiet", "--allow-empty", "--message", "two"}} {
		if _, err := output(t.Context(), dir, nil, "git", command...); err != nil {
			t.Fatal(err)
		}
	}
	if _, err = o.clone(t.Context(), filepath.Join(t.TempDir(), "src")); err == nil || !strings.Contains(err.Error(), "is the tag of commit "+commit) {
		t.Errorf("the tag of another commit: %v", err)
	}
}

// TestTrees writes equal bytes for equal files, with the directories that they are in.
func TestTrees(t *testing.T) {
	files := tree{"b/c/d": executable([]byte("d")), "a": regular([]byte("a")), "data": {mode: fs.ModeDir | 0o700, owner: 65532}}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var b, again bytes.Buffer
	if err := errors.Join(files.writeTar(&b, at), files.writeTar(&again, at)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b.Bytes(), again.Bytes()) {
		t.Error("the same files are other bytes")
	}
	var got []string
	for r := tar.NewReader(&b); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if !h.ModTime.Equal(at) {
			t.Errorf("%s is of %v", h.Name, h.ModTime)
		}
		got = append(got, strings.Join([]string{h.FileInfo().Mode().String(), h.Name}, " "))
	}
	want := "-rw-r--r-- a, drwxr-xr-x b/, drwxr-xr-x b/c/, -rwxr-xr-x b/c/d, drwx------ data/"
	if strings.Join(got, ", ") != want {
		t.Errorf("got %s, want %s", strings.Join(got, ", "), want)
	}
}

func TestNotes(t *testing.T) {
	const changelog = "# Changelog\n\nOf all.\n\n## [0.2.0] - 2027-01-01\n\n### Added\n\n- two: [limits](docs/limits.md#2), [others](https://example.com/a.md)\n\n## [0.1.0]\n\n- one\n"
	const two = "### Added\n\n- two: [limits](https://github.com/troupe-run/troupe/blob/REF/docs/limits.md#2), [others](https://example.com/a.md)\n"
	for number, want := range map[string]string{"0.2.0": two, "0.1.0": "- one\n", "0.0.0-20261128102349-e020c3fc1234": two} {
		if got, err := notesOf(changelog, number, "REF"); err != nil || got != want {
			t.Errorf("%s: got %q, %v, want %q", number, got, err, want)
		}
	}
	if got, err := notesOf(changelog, "0.3.0", "REF"); err == nil {
		t.Errorf("a version that CHANGELOG.md lacks has the notes %q", got)
	}
}

// TestAuthorities reads the certificates of the image as a program does.
func TestAuthorities(t *testing.T) {
	roots, err := authorities()
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(roots, []byte("-----BEGIN CERTIFICATE-----")); n < 100 {
		t.Errorf("there are %d certificates", n)
	}
}

// TestWorkflows lints the workflows, where the linter can be had.
func TestWorkflows(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the linter: runs without -short")
	}
	files, err := filepath.Glob("../../.github/workflows/*.yml")
	if err != nil || len(files) < 3 {
		t.Fatalf("the workflows are %v: %v", files, err)
	}
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"run", "github.com/rhysd/actionlint/cmd/actionlint@v1.7.12", "-shellcheck=", "-pyflakes="}, files...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("actionlint: %v\n%s", err, out)
	}
}
