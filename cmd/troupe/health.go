package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// healthPatience is how long troupe health waits for an answer.
const healthPatience = 5 * time.Second

// healthCommand asks a server whether it is healthy, for images that have neither a shell nor curl.
func healthCommand(stdout io.Writer) *cobra.Command {
	var s settings
	var ready bool
	var base string
	cmd := &cobra.Command{
		Use:   "health [flags]",
		Short: "Ask a server of this machine whether it is healthy, or ready",
		Long: "Asks the server that the same settings describe for /healthz, or with --ready for /readyz: where --health-listen says,\n" +
			"or else --listen, by way of the loopback interface if that is every address, and over TLS if there is --tls-cert.\n" +
			"Needs no shell: in a container the environment of the server is enough. Exit codes: 0 if it is, 1 if it is not or\n" +
			"does not answer within 5 s, 2 if the settings do not say whom to ask.",
		Example: `  troupe health
  troupe health --ready --url https://mcp.example.com
  HEALTHCHECK CMD ["troupe", "health"]                  in a Dockerfile`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if s.helpLimits {
				return s.table.writeSettings(cmd)
			}
			probe := &healthProbe{path: "/healthz"}
			if ready {
				probe.path = "/readyz"
			}
			if err := probe.find(&s, base); err != nil {
				return err
			}
			text, err := probe.ask(cmd.Context())
			if err != nil {
				return &failure{oneLine(err), err}
			}
			_, err = fmt.Fprintln(stdout, text)
			return err
		},
	}
	s.register(cmd, settingGroups, "listen", "health-listen", "tls-cert")
	f := cmd.Flags()
	f.BoolVar(&ready, "ready", false, "ask whether it can serve at the moment, and not only whether it works")
	f.StringVar(&base, "url", "", "`url` of the server, in place of the address in the settings")
	groupedHelp(cmd, slices.Concat([]flagGroup{{"What to ask", []string{"ready", "url"}}}, settingGroups, []flagGroup{{"All other settings", []string{"config", "set", "help-limits"}}}))
	return cmd
}

// healthProbe is a question to a server.
type healthProbe struct {
	path      string
	base      string
	shown     string   // base, as messages have it
	addresses []string // to connect to, one after the other; nil for that of base
}

// find says where the server is: at base, or where the settings have it listen.
func (p *healthProbe) find(s *settings, base string) error {
	if base != "" {
		u, err := url.Parse(base)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User == nil && strings.Contains(base, "@") {
			return errors.New("url is none such as http://127.0.0.1:8080; in a password write %2F for / and %40 for @") // without its text, which may have one
		}
		p.base = strings.TrimSuffix(base, "/")
		u.User = nil
		p.shown = strings.TrimSuffix(u.String(), "/")
		return nil
	}
	s.withoutSections = true // which may name files that only the server can read
	if err := s.readSources(); err != nil {
		return err
	}
	setting, listen, scheme := "listen", s.listen, "http"
	if s.tlsCert != "" {
		scheme = "https"
	}
	if s.healthListen != "" {
		setting, listen, scheme = "health-listen", s.healthListen, "http"
	}
	if err := checkListen(setting, listen); err != nil {
		return s.table.explainSources(err)
	}
	host, port, _ := net.SplitHostPort(listen)
	if port == "0" {
		return s.table.explainSources(faulty(fmt.Errorf("%s is %q, which is any free port: name the one that the server has got with --url", setting, listen), setting))
	}
	// The name is one that every server answers to, whatever --allow-host says.
	p.base = scheme + "://" + net.JoinHostPort("localhost", port)
	p.addresses = []string{net.JoinHostPort(host, port)}
	switch ip, err := netip.ParseAddr(host); {
	case err == nil && ip.Unmap() == netip.IPv4Unspecified(): // on [::1] another server may listen
		p.addresses = []string{net.JoinHostPort("127.0.0.1", port)}
	case host == "" || err == nil && ip.IsUnspecified():
		p.addresses = []string{net.JoinHostPort("127.0.0.1", port), net.JoinHostPort("::1", port)}
	}
	p.shown = scheme + "://" + p.addresses[0]
	return nil
}

// ask returns what the server says of itself, or an error if that is nothing good.
func (p *healthProbe) ask(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, healthPatience, fmt.Errorf("no answer within %v", healthPatience))
	defer cancel()
	where := p.shown + p.path
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.base+p.path, nil)
	if err != nil {
		return "", err
	}
	t := &http.Transport{DisableKeepAlives: true} // and no proxy
	if p.addresses != nil {
		t.DialContext = p.dial
		t.TLSClientConfig = &tls.Config{InsecureSkipVerify: true} // the certificate is for its public name, and what is asked is no secret
	}
	c := &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := c.Do(r)
	if err != nil {
		if late := context.Cause(ctx); late != nil {
			err = late
		}
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err
		}
		return "", fmt.Errorf("%s cannot be asked: %w", where, err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, mostLine))
	if err != nil {
		return "", fmt.Errorf("%s cannot be asked: %w", where, err)
	}
	text := plainLine(strings.TrimSpace(string(body)), mostLine)
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s is answered with %d: %s", where, resp.StatusCode, text)
	}
	return fmt.Sprintf("%s: %s", where, text), nil
}

// dial connects to the first address that answers.
func (p *healthProbe) dial(ctx context.Context, network, _ string) (c net.Conn, err error) {
	var d net.Dialer
	var first error
	for _, address := range p.addresses {
		if c, err = d.DialContext(ctx, network, address); err == nil {
			return c, nil
		}
		if first == nil {
			first = err
		}
	}
	return nil, first
}
