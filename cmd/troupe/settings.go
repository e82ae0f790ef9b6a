package main

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/auth"
	"github.com/troupe-run/troupe/examples/everything"
	"github.com/troupe-run/troupe/internal/configfile"
	"github.com/troupe-run/troupe/internal/hostfile"
	"github.com/troupe-run/troupe/internal/telemetry"
)

// settings are the settings of serve.
type settings struct {
	listen         string
	allowAnonymous bool
	apiKeys        bool
	authIssuers    []string
	authAudiences  []string
	authScopes     []string
	auth           configfile.Auth
	allowOrigins   []string
	allowHosts     []string
	trustedProxies networks
	publicURL      string
	healthListen   string
	publicMetrics  bool
	netHTTP        bool
	revisions      revisions
	weights        weights
	tlsCert        string
	tlsKey         string

	data   string
	memory bool
	shards int
	sync   time.Duration
	node   string
	nats   troupe.NATSOptions

	conformance bool
	limits      limits

	command []string       // to host, from behind --
	servers []string       // files of backends
	section hostfile.File  // the section backends of the file; its Path is "" if there is none
	hosted  *hostfile.File // all that is hosted in place of the demo; nil for the demo

	logLevel        string
	logFormat       string
	logRequests     string
	metricsDetail   string
	tracePrincipals bool

	table      *settingTable // of all above, whoever sets them
	environ    []string      // NAME=VALUE, as the process has it
	variables  map[string]string
	config     string
	helpLimits bool
	inherited  inherited // which say where to listen, whatever the settings say

	withoutSections bool      // the sections auth and backends of the file are passed over, and files that they name
	loadedTLS       [2]string // tls-cert and tls-key of which the process has a pair already, so that their files need not fit now
}

// settingGroups are the settings of serve, in the order of the help.
var settingGroups = slices.Concat(ownGroups, limitGroups(ownGroups))

var ownGroups = []flagGroup{
	{"Servers of others; the section backends of the file says more", []string{"servers", "keep", "max-instances"}},
	{"Who may call; the section auth of the file says more", []string{"auth-issuer", "auth-audience", "auth-scope", "api-keys", "allow-anonymous"}},
	{"Addresses and access", []string{"listen", "health-listen", "public-metrics", "allow-origin", "allow-host", "public-url", "trusted-proxy", "weight", "tls-cert", "tls-key"}},
	{"Storage", []string{"data", "memory", "max-store", "shards", "sync"}},
	{"Storage on NATS servers, for several processes", []string{"nats", "nats-creds", "nats-nkey", "nats-token", "nats-ca", "nats-cert", "nats-key", "nats-replicas", "nats-prefix", "nats-listen"}},
	{"Serving and ending", []string{"revisions", "conformance", "page-size", "sse-grace", "stateless-grace", "retry", "ping-every", "drain-delay", "drain-wait", "net-http"}},
	{"This node", []string{"node", "lease", "max-memory", "log-level", "log-format", "log-requests", "metrics-detail", "trace-principals"}},
}

// serveFlags are the settings that people set at the command line. All others are for the file of
// --config, and --set.
var serveFlags = []string{
	"servers", "keep",
	"auth-issuer", "auth-audience", "auth-scope", "api-keys", "allow-anonymous",
	"listen", "health-listen", "allow-origin", "allow-host", "public-url", "trusted-proxy", "tls-cert", "tls-key",
	"data", "memory", "max-store", "sync", "nats", "nats-creds",
	"revisions", "drain-delay", "drain-wait", "node", "max-memory", "log-level", "log-format", "log-requests", "metrics-detail",
}

// declare enters the settings in a table, with their defaults.
func (s *settings) declare(f *pflag.FlagSet) {
	f.StringArrayVar(&s.servers, "servers", nil, "`file` with mcpServers or servers, as clients have it, whose servers are served; may be repeated")
	f.StringVar(&s.listen, "listen", "127.0.0.1:8080", "`address` to listen on; port 0 takes a free one")
	f.StringVar(&s.healthListen, "health-listen", "", "`address` of /healthz, /readyz and /metrics instead, without TLS")
	f.BoolVar(&s.publicMetrics, "public-metrics", false, "serve /metrics to other machines, too, where no --health-listen does")
	f.BoolVar(&s.netHTTP, "net-http", false, "serve all connections with Go's net/http, not only those that need it")
	f.StringArrayVar(&s.authIssuers, "auth-issuer", nil, "`url` of an authorization server whose access tokens count; may be repeated")
	f.StringArrayVar(&s.authAudiences, "auth-audience", nil, "`audience` of those tokens; may be repeated (the URL of the server that is called)")
	f.StringArrayVar(&s.authScopes, "auth-scope", nil, "`scope` that tokens and keys must have, and clients are told to ask for; may be repeated")
	f.BoolVar(&s.allowAnonymous, "allow-anonymous", false, "serve who brings no token, other machines too; a bad token is still refused")
	f.BoolVar(&s.apiKeys, "api-keys", false, "serve whoever has an API key: troupe keys makes them")
	f.StringArrayVar(&s.allowOrigins, "allow-origin", nil, "`origin` of web pages that may call, beside the server's own; may be repeated")
	f.StringArrayVar(&s.allowHosts, "allow-host", nil, "`host` name that clients use, or * for any; may be repeated (localhost and, beyond a loopback address, IP addresses)")
	f.StringVar(&s.publicURL, "public-url", "", "`url` under which clients reach this server, and for which tokens are: https://HOST, or https://HOST/PATH if a proxy cuts off that")
	f.Var(&s.trustedProxies, "trusted-proxy", "`CIDR` of proxies whose Forwarded or X-Forwarded-For counts; may be repeated")
	f.Var(&s.weights, "weight", "`CLIENT=N` gives a client N times what others get of what is short: its IPv4 address, its IPv6 network of 64 bits; may be repeated (1 each)")
	f.StringVar(&s.tlsCert, "tls-cert", "", "`file` with the certificate; serves https")
	f.StringVar(&s.tlsKey, "tls-key", "", "`file` with the certificate's key")

	f.StringVar(&s.data, "data", "", "data `directory` ($XDG_STATE_HOME/troupe, else ~/.local/state/troupe)")
	f.BoolVar(&s.memory, "memory", false, "keep everything in memory: nothing survives the process")
	f.Var((*count)(&s.shards), "shards", "`number` of parts of the event log of a new store, up to 32, which are read side by side after a crash; one that is there keeps its own (4, or fewer in a small store)")
	f.DurationVar(&s.sync, "sync", time.Second, "`time` between flushes to the disk, which a power cut may lose; 0s flushes each write")

	f.StringVar(&s.nats.URL, "nats", "", "`url` of NATS servers that keep the store: nats://HOST:4222 or tls://HOST:4222, several with commas; USER:PASSWORD@ may stand before the host")
	f.StringVar(&s.nats.CredsFile, "nats-creds", "", "`file` with a user's credentials, as nsc writes it")
	f.StringVar(&s.nats.NKeyFile, "nats-nkey", "", "`file` with the seed of a user's nkey")
	f.StringVar(&s.nats.Token, "nats-token", "", "`token` to log in with; other users of this machine see it unless it is in the file of --config")
	f.StringVar(&s.nats.CAFile, "nats-ca", "", "PEM `file` with the authorities that signed the servers' certificates (those of the system)")
	f.StringVar(&s.nats.CertFile, "nats-cert", "", "PEM `file` with the certificate that is shown to the servers")
	f.StringVar(&s.nats.KeyFile, "nats-key", "", "PEM `file` with the certificate's key")
	f.Var((*count)(&s.nats.Replicas), "nats-replicas", "`number` of servers that keep a copy: 1, 3 or 5 (what is there; 3 in a new cluster)")
	f.StringVar(&s.nats.Prefix, "nats-prefix", "", "`prefix` of the names of all streams and subjects (troupe)")
	f.StringVar(&s.nats.Listen, "nats-listen", "", "`address` on which this process's own store serves others, which name it in --nats; needs nats-token, or nats-cert, nats-key and nats-ca")

	f.Var(&s.revisions, "revisions", "`revisions` of MCP that clients may begin to use, with commas between them; the same on all nodes ("+strings.Join(troupe.Revisions(), ",")+")")
	f.BoolVar(&s.conformance, "conformance", false, "also serve the tools that the official conformance suite calls")

	f.StringVar(&s.node, "node", "", "`name` of this node (the name stored in the data directory)")
	f.StringVar(&s.logLevel, "log-level", "info", "lowest `level` to log: debug, info, warn or error")
	f.StringVar(&s.logFormat, "log-format", "text", "`format` of the log: text or json")
	f.StringVar(&s.logRequests, "log-requests", "", "`which` requests are logged, one line each: all, errors, slow=TIME, or errors,slow=TIME")
	f.StringVar(&s.metricsDetail, "metrics-detail", "auto", "by `what` calls are told apart in metrics: tool, server, method, or auto, which is tool until there are very many")
	f.BoolVar(&s.tracePrincipals, "trace-principals", false, "put a pseudonym of the principal on spans")
	s.limits.declare(f)
}

// readSettings reads the environment and the file, if there is one, and checks all. An error says where
// what is wrong was set.
func (s *settings) readSettings() error {
	if err := s.readSources(); err != nil {
		return err
	}
	return s.table.explainSources(s.check())
}

// readServable is readSettings for a process that is to serve: the library judges the settings, too.
func (s *settings) readServable() error {
	if err := s.readSettings(); err != nil {
		return err
	}
	return s.table.explainSources(checkOptions(s))
}

// check refuses invalid settings, and decides where the data lies.
func (s *settings) check() error {
	if s.inherited.http == nil {
		if err := checkListen("listen", s.listen); err != nil {
			return err
		}
	}
	if s.healthListen != "" && s.inherited.health == nil {
		if err := checkListen("health-listen", s.healthListen); err != nil {
			return err
		}
	}
	if s.node != "" && !nodeName.MatchString(s.node) {
		return faulty(fmt.Errorf("node is %q: want 1 to 32 of a-z, 0-9 and -", s.node), "node")
	}
	if err := s.revisions.check(); err != nil {
		return faulty(err, "revisions")
	}
	if s.shards > maxShards {
		return faulty(fmt.Errorf("shards is %d: want 1 to %d, or 0 for a number by the size of the store", s.shards, maxShards), "shards")
	}
	if s.sync < 0 {
		return faulty(fmt.Errorf("sync is %s: it must be at least 0s", s.sync), "sync")
	}
	if err := s.limits.check(); err != nil {
		return err
	}
	if (s.tlsCert == "") != (s.tlsKey == "") {
		return faulty(errors.New("tls-cert and tls-key belong together: set both or none"), "tls-cert", "tls-key")
	}
	if s.tlsCert != "" && s.loadedTLS != [2]string{s.tlsCert, s.tlsKey} {
		if _, err := tls.LoadX509KeyPair(s.tlsCert, s.tlsKey); err != nil {
			return faulty(fmt.Errorf("tls-cert and tls-key cannot be used: %w", err), "tls-cert", "tls-key")
		}
	}
	if s.logFormat != "text" && s.logFormat != "json" {
		return faulty(fmt.Errorf("log-format is %q: want text or json", s.logFormat), "log-format")
	}
	if _, err := s.level(); err != nil {
		return err
	}
	if _, err := s.requestLog(); err != nil {
		return err
	}
	if level, _ := s.level(); s.logRequests != "" && level > slog.LevelInfo {
		if s.table.sourceOf("log-level").rank > byFile {
			return faulty(fmt.Errorf("log-requests writes lines of the level info, and log-level is %s: set it to info or debug", s.logLevel), "log-requests", "log-level")
		}
		s.logLevel = "info"
		s.table.sources["log-level"] = s.table.sourceOf("log-requests")
	}
	if _, known := telemetry.ParseDetail(s.metricsDetail); !known {
		return faulty(fmt.Errorf("metrics-detail is %q: want auto, tool, server or method", s.metricsDetail), "metrics-detail")
	}
	if err := s.checkNATS(); err != nil {
		return err
	}
	if err := s.checkAuth(); err != nil {
		return err
	}
	var err error
	if s.hosted, err = backendsOf(s); err != nil {
		return err
	}
	if s.apiKeys && s.memory {
		return faulty(errors.New("memory and api-keys exclude each other: troupe keys needs a data directory to ask the server through"), "memory", "api-keys")
	}
	if s.memory && s.data != "" {
		switch data, memory := s.table.sourceOf("data"), s.table.sourceOf("memory"); {
		case data.rank == memory.rank:
			return faulty(errors.New("data and memory exclude each other: set one of them"), "data", "memory")
		case data.rank > memory.rank:
			s.memory, s.table.sources["memory"] = false, data
		default:
			s.data, s.table.sources["data"] = "", memory
		}
	}
	if s.memory || s.data != "" || s.nats.URL != "" {
		return nil
	}
	s.data, err = defaultData()
	return err
}

// checkNATS refuses settings of NATS servers that contradict others. The store checks the servers.
func (s *settings) checkNATS() error {
	if s.nats.Prefix != "" && !nodeName.MatchString(s.nats.Prefix) {
		return faulty(fmt.Errorf("nats-prefix is %q: want 1 to 32 of a-z, 0-9 and -", s.nats.Prefix), "nats-prefix")
	}
	if r := s.nats.Replicas; r != 0 && r != 1 && r != 3 && r != 5 {
		return faulty(fmt.Errorf("nats-replicas is %d: want 1, 3 or 5", r), "nats-replicas")
	}
	if (s.nats.CertFile == "") != (s.nats.KeyFile == "") {
		return faulty(errors.New("nats-cert and nats-key belong together: set both or none"), "nats-cert", "nats-key")
	}
	if s.nats.Listen != "" {
		return s.checkNATSListen()
	}
	others := s.nats
	others.URL, others.Prefix = "", ""
	switch {
	case s.nats.URL == "" && others != (troupe.NATSOptions{}):
		return faulty(errors.New("there are settings for NATS servers, but no server: set nats to its URL"), natsAccess...)
	case s.nats.URL == "":
		s.nats.Prefix, s.table.sources["nats-prefix"] = "", source{}
	case s.memory:
		return faulty(errors.New("memory and nats exclude each other: set one of them"), "memory", "nats")
	case s.sync != time.Second:
		return faulty(errors.New("sync has no effect with nats: set sync_interval in the configuration of the NATS servers"), "sync", "nats")
	}
	return nil
}

// natsAccess are the settings that are of use only with NATS servers.
var natsAccess = []string{"nats-creds", "nats-nkey", "nats-token", "nats-ca", "nats-cert", "nats-key", "nats-replicas"}

// checkNATSListen refuses what contradicts a store that serves other processes, and a store that lets in anybody.
func (s *settings) checkNATSListen() error {
	n := &s.nats
	switch err := checkListen("nats-listen", n.Listen); {
	case err != nil:
		return err
	case n.URL != "":
		return faulty(errors.New("nats and nats-listen exclude each other: the store is on those servers, or in this process"), "nats", "nats-listen")
	case s.memory:
		return faulty(errors.New("memory and nats-listen exclude each other: what several processes store must survive one of them"), "memory", "nats-listen")
	case n.NKeyFile != "" || n.CredsFile != "" || n.Replicas != 0 || n.Prefix != "":
		return faulty(errors.New("nats-nkey, nats-creds, nats-replicas and nats-prefix have no effect with nats-listen: leave them away"), "nats-nkey", "nats-creds", "nats-replicas", "nats-prefix")
	case n.Token == "" && (n.CertFile == "" || n.CAFile == ""):
		return faulty(errors.New("nats-listen lets in whoever can read and write all sessions: set nats-token, or nats-cert, nats-key and nats-ca to let in those with a certificate"), "nats-listen")
	}
	return nil
}

// checkAuth refuses settings of tokens that contradict others, or that package auth refuses.
func (s *settings) checkAuth() error {
	if len(s.authIssuers) > 0 && len(s.auth.Issuers) > 0 && s.table.sourceOf("auth-issuer").rank <= byFile {
		return faulty(errors.New("auth-issuer and the issuers of auth exclude each other in a file: set one of them"), "auth-issuer")
	}
	if len(s.authAudiences) > 0 && len(s.authIssuers) == 0 {
		return faulty(errors.New("auth-audience is what tokens of auth-issuer are for, which is not set; an issuer in the section auth has audiences of its own"), "auth-audience")
	}
	c := s.authConfig()
	if c == nil {
		if len(s.authScopes) > 0 || len(s.auth.Scopes) > 0 || len(s.auth.Implies) > 0 || len(s.auth.Claims) > 0 {
			return faulty(errors.New("scopes, implies and claims have no effect where no token counts: set auth-issuer, or api-keys"), "auth-scope")
		}
		return nil
	}
	for _, i := range c.Issuers {
		if u, err := url.Parse(i.URL); s.publicURL == "" && err == nil && (c.PublicURL == "" || !isLoopback(u.Hostname())) {
			return faulty(fmt.Errorf("public-url is needed beside the issuer %s: tokens are made for the URL under which clients reach this server, such as https://mcp.example.com, and what a request says of its host is not believed", i.URL), "auth-issuer")
		}
	}
	a, err := auth.New(*c)
	if err != nil {
		return faulty(fmt.Errorf("the settings of tokens cannot be used: %s", oneLine(err)), "auth-issuer", "auth-audience", "auth-scope", "public-url")
	}
	a.Close()
	if err := c.CheckKeyFiles(); err != nil {
		return fmt.Errorf("the keys of an issuer in the section auth cannot be used: %s", oneLine(err))
	}
	return nil
}

// issuers are those of the flags, or else those of the section.
func (s *settings) issuers() (all []auth.Issuer) {
	for _, u := range s.authIssuers {
		all = append(all, auth.Issuer{URL: u, Audiences: s.authAudiences})
	}
	if len(all) > 0 {
		return all
	}
	return s.auth.Issuers
}

// takesTokens reports whether the settings name whose tokens or keys count.
func (s *settings) takesTokens() bool { return s.apiKeys || len(s.issuers()) > 0 }

// authConfig says whose tokens count, nil if none do.
func (s *settings) authConfig() *auth.Config {
	c := &auth.Config{Issuers: s.issuers(), PublicURL: cmp.Or(s.publicURL, s.localURL()), Scopes: s.auth.Scopes, Implies: s.auth.Implies, Claims: s.auth.Claims, AllowAnonymous: s.allowAnonymous, RequireScopes: true}
	if len(s.authScopes) > 0 {
		c.Scopes = s.authScopes
	}
	if s.apiKeys {
		c.APIKeys = auth.StoredKeys
	}
	if !s.takesTokens() {
		if host, _, _ := net.SplitHostPort(s.listen); s.conformance && c.PublicURL != "" && isLoopback(host) { // never for others than this machine
			return fixtureAuth(c.PublicURL)
		}
		return nil
	}
	return c
}

// localURL is the URL of a server that this machine alone reaches, and "" if others do, or its port is not known yet.
func (s *settings) localURL() string {
	host, port, err := net.SplitHostPort(s.listen)
	if err != nil || port == "0" || !isLoopback(host) {
		return ""
	}
	scheme := "http"
	if s.tlsCert != "" {
		scheme = "https"
	}
	return scheme + "://" + s.listen
}

func isLoopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.Unmap().IsLoopback()
}

// maxShards is the most shards that the store accepts.
const maxShards = 32

// nodeName matches the node names that the store accepts.
var nodeName = regexp.MustCompile(`^[a-z0-9-]{1,32}$`)

// checkListen refuses the text of a setting that is not an address. Whether the server can listen on
// it shows when it tries.
func checkListen(setting, address string) error {
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return faulty(fmt.Errorf("%s is %q: want an address and a port, such as 127.0.0.1:8080", setting, address), setting)
	}
	return nil
}

// defaultData is the data directory by the XDG base directory specification, by
// which relative paths are ignored.
func defaultData() (string, error) {
	if state := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(state) {
		return filepath.Join(state, "troupe"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", errors.New("there is no home directory to keep data in: set --data DIR, TROUPE_DATA or --memory")
	}
	return filepath.Join(home, ".local", "state", "troupe"), nil
}

func (s *settings) level() (slog.Level, error) {
	switch s.logLevel {
	case "debug":
		return slog.LevelDebug, nil
	case "info":
		return slog.LevelInfo, nil
	case "warn":
		return slog.LevelWarn, nil
	case "error":
		return slog.LevelError, nil
	}
	return 0, faulty(fmt.Errorf("log-level is %q: want debug, info, warn or error", s.logLevel), "log-level")
}

// logger returns the structured log of the settings, which check has accepted.
func (s *settings) logger(w io.Writer) *slog.Logger {
	level, _ := s.level()
	o := &slog.HandlerOptions{Level: level}
	if s.logFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}

// requestLog is what log-requests says.
func (s *settings) requestLog() (l troupe.RequestLog, err error) {
	for word := range strings.SplitSeq(s.logRequests, ",") {
		after, slow := strings.CutPrefix(word, "slow=")
		switch {
		case word == "":
		case word == "all":
			l.All = true
		case word == "errors":
			l.Errors = true
		case slow:
			if l.Slow, err = time.ParseDuration(after); err == nil && l.Slow > 0 {
				continue
			}
			fallthrough
		default:
			return l, faulty(fmt.Errorf("log-requests is %q: want all, errors, slow=TIME such as slow=1s, or errors,slow=1s", s.logRequests), "log-requests")
		}
	}
	return l, nil
}

// demo returns the server to serve where none of others are hosted.
func (s *settings) demo() *troupe.Server {
	if s.conformance {
		return everything.NewConformance(troupe.ServerOptions{})
	}
	return everything.New()
}

// options returns the settings as the library takes them, where 0 means the default
// and a negative time none.
func (s *settings) options() troupe.Options {
	o := troupe.Options{
		Dir: s.data, Listen: s.listen, AllowAnonymous: s.allowAnonymous, Auth: s.authConfig(), Revisions: s.revisions.all,
		Store: troupe.StoreOptions{Node: s.node, Shards: s.shards, Sync: s.sync, NATS: s.nats},
		HTTP: troupe.HTTPOptions{
			TLSCert: s.tlsCert, TLSKey: s.tlsKey,
			AllowOrigins: s.allowOrigins, AllowHosts: s.allowHosts, PublicURL: s.publicURL, TrustedProxies: s.trustedProxies, HealthListen: s.healthListen, PublicMetrics: s.publicMetrics, NetHTTP: s.netHTTP,
		},
	}
	if s.sync == 0 {
		o.Store.Sync = -1
	}
	s.limits.options(&o)
	o.Shared.Weights = s.weights
	o.Hosting.Keeper = startKeeper()
	return o
}

// writeSettings writes the settings that are no flags of cmd.
func (t *settingTable) writeSettings(cmd *cobra.Command) error {
	w := cmd.OutOrStdout()
	fmt.Fprintf(w, `The settings of %s that are no flags: write each as a line NAME: VALUE of the YAML file of --config, such as
max-body: 64MiB, as a variable of the environment, such as TROUPE_MAX_BODY=64MiB, which wins over the file, or as
--set NAME=VALUE, which wins over both. One that has no value here is true or false, and one that may be repeated
is a list: [A, B] in the file, A,B in the environment.
`, cmd.CommandPath())
	writeGroups(w, settingGroups, "", func(name string) *pflag.Flag {
		if cmd.Flags().Lookup(name) != nil {
			return nil
		}
		return t.Lookup(name)
	})
	return nil
}
