package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// gatewayPackages has what npm installs for the gateways of others.
const gatewayPackages = peersModule + "/npm"

// installGateways installs them below dir.
func installGateways(ctx context.Context, dir string) error {
	to := filepath.Join(dir, "npm")
	if err := os.CopyFS(to, os.DirFS(gatewayPackages)); err != nil {
		return err
	}
	npm := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--prefer-offline", "--no-audit", "--no-fund", "--loglevel=error")
	npm.Dir = to
	if out, err := npm.CombinedOutput(); err != nil {
		return fmt.Errorf("npm ci: %w\n%s\nsupergateway and mcp-proxy need Node.js 20 and npm, and its registry the first time: try again where it can be reached, or leave them out of --servers", err, out)
	}
	return nil
}

// npmFile is a file of what is installed.
func (b binaries) npmFile(path string) string { return filepath.Join(b.dir, "npm", path) }

// supergateway has a process of what is hosted for each session, as troupe has. It logs nothing: by
// default it logs each message.
func supergateway(b binaries, s scenario, dir string) []string {
	return []string{"node", "--import", b.npmFile("loopback.mjs"), b.npmFile("node_modules/.bin/supergateway"), "--stdio", strings.Join(hostedCommand(b, s, dir), " "),
		"--outputTransport", "streamableHttp", "--stateful", "--logLevel", "none"}
}

// mcpProxy has one for all sessions.
func mcpProxy(b binaries, s scenario, dir string) []string {
	return append([]string{b.npmFile("node_modules/.bin/mcp-proxy"), "--host", "127.0.0.1", "--server", "stream"}, hostedCommand(b, s, dir)...)
}
