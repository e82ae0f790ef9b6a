//go:build full

package interop

import (
	"io"
	"path/filepath"
	"testing"
)

// expiringClient is a client of npm/expiry.mjs.
type expiringClient struct {
	Name    string `json:"name"`
	Refresh string `json:"refresh"` // "ahead", "asked" or "after"
	Run     string `json:"run"`
}

// TestStreamsOfSDKAcrossExpiry has streams of the TypeScript SDK go on for longer than the tokens with which they were opened, while messages come without a pause: each comes once
// and in order.
func TestStreamsOfSDKAcrossExpiry(t *testing.T) {
	t.Parallel()
	s := startSite(t, "ES256")
	for release, clients := range map[string][]expiringClient{
		"1.32.2": {{"ahead", "ahead", "session"}, {"forgotten", "after", "forgotten"}},
		"2.4.0":  {{"ahead", "ahead", "session"}, {"asked", "asked", "session"}, {"listener-ahead", "ahead", "listener"}, {"listener-after", "after", "listener"}},
	} {
		t.Run(release, func(t *testing.T) {
			t.Parallel()
			s.driveExpiry(t, release, clients)
		})
	}
}

// driveExpiry runs npm/expiry.mjs with a release, and reports its output as tests.
func (s *site) driveExpiry(t *testing.T, release string, clients []expiringClient) {
	came := 0
	runQuietly(t, func(l struct{ Name, Error string }, _ io.Writer) {
		came++
		t.Run(l.Name, func(t *testing.T) {
			if l.Error != "" {
				t.Error(l.Error)
			}
		})
	}, "node", filepath.Join("npm", "expiry.mjs"), asJSON(map[string]any{"modules": s.modules, "sdk": release, "issuer": s.issuer, "http": s.endpoint, "clients": clients}))
	if came != len(clients) {
		t.Errorf("it tells of %d clients of %d", came, len(clients))
	}
}
