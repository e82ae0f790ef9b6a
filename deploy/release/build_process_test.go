//go:build unix

package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/mod/module"
)

var (
	// only limits the platforms, as --only does: linux/amd64 alone is the fastest.
	only = flag.String("only", "linux/amd64,linux/arm64", "`platforms` to build, with commas between them; all if it is empty")
	// made is a release of the commit that is checked out, such as one that is about to be published.
	made = flag.String("made", "", "`directory` with a release to look at, in place of one that the tests make")
	// cold has TestReproducible compile everything anew for the second release: with all platforms half an hour on two cores.
	cold = flag.Bool("cold", false, "build the second time without what the first has compiled")
)

// scratch is removed at the end of all tests.
var scratch string

func TestMain(m *testing.M) {
	var err error
	if scratch, err = os.MkdirTemp("", "troupe-release-test-"); err != nil {
		panic(err)
	}
	// Programs of administrators are where not everybody looks for programs.
	if err := os.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin:/sbin"); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(scratch)
	os.Exit(code)
}

// published is a release.
type published struct {
	checkout, out, version string
	platforms              []platform
}

// look says what release there is in a directory.
func look(checkout, out string) (r published, err error) {
	r = published{checkout: checkout, out: out}
	for _, p := range allPlatforms {
		kind := "_" + p.os + "_" + p.arch + ".cdx.json"
		bills, err := filepath.Glob(filepath.Join(out, "troupe_*"+kind))
		if err != nil || len(bills) > 1 {
			return r, fmt.Errorf("the bills of materials for %s are %v: %w", p, bills, err)
		}
		if len(bills) == 1 {
			r.platforms = append(r.platforms, p)
			r.version = strings.TrimSuffix(strings.TrimPrefix(filepath.Base(bills[0]), "troupe_"), kind)
		}
	}
	if len(r.platforms) == 0 {
		return r, fmt.Errorf("%s has no release", out)
	}
	return r, nil
}

// makeRelease makes a release in directories of its own. It has the version that Go makes of the commit, as the tag of the next one may be there already.
func makeRelease(ctx context.Context, dir string, platforms []platform, version string) (r published, err error) {
	checkout, out := filepath.Join(dir, "checkout"), filepath.Join(dir, "out")
	top, err := output(ctx, ".", nil, "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return r, err
	}
	if _, err := output(ctx, ".", nil, "git", "clone", "--quiet", "--no-hardlinks", top, checkout); err != nil {
		return r, err
	}
	o := order{source: checkout, out: out, platforms: platforms, version: version, log: progress{os.Stderr}}
	if err := o.make(ctx); err != nil {
		return r, err
	}
	return look(checkout, out)
}

var firstRelease = sync.OnceValues(func() (published, error) {
	if *made != "" {
		top, err := output(context.Background(), ".", nil, "git", "rev-parse", "--show-toplevel")
		if err != nil {
			return published{}, err
		}
		return look(top, *made)
	}
	platforms, err := parsePlatforms(*only)
	if err != nil {
		return published{}, err
	}
	return makeRelease(context.Background(), filepath.Join(scratch, "first"), platforms, "")
})

// release returns the release that all tests look at.
func release(t *testing.T) published {
	t.Helper()
	if testing.Short() {
		t.Skip("builds programs, which takes minutes: runs without -short")
	}
	r, err := firstRelease()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// digests are those of all files below a directory.
func digests(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, f fs.DirEntry, err error) error {
		if err != nil || f.IsDir() {
			return err
		}
		data, err := os.ReadFile(filepath.Join(dir, name))
		all[name] = fmt.Sprintf("%x", sha256.Sum256(data))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestReproducible makes the same commit twice: in directories of other names and lengths, in another time zone, and for a user whose files
// nobody else can read.
func TestReproducible(t *testing.T) {
	first := release(t)
	t.Setenv("TZ", "Pacific/Kiritimati")
	defer syscall.Umask(syscall.Umask(0o077))
	if *cold {
		t.Setenv("GOCACHE", filepath.Join(scratch, "cache"))
	}
	version := "v" + first.version
	if module.IsPseudoVersion(version) {
		version = ""
	}
	second, err := makeRelease(t.Context(), filepath.Join(scratch, "a directory", "of", "another", "name"), first.platforms, version)
	if err != nil {
		t.Fatal(err)
	}
	one, two := digests(t, first.out), digests(t, second.out)
	if len(one) < 7 || len(one) != len(two) {
		t.Errorf("the releases have %d and %d files", len(one), len(two))
	}
	for name, digest := range one {
		if two[name] != digest {
			t.Errorf("%s has the digests %s and %q", name, digest, two[name])
		}
	}
}

// TestChecksums holds SHA256SUMS to the files beside it: each is in it, and it is right.
func TestChecksums(t *testing.T) {
	r := release(t)
	text, err := os.ReadFile(filepath.Join(r.out, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	all := digests(t, r.out)
	listed := map[string]bool{"SHA256SUMS": true}
	for line := range strings.Lines(string(text)) {
		sum, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		listed[name] = true
		if all[name] != sum {
			t.Errorf("%s has the digest %q, and SHA256SUMS says %s", name, all[name], sum)
		}
	}
	for name := range all {
		if !listed[name] && !strings.HasPrefix(name, "image/") {
			t.Errorf("SHA256SUMS lacks %s", name)
		}
	}
	if _, err := exec.LookPath("sha256sum"); err == nil {
		if out, err := output(t.Context(), r.out, nil, "sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"); err != nil {
			t.Errorf("sha256sum: %v, %s", err, out)
		}
	}
}

// archives are those of programs.
func (r published) archives(t *testing.T) (all []string) {
	t.Helper()
	for _, kind := range []string{".tar.gz", ".zip"} {
		found, err := filepath.Glob(filepath.Join(r.out, "troupe_*"+kind))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, found...)
	}
	if len(all) != len(r.platforms) {
		t.Fatalf("the archives are %v, want those of %v", all, r.platforms)
	}
	return all
}

// bare is the name of an archive without its kind.
func bare(archive string) string {
	return strings.TrimSuffix(strings.TrimSuffix(archive, ".zip"), ".tar.gz")
}

// unpack unpacks an archive, and returns the directory that it has everything in.
func unpack(t *testing.T, archive string) string {
	t.Helper()
	dir := t.TempDir()
	if strings.HasSuffix(archive, ".zip") {
		r, err := zip.OpenReader(archive)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = r.Close() }()
		if err := os.CopyFS(dir, r); err != nil {
			t.Fatal(err)
		}
		return filepath.Join(dir, filepath.Base(bare(archive)))
	}
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	r, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	untar(t, r, dir)
	return filepath.Join(dir, filepath.Base(bare(archive)))
}

// untar writes what an archive has to a directory, with its owners if root runs it.
func untar(t *testing.T, from io.Reader, dir string) {
	t.Helper()
	for r := tar.NewReader(from); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(dir, filepath.FromSlash(h.Name))
		switch h.Typeflag {
		case tar.TypeDir:
			err = os.MkdirAll(to, 0o700)
		case tar.TypeReg:
			var data []byte
			if data, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(to, data, 0o600)
			}
		default:
			t.Fatalf("%s is neither a file nor a directory", h.Name)
		}
		if err == nil && os.Geteuid() == 0 {
			err = os.Chown(to, h.Uid, h.Gid)
		}
		if err := errors.Join(err, os.Chmod(to, h.FileInfo().Mode().Perm())); err != nil {
			t.Fatal(err)
		}
	}
}

// TestBills holds each bill of materials to what `go version -m` says of the program in the archive beside it, and the archive to the bill: it has a
// licence of each module.
func TestBills(t *testing.T) {
	r := release(t)
	for _, archive := range r.archives(t) {
		dir := unpack(t, archive)
		name := "troupe"
		if strings.HasSuffix(archive, ".zip") {
			name = "troupe.exe"
		}
		said, err := output(t.Context(), dir, nil, "go", "version", "-m", name)
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		release := regexp.MustCompile(`^troupe(?:\.exe)?: go(\S+)`).FindStringSubmatch(said)
		if release == nil {
			t.Fatalf("go version -m says %s", said)
		}
		want = append(want, "std v"+release[1])
		for _, m := range regexp.MustCompile(`(?m)^\t(mod|dep)\t(\S+)\t(\S+)`).FindAllStringSubmatch(said, -1) {
			want = append(want, m[2]+" "+m[3])
		}
		text, err := os.ReadFile(bare(archive) + ".cdx.json")
		if err != nil {
			t.Fatal(err)
		}
		var b bill
		if err := json.Unmarshal(text, &b); err != nil {
			t.Fatal(err)
		}
		got := []string{b.Metadata.Component.Name + " " + b.Metadata.Component.Version}
		refs := map[string]bool{}
		for _, c := range append(b.Components, b.Metadata.Component) {
			if refs[c.Ref] || len(c.Licences) == 0 {
				t.Errorf("%s: %s %s has the name of another, or no licence", archive, c.Name, c.Version)
			}
			refs[c.Ref] = true
		}
		for _, c := range b.Components {
			got = append(got, c.Name+" "+c.Version)
			directory := filepath.Join(dir, "licences", filepath.FromSlash(c.Name+"@"+c.Version))
			if c.Name == "std" {
				directory = filepath.Join(dir, "licences", "go@"+release[1])
			}
			if texts, err := os.ReadDir(directory); err != nil || len(texts) == 0 {
				t.Errorf("%s has no licence of %s %s: %v", archive, c.Name, c.Version, err)
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) || len(got) < 40 {
			t.Errorf("%s: the bill lists\n%s\nand go version -m\n%s", archive, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		for _, file := range []string{"LICENSE", "NOTICE", "systemd/troupe.service", "systemd/troupe.socket", "systemd/troupe-keeper.service", "systemd/troupe.yaml"} {
			if _, err := os.Stat(filepath.Join(dir, file)); err != nil && (strings.Contains(archive, "_linux_") || !strings.HasPrefix(file, "systemd")) {
				t.Error(err)
			}
		}
	}
}

// TestProgram asks the program of this machine what it is: static, of the commit and of the version that the files are named for.
func TestProgram(t *testing.T) {
	r := release(t)
	dir := unpack(t, filepath.Join(r.out, "troupe_"+r.version+"_linux_amd64.tar.gz"))
	commit, err := output(t.Context(), r.checkout, nil, "git", "rev-parse", "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	said, err := output(t.Context(), dir, nil, "./troupe", "version")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"troupe v" + r.version + "\n", "\ncommit " + commit + " of ", "\ncodec: sonic native\n"} {
		if !strings.Contains(said, want) {
			t.Errorf("troupe version says %q and lacks %q", said, want)
		}
	}
	binary, err := elf.Open(filepath.Join(dir, "troupe"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = binary.Close() }()
	for _, part := range binary.Progs {
		if part.Type == elf.PT_INTERP || part.Type == elf.PT_DYNAMIC {
			t.Errorf("the program has %v: it is not static", part.Type)
		}
	}

	// The same commit with a tag has its version.
	o := order{source: r.checkout, version: "v0.99.2", platforms: allPlatforms[:1], log: progress{os.Stderr}}
	src, err := o.clone(t.Context(), filepath.Join(t.TempDir(), "src"))
	if err != nil {
		t.Fatal(err)
	}
	programs, err := o.build(t.Context(), src, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if said, err := output(t.Context(), ".", nil, programs[0].path, "version"); err != nil || !strings.HasPrefix(said, "troupe v0.99.2\n") {
		t.Errorf("with the tag v0.99.2 troupe version says %q: %v", said, err)
	}
}
