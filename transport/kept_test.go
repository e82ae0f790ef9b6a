package transport

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/troupe-run/troupe/test/kit/certificate"
	"github.com/troupe-run/troupe/transport/server"
)

// TestKept has what is kept for a connection be the same for all of its requests, and for no other connection, over HTTP/1.1 and over HTTP/2.
func TestKept(t *testing.T) {
	t.Parallel()
	certFile, keyFile, pool := certificate.Files(t)
	type kept struct{ n int }
	for version, scheme := range map[int]string{1: "http", 2: "https"} {
		s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			k := server.Kept[kept](r)
			k.n++
			_, _ = fmt.Fprintf(w, "%p %d", k, k.n)
		})}
		d := server.NewListener(listen(t), s)
		served := make(chan error, 1)
		go func() {
			if version == 2 {
				served <- s.ServeTLS(d, certFile, keyFile)
			} else {
				served <- s.Serve(front(Reuse(d, s), s))
			}
		}()
		t.Cleanup(func() { _ = s.Close(); <-served })
		of := map[string]int{} // connections by what is kept for them
		for conn := range 3 {
			tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: version == 2, MaxConnsPerHost: 1}
			t.Cleanup(tr.CloseIdleConnections)
			client := &http.Client{Transport: tr}
			addr := d.Addr().String()
			get := func() (*http.Response, error) { return client.Get(scheme + "://" + addr) }
			if version == 1 { // net/http's client may take another connection when its writer is late
				own := dial(t, addr)
				get = func() (*http.Response, error) { return own.send(request("GET", addr, "")).response("GET"), nil }
			}
			for n := 1; n <= 3; n++ {
				resp, err := get()
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				var at string
				var count int
				if _, e := fmt.Sscan(string(body), &at, &count); err != nil || e != nil || count != n || resp.ProtoMajor != version {
					t.Errorf("request %d of a connection is answered %q over %s: %v, %v", n, body, resp.Proto, err, e)
				}
				if before, ok := of[at]; ok && before != conn {
					t.Errorf("two connections of %s share it", resp.Proto)
				}
				of[at] = conn
			}
		}
	}
	if k := server.Kept[kept](httptest.NewRequest(http.MethodGet, "/", nil)); k != nil {
		t.Errorf("a request of no connection has %v", k)
	}
}
