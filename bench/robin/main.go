// Command robin runs several nodes on NATS servers of their own, behind a load balancer that gives each request to the next node. It
// takes the arguments of `troupe serve`, so that whatever drives one process can drive a fleet:
//
//	ROBIN_TROUPE=./troupe robin serve --listen 127.0.0.1:8080 --data DIR
//
// ROBIN_TROUPE is the binary of a node, ROBIN_NATSD that of bench/natsd; ROBIN_NODES is how many nodes there are (3) and
// ROBIN_SERVERS how many NATS servers (1). On SIGTERM it ends the nodes in order, and with the exit status of one that failed.
package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/troupe-run/troupe/bench/roundrobin"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "robin:", err)
		os.Exit(1)
	}
}

// number is a setting of the environment.
func number(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}

// taken takes a flag and its value out of args.
func taken(args []string, name string) (value string, rest []string) {
	for i := 0; i < len(args); i++ {
		if args[i] == name && i+1 < len(args) {
			value = args[i+1]
			i++
			continue
		}
		rest = append(rest, args[i])
	}
	return value, rest
}

func run(ctx context.Context, args []string) (failed error) {
	listen, args := taken(args, "--listen")
	data, args := taken(args, "--data")
	if listen == "" || data == "" {
		return errors.New("want the arguments of troupe serve, --listen and --data among them")
	}
	nats, err := startNATS(filepath.Join(data, "nats"))
	if err != nil {
		return err
	}
	defer func() { _ = nats.cmd.Process.Kill(); _ = nats.cmd.Wait() }()
	var urls []string
	for i := range number("ROBIN_NODES", 3) {
		address, err := free()
		if err != nil {
			return err
		}
		name := fmt.Sprintf("node-%d", i+1)
		cmd := exec.Command(os.Getenv("ROBIN_TROUPE"), append(append([]string{}, args...), "--listen", address, "--data", filepath.Join(data, name), "--nats", nats.url, "--node", name)...)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Start(); err != nil {
			return fmt.Errorf("start %s: %w", name, err)
		}
		defer func() { failed = cmp.Or(failed, end(cmd, name)) }()
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
	fmt.Fprintln(os.Stderr, "robin: requests by node:", p.Took())
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// end ends a node in order.
func end(cmd *exec.Cmd, name string) error {
	_ = cmd.Process.Signal(syscall.SIGTERM)
	late := time.AfterFunc(50*time.Second, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

type natsServers struct {
	cmd *exec.Cmd
	url string
}

func startNATS(dir string) (s natsServers, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return s, err
	}
	s.cmd = exec.Command(os.Getenv("ROBIN_NATSD"), "--data", dir, "--servers", strconv.Itoa(number("ROBIN_SERVERS", 1)))
	s.cmd.Stderr = os.Stderr
	out, err := s.cmd.StdoutPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		return s, fmt.Errorf("start natsd: %w", err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		return s, fmt.Errorf("natsd did not start: %w", err)
	}
	s.url = strings.TrimSpace(line)
	return s, nil
}

// free returns an address that nobody listens on.
func free() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String(), nil
}
