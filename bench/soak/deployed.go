package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/troupe-run/troupe/bench/program"
)

// proxies are those of deploy/proxy: the file of each, and how it is run with that file and a
// directory of its own.
var proxies = map[string]struct {
	file string
	args func(file, dir string) []string
}{
	"nginx": {"nginx.conf", func(file, dir string) []string {
		return []string{"-e", "stderr", "-p", dir, "-c", file, "-g", "daemon off;"}
	}},
	"haproxy": {"haproxy.cfg", func(file, _ string) []string { return []string{"-db", "-f", file} }},
	"caddy":   {"Caddyfile", func(file, _ string) []string { return []string{"run", "--adapter", "caddyfile", "--config", file} }},
}

// startDeployed starts a proxy with its file in deploy/proxy, at an address and before three nodes.
func startDeployed(ctx context.Context, name, dir, address string, nodes ...string) (*program.Process, error) {
	proxy, known := proxies[name]
	if !known {
		return nil, fmt.Errorf("there is no proxy %q: want one of %v", name, slices.Sorted(maps.Keys(proxies)))
	}
	file, err := repositoryFile(filepath.Join("deploy", "proxy", proxy.file))
	if err != nil {
		return nil, err
	}
	admin, err := program.FreeAddress(9000) // of Caddy
	if err != nil {
		return nil, err
	}
	env := []string{"HOME=" + dir, "LISTEN=" + address, "SITE=http://" + address[strings.Index(address, ":"):], "ADMIN=" + admin}
	places := []string{"127.0.0.1:8080", address}
	for i, node := range nodes {
		env = append(env, fmt.Sprintf("NODE_%c=%s", 'A'+i, node))
		places = append(places, fmt.Sprintf("127.0.0.1:%d", 8081+i), node)
	}
	if name == "nginx" { // which reads no environment
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		file = filepath.Join(dir, proxy.file)
		if err := os.WriteFile(file, []byte(strings.NewReplacer(places...).Replace(string(text))), 0o644); err != nil {
			return nil, err
		}
	}
	bin, err := exec.LookPath(name)
	if err != nil {
		if bin, err = exec.LookPath("/usr/sbin/" + name); err != nil {
			return nil, fmt.Errorf("%s is not installed: apt-get install %s", name, name)
		}
	}
	p := &program.Process{Name: name, Bin: bin, Addr: address, Args: proxy.args(file, dir), Env: env}
	if err := p.Start(); err != nil {
		return nil, err
	}
	if err := p.UntilReady(ctx); err != nil {
		_ = p.End()
		return nil, err
	}
	return p, nil
}

// repositoryFile returns the path of a file of the repository from wherever in it this runs.
func repositoryFile(name string) (string, error) {
	dir, err := os.Getwd()
	for ; err == nil && dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "bench", "soak")); err == nil {
			return filepath.Join(dir, name), nil
		}
	}
	return "", errors.New("run this inside of the repository")
}
