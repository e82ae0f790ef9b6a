package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// natsServers are NATS servers, a process each.
type natsServers struct {
	all    []*natsServer
	client *http.Client
}

// natsServer is one of them, which keeps its ports and its data over all starts.
type natsServer struct {
	bin     string
	name    string
	args    []string
	address string // for clients
	monitor string
	log     io.Writer
	cmd     *exec.Cmd
}

// startNATS starts NATS servers and waits until they keep streams.
func startNATS(ctx context.Context, o options) (*natsServers, error) {
	bin := filepath.Join(filepath.Dir(o.data), "lab")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", bin, "github.com/troupe-run/troupe/bench/lab").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the NATS server: %w\n%s", err, out)
	}
	s := &natsServers{client: &http.Client{Timeout: time.Second}}
	var routes []string
	for i := range o.nats {
		n := &natsServer{bin: bin, name: fmt.Sprintf("nats-%d", i+1), log: o.log}
		var ports [3]string
		for k := range ports {
			address, err := freeAddress(o.seed + uint64(500+3*i+k))
			if err != nil {
				return nil, err
			}
			_, ports[k], _ = strings.Cut(address, ":")
		}
		n.address, n.monitor = "127.0.0.1:"+ports[0], "http://127.0.0.1:"+ports[1]
		n.args = []string{"nats", "--data", o.data + "-nats", "--name", n.name, "--port", ports[0], "--monitor", ports[1]}
		if o.sync {
			n.args = append(n.args, "--sync")
		}
		if o.nats > 1 {
			n.args = append(n.args, "--cluster", ports[2])
		}
		routes = append(routes, "nats://127.0.0.1:"+ports[2])
		s.all = append(s.all, n)
	}
	for _, n := range s.all {
		if o.nats > 1 {
			n.args = append(n.args, "--routes", strings.Join(routes, ","))
		}
		if err := n.start(); err != nil {
			s.end()
			return nil, err
		}
	}
	if err := s.ready(); err != nil {
		s.end()
		return nil, err
	}
	return s, nil
}

// endAll ends all servers with a signal, and startAll starts them again.
func (s *natsServers) endAll(with syscall.Signal) error {
	for _, n := range s.all {
		if err := n.leave(with); err != nil {
			return err
		}
	}
	return nil
}

func (s *natsServers) startAll() error {
	for _, n := range s.all {
		if err := n.start(); err != nil {
			return err
		}
	}
	return s.ready()
}

// ready waits until each server says that it keeps streams.
func (s *natsServers) ready() error {
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		well := 0
		for _, n := range s.all {
			if r, err := s.client.Get(n.monitor + "/healthz"); err == nil {
				_ = r.Body.Close()
				if r.StatusCode == http.StatusOK {
					well++
				}
			}
		}
		if well == len(s.all) {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("%d of %d NATS servers are well after a minute", well, len(s.all))
		}
	}
}

// leader returns the server that leads a stream of that name behind the prefix, or its first shard.
func (s *natsServers) leader(name string) (*natsServer, error) {
	type stream struct {
		Name    string `json:"name"`
		Cluster struct {
			Leader string `json:"leader"`
		} `json:"cluster"`
	}
	var got struct {
		Accounts []struct {
			Streams []stream `json:"stream_detail"`
		} `json:"account_details"`
	}
	r, err := s.client.Get(s.all[0].monitor + "/jsz?accounts=true&streams=true")
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
		return nil, err
	}
	for _, a := range got.Accounts {
		for _, x := range a.Streams {
			for _, n := range s.all {
				if (strings.HasSuffix(x.Name, "_"+name) || strings.HasSuffix(x.Name, "_"+name+"-0")) && x.Cluster.Leader == n.name {
					return n, nil
				}
			}
		}
	}
	return nil, fmt.Errorf("no stream %s has a leader: %+v", name, got)
}

func (s *natsServers) end() {
	for _, n := range s.all {
		if n.cmd != nil {
			_ = n.cmd.Process.Kill()
			_ = n.cmd.Wait()
		}
	}
}

// start starts the server and waits until it takes connections.
func (n *natsServer) start() error {
	n.cmd = exec.Command(n.bin, n.args...)
	n.cmd.Stderr = n.log
	out, err := n.cmd.StdoutPipe()
	if err == nil {
		err = n.cmd.Start()
	}
	if err != nil {
		return fmt.Errorf("start a NATS server: %w", err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		return errors.New("a NATS server did not start")
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	return nil
}

// leave ends the server in order, or kills it.
func (n *natsServer) leave(with syscall.Signal) error {
	if err := n.cmd.Process.Signal(with); err != nil {
		return err
	}
	err := n.cmd.Wait()
	n.cmd = nil
	var status *exec.ExitError
	if with == syscall.SIGKILL && errors.As(err, &status) {
		err = nil
	}
	return err
}
