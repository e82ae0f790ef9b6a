//go:build full && linux

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-run/troupe/test/kit"
)

// A world is what is watched: three nodes of the command and one of bench/lab, whose tool fails as it is asked to, on three NATS servers, which
// are the job fleet; single, a process with a data directory on a small disk, TLS and a collector of its traces; and loose, one that keeps everything in memory
// and has small limits.
type world struct {
	prometheus         string // its URL
	nats               []*process
	natsURL            string
	a, b, c, d         *process
	single, loose      *process
	disk               string // that of single
	cert               keys   // of single
	collector          *collector
	ofFleet, ofSingle  *load
	ofLoose            *load
	onA, onD, onSingle *caller
}

// The calls a second that go on in each job.
const (
	fleetRate  = 100
	singleRate = 20
	looseRate  = 200
)

func newWorld(t *testing.T) *world {
	t.Helper()
	troupe, lab := build(t)
	w := &world{disk: kit.SmallDisk(t, 96<<20), collector: newCollector(t), cert: keys(t.TempDir())}
	w.nats, w.natsURL = newNATS(t, lab)
	fleet := []string{"--nats", w.natsURL, "--drain-wait", "30s"}
	w.a, w.b, w.c = newNode(t, troupe, "a", fleet...), newNode(t, troupe, "b", fleet...), newNode(t, troupe, "c", fleet...)
	at := addresses(t, 1)[0]
	w.d = &process{name: "d", bin: lab, address: at, ready: "http://" + at + "/readyz", args: []string{"serve", "--listen", at, "--nats", w.natsURL, "--node", "d", "--servers", "1"}}
	w.cert.write(t, 90*24*time.Hour)
	w.single = newNode(t, troupe, "single", "--data", filepath.Join(w.disk, "data"), "--max-store", "32MiB", "--tls-cert", w.cert.file(), "--tls-key", w.cert.keyFile(), "--trusted-proxy", "127.0.0.1")
	w.single.env = []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=" + w.collector.URL + "/v1/traces", "OTEL_BSP_SCHEDULE_DELAY=500"}
	w.loose = newNode(t, troupe, "loose", "--memory", "--max-memory", "128MiB", "--max-store", "256MiB", "--trusted-proxy", "127.0.0.1",
		"--set", "max-queued=64KiB", "--set", "log-rate=0", "--set", "open-tasks-per-node=1")
	all := []*process{w.a, w.b, w.c, w.d, w.single, w.loose}
	w.a.start(t) // alone, as it makes the streams on the servers
	for _, p := range all[1:] {
		p.launch(t)
	}
	for _, p := range all {
		p.await(t)
	}
	w.prometheus = newPrometheus(t, map[string][]*process{"fleet": all[:4], "single": {w.single}, "loose": {w.loose}})
	w.onA, w.onD, w.onSingle = &caller{to: w.a}, &caller{to: w.d}, &caller{to: w.single, tls: true}
	w.ofFleet = newLoad(t, fleetRate, w.onA, &caller{to: w.b})
	w.ofSingle = newLoad(t, singleRate, w.onSingle)
	w.ofLoose = newLoad(t, looseRate, &caller{to: w.loose})
	return w
}

// natsSignal sends a signal to all NATS servers.
func (w *world) natsSignal(t *testing.T, s syscall.Signal) {
	for _, p := range w.nats {
		p.signal(t, s)
	}
}

// metrics are what a process says at /metrics.
func metrics(t *testing.T, p *process) string {
	t.Helper()
	resp, err := quick.Get(strings.TrimSuffix(p.ready, "/readyz") + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("/metrics of %s: %d, %v", p.name, resp.StatusCode, err)
	}
	return string(text)
}

// metric sums the series of a metric of a process whose labels match a pattern.
func metric(t *testing.T, p *process, name, labels string) (total float64) {
	t.Helper()
	for _, m := range regexp.MustCompile(`(?m)^`+name+`(?:\{([^}]*)\})? (\S+)$`).FindAllStringSubmatch(metrics(t, p), -1) {
		if regexp.MustCompile(labels).MatchString(m[1]) {
			v, err := strconv.ParseFloat(m[2], 64)
			if err != nil {
				t.Fatal(err)
			}
			total += v
		}
	}
	return total
}

// keys is a directory with a certificate and its key.
type keys string

func (k keys) file() string    { return filepath.Join(string(k), "tls.crt") }
func (k keys) keyFile() string { return filepath.Join(string(k), "tls.key") }

// write writes a new certificate for 127.0.0.1 that is valid for a time.
func (k keys) write(t *testing.T, valid time.Duration) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(valid), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{k.file(): {Type: "CERTIFICATE", Bytes: der}, k.keyFile(): {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// A collector takes what is exported, or refuses it.
type collector struct {
	*httptest.Server
	refuses atomic.Bool
}

func newCollector(t *testing.T) *collector {
	c := &collector{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if c.refuses.Load() {
			w.WriteHeader(http.StatusBadRequest) // which is not tried again
		}
	}))
	t.Cleanup(c.Close)
	return c
}
