package troupe

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe/cluster"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/telemetry"
)

// TestHealthOfAFullDisk checks that a store that cannot write makes the process unhealthy only
// after a minute: it recovers by itself when the disk has room.
func TestHealthOfAFullDisk(t *testing.T) {
	t.Parallel()
	began := time.Now()
	for _, c := range []struct {
		outage *cluster.Outage
		after  time.Duration
		status int
		text   string
	}{
		{nil, 0, 200, "ok\n"},
		{&cluster.Outage{Since: began, Full: true}, 59 * time.Second, 200, "ok\n"},
		{&cluster.Outage{Since: began, Full: true}, time.Minute, 503, "the disk of the store is full, for 1m0s\n"},
		{&cluster.Outage{Since: began}, 2 * time.Minute, 503, "the disk of the store cannot be written, for 2m0s\n"},
	} {
		if status, text := healthStatus(c.outage, began.Add(c.after)); status != c.status || text != c.text {
			t.Errorf("after %v of %+v: %d %q, want %d %q", c.after, c.outage, status, text, c.status, c.text)
		}
	}
}

// TestWhatTheTransportRefusesIsLogged refuses and cuts for each limit of the transport. The log names the limit, and its
// flag if it has one. It does not name what is refused for other reasons.
func TestWhatTheTransportRefusesIsLogged(t *testing.T) {
	t.Parallel()
	for _, s := range limits.Sections() {
		for row := range limits.All(s) {
			if row.Counted == "" || row.By == limits.Refusals {
				continue
			}
			var log strings.Builder
			o := observer{new(telemetry.Instruments), limits.NewLog(slog.New(slog.NewJSONHandler(&log, nil)))}
			if row.By == limits.Cuts {
				o.Cut(row.Counted)
			} else {
				o.Rejected(429, row.Counted)
			}
			want := fmt.Sprintf(`"limit":%q,"times":1`, row.Name)
			if row.Option != "" {
				want += `,"setting":"` + row.Setting() + `"`
			}
			if !strings.Contains(log.String(), want) {
				t.Errorf("%s: %s", want, log.String())
			}
		}
	}
	var log strings.Builder
	o := observer{new(telemetry.Instruments), limits.NewLog(slog.New(slog.NewJSONHandler(&log, nil)))}
	o.Rejected(403, "origin")
	o.Cut("asked")
	if log.Len() > 0 {
		t.Errorf("no limit, and: %s", log.String())
	}
	if o.Cut("memory"); !strings.Contains(log.String(), `"setting":"max-memory"`) {
		t.Errorf("a stream that found no memory: %s", log.String())
	}
}

// TestServerLog writes what an http.Server logs because of its clients, and a panic twice, which is a defect.
func TestServerLog(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	to := slog.New(slog.NewTextHandler(&b, nil))
	l := log.New(serverLog{&Runtime{shared: shared{log: to, hits: limits.NewLog(to), tel: new(telemetry.Instruments)}}}, "", 0)
	for range 3 {
		l.Print("http2: server connection error from 192.0.2.1:1: PROTOCOL_ERROR")
		l.Print("http: TLS handshake error from 192.0.2.1:1: EOF")
	}
	for range 2 {
		l.Print("http: panic serving 192.0.2.1:1: on purpose")
	}
	want := []string{`level=WARN msg="the HTTP server reports an error" times=1 error="http2: server`, `level=INFO msg="a TLS handshake failed" times=1`, "level=WARN msg=\"http: panic", "level=WARN msg=\"http: panic"}
	got := strings.Split(strings.TrimSpace(b.String()), "\n")
	for i := range want {
		if len(got) != len(want) || !strings.Contains(got[i], want[i]) {
			t.Fatalf("logged:\n%s", b.String())
		}
	}
}

// TestNoSocket leaves out the socket of troupe tasks where it is not wanted.
func TestNoSocket(t *testing.T) {
	t.Parallel()
	for _, without := range []bool{false, true} {
		dir := t.TempDir()
		rt, err := New(Options{Dir: dir, DrainDelay: -1, Store: StoreOptions{NoSocket: without}})
		if err != nil {
			t.Fatal(err)
		}
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- rt.ServeOn(ctx, ln) }()
		resp, err := http.Get("http://" + ln.Addr().String() + "/healthz")
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if _, err := os.Stat(filepath.Join(dir, "admin.sock")); (err == nil) == without {
			t.Errorf("with NoSocket %v: %v", without, err)
		}
		end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}
