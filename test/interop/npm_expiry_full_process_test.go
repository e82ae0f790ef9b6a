//go:build full

package interop

import (
	"bytes"
	"context"
	"encoding/json"
	"os/exec"
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
	settings, err := json.Marshal(map[string]any{"modules": s.modules, "sdk": release, "issuer": s.issuer, "http": s.endpoint, "clients": clients})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*patience)
	defer cancel()
	node := exec.CommandContext(ctx, "node", filepath.Join("npm", "expiry.mjs"), string(settings))
	var stderr bytes.Buffer
	node.Stderr = &stderr
	out, err := node.Output()
	came, done := 0, false
	for line := range bytes.Lines(out) {
		var l struct {
			Name, Error string
			Done        bool
		}
		if err := json.Unmarshal(line, &l); err != nil {
			t.Errorf("it writes %s", line)
			continue
		}
		if done = l.Done; done {
			continue
		}
		came++
		t.Run(l.Name, func(t *testing.T) {
			if l.Error != "" {
				t.Error(l.Error)
			}
		})
	}
	if err != nil || !done || came != len(clients) || stderr.Len() > 0 {
		t.Errorf("node ends with %v, all done %t, tells of %d clients, and says %s", err, done, came, &stderr)
	}
}
