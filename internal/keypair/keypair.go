// Package keypair has the certificate and the key of a TLS server in two files that may be replaced
// while it serves.
//
// A [Pair] keeps the last contents that fit together. Files of which one is new and the other not yet,
// that are written in part, or that are not there, leave it as it is; so a client is never shown a
// certificate without its key. A handshake reads the Pair once, and connections that are open do not
// read it at all.
//
// The contents are compared, not the times of the files: a link that is moved to another directory, as
// Kubernetes moves those of a Secret, and a file that is written again within the clock's resolution
// are changes like any other.
//
// All methods may be called from any goroutine.
package keypair

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Pair is a certificate, with those that lead to its authority, and its key.
type Pair struct {
	certFile, keyFile string
	now               atomic.Pointer[tls.Certificate]

	mu   sync.Mutex // guards seen and glimpsed, and is held while the files are read
	seen contents   // that were last judged, whether they could be used or not
	// glimpsed is what Watch has found once.
	glimpsed *contents
}

// contents are those of the two files, or why they could not be read.
type contents struct {
	cert, key []byte
	fault     string
}

func (c *contents) equal(o *contents) bool {
	return c.fault == o.fault && bytes.Equal(c.cert, o.cert) && bytes.Equal(c.key, o.key)
}

// Open reads the files. It fails if they cannot be used.
func Open(certFile, keyFile string) (*Pair, error) {
	p := &Pair{certFile: certFile, keyFile: keyFile}
	if _, err := p.Read(); err != nil {
		return nil, err
	}
	return p, nil
}

// Certificate returns the pair, for tls.Config.GetCertificate.
func (p *Pair) Certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) { return p.now.Load(), nil }

// Read reads the files again. fresh says that they are not as they were when they were last read. If
// they cannot be used, Read returns why, and the pair stays as it was.
func (p *Pair) Read() (fresh bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.judge(p.readFiles())
}

// found is what a look at the files has found: contents, and a pair if they can be used, or else why not.
type found struct {
	contents
	pair tls.Certificate
	err  error
}

// readFiles reads the files. mu is held.
func (p *Pair) readFiles() (f found) {
	if f.cert, f.err = os.ReadFile(p.certFile); f.err == nil {
		f.key, f.err = os.ReadFile(p.keyFile)
	}
	if f.err == nil {
		f.pair, f.err = parse(f.cert, f.key)
	}
	if f.err != nil {
		f.fault = f.err.Error()
	}
	return f
}

// judge takes what was found, and says whether it is other than what was judged before. mu is held.
func (p *Pair) judge(f found) (fresh bool, err error) {
	fresh = !f.equal(&p.seen)
	p.seen, p.glimpsed = f.contents, nil
	if f.err == nil && fresh {
		p.now.Store(&f.pair)
	}
	return fresh, f.err
}

// readSettled is Read, for contents that the look before has found, too. Others may still be written: the chain of a
// certificate may end behind any of them, and of two files one comes first.
func (p *Pair) readSettled() (fresh bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.readFiles()
	if f.equal(&p.seen) || p.glimpsed != nil && f.equal(p.glimpsed) {
		return p.judge(f)
	}
	p.glimpsed = &f.contents
	return false, nil
}

// parse reads a certificate and a key. A file that ends within a block is refused, though what stands
// before might do: the rest of it is still to come.
func parse(cert, key []byte) (tls.Certificate, error) {
	for what, text := range map[string][]byte{"certificate": cert, "key": key} {
		for block := new(pem.Block); block != nil; {
			block, text = pem.Decode(text)
		}
		if bytes.Contains(text, []byte("-----BEGIN ")) {
			return tls.Certificate{}, fmt.Errorf("the file of the %s ends before its end", what)
		}
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err == nil && pair.Leaf == nil {
		err = errors.New("the certificate cannot be read")
	}
	return pair, err
}

// Watch reads the files at each tick until ctx ends. It tells of each change once two looks in succession have found
// the same, and not again of what it has told: err is why the files cannot be used, or nil if they are served from now on.
func (p *Pair) Watch(ctx context.Context, every time.Duration, tell func(err error)) {
	look := time.NewTicker(every)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
		if fresh, err := p.readSettled(); fresh {
			tell(err)
		}
	}
}

// Expires returns when the certificate ends.
func (p *Pair) Expires() time.Time { return p.now.Load().Leaf.NotAfter }
