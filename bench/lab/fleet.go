package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/troupe-run/troupe/bench/lab/roundrobin"
)

// nodeEndsWithin bounds the time that a node may take to end in order.
const nodeEndsWithin = 50 * time.Second

// serveFleet runs nodes of a program on a NATS server of their own, behind a load balancer that
// gives each request to the next node. args are how many there are, the program and its arguments,
// --listen and --data among them, so that whatever drives one process can drive a fleet. A node
// that fails at its end is an error.
func serveFleet(ctx context.Context, args []string) (failed error) {
	if len(args) < 2 {
		return errors.New("want a number of nodes, and a program with its arguments")
	}
	count, err := strconv.Atoi(args[0])
	listen, rest := takeFlag(args[2:], "--listen")
	data, rest := takeFlag(rest, "--data")
	if err != nil || listen == "" || data == "" {
		return errors.New("want a number of nodes, and a program with --listen and --data among its arguments")
	}
	o := natsOptions()
	o.StoreDir = filepath.Join(data, "nats")
	nats, err := startNATS(o)
	if err != nil {
		return err
	}
	defer nats.Shutdown()
	var urls []string
	for i := range count {
		address, err := freeAddress()
		if err != nil {
			return err
		}
		name := fmt.Sprintf("node-%d", i+1)
		cmd := exec.Command(args[1], slices.Concat(rest, []string{"--listen", address, "--data", filepath.Join(data, name), "--nats", nats.ClientURL(), "--node", name})...)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Start(); err != nil {
			return fmt.Errorf("start %s: %w", name, err)
		}
		defer func() { failed = cmp.Or(failed, endNode(cmd, name)) }()
		urls = append(urls, "http://"+address)
	}
	p, err := roundrobin.New(ctx, urls)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	go func() { <-ctx.Done(); _ = l.Close() }()
	err = http.Serve(l, p)
	fmt.Fprintln(os.Stderr, "lab fleet: requests by node:", p.Took())
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// takeFlag takes a flag and its value out of args.
func takeFlag(args []string, name string) (value string, rest []string) {
	i := slices.Index(args, name)
	if i < 0 || i+1 == len(args) {
		return "", args
	}
	return args[i+1], slices.Concat(args[:i], args[i+2:])
}

// endNode ends a node in order.
func endNode(cmd *exec.Cmd, name string) error {
	_ = cmd.Process.Signal(syscall.SIGTERM)
	late := time.AfterFunc(nodeEndsWithin, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// freeAddress returns an address on which nothing listens.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String(), nil
}
