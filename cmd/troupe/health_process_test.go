package main

import (
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"

	"github.com/troupe-run/troupe/test/kit/certificate"
)

// TestHealthCommand asks a server by the settings that it was started with, while it serves and while it drains.
func TestHealthCommand(t *testing.T) {
	t.Parallel()
	p := start(t, "--memory", "--drain-delay", "1h")
	address := strings.TrimPrefix(p.base, "http://")
	_, port, _ := strings.Cut(address, ":")
	asks := func(want int, text string, args ...string) {
		t.Helper()
		code, out, errs := outputOf(append([]string{"health"}, args...)...)
		if code != want || !strings.Contains(out+errs, text) {
			t.Errorf("%q ends with %d, %q and %q, want %d and %q", args, code, out, errs, want, text)
		}
	}
	asks(0, p.base+"/healthz: ok\n", "--listen", address)
	asks(0, p.base+"/readyz: ready\n", "--listen", address, "--ready")
	asks(0, p.base+"/readyz: ready\n", "--url", p.base+"/", "--ready")
	for _, everywhere := range []string{"0.0.0.0:", "[::]:", ":"} {
		asks(0, p.base+"/healthz: ok\n", "--listen", everywhere+port)
	}
	asks(0, "/healthz: ok\n", "--listen", "127.0.0.1:1", "--health-listen", address, "--tls-cert", "a.pem")
	asks(1, "https://"+address+"/healthz cannot be asked: ", "--listen", address, "--tls-cert", "a.pem")
	asks(1, "http://127.0.0.1:1/healthz cannot be asked: dial tcp 127.0.0.1:1: ", "--listen", "127.0.0.1:1")
	asks(1, p.base+"/mcp/healthz is answered with ", "--url", p.base+"/mcp")
	asks(2, "which is any free port: name the one that the server has got with --url (set by --listen)", "--listen", "127.0.0.1:0")
	asks(2, "(set by --set health-listen)", "--set", "health-listen=nowhere")
	asks(2, "url is ", "--url", "127.0.0.1:80")
	for want, bad := range map[int]string{0: "http://user:hunter2@" + address, 1: "http://hunter2@127.0.0.1:1", 2: "http://user:hunter2/@" + address} {
		code, out, errs := outputOf("health", "--url", bad)
		if code != want || strings.Contains(out+errs, "hunter2") {
			t.Errorf("%s ends with %d, %q and %q, want %d without the password", bad, code, out, errs, want)
		}
	}
	file := writeConfig(t, "auth:\n  issuers:\n  - url: https://id.example.com\n    introspection: {url: https://id.example.com/i, client-id: c, client-secret-file: /nowhere/secret}\nlisten: "+address+"\n")
	asks(0, "/healthz: ok\n", "--config", file)

	p.signal(t, syscall.SIGTERM)
	p.await(t, "a second signal ends the process at once")
	p.awaitReady(t, http.StatusServiceUnavailable, "draining")
	asks(0, "/healthz: ok\n", "--listen", address)
	asks(1, "/readyz is answered with 503: draining\n", "--listen", address, "--ready")
}

// TestHealthOverTLS asks a server whose certificate this machine does not trust.
func TestHealthOverTLS(t *testing.T) {
	t.Parallel()
	cert, key, _ := certificate.Files(t)
	p := startAny(t, "--memory", "--tls-cert", cert, "--tls-key", key)
	base := p.await(t, `(https://127\.0\.0\.1:\d+)/metrics`)[1]
	if code, out, errs := outputOf("health", "--listen", strings.TrimPrefix(base, "https://"), "--tls-cert", cert, "--ready"); code != 0 || out != base+"/readyz: ready\n" {
		t.Errorf("it ends with %d, %q and %q", code, out, errs)
	}
	if code, _, errs := outputOf("health", "--url", base); code != 1 || !strings.Contains(errs, "certificate") {
		t.Errorf("under a URL it ends with %d and %q", code, errs)
	}
}

// TestHealthAddresses has health look where the server listens, and nowhere else.
func TestHealthAddresses(t *testing.T) {
	t.Parallel()
	for listen, want := range map[string]string{
		"127.0.0.1:80": "127.0.0.1:80", "a.example:80": "a.example:80", "0.0.0.0:80": "127.0.0.1:80", "[::ffff:0.0.0.0]:80": "127.0.0.1:80", ":80": "127.0.0.1:80 [::1]:80", "[::]:80": "127.0.0.1:80 [::1]:80",
	} {
		var s settings
		cmd := &cobra.Command{}
		s.register(cmd, settingGroups, "listen")
		s.environ = nil
		if err := cmd.ParseFlags([]string{"--listen", listen}); err != nil {
			t.Fatal(err)
		}
		p := &healthProbe{}
		if err := p.find(&s, ""); err != nil || strings.Join(p.addresses, " ") != want {
			t.Errorf("where the server listens on %s it is asked at %q: %v", listen, p.addresses, err)
		}
	}
}
