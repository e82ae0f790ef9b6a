//go:build unix

package main

import (
	"crypto/tls"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-run/troupe/test/kit/certificate"
)

// TestCertificateOfAProcess has clients call over connections that stay open, while their server's certificate is replaced: first the certificate alone, which is kept out, then its
// key; and then by a SIGHUP without a file of --config. No call fails.
func TestCertificateOfAProcess(t *testing.T) {
	t.Parallel()
	cert, key, pool := certificate.Files(t)
	nextCert, nextKey, _ := certificate.Files(t)
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	replace := func(file, by string) {
		t.Helper()
		text, err := os.ReadFile(by)
		if err == nil {
			err = os.WriteFile(file+".new", text, 0o600)
		}
		if err == nil {
			err = os.Rename(file+".new", file)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	replace(certFile, cert)
	replace(keyFile, key)
	p := startAny(t, "--memory", "--tls-cert", certFile, "--tls-key", keyFile, "--set", "call-rate=0", "--set", "principal-rate=0")
	p.base = p.await(t, `(https://127\.0\.0\.1:\d+)/metrics`)[1]
	shown := func() string {
		t.Helper()
		c, err := tls.Dial("tcp", strings.TrimPrefix(p.base, "https://"), &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		return string(c.ConnectionState().PeerCertificates[0].Raw)
	}
	first := shown()

	stop, begun := make(chan struct{}), make(chan struct{}, 8)
	var clients sync.WaitGroup
	for i := range 4 {
		tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: i%2 == 1, MaxConnsPerHost: 1}
		t.Cleanup(tr.CloseIdleConnections)
		c := &http.Client{Transport: tr}
		clients.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				status, body, err := callAlone(c, p.base, `{"text":"on a connection that stays"}`)
				if err != nil || status != http.StatusOK || !strings.Contains(body, "on a connection that stays") {
					t.Errorf("client %d, call %d: %d %s, %v", i, n, status, body, err)
					begun <- struct{}{}
					return
				}
				if n == 0 {
					begun <- struct{}{}
				}
				time.Sleep(2 * time.Millisecond) // calls on the way are what counts, and not how many
			}
		})
	}
	for range 4 {
		<-begun
	}
	replace(certFile, nextCert)
	p.await(t, "the certificate stays as it was")
	if shown() != first {
		t.Error("a certificate without its key is shown")
	}
	replace(keyFile, nextKey)
	p.await(t, "the TLS certificate was read again")
	if shown() == first {
		t.Error("the certificate was not replaced")
	}
	replace(certFile, cert)
	replace(keyFile, key)
	p.signal(t, syscall.SIGHUP)
	p.await(t, "(?s)the TLS certificate was read again.*the TLS certificate was read again")
	if shown() != first {
		t.Error("the certificate was not replaced again")
	}
	close(stop)
	clients.Wait()
}

// callAlone calls the tool echo as a client of 2026-07-28.
func callAlone(c *http.Client, base, arguments string) (status int, body string, err error) {
	r, err := http.NewRequest("POST", base+"/mcp", strings.NewReader(aloneBody("1", "tools/call", tool("echo", arguments))))
	if err != nil {
		return 0, "", err
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "echo",
	} {
		r.Header.Set(name, value)
	}
	resp, err := c.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	all, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(all), err
}
