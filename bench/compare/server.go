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
	hosts        bool                                              // another server echoes: it is in the group hosted alone
	npm          bool                                              // a program of npm, which takes its port, and not its address
	args         func(b binaries, s scenario, dir string) []string // dir is an empty directory for what the server stores
}

const (
	base   = "bare"   // the server whose cost the others are multiples of
	direct = "direct" // what others host, without any of them
)

var servers = []server{
	{name: base, bare: true, args: bareArgs(base)},
	{name: "bare-fasthttp", bare: true, args: bareArgs("bare-fasthttp")},
	{name: "troupe-handler", holds: true, args: peerArgs("troupe-handler")},
	{name: "troupe-serve", holds: true, args: troupeServe},
	{name: direct, hosts: true, args: hostedCommand},
	{name: "troupe-hosted", hosts: true, args: troupeHosted},
	{name: "supergateway", hosts: true, npm: true, args: supergateway},
	{name: "mcp-proxy", hosts: true, npm: true, args: mcpProxy},
	{name: "adapter-gosdk", hosts: true, args: peerArgs("adapter-gosdk")},
	{name: "adapter-mcpgo", hosts: true, args: peerArgs("adapter-mcpgo")},
	{name: "mcp-go", holds: true, args: peerArgs("mcp-go")},
	{name: "gosdk", sessionsOnly: true, holds: true, args: peerArgs("gosdk")},
	{name: "gosdk-fixed", sessionsOnly: true, holds: true, args: repairedArgs("gosdk")},
	{name: "gosdk-stateless", args: peerArgs("gosdk-stateless")},
	{name: "gosdk-stateless-fixed", args: repairedArgs("gosdk-stateless")},
}

// The configurations of troupe serve: without limits on rates, and without any for what one address
// may keep. Calls that wait for the user wait no longer than it takes to look at them.
var configurations = map[string]string{
	"rates.yaml": "call-rate: 0\nprincipal-rate: 0\n",
	"unlimited.yaml": "call-rate: 0\nprincipal-rate: 0\nsessions-per-principal: 0\nstreams-per-principal: 0\nconnections-per-address: 0\n" +
		"calls-per-principal: 0\npending-per-principal: 0\nmax-ask: 20s\n",
}

// troupeServe is troupe serve. Only the noisy client meets the limits that there are by default.
func troupeServe(b binaries, s scenario, dir string) []string {
	args := []string{b.troupe, "serve", "--log-level", "error", "--drain-delay", "1ms"}
	config := func(name string) string { return filepath.Join(b.dir, name) }
	switch {
	case s.group == calls, s.group == sizes:
		return append(args, "--memory", "--config", config("rates.yaml"))
	case s.group == waiting:
		return append(args, "--memory", "--config", config("unlimited.yaml"))
	case s.name == "noisy":
		return append(args, "--data", dir)
	}
	return append(args, "--data", dir, "--config", config("unlimited.yaml"))
}

// hostedCommand is what is hosted.
func hostedCommand(b binaries, _ scenario, _ string) []string { return []string{b.backend, "plain"} }

// troupeHosted is troupe serve before test/backend, of which each session has a process.
func troupeHosted(b binaries, _ scenario, dir string) []string {
	// What is behind -- ends the flags, and startProcess adds one: so the command stands in a file.
	return []string{b.troupe, "serve", "--log-level", "error", "--drain-delay", "1ms", "--keep", "1s", "--data", dir, "--config", filepath.Join(b.dir, "hosted.yaml")}
}

// peerArgs is a kind of bench/peers. It stores what is kept, if it can, and answers on event streams
// where somebody reads one.
func peerArgs(kind string) func(binaries, scenario, string) []string {
	return func(b binaries, s scenario, dir string) []string {
		args := []string{b.peers, "--kind", kind}
		if s.group != calls && s.group != sizes {
			args = append(args, "--data", dir)
		}
		if s.name == "slow" {
			args = append(args, "--streams")
		}
		return args
	}
}

// repairedArgs is a kind of bench/peers, built with the SDK that package repair makes.
func repairedArgs(kind string) func(binaries, scenario, string) []string {
	return func(b binaries, s scenario, dir string) []string {
		b.peers = b.repaired
		return peerArgs(kind)(b, s, dir)
	}
}

// bareArgs is a kind that answers with as many bytes as an echo would have.
func bareArgs(kind string) func(binaries, scenario, string) []string {
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
	case s.group == hosted:
		return v.hosts || v.holds || v.name == base
	case v.hosts:
		return false
	case s.group == nodes, s.group == waiting:
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
	lab                     string // if there are nodes
	backend                 string // what is hosted, if something is
}

// buildBinaries builds what servers and scenarios need into dir. Where memory is looked at, servers
// collect when they are asked to.
func buildBinaries(ctx context.Context, dir string, of []server, chosen []scenario) (binaries, error) {
	b := binaries{dir: dir, troupe: filepath.Join(dir, "troupe"), peers: filepath.Join(dir, "peers"), repaired: filepath.Join(dir, "peers-repaired")}
	for name, text := range configurations {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return b, err
		}
	}
	sdk := filepath.Join(dir, "sdk")
	if err := os.Mkdir(sdk, 0o755); err != nil {
		return b, err
	}
	modfile, err := repair.WriteModfile(ctx, peersModule, sdk)
	if err != nil {
		return b, err
	}
	var added []string
	if slices.ContainsFunc(chosen, scenario.holds) {
		file, err := writeOverlay(dir)
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
	if slices.ContainsFunc(chosen, func(s scenario) bool { return s.group == hosted }) {
		b.backend = filepath.Join(dir, "backend")
		text := fmt.Sprintf("call-rate: 0\nprincipal-rate: 0\nbackends: {theirs: {command: %q, args: [plain], prefix: none}}\n", b.backend)
		if err := os.WriteFile(filepath.Join(dir, "hosted.yaml"), []byte(text), 0o600); err != nil {
			return b, err
		}
		all = append(all, []string{"build", "-o", b.backend, "./test/backend"})
		if slices.ContainsFunc(of, func(v server) bool { return v.npm }) {
			if err := installGateways(ctx, dir); err != nil {
				return b, err
			}
		}
	}
	if slices.ContainsFunc(chosen, func(s scenario) bool { return s.group == nodes }) {
		b.lab = filepath.Join(dir, "lab")
		all = append(all, []string{"build", "-o", b.lab, "./bench/lab"})
	}
	for _, args := range all {
		if out, err := exec.CommandContext(ctx, "go", args...).CombinedOutput(); err != nil {
			return b, fmt.Errorf("go %v: %w\n%s", args, err, out)
		}
	}
	return b, nil
}
