package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// product is the module that has releases.
const product = "github.com/troupe-run/troupe"

// proxy makes a proxy of modules that has the commit as a version, as proxy.golang.org will once the tag is there.
func proxy(t *testing.T, version string) (dir string) {
	t.Helper()
	top, err := output(t.Context(), ".", nil, "git", "rev-parse", "--show-toplevel")
	if err != nil {
		t.Fatal(err)
	}
	checkout := filepath.Join(t.TempDir(), "checkout")
	if _, err := output(t.Context(), ".", nil, "git", "clone", "--quiet", "--no-hardlinks", top, checkout); err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	versions := filepath.Join(dir, filepath.FromSlash(product), "@v")
	if err := os.MkdirAll(versions, 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(versions, version+".zip"))
	if err != nil {
		t.Fatal(err)
	}
	if err := zip.CreateFromVCS(f, module.Version{Path: product, Version: version}, checkout, "HEAD", ""); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	goMod, err := os.ReadFile(filepath.Join(checkout, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	info, err := json.Marshal(map[string]any{"Version": version, "Time": time.Unix(0, 0).UTC()})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{version + ".mod": goMod, version + ".info": info, "list": []byte(version + "\n")} {
		if err := os.WriteFile(filepath.Join(versions, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestModules has a stranger, whose module cache is empty, install the command and use the library by the version v0.1.0, in a directory that has nothing of
// this repository.
func TestModules(t *testing.T) {
	if testing.Short() {
		t.Skip("builds programs, which takes minutes: runs without -short")
	}
	const version = "v0.1.0"
	cache, err := output(t.Context(), ".", nil, "go", "env", "GOMODCACHE")
	if err != nil {
		t.Fatal(err)
	}
	others, err := output(t.Context(), ".", nil, "go", "env", "GOPROXY")
	if err != nil {
		t.Fatal(err)
	}
	dir, bin := t.TempDir(), t.TempDir()
	env := []string{
		// What this machine has downloaded of others is not downloaded again. Its sums are known.
		"GOPROXY=file://" + proxy(t, version) + ",file://" + filepath.ToSlash(filepath.Join(cache, "cache", "download")) + "," + others,
		"GOSUMDB=off", "GOMODCACHE=" + t.TempDir(), "GOBIN=" + bin, "GOFLAGS=-modcacherw -trimpath", "GOWORK=off", "GOPATH=" + t.TempDir(),
	}
	in := func(name string, args ...string) string {
		t.Helper()
		out, err := output(t.Context(), dir, env, name, args...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	in("go", "install", product+"/cmd/troupe@"+version)
	if said := in(filepath.Join(bin, "troupe"), "version"); !strings.HasPrefix(said, "troupe "+version+"\n") || strings.Contains(said, "\ncommit ") {
		t.Errorf("the installed command says %q", said)
	}

	hello, err := os.ReadFile("../../examples/hello/main.go")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "main.go"), hello, 0o644); err != nil {
		t.Fatal(err)
	}
	in("go", "mod", "init", "example.com/hello")
	in("go", "get", product+"@"+version)
	in("go", "build", "-o", "hello", ".")
	if said := in("go", "version", "-m", "hello"); !strings.Contains(said, "\tdep\t"+product+"\t"+version+"\t") {
		t.Errorf("the program is linked with\n%s", said)
	}
}

// TestOnlyTheProductHasTags holds CONTRIBUTING.md to the modules of the repository: it names each, and all but the product are programs of a checkout,
// which cannot be installed by a version.
func TestOnlyTheProductHasTags(t *testing.T) {
	contributing, err := os.ReadFile("../../CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	listed, err := output(t.Context(), "../..", nil, "git", "ls-files", "go.mod", "*/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.Lines(listed) {
		name = strings.TrimSpace(name)
		text, err := os.ReadFile(filepath.Join("../..", name))
		if err != nil {
			t.Fatal(err)
		}
		mod, err := modfile.Parse(name, text, nil)
		if err != nil {
			t.Fatal(err)
		}
		if name == "go.mod" {
			if mod.Module.Mod.Path != product || len(mod.Replace)+len(mod.Exclude) > 0 {
				t.Errorf("%s cannot be installed by its version: it is %s, with %d replacements and %d exclusions", name, mod.Module.Mod.Path, len(mod.Replace), len(mod.Exclude))
			}
			continue
		}
		if dir := filepath.ToSlash(filepath.Dir(name)); !strings.Contains(string(contributing), "`"+dir+"`") {
			t.Errorf("CONTRIBUTING.md does not say why the module in %s has no tags", dir)
		}
	}
}
