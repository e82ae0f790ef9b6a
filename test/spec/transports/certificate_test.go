package transports_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/test/kit/certificate"
	"github.com/troupe-run/troupe/test/spec/host"
)

// TestTLSFilesAreReadAgain replaces the certificate of a server whose clients ask all the while: the connections that are open go on, new ones see the new certificate, and files that
// do not fit, or are written in part, are kept out, logged and counted.
func TestTLSFilesAreReadAgain(t *testing.T) {
	t.Parallel()
	certFile, keyFile, pool := certificate.Files(t)
	nextCert, nextKey, _ := certificate.Files(t)
	var log host.Lines
	h := host.NewLoopback(t, troupe.Options{Log: slog.New(slog.NewTextHandler(&log, nil)), HTTP: troupe.HTTPOptions{TLSCert: certFile, TLSKey: keyFile}}, nil, nil)
	h.URL = "https" + strings.TrimPrefix(h.URL, "http")
	address := strings.TrimSuffix(strings.TrimPrefix(h.URL, "https://"), "/mcp")
	shown := func() []byte {
		t.Helper()
		c, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return c.ConnectionState().PeerCertificates[0].Raw
	}
	first := shown()
	copyFile := func(from, to string, most int) {
		t.Helper()
		text, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(to, text[:min(most, len(text))], 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}

	// One connection of each version, in use from before to after.
	stop, ended := make(chan struct{}), new(sync.WaitGroup)
	begun := make(chan struct{}, 2)
	for _, version := range []int{1, 2} {
		tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: version == 2, MaxConnsPerHost: 1}
		defer tr.CloseIdleConnections()
		client := &http.Client{Transport: tr}
		ended.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				resp, err := client.Get("https://" + address + "/healthz") // which has no limit; a new connection would not be trusted
				if err == nil {
					_, err = io.Copy(io.Discard, resp.Body)
					_ = resp.Body.Close()
				}
				if err != nil || resp.StatusCode != http.StatusOK {
					t.Errorf("HTTP/%d, request %d: %v", version, n, err)
					begun <- struct{}{}
					return
				}
				if n == 0 {
					begun <- struct{}{}
				}
			}
		})
	}
	<-begun
	<-begun

	if err := h.Runtime.ReloadTLS(); err != nil || h.Gauge("troupe.tls.reloads", "applied") != 0 {
		t.Errorf("files that did not change: %v, and %d are counted", err, h.Gauge("troupe.tls.reloads", "applied"))
	}
	copyFile(nextCert, certFile, 200)
	if err := h.Runtime.ReloadTLS(); err == nil || !bytes.Equal(shown(), first) {
		t.Errorf("half a certificate: %v", err)
	}
	copyFile(nextCert, certFile, 1<<20)
	if err := h.Runtime.ReloadTLS(); err == nil || !bytes.Equal(shown(), first) {
		t.Errorf("a certificate without its key: %v", err)
	}
	copyFile(nextKey, keyFile, 1<<20)
	if err := h.Runtime.ReloadTLS(); err != nil || bytes.Equal(shown(), first) {
		t.Errorf("both: %v", err)
	}
	close(stop)
	ended.Wait()
	if applied, refused := h.Gauge("troupe.tls.reloads", "applied"), h.Gauge("troupe.tls.reloads", "refused"); applied != 1 || refused < 2 { // a server that looks by itself meanwhile counts one more
		t.Errorf("%d are counted as applied and %d as refused, want 1 and 2", applied, refused)
	}
	if text := log.String(); strings.Count(text, "the certificate stays as it was") < 2 || strings.Count(text, "the TLS certificate was read again") != 1 {
		t.Errorf("logged:\n%s", text)
	}
	ends := func() time.Time { return time.Unix(h.Gauge("troupe.tls.expires", ""), 0) }
	if served, err := x509.ParseCertificate(shown()); err != nil || !ends().Equal(served.NotAfter) {
		t.Errorf("the certificate ends at %v as a metric, and really at %v (%v)", ends(), served.NotAfter, err)
	}
	if plain := host.NewLoopback(t, troupe.Options{}, nil, nil); plain.Runtime.ReloadTLS() != nil {
		t.Error("without TLS there is something to read")
	}
}
