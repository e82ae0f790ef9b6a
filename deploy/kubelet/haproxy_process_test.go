//go:build linux && full

package kubelet

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/bench/program"
)

// haproxy is HAProxy in front of the pods of a cluster.
type haproxy struct {
	t         *testing.T
	url       string
	socket    string
	addresses []string
}

// startHAProxy starts HAProxy with a server for each address that a pod may have; none gets requests before a pod is ready there.
func startHAProxy(t *testing.T, dir string, addresses []string) *haproxy {
	t.Helper()
	bin, err := exec.LookPath("haproxy")
	if err != nil {
		if bin, err = exec.LookPath("/usr/sbin/haproxy"); err != nil {
			t.Fatal("haproxy is not installed: apt-get install haproxy")
		}
	}
	text, err := os.ReadFile(filepath.Join("testdata", "haproxy.cfg"))
	if err != nil {
		t.Fatal(err)
	}
	address, err := program.FreeAddress(uint64(os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	h := &haproxy{t: t, url: "http://" + address + "/mcp", socket: filepath.Join(dir, "haproxy.sock"), addresses: addresses}
	var servers strings.Builder
	for _, a := range addresses {
		fmt.Fprintf(&servers, "\tserver %s %s:8080 disabled\n", a, a)
	}
	file := filepath.Join(dir, "haproxy.cfg")
	filled := strings.NewReplacer("SERVERS\n", servers.String(), "bind ADDRESS", "bind "+address, "unix@SOCKET", "unix@"+h.socket).Replace(string(text))
	if err := os.WriteFile(file, []byte(filled), 0o644); err != nil {
		t.Fatal(err)
	}
	p := &program.Process{Name: "haproxy", Bin: bin, Addr: address, Args: []string{"-db", "-f", file}}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.End() })
	if err := p.UntilReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	return h
}

// route has exactly the pods at these addresses get requests.
func (h *haproxy) route(ready []string) {
	for _, a := range h.addresses {
		state := "maint"
		if slices.Contains(ready, a) {
			state = "ready"
		}
		if said, err := h.tell(fmt.Sprintf("set server pods/%s state %s", a, state)); err != nil || said != "" {
			h.t.Errorf("HAProxy says %q, %v", said, err)
		}
	}
}

// tell sends a command to HAProxy, and returns what it says.
func (h *haproxy) tell(command string) (string, error) {
	c, err := net.Dial("unix", h.socket)
	if err != nil {
		return "", err
	}
	defer func() { _ = c.Close() }()
	if _, err := fmt.Fprintln(c, command); err != nil {
		return "", err
	}
	var said []string
	for lines := bufio.NewScanner(c); lines.Scan(); {
		if line := strings.TrimSpace(lines.Text()); line != "" {
			said = append(said, line)
		}
	}
	return strings.Join(said, " "), nil
}
