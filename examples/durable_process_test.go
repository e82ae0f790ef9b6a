package examples_test

import (
	"bufio"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
)

// TestDurable kills the server in the middle of two calls and starts it again, as the
// comment of examples/durable says.
func TestDurable(t *testing.T) {
	t.Parallel()
	srv := start(t, binary(t), "durable")
	var origin atomic.Pointer[string] // the server's current address: its port changes, but the client's must not
	origin.Store(&srv.origin)
	proxy := httptest.NewServer(&httputil.ReverseProxy{FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0), Rewrite: func(r *httputil.ProxyRequest) {
		to, _ := url.Parse(*origin.Load())
		r.SetURL(to)
	}})
	defer proxy.Close()
	defer proxy.CloseClientConnections()

	try := func(tool string) (next func() string) {
		cmd := srv.shell("URL=" + proxy.URL + `/mcp exec go run ./examples/try tools/call '{"name":"` + tool + `","_meta":{"progressToken":"t"}}'`)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		lines := bufio.NewScanner(out)
		return func() string {
			if !lines.Scan() {
				t.Fatalf("%s ended: %s", tool, cmd.Stderr)
			}
			return lines.Text()
		}
	}
	progress := func(n int) string {
		return fmt.Sprintf(`notifications/progress {"progressToken":"t","progress":%d,"total":10}`, n)
	}
	count, once := try("count"), try("once")
	for n := 1; n <= 2; n++ {
		for _, got := range []string{count(), once()} {
			if got != progress(n) {
				t.Fatalf("got %s, want %s", got, progress(n))
			}
		}
	}
	srv.kill()
	srv.start()
	origin.Store(&srv.origin)
	srv.logged("counting, attempt 2")
	for n := 3; n <= 10; n++ {
		if got := count(); got != progress(n) {
			t.Fatalf("got %s, want %s", got, progress(n))
		}
	}
	if got, want := count(), `{"content":[{"type":"text","text":"counted to 10"}]}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	got := once()
	for strings.HasPrefix(got, "notifications/progress") { // notifications that the server had sent before the kill
		got = once()
	}
	if want := `{"code":-32010,`; !strings.HasPrefix(got, want) {
		t.Errorf("got %s, want %s...", got, want)
	}
}
