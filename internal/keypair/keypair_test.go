package keypair

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/internal/bubble"
	"github.com/troupe-run/troupe/test/kit/certificate"
)

// files are a certificate and a key where a Pair looks for them.
type files struct {
	t         *testing.T
	cert, key string
}

func newFiles(t *testing.T) files {
	dir := t.TempDir()
	return files{t, filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")}
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// issue returns the contents of another certificate and its key.
func issue(t *testing.T) (cert, key []byte) {
	t.Helper()
	certFile, keyFile, _ := certificate.Files(t)
	return read(t, certFile), read(t, keyFile)
}

func (f files) write(cert, key []byte) {
	f.t.Helper()
	for name, text := range map[string][]byte{f.cert: cert, f.key: key} {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			f.t.Fatal(err)
		}
	}
}

// shows reports whether a pair has the certificate with which a file begins.
func shows(t *testing.T, p *Pair, cert []byte) bool {
	t.Helper()
	c, err := p.Certificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	first, _ := pem.Decode(cert)
	return bytes.Equal(c.Certificate[0], first.Bytes)
}

// TestHalfWrittenFilesAreKeptOut replaces the files one after the other, and cuts them off at each length: the pair changes only when both are there.
func TestHalfWrittenFilesAreKeptOut(t *testing.T) {
	t.Parallel()
	cert, key := issue(t)
	next, nextKey := issue(t)
	f := newFiles(t)
	f.write(cert, key)
	p, err := Open(f.cert, f.key)
	if err != nil {
		t.Fatal(err)
	}
	if fresh, err := p.Read(); fresh || err != nil {
		t.Errorf("as it was: %v, %v", fresh, err)
	}
	f.write(next, key)
	for i, want := range []bool{true, false, false} {
		if fresh, err := p.Read(); fresh != want || err == nil || !shows(t, p, cert) {
			t.Errorf("with another certificate alone, time %d: %v, %v", i+1, fresh, err)
		}
	}
	for n := 0; n < len(next)-1; n += 7 {
		f.write(next[:n], nextKey)
		if _, err := p.Read(); err == nil || !shows(t, p, cert) {
			t.Fatalf("with %d bytes of the certificate: %v", n, err)
		}
	}
	for n := 0; n < len(nextKey)-1; n += 7 {
		f.write(next, nextKey[:n])
		if _, err := p.Read(); err == nil || !shows(t, p, cert) {
			t.Fatalf("with %d bytes of the key: %v", n, err)
		}
	}
	chain := append(bytes.Clone(next), cert...)
	for n := len(next) + 30; n < len(chain)-1; n += 7 {
		f.write(chain[:n], nextKey)
		if _, err := p.Read(); err == nil || !strings.Contains(err.Error(), "ends before its end") || !shows(t, p, cert) {
			t.Fatalf("with %d bytes of a chain: %v", n, err)
		}
	}
	f.write(chain, nextKey)
	if fresh, err := p.Read(); !fresh || err != nil || !shows(t, p, next) {
		t.Errorf("with both: %v, %v", fresh, err)
	}
	if c, _ := p.Certificate(nil); len(c.Certificate) != 2 || !p.Expires().Equal(c.Leaf.NotAfter) {
		t.Errorf("the chain has %d certificates", len(c.Certificate))
	}
	if err := os.Remove(f.key); err != nil {
		t.Fatal(err)
	}
	if fresh, err := p.Read(); !fresh || !errors.Is(err, fs.ErrNotExist) || !shows(t, p, next) {
		t.Errorf("without the key: %v, %v", fresh, err)
	}
	f.write(chain, nextKey)
	if fresh, err := p.Read(); !fresh || err != nil {
		t.Errorf("with the key again: %v, %v", fresh, err)
	}
}

// TestWatchFollowsLinks moves a link as Kubernetes does for a Secret, and has Watch tell of it once; of files that cannot be used it tells once, too.
func TestWatchFollowsLinks(t *testing.T) {
	t.Parallel()
	cert, key := issue(t)
	next, nextKey := issue(t)
	dir := t.TempDir()
	link := func(version string, cert, key []byte) {
		t.Helper()
		if err := os.Mkdir(filepath.Join(dir, version), 0o700); err != nil {
			t.Fatal(err)
		}
		files{t, filepath.Join(dir, version, "cert.pem"), filepath.Join(dir, version, "key.pem")}.write(cert, key)
		moving := filepath.Join(dir, "moving")
		if err := os.Symlink(version, moving); err != nil {
			t.Skipf("no links here: %v", err)
		}
		if err := os.Rename(moving, filepath.Join(dir, "data")); err != nil {
			t.Fatal(err)
		}
	}
	link("one", cert, key)
	p, err := Open(filepath.Join(dir, "data", "cert.pem"), filepath.Join(dir, "data", "key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	bubble.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		var mu sync.Mutex // the race detector knows nothing of the order that virtual time gives
		var heard []error
		go p.Watch(ctx, 5*time.Second, func(err error) {
			mu.Lock()
			defer mu.Unlock()
			heard = append(heard, err)
		})
		// tells returns what Watch has told since it was called last.
		tells := func() []error {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			all := heard
			heard = nil
			return all
		}
		time.Sleep(time.Minute)
		if told := tells(); told != nil {
			t.Errorf("of files that did not change it tells %v", told)
		}
		link("two", next, nextKey)
		time.Sleep(time.Minute)
		if told := tells(); len(told) != 1 || told[0] != nil || !shows(t, p, next) {
			t.Errorf("of a link that was moved it tells %v", told)
		}
		link("three", cert, nextKey)
		time.Sleep(time.Minute)
		if told := tells(); len(told) != 1 || told[0] == nil || !shows(t, p, next) {
			t.Errorf("of files that do not fit it tells %v", told)
		}
		link("four", next, nextKey)
		time.Sleep(time.Minute)
		tells()
		now := files{t, filepath.Join(dir, "four", "cert.pem"), filepath.Join(dir, "four", "key.pem")}
		for _, half := range []struct{ cert, key []byte }{{cert, nextKey}, {cert, key}, {append(bytes.Clone(cert), next...), key}} { // each is there for one look alone
			now.write(half.cert, half.key)
			time.Sleep(5 * time.Second)
			if told := tells(); told != nil || !shows(t, p, next) {
				t.Errorf("of files that are being written it tells %v", told)
			}
		}
		time.Sleep(5 * time.Second)
		told := tells()
		if c, _ := p.Certificate(nil); len(told) != 1 || told[0] != nil || len(c.Certificate) != 2 {
			t.Errorf("of files that were written one after the other it tells %v, and has %d certificates", told, len(c.Certificate))
		}
		stop()
		synctest.Wait()
	})
}
