//go:build full

package interop

import "testing"

// TestAuthorizationOfSDKs has every release that knows OAuth go from 401 to an answered call, in each way in which it can be known to the authorization server, with tokens of
// each format. Only release 2.4.0 and the Go SDK ask for the scopes granted and needed together. A client that release 2.4.0 registers is registered for the
// scopes of its first challenge, so that the authorization server gives it no more.
func TestAuthorizationOfSDKs(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"ES256", "RS256", "opaque"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			s := startSite(t, format)
			asked := func(c authClient) authClient {
				c.Scopes = "demo:read demo:write"
				return c
			}
			newest := func(c authClient) authClient {
				c.Name, c.Newest = c.Name+" without sessions", true
				return c
			}
			ways := map[string][]authClient{
				"1.12.3": {asked(s.client("dcr", "call", "refresh", "up")), asked(s.client("pre", "call", "refresh", "up"))},
				"1.22.0": {s.client("dcr", "call", "refresh"), s.client("pre", "call", "refresh")},
				"1.32.2": {s.client("dcr", "call", "refresh"), s.client("pre", "call", "refresh"), s.client("cimd", "call", "refresh"), asked(s.client("machine", "call", "up"))},
				"2.4.0": {s.client("dcr", "call", "refresh"), s.client("pre", "call", "up", "call", "refresh"), s.client("cimd", "call", "up", "call", "refresh"), s.client("machine", "call", "up", "call"),
					newest(s.client("dcr", "call", "refresh")), newest(s.client("pre", "call", "up", "call", "refresh")), newest(s.client("cimd", "call", "up", "call", "refresh")), newest(s.client("machine", "call", "up"))},
			}
			for release, clients := range ways {
				t.Run(release, func(t *testing.T) { driveAuthorization(t, s, release, clients...) })
			}
			for _, c := range []authClient{s.client("dcr", "call", "up", "call", "refresh"), s.client("pre", "call", "up", "call"), s.client("cimd", "call", "up", "call"), s.client("machine", "call", "up", "call")} {
				t.Run("Go "+c.Name, func(t *testing.T) { s.driveGo(t, c) })
			}
		})
	}
}
