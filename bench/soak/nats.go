package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"syscall"

	"github.com/troupe-run/troupe/bench/program"
)

// natsServers are NATS servers, a process of bench/lab each, which keep their ports and their data
// over all starts.
type natsServers []*program.Process

// newNATS makes NATS servers.
func newNATS(o options) (all natsServers, err error) {
	var routes []string
	for i := range o.nats {
		var ports [3]string // of clients, of the monitor and of the other servers
		for k := range ports {
			address, err := program.FreeAddress(o.seed + uint64(500+3*i+k))
			if err != nil {
				return nil, err
			}
			_, ports[k], _ = strings.Cut(address, ":")
		}
		p := &program.Process{Bin: o.bin, Name: fmt.Sprintf("nats-%d", i+1), Addr: "127.0.0.1:" + ports[0], Health: "http://127.0.0.1:" + ports[1] + "/healthz"}
		p.Args = []string{"nats", "--data", o.data + "-nats", "--name", p.Name, "--port", ports[0], "--monitor", ports[1]}
		if o.sync {
			p.Args = append(p.Args, "--sync")
		}
		if o.nats > 1 {
			p.Args = append(p.Args, "--cluster", ports[2])
		}
		routes, all = append(routes, "nats://127.0.0.1:"+ports[2]), append(all, p)
	}
	for _, p := range all {
		if o.nats > 1 {
			p.Args = append(p.Args, "--routes", strings.Join(routes, ","))
		}
	}
	return all, nil
}

// start starts all servers, and waits until they keep streams.
func (s natsServers) start(ctx context.Context) error {
	for _, p := range s {
		if err := p.Start(); err != nil {
			return err
		}
	}
	for _, p := range s {
		if err := p.UntilReady(ctx); err != nil {
			return err
		}
	}
	return nil
}

// endAll ends all servers with a signal.
func (s natsServers) endAll(with syscall.Signal) error {
	for _, p := range s {
		if err := p.EndWith(with); err != nil {
			return err
		}
	}
	return nil
}

// leader returns the server that leads a stream of that name behind the prefix, or its first shard.
func (s natsServers) leader(name string) (*program.Process, error) {
	var got struct {
		Accounts []struct {
			Streams []struct {
				Name    string `json:"name"`
				Cluster struct {
					Leader string `json:"leader"`
				} `json:"cluster"`
			} `json:"stream_detail"`
		} `json:"account_details"`
	}
	r, err := http.Get(strings.TrimSuffix(s[0].Health, "/healthz") + "/jsz?accounts=true&streams=true")
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
		return nil, err
	}
	for _, a := range got.Accounts {
		for _, x := range a.Streams {
			for _, p := range s {
				if (strings.HasSuffix(x.Name, "_"+name) || strings.HasSuffix(x.Name, "_"+name+"-0")) && x.Cluster.Leader == p.Name {
					return p, nil
				}
			}
		}
	}
	return nil, fmt.Errorf("no stream %s has a leader: %+v", name, got)
}
