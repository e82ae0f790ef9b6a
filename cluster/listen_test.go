package cluster

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/test/kit/ports"
	"github.com/troupe-run/troupe/test/kit/when"
)

const onAny = "127.0.0.1:0"

// at returns the options of a node on the server of another one.
func (n *Node) remoteOptions(name string) Options {
	return Options{Node: name, Remote: Remote{URL: "nats://" + n.Listens().String(), Token: n.opts.Listen.Token}}
}

func TestListenCheck(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, c := range []struct {
		what string
		o    Options
		want string
	}{
		{"no access", Options{Dir: dir, Listen: Listen{Address: onAny}}, "set a token"},
		{"a certificate and nobody is asked for one", Options{Dir: dir, Listen: Listen{Address: onAny, Cert: "a", Key: "a"}}, "set a token"},
		{"a certificate without key", Options{Dir: dir, Listen: Listen{Address: onAny, Token: "t", Cert: "a"}}, "belong together"},
		{"authorities without certificate", Options{Dir: dir, Listen: Listen{Address: onAny, CA: "a"}}, "needs one, too"},
		{"no file", Options{Dir: dir, Listen: Listen{Address: onAny, Token: "t", Cert: dir + "/a", Key: dir + "/a"}}, "no such file"},
		{"in memory", Options{Listen: Listen{Address: onAny, Token: "t"}}, "data directory"},
		{"elsewhere", Options{Dir: dir, Remote: Remote{URL: "nats://a"}, Listen: Listen{Address: onAny, Token: "t"}}, "on other servers"},
		{"no port", Options{Dir: dir, Listen: Listen{Address: "127.0.0.1", Token: "t"}}, "HOST:PORT"},
		{"a name for a port", Options{Dir: dir, Listen: Listen{Address: "127.0.0.1:nats", Token: "t"}}, "HOST:PORT"},
	} {
		if n, err := Open(t.Context(), c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %v, want %q", c.what, n, err, c.want)
		}
	}
	taken := must[net.Listener](t)(net.Listen("tcp", onAny))
	defer taken.Close()
	began := time.Now()
	_, err := Open(t.Context(), Options{Dir: dir, Listen: Listen{Address: taken.Addr().String(), Token: "t"}})
	when.Within(t, "the refusal of a port that is taken", time.Since(began), startTimeout/2)
	if err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a port that is taken: %v", err)
	}
}

// TestListen shares the store of a process with others, which it had before it listened, and ends the wrong ones.
func TestListen(t *testing.T) {
	t.Parallel()
	ctx, dir := t.Context(), t.TempDir()
	alone := must[*Node](t)(Open(ctx, Options{Dir: dir, Node: "store"}))
	must[uint64](t)(alone.Create(ctx, testKey, []byte("before"), time.Hour))
	must[store.Queue](t)(alone.Work(ctx, "demo")).Close()
	change(t, alone.Close(ctx))

	// The other's entry must outlive the time in which the store is away, on a busy machine, too.
	const lease = time.Minute
	o := Options{Dir: dir, Listen: Listen{Address: ports.Address(t), Token: "right"}, Lease: lease}
	n := must[*Node](t)(Open(ctx, o))
	other := n.remoteOptions("b")
	other.Lease = lease
	b := open(t, other)
	if data, _, err := b.Get(ctx, testKey); string(data) != "before" || err != nil {
		t.Errorf("what was stored before: %q, %v", data, err)
	}
	for token, r := range map[string]Remote{"none": {}, "wrong": {Token: "wrong"}, "with words of a failure": {Token: "no space left on device"}} {
		r.URL = b.opts.Remote.URL
		_, err := Open(ctx, Options{Remote: r})
		wantErr(t, "token "+token, err, ErrRemote)
	}
	// Whoever cannot log in may still choose a name, which the server logs.
	_, err := Open(ctx, Options{Remote: Remote{URL: strings.Replace(b.opts.Remote.URL, "://", "://no%20space%20left%20on%20device:x@", 1)}})
	if err == nil || n.Outage() != nil {
		t.Errorf("a stranger's name: %v, outage %v", err, n.Outage())
	}

	n.Mail().Listen(func(l *store.Letter) { l.Reply([]byte("re")) }, func(store.Address) {})
	b.Mail().Listen(func(l *store.Letter) { l.Reply([]byte("re")) }, func(store.Address) {})
	for _, pair := range [][2]*Node{{n, b}, {b, n}} {
		if reply, err := pair[0].Mail().Ask(ctx, store.Address{Node: pair[1].Name(), Boot: pair[1].Boot()}, "x", nil); string(reply) != "re" || err != nil {
			t.Errorf("%s asks: %q, %v", pair[0].Name(), reply, err)
		}
	}
	if gone, err := n.Gone(ctx, store.Address{Node: "b", Boot: b.Boot()}); gone || err != nil {
		t.Errorf("the other is gone: %v, %v", gone, err)
	}
	must[uint64](t)(b.Offer(ctx, "anon", "demo", "t", "c", time.Hour))
	q := must[store.Queue](t)(n.Work(ctx, "demo")).(*workQueue)
	w := q.next(t)
	q.Close()
	if w.task != "t" {
		t.Errorf("got work %+v", w)
	}

	// Started again, it leaves the others their leases, and they come back by themselves.
	o.Listen.Address = n.Listens().String()
	change(t, n.Close(ctx))
	_, _, err = b.Get(ctx, testKey)
	wantErr(t, "while the store is away", err, store.ErrUnavailable)
	n = must[*Node](t)(Open(ctx, o))
	if e, ok := n.entry(t, "b"); !ok || e.Boot != b.Boot() {
		t.Errorf("after the start the entry of the other is %+v, there %v", e, ok)
	}
	eventually(t, "the other is back", func() bool {
		data, _, err := b.Get(ctx, testKey)
		return err == nil && string(data) == "before"
	})

	// Without the others, it is alone again, with all that is stored.
	change(t, b.Close(ctx))
	change(t, n.Close(ctx))
	n = open(t, Options{Dir: dir, Node: "store"})
	if n.Mail() != nil || n.Listens() != nil {
		t.Error("a node that does not listen has mail")
	}
	must[store.Queue](t)(n.Work(ctx, "demo")).Close()
	if data, _, err := n.Get(ctx, testKey); string(data) != "before" || err != nil {
		t.Errorf("what was stored before: %q, %v", data, err)
	}
}

// TestListenSettings: the node that listens is one of the fleet.
func TestListenSettings(t *testing.T) {
	t.Parallel()
	o := Options{Dir: t.TempDir(), Node: "store", MaxStore: 1 << 30, Listen: Listen{Address: ports.Address(t), Token: "right"}}
	n := must[*Node](t)(Open(t.Context(), o))
	other := n.remoteOptions("b")
	other.MaxStore = 2 << 30
	_, err := Open(t.Context(), other)
	wantErr(t, "another size", err, ErrRemote)
	other.MaxStore = 0
	b := must[*Node](t)(Open(t.Context(), other))
	o.Listen.Address, o.MaxStore = n.Listens().String(), 2<<30
	change(t, n.Close(t.Context()))
	if n, err := Open(t.Context(), o); err == nil {
		closeAtEnd(t, n) // The other had no size of its own.
		// It may not have noticed yet that its connection is broken. What it sends there is lost.
		eventually(t, "the other is back", func() bool { return b.conn.Stats().Reconnects > 0 && b.conn.IsConnected() })
	} else {
		t.Error(err)
	}
	change(t, b.Close(t.Context()))
}

// TestListenTLS asks nodes for certificates, or for a token by TLS.
func TestListenTLS(t *testing.T) {
	t.Parallel()
	a, stranger := newAuthority(t), newAuthority(t)
	a.issue(t, "server", &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	for _, by := range []*authority{a, stranger} {
		by.issue(t, "client", &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	}
	for _, c := range []struct {
		what   string
		listen Listen
		good   Remote
		bad    []Remote
	}{
		{"certificates", Listen{Cert: a.file("server.pem"), Key: a.file("server.key"), CA: a.file("ca.pem")},
			Remote{CA: a.file("ca.pem"), Cert: a.file("client.pem"), Key: a.file("client.key")},
			[]Remote{{CA: a.file("ca.pem")}, {}, {CA: a.file("ca.pem"), Cert: stranger.file("client.pem"), Key: stranger.file("client.key")}}},
		{"token", Listen{Cert: a.file("server.pem"), Key: a.file("server.key"), Token: "right"},
			Remote{CA: a.file("ca.pem"), Token: "right"}, []Remote{{CA: a.file("ca.pem")}, {Token: "right"}, {CA: a.file("ca.pem"), Token: "wrong"}}},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			c.listen.Address = onAny
			n := open(t, Options{Dir: t.TempDir(), Listen: c.listen})
			at := func(r Remote) Remote { r.URL = "tls://" + n.Listens().String(); return r }
			b := open(t, Options{Remote: at(c.good)})
			if _, err := b.Create(t.Context(), testKey, []byte("x"), time.Hour); err != nil {
				t.Error(err)
			}
			for i, r := range c.bad {
				_, err := Open(t.Context(), Options{Remote: at(r)})
				wantErr(t, fmt.Sprint("bad access ", i), err, ErrRemote)
			}
			// No byte passes without TLS.
			if nc, err := nats.Connect("nats://"+n.Listens().String(), nats.Token("right")); err == nil {
				nc.Close()
				t.Error("somebody connects without TLS")
			} else if errors.Is(err, nats.ErrNoServers) {
				t.Error(err)
			}
		})
	}
}
