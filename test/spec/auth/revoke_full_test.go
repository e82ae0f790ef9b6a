package auth_test

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/auth"
	"github.com/troupe-run/troupe/internal/bubble"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/issuer"
	"github.com/troupe-run/troupe/test/kit/when"
)

// within is how long after a revocation a node may take a token: documentation says two seconds, of a machine that is not busy with other things.
var within = flag.Duration("revoked-within", 20*time.Second, "how long TestTimeToRevoke has nodes take what was revoked")

// TestTimeToRevoke measures on three nodes how long after it began a revocation has the token refused by each of them, which knew it.
func TestTimeToRevoke(t *testing.T) {
	when.Full(t, "three nodes on a NATS server")
	bubble.OneAtATime(t)
	nats, id := kit.StartNATS(t, 1, nil), issuer.New(t)
	var nodes [3]*troupe.Runtime
	var urls [3]string
	for i := range nodes {
		rt, err := troupe.New(troupe.Options{
			Auth:  &auth.Config{Issuers: []auth.Issuer{{URL: id.URL}}, PublicURL: public, APIKeys: auth.StoredKeys},
			Store: troupe.StoreOptions{Node: fmt.Sprint("n", i), NATS: troupe.NATSOptions{URL: nats.URL()}}, Shared: troupe.SharedLimits{AuthFailures: -1},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = rt.Close(context.Background()) })
		rt.Mount("/mcp", troupe.NewServer(mcp.Implementation{Name: "test", Version: "1"}, nil))
		hs := httptest.NewServer(rt)
		t.Cleanup(hs.Close)
		nodes[i], urls[i] = rt, hs.URL+"/mcp"
	}
	status := func(node int, token string) int {
		c := &kit.Client{T: t, HTTP: http.DefaultClient, URL: urls[node], Header: http.Header{"Authorization": {"Bearer " + token}}}
		return c.Post(`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`,
			"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "server/discover").StatusCode
	}
	measure := func(what string, token func(n int) string, revoke func(n int) error) {
		var all []time.Duration
		for n := range 100 {
			text := token(n)
			for i := range nodes {
				if got := status(i, text); got != 200 {
					t.Fatalf("%s on node %d: %d", what, i, got)
				}
			}
			began := time.Now()
			if err := revoke(n); err != nil {
				t.Fatal(err)
			}
			for i := range nodes {
				for asked := time.Now(); status(i, text) != 401; asked = time.Now() {
					if asked.Sub(began) > *within {
						t.Fatalf("%s counts on node %d after %v", what, i, asked.Sub(began))
					}
				}
			}
			all = append(all, time.Since(began))
		}
		slices.Sort(all)
		t.Logf("%s: refused by three nodes after p50 %v, p99 %v, at most %v", what, all[50].Round(time.Millisecond), all[98].Round(time.Millisecond), all[99].Round(time.Millisecond))
	}
	measure("a token", func(n int) string { return id.Token(fmt.Sprint("user ", n), resource, nil) }, func(n int) error {
		_, err := nodes[n%3].Revocations().Revoke(t.Context(), troupe.Revocation{Subject: fmt.Sprint("user ", n), Issuer: id.URL})
		return err
	})
	name := func(n int) string { return fmt.Sprint("key ", n) }
	secret := func(n int) string {
		_, secret, err := nodes[0].APIKeys().Create(t.Context(), auth.APIKey{Name: name(n)})
		if err != nil {
			t.Fatal(err)
		}
		return secret
	}
	measure("an API key", secret, func(n int) error {
		_, err := nodes[n%3].Revocations().RevokeKey(t.Context(), name(n))
		return err
	})
	measure("an API key by keys revoke", func(n int) string { return secret(n + 100) }, func(n int) error {
		_, err := nodes[n%3].APIKeys().Revoke(t.Context(), name(n+100))
		return err
	})
}
