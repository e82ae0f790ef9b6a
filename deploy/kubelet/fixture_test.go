//go:build linux

package kubelet

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/troupe-run/troupe/deploy/chart"
	"github.com/troupe-run/troupe/test/kit/when"
)

// buildDir is where programs are built; TestMain makes and removes it.
var buildDir string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "troupe-kubelet-")
	if err != nil {
		panic(err)
	}
	buildDir = dir
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// troupe is the program, built from the module beside this one, as it is released.
var troupe = sync.OnceValues(func() (string, error) { return build("troupe", filepath.Join("..", ".."), "./cmd/troupe") })

// stand is a program that does not work as it should.
var stand = sync.OnceValues(func() (string, error) { return build("stand", ".", "./testdata/stand") })

func build(name, dir, path string) (string, error) {
	to := filepath.Join(buildDir, name)
	cmd := exec.Command("go", "build", "-o", to, path)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build %s: %w\n%s", path, err, out)
	}
	return to, nil
}

// programs builds what the images of tests stand for. It skips a test that cannot run them.
func programs(t *testing.T) (works, stands string) {
	t.Helper()
	if testing.Short() {
		t.Skip("builds the program and starts processes")
	}
	when.Unraced(t, "the processes are built without the detector")
	if os.Geteuid() != 0 {
		t.Skip("only root can give processes a root directory and a user of their own")
	}
	works, err := troupe()
	stands, err2 := stand()
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	return works, stands
}

// image has the variables of the image that deploy/release makes.
func image(program string) Image {
	return Image{program, []string{"PATH=/usr/local/bin", "TROUPE_LISTEN=0.0.0.0:8080", "TROUPE_DATA=/data", "TROUPE_API_KEYS=true"}}
}

// directory is one for pods, with a short name: a path of a socket has at most 108 characters.
func directory(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pods-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// shipped is the chart.
var shipped = sync.OnceValues(func() (*chart.Chart, error) { return chart.Load(filepath.Join("..", "helm", "troupe")) })

// render renders the chart with values, or fails the test.
func render(t *testing.T, revision int, text string) *chart.Rendered {
	t.Helper()
	c, err := shipped()
	if err != nil {
		t.Fatal(err)
	}
	values, err := chart.Values(text)
	if err != nil {
		t.Fatal(err)
	}
	r, err := c.Render(t.Context(), chart.Release{Name: "prod", Namespace: "mcp", Revision: revision}, values)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// given is how many addresses the tests of this process have.
var given atomic.Int32

// addresses returns n addresses of this machine alone that no other test has, nor another process.
func addresses(n int) (all []string) {
	end := int(given.Add(int32(n)))
	for i := end - n; i < end; i++ {
		all = append(all, fmt.Sprintf("127.%d.%d.%d", 64+os.Getpid()/256%128, os.Getpid()%256, 10+i))
	}
	return all
}
