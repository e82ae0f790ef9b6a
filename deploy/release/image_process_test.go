//go:build linux

package main

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/troupe-run/troupe/test/kit/when"
)

// image returns the image for a processor, as the layout of the release has it.
func image(t *testing.T, arch string) v1.Image {
	t.Helper()
	r := release(t)
	if !slices.Contains(r.platforms, platform{"linux", arch}) {
		t.Skipf("the release that is looked at has nothing for linux/%s", arch)
	}
	all, err := layout.ImageIndexFromPath(filepath.Join(r.out, "image"))
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(all); err != nil {
		t.Fatal(err)
	}
	list, err := all.IndexManifest()
	if err != nil || len(list.Manifests) != 1 {
		t.Fatalf("the layout has %v: %v", list, err)
	}
	digest, err := os.ReadFile(filepath.Join(r.out, "image.digest"))
	if err != nil || string(digest) != list.Manifests[0].Digest.String()+"\n" {
		t.Errorf("image.digest says %q, and the layout %s: %v", digest, list.Manifests[0].Digest, err)
	}
	index, err := all.ImageIndex(list.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	if list, err = index.IndexManifest(); err != nil {
		t.Fatalf("the index has %v: %v", list, err)
	}
	for _, m := range list.Manifests {
		if m.Platform.OS == "linux" && m.Platform.Architecture == arch {
			img, err := index.Image(m.Digest)
			if err != nil {
				t.Fatal(err)
			}
			return img
		}
	}
	t.Fatalf("the index has no image for %s", arch)
	return nil
}

// unpackImage unpacks an image as a container runtime does, and returns what it runs, by the configuration of the image alone.
func unpackImage(t *testing.T, arch string) container {
	t.Helper()
	img := image(t, arch)
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	c := container{root: t.TempDir(), env: config.Config.Env, command: config.Config.Entrypoint}
	user, group, _ := strings.Cut(config.Config.User, ":")
	if c.user, err = strconv.Atoi(user); err != nil || user != group || c.user != 65532 {
		t.Fatalf("the image's user is %q", config.Config.User)
	}
	if strings.Join(config.Config.Cmd, " ") != "serve" || config.Architecture != arch || config.Config.Labels["org.opencontainers.image.version"] != release(t).version {
		t.Errorf("the image is configured as %+v", config)
	}
	files := mutate.Extract(img)
	defer func() { _ = files.Close() }()
	untar(t, files, c.root)
	return c
}

// TestImage runs the image as the first process of a container of its own, with the settings that it has and a root of which its user can write
// /data alone: troupe health is right in each state, and clients get over kill -9 and SIGTERM.
func TestImage(t *testing.T) {
	c := unpackImage(t, "amd64")
	if id := userOf(t, c.root, "troupe"); id != c.user {
		t.Errorf("/etc/passwd has troupe as %d", id)
	}
	err := filepath.WalkDir(c.root, func(name string, f fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := f.Info()
		if err != nil {
			return err
		}
		owner := info.Sys().(*syscall.Stat_t)
		writable := int(owner.Uid) == c.user || int(owner.Gid) == c.user || info.Mode().Perm()&0o022 != 0
		if writable != (name == filepath.Join(c.root, "data")) && name != c.root {
			t.Errorf("%s has the mode %v, and belongs to %d:%d", strings.TrimPrefix(name, c.root), info.Mode(), owner.Uid, owner.Gid)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}

	isolate(t)
	const url = "http://127.0.0.1:8080/mcp"
	c.is(t, 1, "cannot be asked")
	// A busy machine may keep it from renewing a shorter lease.
	s := c.start(t, []string{"serve"}, "TROUPE_LEASE=2m", "TROUPE_DRAIN_DELAY=0s")
	c.becomes(t, 0, "/readyz: ready\n", "--ready")
	c.is(t, 0, "/healthz: ok\n")

	if code, out := c.troupe(t, "tools", url); code == 0 {
		t.Errorf("without a key it shows its tools: %s", out)
	}
	code, out := c.troupe(t, "keys", "create", "--name", "test", "--json")
	var key struct{ Secret string }
	if err := json.Unmarshal([]byte(out), &key); code != 0 || err != nil || key.Secret == "" {
		t.Fatalf("keys create ends with %d: %s", code, out)
	}
	call := func(tool, arguments string) *process {
		t.Helper()
		return begin(t, c.prepare([]string{"call", url, tool, arguments, "--revision", "2025-11-25", "--token", key.Secret}, nil))
	}
	echo := call("echo", `{"text":"all the world's a stage"}`)
	echo.ends(t, 0)
	if !strings.Contains(echo.said.String(), "all the world's a stage") {
		t.Errorf("echo answers %s", echo.said)
	}

	killed := call("count", `{"to":6,"delay_ms":500}`)
	killed.await(t, "2 of 6")
	s.signal(t, syscall.SIGKILL)
	s.ends(t, -1)
	c.is(t, 1, "cannot be asked")
	s = c.start(t, []string{"serve"}, "TROUPE_LEASE=2m", "TROUPE_DRAIN_DELAY=0s")
	killed.ends(t, 0)
	if !strings.Contains(killed.said.String(), "counted to 6") {
		t.Errorf("a call over kill -9 ends with %s", killed.said)
	}

	drained := call("count", `{"to":6,"delay_ms":500}`)
	drained.await(t, "2 of 6")
	s.signal(t, syscall.SIGTERM)
	s.ends(t, 0)
	s = c.start(t, []string{"serve"}, "TROUPE_LEASE=2m", "TROUPE_DRAIN_DELAY=1h")
	drained.ends(t, 0)
	if !strings.Contains(drained.said.String(), "counted to 6") {
		t.Errorf("a call over a drain ends with %s", drained.said)
	}

	c.becomes(t, 0, "/readyz: ready\n", "--ready")
	s.signal(t, syscall.SIGTERM)
	c.becomes(t, 1, "503: draining\n", "--ready")
	c.is(t, 0, "/healthz: ok\n")
	s.signal(t, syscall.SIGTERM)
	s.ends(t, 1)
	c.is(t, 1, "cannot be asked", "--ready")
}

// TestImageOnArm64 runs the image for the other processor under an emulator.
func TestImageOnArm64(t *testing.T) {
	c := unpackImage(t, "arm64")
	emulator, err := exec.LookPath("qemu-aarch64-static")
	if err != nil {
		when.Lacking(t, "there is no qemu-aarch64-static (of Debian's qemu-user-static)")
	}
	copyFile(t, emulator, filepath.Join(c.root, "emulator"))
	c.command = append([]string{"/emulator"}, c.command...)
	isolate(t)
	if code, out := c.troupe(t, "version"); code != 0 || !regexp.MustCompile(`(?m)^go\S+ linux/arm64$`).MatchString(out) {
		t.Fatalf("troupe version ends with %d: %s", code, out)
	}
	s := c.start(t, []string{"serve"}, "TROUPE_LEASE=2m", "TROUPE_DRAIN_DELAY=0s", "TROUPE_API_KEYS=false", "TROUPE_ALLOW_ANONYMOUS=true")
	c.becomes(t, 0, "/readyz: ready\n", "--ready")
	c.is(t, 0, "/healthz: ok\n")
	if code, out := c.troupe(t, "call", "http://127.0.0.1:8080/mcp", "echo", `{"text":"all the world's a stage"}`); code != 0 || !strings.Contains(out, "all the world's a stage") {
		t.Errorf("echo ends with %d: %s", code, out)
	}
	s.signal(t, syscall.SIGTERM)
	s.ends(t, 0)
	c.is(t, 1, "cannot be asked")
}
