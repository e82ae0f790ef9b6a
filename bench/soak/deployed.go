package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/troupe-run/troupe/bench/program"
)

// startDeployed starts nginx or HAProxy with a file of deploy, at an address in place of :8080, in
// front of nodes in place of :8081 and following.
func startDeployed(ctx context.Context, file, dir, address string, nodes ...string) (*program.Process, error) {
	from, err := repositoryFile(filepath.Join("deploy", file))
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(from)
	if err != nil {
		return nil, err
	}
	wait, err := program.FreeAddress(9000) // where nginx.conf has a server that answers after a second
	if err != nil {
		return nil, err
	}
	ports := []string{"127.0.0.1:8080", address, "127.0.0.1:8079", wait}
	for i, node := range nodes {
		ports = append(ports, fmt.Sprintf("127.0.0.1:%d", 8081+i), node)
	}
	config := filepath.Join(dir, file)
	if err := os.WriteFile(config, []byte(strings.NewReplacer(ports...).Replace(string(text))), 0o644); err != nil {
		return nil, err
	}
	name := file[:strings.IndexAny(file, "-.")]
	bin, err := exec.LookPath(name)
	if err != nil {
		if bin, err = exec.LookPath("/usr/sbin/" + name); err != nil {
			return nil, fmt.Errorf("%s is not installed: apt-get install %s", name, name)
		}
	}
	p := &program.Process{Name: name, Bin: bin, Addr: address, Args: []string{"-db", "-f", config}}
	if name == "nginx" {
		p.Args = []string{"-e", "stderr", "-p", dir, "-c", config, "-g", "daemon off;"}
	}
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
