package main

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/internal/hostfile"
	"github.com/troupe-run/troupe/internal/keeper"
	"github.com/troupe-run/troupe/mcp"
)

// announce prints the server's addresses and how to try it, as text for a person or,
// with --log-format json, as one record of the log.
func (s *settings) announce(w io.Writer, log *slog.Logger, node string, addr, store net.Addr) {
	base := baseURL(addr.String(), s.tlsCert != "")
	probes := base
	if s.healthListen != "" {
		probes = baseURL(s.healthListen, false) // with port 0 the log has the port
	}
	metrics := probes + "/metrics"
	if s.healthListen == "" && !s.publicMetrics && !onThisMachine(addr) {
		metrics = "not served: set --health-listen, or public-metrics"
	}
	serves := ""
	if store != nil {
		serves = "nats://" + store.String()
	}
	if s.logFormat == "json" {
		log.Info("serving", "node", node, "mcp", base+"/mcp", "health", probes+"/healthz", "ready", probes+"/readyz", "metrics", metrics, "data", s.data, "nats", s.nats.String(), "nats_listen", serves, "codec", troupe.Codec(), "backends", backendNames(s.hosted), "left_out", leftOut(s.hosted), "revisions", s.revisions.named(), "callers", s.callers())
		return
	}
	data := s.data
	if s.memory {
		data = "in memory: nothing survives the process"
	}
	if s.nats.URL != "" {
		data = "on " + s.nats.String()
	}
	if serves != "" {
		data += ", for other processes with --nats " + serves
	}
	fmt.Fprintf(w, `
troupe serves MCP on %[1]s/mcp

  data      %[2]s
  node      %[3]s
  health    %[4]s/healthz  %[4]s/readyz
  metrics   %[5]s
  codec     %[6]s
`, base, data, node, probes, metrics, troupe.Codec())
	if s.hosted != nil {
		fmt.Fprintf(w, "  backends  %s\n", backendNames(s.hosted))
	}
	for _, why := range leftOut(s.hosted) {
		fmt.Fprintf(w, "  left out  %s\n", why)
	}
	if s.revisions.set {
		fmt.Fprintf(w, "  revisions %s\n", s.revisions.named())
	}
	if s.takesTokens() {
		fmt.Fprintf(w, "  callers   %s\n", s.callers())
	}
	sse := ""
	if slices.Contains(s.revisions.spoken(), mcp.Revision20241105) {
		sse = " (and " + base + "/sse to a\nclient that only knows \"SSE\")"
	}
	given := "the first URL"
	if s.publicURL != "" {
		given = strings.TrimSuffix(s.publicURL, "/") + "/mcp"
	}
	demo := ""
	if s.hosted == nil {
		demo = "This is the demo. Serve a server that you have with its command behind --, or several with --servers FILE:\n\n" +
			"  troupe serve -- npx -y @modelcontextprotocol/server-everything\n\n"
	}
	end := ""
	if keep := keepsCommands(s); keep > 0 {
		end = fmt.Sprintf(" Its commands live on for %s, for the next serve\nwith the same data; --keep 0s ends them with it.", keep)
	}
	token := ""
	if s.takesTokens() && !s.allowAnonymous {
		token = `-H "Authorization: Bearer $TROUPE_TOKEN" `
	}
	fmt.Fprintf(w, `
Give %[4]s to any client that speaks "Streamable HTTP"%[2]s, or try it by hand:

  curl -i %[1]s/mcp -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream' \
    %[5]s%[3]s

%[6]sCtrl-C drains and ends it.%[7]s

`, base, sse, s.firstRequest(), given, token, demo, end)
}

// keepsCommands is for how long the commands of backends outlive the server, 0 if there are none or they end with it.
func keepsCommands(s *settings) time.Duration {
	isCommand := func(b hostfile.Backend) bool {
		_, _, is := b.Target.Command()
		return is && b.Usable()
	}
	if s.memory || s.hosted == nil || !slices.ContainsFunc(s.hosted.Backends, isCommand) {
		return 0
	}
	return max(0, cmp.Or(s.options().Hosting.Keep, keeper.DefaultKeep))
}

// callers says whose requests count.
func (s *settings) callers() string {
	var who []string
	for _, i := range s.issuers() {
		who = append(who, "access tokens of "+i.URL)
	}
	if s.apiKeys {
		who = append(who, "API keys")
	}
	if len(who) == 0 || s.allowAnonymous {
		who = append(who, "anybody")
	}
	return strings.Join(who, ", ")
}

// firstRequest are the arguments of curl with which a client begins.
func (s *settings) firstRequest() string {
	const client = `{"name":"curl","version":"1"}`
	if r := s.revisions.handshake(); r != 0 {
		return fmt.Sprintf(`-d '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"%s","capabilities":{},"clientInfo":%s}}'`, r, client)
	}
	return fmt.Sprintf("-H 'MCP-Protocol-Version: %[1]s' -H 'Mcp-Method: server/discover' \\\n    -d "+
		`'{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"%[2]s":"%[1]s","%[3]s":%[4]s,"%[5]s":{}}}}'`,
		mcp.Latest, mcp.MetaProtocolVersion, mcp.MetaClientInfo, client, mcp.MetaClientCapabilities)
}

// onThisMachine reports whether clients of this machine reach the server over a loopback address.
func onThisMachine(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return !ok || tcp.IP.IsLoopback() || tcp.IP.IsUnspecified()
}

// baseURL is the URL under which a client on this machine reaches the server.
func baseURL(addr string, tls bool) string {
	scheme := "http"
	if tls {
		scheme = "https"
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return scheme + "://" + addr
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return scheme + "://" + net.JoinHostPort(host, port)
}
