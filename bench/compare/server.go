package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/troupe-run/troupe/bench/compare/repair"
	"github.com/troupe-run/troupe/bench/loadgen"
)

// A server is one of those that are compared.
type server struct {
	name         string
	bare         bool                                              // it echoes nothing
	sessionsOnly bool                                              // it does not serve 2026-07-28
	holds        bool                                              // it has sessions, and keeps event streams open
	args         func(b binaries, s scenario, dir string) []string // dir is an empty directory for what the server stores
}

// base is the server whose cost the others are multiples of.
const base = "bare"

var servers = []server{
	{name: base, bare: true, args: bare(base)},
	{name: "bare-fasthttp", bare: true, args: bare("bare-fasthttp")},
	{name: "troupe-handler", holds: true, args: peer("troupe-handler")},
	{name: "troupe-serve", holds: true, args: troupeServe},
	{name: "mcp-go", holds: true, args: peer("mcp-go")},
	{name: "gosdk", sessionsOnly: true, holds: true, args: peer("gosdk")},
	{name: "gosdk-fixed", sessionsOnly: true, holds: true, args: repaired("gosdk")},
	{name: "gosdk-stateless", args: peer("gosdk-stateless")},
	{name: "gosdk-stateless-fixed", args: repaired("gosdk-stateless")},
}

// troupeServe is troupe serve. It has no limits on rates, and none for what one address may keep where there is much of that; only the noisy
// client meets the limits that there are by default.
func troupeServe(b binaries, s scenario, dir string) []string {
	args := []string{b.troupe, "serve", "--listen", "127.0.0.1:0", "--log-level", "error", "--drain-delay", "1ms"}
	unlimited := []string{"--set", "call-rate=0", "--set", "principal-rate=0"}
	switch {
	case s.group == calls, s.group == sizes:
		return slices.Concat(args, []string{"--memory"}, unlimited)
	case s.name == "noisy":
		return append(args, "--data", dir)
	}
	return slices.Concat(args, []string{"--data", dir, "--set", "sessions-per-principal=0", "--set", "streams-per-principal=0", "--set", "connections-per-address=0"}, unlimited)
}

// peer is a kind of bench/peers.
func peer(kind string) func(binaries, scenario, string) []string {
	return func(b binaries, s scenario, dir string) []string {
		return append([]string{b.peers, "--kind", kind}, peerFlags(s, dir)...)
	}
}

// repaired is a kind of bench/peers, built with the SDK that package repair makes.
func repaired(kind string) func(binaries, scenario, string) []string {
	return func(b binaries, s scenario, dir string) []string {
		return append([]string{b.repaired, "--kind", kind}, peerFlags(s, dir)...)
	}
}

// peerFlags have a server store what is kept, if it can, and answer on event streams where somebody reads one.
func peerFlags(s scenario, dir string) (flags []string) {
	if s.group != calls && s.group != sizes {
		flags = append(flags, "--data", dir)
	}
	if s.name == "slow" {
		flags = append(flags, "--streams")
	}
	return flags
}

// bare is a kind that answers with as many bytes as an echo would have.
func bare(kind string) func(binaries, scenario, string) []string {
	return func(b binaries, s scenario, _ string) []string {
		return []string{b.peers, "--kind", kind, "--size", strconv.Itoa(s.size)}
	}
}

// speaks reports whether the server can do a scenario.
func (v server) speaks(s scenario) bool {
	switch {
	case s.group == streams:
		return v.holds || v.name == base
	case s.name == "noisy": // troupe-handler has no limits here
		return v.holds && v.name != "troupe-handler"
	case s.group == nodes:
		return v.name == "troupe-serve"
	case s.group == sessions, s.group == rest, s.group == beside:
		return v.holds
	}
	return !v.sessionsOnly || s.revision != loadgen.Stateless
}

// binaries are the programs that are run, and the directory where they are.
type binaries struct {
	dir                     string
	troupe, peers, repaired string
	natsd                   string // if there are nodes
}

// build builds what the scenarios need into dir. Where memory is looked at, servers collect when they are asked to.
func build(ctx context.Context, dir string, chosen []scenario) (binaries, error) {
	b := binaries{dir: dir, troupe: filepath.Join(dir, "troupe"), peers: filepath.Join(dir, "peers"), repaired: filepath.Join(dir, "peers-repaired")}
	sdk := filepath.Join(dir, "sdk")
	if err := os.Mkdir(sdk, 0o755); err != nil {
		return b, err
	}
	modfile, err := repair.Modfile(ctx, peersModule, sdk)
	if err != nil {
		return b, err
	}
	var added []string
	if slices.ContainsFunc(chosen, scenario.holds) {
		file, err := overlay(dir)
		if err != nil {
			return b, err
		}
		added = []string{"-overlay", file}
	}
	all := [][]string{
		slices.Concat([]string{"build"}, added, []string{"-o", b.troupe, "./" + troupePackage}),
		slices.Concat([]string{"-C", peersModule, "build"}, added, []string{"-o", b.peers, "."}),
		slices.Concat([]string{"-C", peersModule, "build", "-modfile", modfile}, added, []string{"-o", b.repaired, "."}),
	}
	if slices.ContainsFunc(chosen, func(s scenario) bool { return s.group == nodes }) {
		b.natsd = filepath.Join(dir, "natsd")
		all = append(all, []string{"build", "-o", b.natsd, "./bench/natsd"})
	}
	for _, args := range all {
		if out, err := exec.CommandContext(ctx, "go", args...).CombinedOutput(); err != nil {
			return b, fmt.Errorf("go %v: %w\n%s", args, err, out)
		}
	}
	return b, nil
}
