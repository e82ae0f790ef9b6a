package auth_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/auth"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/certificate"
	"github.com/troupe-run/troupe/test/kit/issuer"
	"github.com/troupe-run/troupe/test/spec/host"
)

// whoami says who calls, as no two of somebody's principals are.
func whoami(call *troupe.Call) string {
	p := call.Principal()
	return fmt.Sprint(p.Subject, " ", p.Client, " ", p.Machine)
}

// sharing is a door at which several principals come by one connection, which is kept.
type sharing struct {
	*door
	dials  atomic.Int64
	tokens map[string]string // by what whoami says
}

// share opens a door, and has its client use one connection of a version of HTTP.
func share(t *testing.T, version int) *sharing {
	t.Helper()
	var tr http.Transport
	s := &sharing{door: newDoor(t, func(o *troupe.Options) {
		o.Auth.APIKeys = auth.StoredKeys
		if version == 2 {
			certFile, keyFile, pool := certificate.Files(t)
			o.HTTP.TLSCert, o.HTTP.TLSKey = certFile, keyFile
			tr.TLSClientConfig, tr.ForceAttemptHTTP2 = &tls.Config{RootCAs: pool}, true
		}
	})}
	tr.MaxConnsPerHost, tr.MaxIdleConnsPerHost = 1, 1
	tr.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		s.dials.Add(1)
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	t.Cleanup(tr.CloseIdleConnections)
	s.HTTP = &http.Client{Transport: &tr}
	if version == 2 {
		s.URL = "https" + strings.TrimPrefix(s.URL, "http")
	}
	key, secret, err := s.Runtime.APIKeys().Create(t.Context(), auth.APIKey{Name: "alice"})
	if err != nil {
		t.Fatal(err)
	}
	s.tokens = map[string]string{
		"alice editor false": s.id.Token("alice", resource, nil), "alice shell false": s.id.Token("alice", resource, issuer.Claims{"client_id": "shell"}), "alice alice true": s.id.Token("alice", resource, issuer.Claims{"client_id": "alice"}),
		"bob editor false": s.id.Token("bob", resource, nil), "bob bob true": s.id.Token("", resource, issuer.Claims{"sub": nil, "client_id": "bob"}), key.ID + " " + key.ID + " true": secret,
	}
	troupe.AddTool(s.Server, troupe.Tool{Name: "whoami"}, func(_ context.Context, call *troupe.Call, _ struct{}) (string, error) { return whoami(call), nil })
	troupe.AddTool(s.Server, troupe.Tool{Name: "question", Needs: mcp.CapClientElicitationForm}, func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) {
		if _, err := call.Elicit(ctx, "?", host.Form); err != nil {
			return "", err
		}
		return whoami(call), nil
	})
	return s
}

// TestEqualIDs has principals take turns on one connection that is kept, with requests of equal ids in both eras, while questions to others with that id wait for their answers: each gets its
// own answer (CVE-2026-25536).
func TestEqualIDs(t *testing.T) {
	t.Parallel()
	for version := 1; version <= 2; version++ {
		t.Run(fmt.Sprint("HTTP ", version), func(t *testing.T) {
			t.Parallel()
			s := share(t, version)
			s.T = t
			sessions := map[string]*kit.Client{}
			var names []string
			for name, token := range s.tokens {
				sessions[name] = s.as(token).Initialize(`{}`)
				names = append(names, name)
			}
			parked := map[string]string{}
			modern := func(name string) *host.Stateless {
				return &host.Stateless{T: t, Client: s.as(s.tokens[name]), Capabilities: host.EveryCapability, N: 6}
			}
			seed := rand.Uint64()
			random := rand.New(rand.NewPCG(seed, 1))
			for range 200 {
				name := names[random.IntN(len(names))]
				got, want := "", name
				switch random.IntN(4) {
				case 0:
					a := sessions[name].Post(host.Call("7", "whoami", `{}`))
					if got, want = a.Body, host.TextResult("7", name); a.ProtoMajor != version {
						t.Errorf("it came over %s", a.Proto)
					}
				case 1:
					m := modern(name)
					a, id := m.Tool("whoami", `{}`)
					got = m.Done(a, id)
				case 2: // an answer of another with this id
					m := modern(name)
					if parked[name] == "" {
						a, id := m.Tool("question", `{}`)
						parked[name], got = m.Parked(a, id, "elicit"), name
						break
					}
					a, id := m.Tool("question", `{}`, parked[name], host.Given("elicit", "x"))
					got, parked[name] = m.Done(a, id), ""
				default: // it ends nobody's request
					if a := sessions[name].Post(host.Cancel("7")); a.StatusCode == http.StatusAccepted {
						got = name
					}
				}
				if got != want {
					t.Errorf("seed %d: %s is answered %s", seed, name, got)
				}
			}
			if n := s.dials.Load(); n > 10 || version == 2 && n != 1 { // net/http leaves one of HTTP/1.1 whose writer had no processor for 50 ms
				t.Errorf("%d connections, want one, or a few of HTTP/1.1", n)
			}
		})
	}
}

// TestEqualIDsAtOnce has the calls of all principals run at once over one connection, with one id. One of them is withdrawn: the others go on.
func TestEqualIDsAtOnce(t *testing.T) {
	t.Parallel()
	s := share(t, 2)
	n := 2 * len(s.tokens)
	release, came, withdrawn := make(chan struct{}), make(chan string, n), make(chan string, n)
	troupe.AddTool(s.Server, troupe.Tool{Name: "wait"}, func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) {
		came <- whoami(call)
		select {
		case <-release:
		case <-ctx.Done():
			withdrawn <- whoami(call)
		}
		return whoami(call), nil
	})
	next := func(what string, from <-chan string) string {
		t.Helper()
		select {
		case name := <-from:
			return name
		case <-time.After(10 * time.Minute):
			t.Fatal(what)
			return ""
		}
	}
	sessions, old, modern := map[string]*kit.Client{}, map[string]<-chan *kit.Answer{}, map[string]<-chan *kit.Answer{}
	for name, token := range s.tokens {
		sessions[name] = s.as(token).Initialize(`{}`)
		old[name] = sessions[name].PostLater(host.Call("7", "wait", `{}`))
		m := &host.Stateless{T: t, Client: s.as(token), Capabilities: `{}`, N: 6}
		modern[name], _ = m.Later("tools/call", host.ToolParams("wait", `{}`))
	}
	for range n {
		next("the calls do not all run at once", came)
	}
	const first = "alice editor false"
	sessions[first].Post(host.Cancel("7"))
	if name := next("the call is not withdrawn", withdrawn); name != first {
		t.Errorf("the call of %s is withdrawn", name)
	}
	close(release)
	for name := range s.tokens {
		if a := <-modern[name]; !strings.Contains(a.Body, `"id":7`) || !strings.Contains(a.Body, `"`+name+`"`) {
			t.Errorf("%s, stateless, is answered %s %s", name, a.Status, a.Body)
		}
		if a := <-old[name]; name != first && a.Body != host.TextResult("7", name) {
			t.Errorf("%s is answered %s %s", name, a.Status, a.Body)
		} else if a.Stream() {
			a.Close()
		}
	}
	if len(withdrawn) != 0 || s.dials.Load() != 1 {
		t.Errorf("%d more are withdrawn, over %d connections", len(withdrawn), s.dials.Load())
	}
}
